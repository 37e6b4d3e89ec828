#include "server/repository/model_loader.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>

#include "cells/definitions/shipped.h"
#include "cells/recurrent_columns.h"
#include "server/assemble/model_assembler.h"
#include "server/assemble/rewrite_model.h"
#include "server/names/nearest_name.h"
#include "server/policy/join_codec.h"
#include "server/policy/policy_codec.h"
#include "server/repository/model_files.h"
#include "server/repository/text_file.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = "config.textproto";
constexpr size_t kMaxCellName = 64;

// A name that may become part of a path.
bool IsCellName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxCellName &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

// The folder's own NAME.textproto goes before the shipped one.
absl::StatusOr<CellText> FindCell(const std::string& folder, const std::string& name,
                                  int64_t max_bytes) {
  if (!IsCellName(name)) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\" is no cell's name: 1 to {} letters, digits, _ or -", name, kMaxCellName));
  }
  const std::string file = name + ".textproto";
  const absl::StatusOr<std::string> own =
      name == "config" ? absl::NotFoundError("") : ReadModelFile(folder, file, max_bytes);
  if (own.ok()) return ParseCell(*own, file);
  if (!absl::IsNotFound(own.status())) return own.status();
  std::vector<std::string> names;
  for (const ShippedCell& cell : ShippedCells()) {
    if (cell.name == name) return ParseCell(cell.text, "shipped " + file);
    names.emplace_back(cell.name);
  }
  std::vector<std::string> all = names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".textproto") all.push_back(it->path().stem().string());
  }
  const std::string nearest = NearestName(name, all);
  return absl::InvalidArgumentError(
      fmt::format("there is no cell \"{}\"{}: no {} in the folder, and shipped are {}", name,
                  nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest), file,
                  fmt::join(names, ", ")));
}

// Problems of one model, a line each; `shortage`: one of them is no fault of its files.
absl::Status Refused(const std::vector<std::string>& problems, bool shortage) {
  return absl::Status(
      shortage ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInvalidArgument,
      fmt::format("{}", fmt::join(problems, "\n")));
}

struct Config {
  disk::ModelDescription message;
  ConfigPlaces places;
};

absl::StatusOr<Config> ReadConfig(const std::string& folder, int64_t max_bytes) {
  const absl::StatusOr<std::string> text = ReadModelFile(folder, kConfig, max_bytes);
  if (!text.ok()) return text.status();
  Config config;
  google::protobuf::TextFormat::ParseInfoTree places;
  absl::Status s = ParseTextFormat(*text, kConfig, config.message, &places);
  if (!s.ok()) return s;
  const google::protobuf::Descriptor& fields = *disk::ModelDescription::descriptor();
  for (int i = 0; i < config.message.cell_types_size(); ++i) {
    config.places.cell_types.push_back(PlaceOf(places, fields, "cell_types", i, kConfig));
  }
  std::vector<const google::protobuf::FieldDescriptor*> set;
  config.message.GetReflection()->ListFields(config.message, &set);
  for (const auto* field : set) {
    const int index = field->is_repeated() ? 0 : -1;
    config.places.fields[field->name()] =
        PlaceOf(places, fields, field->name().c_str(), index, kConfig);
  }
  return config;
}

std::string WeightsOf(int64_t version) { return fmt::format("{}/weights.safetensors", version); }

// A file, and when it was written. One of which nothing is told was never written.
struct stat LookAt(const std::string& path) {
  struct stat seen = {};
  if (stat(path.c_str(), &seen) != 0) seen = {};
  return seen;
}

// Whoever writes a file in its place while it is read has half of what is read be of the one and half of the other. One that
// is put in its place by renaming is another file: what was read is whole.
absl::Status CheckNotWritten(const std::string& file, const struct stat& before,
                             const struct stat& after) {
  const bool same = before.st_dev == after.st_dev && before.st_ino == after.st_ino;
  const bool as_it_was = before.st_size == after.st_size &&
                         before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
                         before.st_mtim.tv_nsec == after.st_mtim.tv_nsec;
  if (!same || as_it_was) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: was written to while it was read ({} bytes before, {} after); write beside "
                  "it and rename, or load the model again once it is whole",
                  file, before.st_size, after.st_size));
}

absl::StatusOr<WeightStore> OpenWeights(const std::string& folder, int64_t version,
                                        int64_t max_bytes) {
  const std::string file = WeightsOf(version);
  if (absl::Status inside = CheckInside(folder, file); !inside.ok()) return inside;
  return WeightStore::Open(folder + "/" + file, static_cast<uint64_t>(max_bytes));
}

