#include "server/convert/write_model.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>

#include "cells/weights/safetensors.h"
#include "server/repository/model_loader.h"
#include "server/repository/text_file.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

absl::Status Wrong(std::string text) { return absl::InvalidArgumentError(std::move(text)); }

std::optional<disk::Precision> PrecisionNamed(std::string_view name) {
  if (name == "FP32") return disk::PRECISION_FP32;
  if (name == "TF32") return disk::PRECISION_TF32;
  if (name == "BF16") return disk::PRECISION_BF16;
  if (name == "W8") return disk::PRECISION_W8;
  if (name == "FP32_SPLIT") return disk::PRECISION_FP32_SPLIT;
  if (name == "AUTO") return disk::PRECISION_AUTO;
  return std::nullopt;
}

// Copies the tensors that the model uses, as fp32. Answers how many numbers they are.
absl::StatusOr<int64_t> CopyWeights(const TensorSource& tensors,
                                    const disk::ModelDescription& config, const std::string& to,
                                    const std::string& from) {
  std::map<std::string, std::vector<float>> values;
  std::vector<SafetensorsSource> sources;
  int64_t count = 0;
  for (const disk::CellTypeConfig& type : config.cell_types()) {
    for (const disk::ParameterSource& source : type.parameters()) {
      for (const std::string& tensor : source.tensors()) {
        if (values.contains(tensor)) continue;
        const std::vector<int64_t> shape = tensors.ShapeOf(tensor);
        int64_t size = 1;
        for (const int64_t d : shape) size *= d;
        std::vector<float>& into = values[tensor];
        into.resize(static_cast<size_t>(size));
        count += size;
        if (absl::Status s = tensors.Read(tensor, absl::MakeSpan(into)); !s.ok()) return s;
        const auto bad =
            std::find_if(into.begin(), into.end(), [](float v) { return !std::isfinite(v); });
        if (bad != into.end()) {
          return Wrong(fmt::format("{}: tensor \"{}\" holds {} at element {}", from, tensor, *bad,
                                   bad - into.begin()));
        }
        sources.push_back({tensor, shape, into});
      }
    }
  }
  std::sort(sources.begin(), sources.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  absl::Status s = WriteSafetensors(to, sources, {{{"made_by", "cellbatch-convert"}}});
  if (!s.ok()) return s;
  return count;
}

absl::Status WriteConfig(const std::string& path, const disk::ModelDescription& config,
                         const std::string& from) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(config, &text);
  std::ofstream out(path, std::ios::trunc);
  out << fmt::format(
      "# Made by cellbatch-convert from {}. The fields are explained in proto/model.proto.\n{}",
      fs::path(from).filename().string(), text);
  out.close();
  if (out) return absl::OkStatus();
  return absl::InternalError(fmt::format("{}: cannot be written", path));
}

// How a model is served among others and which of its versions are, whatever its cells: what a configuration that is there
// says of that stays. One that cannot be read says nothing. The names of what stayed.
std::vector<std::string> KeepServing(const std::string& path, disk::ModelDescription& config) {
  constexpr std::array<std::string_view, 5> kKept = {"version_policy", "weight", "priority_levels",
                                                     "default_priority_level", "sequences"};
  const absl::StatusOr<std::string> text = ReadTextFile(path, LoaderLimits().max_config_bytes);
  disk::ModelDescription there;
  if (!text.ok() || !ParseTextFormat(*text, path, there, nullptr).ok()) return {};
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  there.GetReflection()->ListFields(there, &fields);
  std::vector<std::string> names;
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (std::ranges::count(kKept, field->name()) == 1) {
      names.push_back(field->name());
    } else {
      there.GetReflection()->ClearField(&there, field);
    }
  }
  config.MergeFrom(there);
  return names;
}

constexpr char kConfig[] = "config.textproto", kPolicy[] = "policy.textproto",
               kWeights[] = "weights.safetensors";

// What the loader reads beside weights and configuration: definitions, vocabularies, a policy.
void CopyTexts(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const fs::path& file = it->path();
    const bool read = (file.extension() == ".textproto" && file.filename() != kConfig) ||
                      file.extension() == ".txt";
    std::error_code ignored;  // one that cannot be read is missed by the loader
    if (read && it->is_regular_file(ignored)) fs::copy_file(file, to / file.filename(), ignored);
  }
}

// A model folder that nobody sees yet, as it will be: what does not load is never put in the place of what does, and a
// conversion that fails leaves the repository as it was (a server starts with all of its models or not at all). A name with
// a dot in front is passed over by servers; it lies where a rename leads to its place: in the model's folder, or beside it
// where that is still to be made.
class Stage {
 public:
  Stage(std::string folder, int64_t version)
      : folder_(std::move(folder)), version_(std::to_string(version)) {}
  ~Stage() {
    std::error_code error;
    fs::remove_all(stage_, error);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  absl::Status Make() {
    std::error_code error;
    const fs::path parent = folder_.parent_path();
    fs::create_directories(parent, error);
    const std::string partial = fmt::format(".partial.{}", getpid());
    stage_ = fs::is_directory(folder_, error)
                 ? folder_ / partial
                 : parent / fmt::format(".{}{}", folder_.filename().string(), partial);
    fs::create_directories(stage_ / version_, error);
    if (error) return absl::InternalError(fmt::format("{}: {}", Version(), error.message()));
    CopyTexts(folder_, stage_);
    CopyTexts(folder_ / version_, stage_ / version_);
    return absl::OkStatus();
  }

  // The versions that lie beside it, whose configuration this will be as well; one that is elsewhere is left out.
  void AddOthers() {
    for (const int64_t other : ModelVersions(folder_).value_or(std::vector<int64_t>())) {
      const std::string name = std::to_string(other);
      if (name == version_) continue;
      std::error_code error;
      fs::create_directory(stage_ / name, error);
      CopyTexts(folder_ / name, stage_ / name);
      const fs::path weights = fs::canonical(folder_ / name / kWeights, error);
      if (!error) fs::create_hard_link(weights, stage_ / name / kWeights, error);
      if (error) fs::remove_all(stage_ / name, error);
    }
  }

  // Without the policy of the version that is replaced; false: it had none.
  bool DropPolicy() {
    std::error_code error;
    return no_policy_ = fs::remove(stage_ / version_ / kPolicy, error);
  }

  // Into its place, each thing at once: a server may be looking (--model-control).
  absl::Status Publish() {
    std::error_code error;
    const fs::path weights = fs::path(version_) / kWeights;
    if (!fs::exists(folder_, error)) {
      fs::rename(stage_, folder_, error);
    } else {
      const fs::path whole = fs::exists(folder_ / version_, error) ? weights : version_;
      if (no_policy_) fs::remove(folder_ / version_ / kPolicy, error);
      fs::rename(stage_ / whole, folder_ / whole, error);
      if (!error) fs::rename(stage_ / kConfig, folder_ / kConfig, error);
    }
    if (!error) return absl::OkStatus();
    return absl::InternalError(fmt::format("{}: {}", Version(), error.message()));
  }

  std::string folder() const { return stage_.string(); }
  std::string config() const { return (stage_ / kConfig).string(); }
  std::string weights() const { return (stage_ / version_ / kWeights).string(); }
  // As its user knows it.
  absl::Status Told(const absl::Status& status) const {
    std::string text(status.message());
    for (size_t at; (at = text.find(folder())) != text.npos;) {
      text.replace(at, folder().size(), folder_.string());
    }
    return absl::Status(status.code(), text);
  }

 private:
  std::string Version() const { return (folder_ / version_).string(); }

  const fs::path folder_, version_;
  fs::path stage_;
  bool no_policy_ = false;
};

// Versions share a configuration, and a load takes all that are served or none.
absl::Status CheckOthers(Stage& stage, const ImportOptions& options) {
  stage.AddOthers();
  const auto served = VersionsToServe(stage.folder(), LoaderLimits());
  for (const int64_t version : served.value_or(std::vector<int64_t>())) {
    if (version == options.version) continue;
    const auto loaded =
        LoadModel(stage.folder(), options.name, version, ModelId(0), LoaderLimits());
    if (loaded.ok()) continue;
    return stage.Told(Wrong(fmt::format(
        "version {} is served, too (version_policy in config.textproto), and has other cells than "
        "the configuration would have (--name makes a model of its own): {}",
        version, std::string(loaded.status().message()))));
  }
  return absl::OkStatus();
}

// "4 -> 5" units; of a stack whose layers differ "4 -> 5 -> 7".
std::string Units(const StackModel& m) {
  std::string text = fmt::format("{} -> {}", m.layers[0].input, m.layers[0].hidden);
  const bool same = std::all_of(m.layers.begin(), m.layers.end(), [&](const StackLayer& l) {
    return l.hidden == m.layers[0].hidden;
  });
  for (size_t l = 1; l < m.layers.size() && !same; ++l) {
    text += fmt::format(" -> {}", m.layers[l].hidden);
  }
  text += " units";
  if (m.layers[0].width != m.layers[0].hidden) {
    text += fmt::format(" (projected to {})", m.layers[0].width);
  }
  return text;
}

const char* Directions(const StackModel& m) {
  for (const StackLayer& l : m.layers) {
    if (l.directions() != m.layers[0].directions()) return "one or both directions";
  }
  if (m.layers[0].directions() == 2) return "both directions";
  return m.layers[0].forward ? "one direction" : "backwards";
}

std::string OutputText(const StackModel& m) {
  if (!m.head) {
    return fmt::format("output   OUTPUT FP32 [{}], the last hidden state\n", m.top_width());
  }
  const bool softmax = m.head->cell == "linear_softmax";
  return fmt::format("output   OUTPUT FP32 [{}{}], the {} of \"{}\"\n",
                     m.head->every_step ? "T, " : "", m.head->classes,
                     softmax ? "probabilities" : "logits", m.head->weight);
}

}  // namespace