absl::StatusOr<std::vector<int64_t>> Named(const disk::VersionPolicy::Specific& asked,
                                           const std::vector<int64_t>& there,
                                           const std::string& place) {
  if (asked.versions().empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: version_policy names no version (specific {{ versions: 1 }})", place));
  }
  std::vector<int64_t> versions(asked.versions().begin(), asked.versions().end());
  std::sort(versions.begin(), versions.end());
  versions.erase(std::unique(versions.begin(), versions.end()), versions.end());
  for (const int64_t version : versions) {
    if (std::binary_search(there.begin(), there.end(), version)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: version_policy names version {}, the folder has {}", place, version,
                    fmt::join(there, ", ")));
  }
  return versions;
}

// What `defer: ON` says of the policy: which types wait, and that they do, for people.
void LetWait(const disk::ModelDescription& config, const Model& model, PolicySpec& policy) {
  policy.may_wait.clear();
  if (config.defer() != disk::ON) return;
  policy.may_wait = TypesThatMayWait(model);
  std::vector<std::string> names;
  for (const CellTypeId type : policy.may_wait) names.push_back(model.type(type).name);
  policy.about += fmt::format("{}{} wait for their batches to fill",
                              policy.about.empty() ? "" : "; ", fmt::join(names, ", "));
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ModelVersions(const std::string& model_folder) {
  std::vector<int64_t> versions;
  std::error_code error;
  for (fs::directory_iterator it(model_folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    int64_t version = 0;
    const auto [last, wrong] = std::from_chars(name.data(), name.data() + name.size(), version);
    const bool number =
        wrong == std::errc() && last == name.data() + name.size() && version > 0 && name[0] != '0';
    std::error_code of_entry;
    const bool folder = it->is_directory(of_entry);
    // What the system cannot tell of is read as a folder, not passed over for a lower version: its reader says why it cannot be.
    const bool gone =
        of_entry == std::errc::no_such_file_or_directory || of_entry == std::errc::not_a_directory;
    if (number && (folder || (of_entry && !gone))) versions.push_back(version);
  }
  if (error) {
    const std::string why = fmt::format("{}: {}", model_folder, error.message());
    if (error == std::errc::too_many_files_open) return absl::ResourceExhaustedError(why);
    return error == std::errc::no_such_file_or_directory ? absl::NotFoundError(why)
                                                         : absl::InvalidArgumentError(why);
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

absl::StatusOr<std::vector<int64_t>> VersionsToServe(const std::string& model_folder,
                                                     const LoaderLimits& limits) {
  absl::StatusOr<std::vector<int64_t>> there = ModelVersions(model_folder);
  if (!there.ok()) return there;
  if (there->empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: no version in it, such as 1/weights.safetensors", model_folder));
  }
  const absl::StatusOr<Config> config = ReadConfig(model_folder, limits.max_config_bytes);
  if (absl::IsResourceExhausted(config.status())) return config.status();
  disk::VersionPolicy policy;
  if (config.ok()) policy = config->message.version_policy();
  if (policy.has_all()) return there;
  if (policy.has_specific()) {
    return Named(policy.specific(), *there, config->places.Of("version_policy"));
  }
  const size_t most = std::max(policy.latest().num_versions(), 1u);
  if (there->size() > most) there->erase(there->begin(), there->end() - static_cast<long>(most));
  return there;
}

absl::StatusOr<ModelVersion> LoadVersion(const std::string& model_folder, const std::string& name,
                                         int64_t version, ModelId id, const LoaderLimits& limits) {
  std::vector<std::string> problems;
  const absl::StatusOr<Config> config = ReadConfig(model_folder, limits.max_config_bytes);
  if (!config.ok()) problems.emplace_back(config.status().message());
  const std::string weights_file = model_folder + "/" + WeightsOf(version);
  const struct stat before = LookAt(weights_file);
  auto weights = OpenWeights(model_folder, version, limits.max_weight_bytes);
  if (!weights.ok()) problems.emplace_back(weights.status().message());
  if (config.ok() && !config->message.name().empty() && config->message.name() != name) {
    problems.push_back(fmt::format("{}: name is \"{}\", the folder is \"{}\"",
                                   config->places.Of("name"), config->message.name(), name));
  }
  const bool shortage =
      absl::IsResourceExhausted(config.status()) || absl::IsResourceExhausted(weights.status());
  if (!config.ok()) return Refused(problems, shortage);
  const absl::StatusOr<JoinSpec> join = ReadJoin(config->message, config->places.Of("join"));
  if (!join.ok()) problems.emplace_back(join.status().message());

  auto model = std::make_shared<Model>();
  model->id = id;
  model->name = name;
  model->version = version;
  const auto find_cell = [&](const std::string& cell) {
    return FindCell(model_folder, cell, limits.max_config_bytes);
  };
  const std::vector<std::string> more =
      AssembleModel({.config = config->message,
                     .places = config->places,
                     .find_cell = find_cell,
                     .weights = weights.ok() ? &*weights : nullptr,
                     .model_folder = model_folder},
                    limits, *model);
  problems.insert(problems.end(), more.begin(), more.end());
  const absl::Status whole = CheckNotWritten(weights_file, before, LookAt(weights_file));
  if (!whole.ok()) problems.emplace_back(whole.message());
  if (!problems.empty()) return Refused(problems, shortage);
  ModelVersion made;
  made.join = *join;
  auto rewritten = RewriteModel(std::move(model), config->message, config->places);
  if (!rewritten.ok()) return rewritten.status();
  made.model = *std::move(rewritten);
  if (!limits.policies) return made;
  absl::StatusOr<PolicySpec> policy =
      ReadPolicy(config->message.has_policy() ? &config->message.policy() : nullptr,
                 config->places.Of("policy"), model_folder, *made.model, limits.max_config_bytes);
  if (!policy.ok()) return policy.status();
  made.policy = *std::move(policy);
  LetWait(config->message, *made.model, made.policy);
  absl::Status together = CheckJoin(made.join, made.policy.kind, config->places.Of("join"));
  if (!together.ok()) return together;
  return made;
}

absl::StatusOr<PolicySpec> LoadPolicy(const std::string& model_folder, const Model& model,
                                      const LoaderLimits& limits) {
  const absl::StatusOr<Config> config = ReadConfig(model_folder, limits.max_config_bytes);
  if (!config.ok()) return config.status();
  disk::PolicyChoice choice = config->message.policy();
  choice.set_else_cellular(false);
  absl::StatusOr<PolicySpec> policy =
      ReadPolicy(config->message.has_policy() ? &choice : nullptr, config->places.Of("policy"),
                 model_folder, model, limits.max_config_bytes);
  if (!policy.ok()) return policy;
  const std::string place = config->places.Of("join");
  const absl::StatusOr<JoinSpec> join = ReadJoin(config->message, place);
  if (!join.ok()) return join.status();
  if (absl::Status s = CheckJoin(*join, policy->kind, place); !s.ok()) return s;
  LetWait(config->message, model, *policy);
  return policy;
}

absl::Status CheckPolicyFileDecides(const std::string& model_folder, PolicyKind kind,
                                    const LoaderLimits& limits) {
  const absl::StatusOr<Config> config = ReadConfig(model_folder, limits.max_config_bytes);
  if (!config.ok()) return config.status();
  const disk::PolicyKind asked = config->message.policy().kind();
  const bool asks_for_a_file =
      asked == disk::POLICY_KIND_UNSPECIFIED || asked == disk::FSM || asked == disk::LEARNED;
  if (!asks_for_a_file || (asked == disk::FSM && kind != PolicyKind::kFsm)) {
    const std::string why = asks_for_a_file ? fmt::format("and the file's is {}", Name(kind))
                                            : "which reads no policy.textproto";
    return absl::FailedPreconditionError(
        fmt::format("{}: policy.kind is {}, {}: say LEARNED, or leave the policy out",
                    config->places.Of("policy"), disk::PolicyKind_Name(asked), why));
  }
  const absl::StatusOr<JoinSpec> join = ReadJoin(config->message, config->places.Of("join"));
  if (!join.ok()) return join.status();
  const absl::Status together = CheckJoin(*join, kind, config->places.Of("join"));
  return together.ok() ? together : absl::FailedPreconditionError(together.message());
}

// Who may read it counts: one that could not be read is looked at again when it can.
std::string PolicyStamp(const std::string& model_folder, int64_t version) {
  const struct stat file = LookAt(fmt::format("{}/{}/policy.textproto", model_folder, version));
  if (file.st_mode == 0) return "";
  return fmt::format("{}.{:09} {} {} {:o} {} {}", file.st_mtim.tv_sec, file.st_mtim.tv_nsec,
                     file.st_size, file.st_ino, file.st_mode, file.st_uid, file.st_gid);
}

absl::StatusOr<std::shared_ptr<const Model>> LoadModel(const std::string& model_folder,
                                                       const std::string& name, int64_t version,
                                                       ModelId id, const LoaderLimits& limits) {
  absl::StatusOr<ModelVersion> made = LoadVersion(model_folder, name, version, id, limits);
  if (!made.ok()) return made.status();
  return std::move(made->model);
}

}  // namespace cellbatch