absl::Status CheckImportOptions(const ImportOptions& options) {
  const std::string& name = options.name;
  const bool sane = !name.empty() && name.size() <= 128 && name[0] != '.' &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
                    });
  if (!sane) {
    return Wrong(
        fmt::format("--name is \"{}\": a model's name has 1 to 128 letters, digits, _ - . and "
                    "starts with no dot",
                    name));
  }
  if (options.repository.empty()) return Wrong("--repository is missing: the folder of the models");
  if (options.from.empty()) return Wrong("--from is missing: a .safetensors or .onnx file");
  if (options.version < 1)
    return Wrong(fmt::format("--version is {}, the least is 1", options.version));
  if (options.max_sequence_length < 0) {
    return Wrong(
        fmt::format("--max-sequence-length is {}, the least is 0", options.max_sequence_length));
  }
  if (PrecisionNamed(options.precision).has_value()) return absl::OkStatus();
  return Wrong(
      fmt::format("--precision is \"{}\", FP32, FP32_SPLIT, AUTO, TF32, BF16 and W8 are offered",
                  options.precision));
}

absl::StatusOr<Imported> WriteModel(const StackModel& model, const TensorSource& tensors,
                                    const ImportOptions& options) {
  Imported imported{.model = model,
                    .folder = (fs::path(options.repository) / options.name).string(),
                    .notes = {}};
  disk::ModelDescription config = DescribeStack(model, options.name);
  config.set_max_sequence_length(options.max_sequence_length);
  if (options.precision != "FP32") config.set_precision(*PrecisionNamed(options.precision));
  const std::string version = fmt::format("{}/{}", imported.folder, options.version);
  std::error_code error;
  if (fs::exists(version + "/weights.safetensors", error) && !options.overwrite) {
    return absl::AlreadyExistsError(
        fmt::format("{} is there; --overwrite replaces it, --version N makes another", version));
  }
  Stage stage(imported.folder, options.version);
  if (absl::Status s = stage.Make(); !s.ok()) return s;
  const auto count = CopyWeights(tensors, config, stage.weights(), options.from);
  if (!count.ok()) return stage.Told(count.status());
  imported.parameters = *count;
  if (const auto kept = KeepServing(imported.folder + "/config.textproto", config); !kept.empty()) {
    imported.notes.push_back(
        fmt::format("kept of the config.textproto that was there: {}", fmt::join(kept, ", ")));
  }
  absl::Status s = WriteConfig(stage.config(), config, options.from);
  if (!s.ok()) return stage.Told(s);
  // Whoever starts the server later should not be the one to find out.
  const auto load = [&] {
    return LoadModel(stage.folder(), options.name, options.version, ModelId(0), LoaderLimits());
  };
  auto loaded = load();
  if (!loaded.ok() && stage.DropPolicy()) {
    imported.notes.push_back(
        fmt::format("{} of the version that was there is of other cells, and left out: {}", kPolicy,
                    std::string(stage.Told(loaded.status()).message())));
    loaded = load();
  }
  if (!loaded.ok()) return stage.Told(loaded.status());
  loaded->reset();
  s = CheckOthers(stage, options);
  if (s.ok()) s = stage.Publish();
  if (!s.ok()) return s;
  return imported;
}

std::string Summary(const Imported& imported, const ImportOptions& options) {
  const StackModel& m = imported.model;
  std::string text = fmt::format(
      "model    {} (version {}) in {}\n"
      "cells    {}, {} layer{}, {}, {}, {} parameters\n",
      options.name, options.version, imported.folder, m.kind, m.layers.size(),
      m.layers.size() == 1 ? "" : "s", Directions(m), Units(m), imported.parameters);
  text += m.embedding.empty() ? fmt::format("input    X FP32 [T, {}]\n", m.layers[0].input)
                              : fmt::format("input    TOKENS INT32 [T], 0 to {} (\"{}\")\n",
                                            m.vocabulary - 1, m.embedding);
  if (options.precision != "FP32") {
    text +=
        fmt::format("products in {}, of weights that stay fp32 in the file\n", options.precision);
  }
  text += OutputText(m) + fmt::format("         on request ALL_HIDDEN [T, {}]", m.top_width());
  int64_t chains = 0;
  bool same_h = true, same_c = m.layers[0].state > 0;
  for (const StackLayer& l : m.layers) {
    chains += l.directions();
    same_h = same_h && l.width == m.layers[0].width;
    same_c = same_c && l.state == m.layers[0].state;
  }
  if (same_h && same_c && m.layers[0].width == m.layers[0].state) {
    text += fmt::format(", FINAL_H, FINAL_C [{}, {}]", chains, m.layers[0].width);
  } else {
    if (same_h) text += fmt::format(", FINAL_H [{}, {}]", chains, m.layers[0].width);
    if (same_c) text += fmt::format(", FINAL_C [{}, {}]", chains, m.layers[0].state);
  }
  const bool cells = m.layers[0].state > 0;
  if (same_h && same_c == cells) {
    text += fmt::format("\n         begins from zeros, or from INITIAL_H{} as FINAL_H{}",
                        cells ? ", INITIAL_C" : "", cells ? ", FINAL_C leave it" : " leaves it");
  }
  text += "\n";
  for (const std::string& note : imported.notes) text += "note     " + note + "\n";
  return text;
}

}  // namespace cellbatch
