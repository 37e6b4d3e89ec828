#include "server/repository/model_repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "scheduler/policy/make_rules.h"
#include "scheduler/warm/background.h"
#include "server/requests/client_text.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

// Every line of a text, with the model's name before it.
std::string Indented(const std::string& name, std::string_view problems) {
  std::string text;
  while (!problems.empty()) {
    const size_t end = std::min(problems.find('\n'), problems.size());
    text +=
        fmt::format("{}model \"{}\": {}", text.empty() ? "" : "\n", name, problems.substr(0, end));
    problems.remove_prefix(std::min(end + 1, problems.size()));
  }
  return text;
}

absl::StatusOr<int64_t> HighestVersion(const std::string& folder) {
  const absl::StatusOr<std::vector<int64_t>> versions = ModelVersions(folder);
  if (!versions.ok()) return versions.status();
  if (!versions->empty()) return versions->back();
  return absl::InvalidArgumentError(
      fmt::format("{}: no version in it, such as 1/weights.safetensors", folder));
}

// The same model; `let_go` is told when nobody holds this pointer any more.
std::shared_ptr<const Model> Watched(std::shared_ptr<const Model> model,
                                     std::promise<void> let_go) {
  const Model* const bare = model.get();
  auto told = std::make_shared<std::promise<void>>(std::move(let_go));
  return {bare, [held = std::move(model), told = std::move(told)](const Model*) mutable {
            held.reset();
            told->set_value();
          }};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListModels(const std::string& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    const bool ours = name[0] != '.' && name != "lost+found";  // a mounted disk has the latter
    if (ours && it->is_directory(ignored)) names.push_back(name);
  }
  if (error) {
    return absl::InvalidArgumentError(
        fmt::format("model repository {}: {}", root, error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::vector<std::string>> ModelFolders(const std::string& root) {
  absl::StatusOr<std::vector<std::string>> names = ListModels(root);
  if (!names.ok() || !names->empty()) return names;
  return absl::InvalidArgumentError(
      fmt::format("model repository {}: there is no model folder in it", root));
}

absl::Status CheckRoom(const std::string& name, int64_t served_beside, int64_t max_models) {
  if (served_beside < max_models) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{} models are served, the most is {} (--max-models): there is no room for {}",
                  served_beside, max_models, Quoted(name)));
}

absl::StatusOr<ModelVersion> ReadModel(const std::string& root, const std::string& name, ModelId id,
                                       const LoaderLimits& limits) {
  if (absl::Status s = CheckModelName(name); !s.ok()) return s;
  const std::string folder = root + "/" + name;
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return absl::NotFoundError(fmt::format("there is no model folder {}", folder));
  }
  const absl::StatusOr<int64_t> version = HighestVersion(folder);
  if (!version.ok()) return version.status();
  return LoadVersion(folder, name, *version, id, limits);
}

const char* Name(ModelPhase phase) {
  switch (phase) {
    case ModelPhase::kUnavailable:
      return "UNAVAILABLE";
    case ModelPhase::kLoading:
      return "LOADING";
    case ModelPhase::kReady:
      return "READY";
    case ModelPhase::kUnloading:
      return "UNLOADING";
  }
  return "?";
}

ModelRepository::ModelRepository(std::string root, LoaderLimits limits, Scheduler& scheduler,
                                 RepositoryOptions options)
    : root_(std::move(root)),
      limits_(limits),
      scheduler_(scheduler),
      max_models_(options.max_models),
      unload_limit_(options.unload_limit),
      ids_(ModelIds::Make(std::move(options.gone))) {}

template <typename Change>
void ModelRepository::Set(const std::string& name, Change change) {
  const std::lock_guard lock(mutex_);
  ModelState& state = models_[name];
  state.name = name;
  change(state);
}

std::shared_ptr<const Model> ModelRepository::Serving(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : found->second.model;
}

int64_t ModelRepository::ServedBeside(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return std::count_if(models_.begin(), models_.end(), [&](const auto& model) {
    return model.second.model != nullptr && model.first != name;
  });
}

// Whoever loads models of many names for years leaves no trace of those whose folders are gone. Under changes_.
void ModelRepository::ForgetIfGone(const std::string& name) {
  std::error_code error;
  if (fs::is_directory(root_ + "/" + name, error)) return;
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end() || found->second.model != nullptr) return;
  models_.erase(found);
  policy_stamps_.erase(name);
}

absl::Status ModelRepository::Remove(ModelId model, const std::future<void>& held) {
  held.wait_for(unload_limit_);
  return scheduler_.RemoveModel(model);
}

// The new one is warm before the old one goes; requests hold what they were unfolded for.
absl::Status ModelRepository::Swap(const std::string& name, ModelVersion version) {
  const std::shared_ptr<const Model> model = std::move(version.model);
  absl::StatusOr<LaneRules> rules = MakeRules(version.policy, version.join, model->types.size());
  if (!rules.ok()) return rules.status();
  if (absl::Status s = CheckRoom(name, ServedBeside(name), max_models_); !s.ok()) return s;
  if (absl::Status s = scheduler_.AddModel(model, *std::move(rules)); !s.ok()) return s;
  std::promise<void> let_go;
  const std::future<void> old_held = std::exchange(held_[name], let_go.get_future());
  std::shared_ptr<const Model> found = Watched(model, std::move(let_go));
  Set(name, [&](ModelState& state) {
    state.phase = ModelPhase::kReady;
    state.version = model->version;
    state.model.swap(found);
    state.reason.clear();
  });
  if (found == nullptr) return absl::OkStatus();
  const ModelId old = found->id;
  found.reset();
  return Remove(old, old_held);
}

absl::StatusOr<ModelVersion> ModelRepository::Read(const std::string& name) {
  Set(name, [](ModelState& state) {
    state.phase = ModelPhase::kLoading;
    state.reason.clear();
  });
  if (absl::Status s = CheckModelName(name); !s.ok()) return s;
  // Before it is read: who writes meanwhile is noticed.
  if (const auto version = HighestVersion(root_ + "/" + name); version.ok()) {
    policy_stamps_[name] = PolicyStamp(root_ + "/" + name, *version);
  }
  const absl::StatusOr<ModelId> id = ids_->Take();
  if (!id.ok()) return id.status();
  absl::StatusOr<ModelVersion> version;
  RunInBackground([&] { version = ReadModel(root_, name, *id, limits_); });
  if (version.ok()) {
    version->model = ids_->Hold(std::move(version->model));
  } else {
    ids_->GiveBack(*id);
  }
  return version;
}

absl::Status ModelRepository::Serve(const std::string& name, absl::StatusOr<ModelVersion> model) {
  const absl::Status status = model.ok() ? Swap(name, *std::move(model)) : model.status();
  if (status.ok()) return status;
  const std::string reason(status.message());
  Set(name, [&](ModelState& state) {
    state.phase = state.model == nullptr ? ModelPhase::kUnavailable : ModelPhase::kReady;
    state.reason = reason;
  });
  return absl::Status(status.code(), Indented(name, reason));
}

absl::Status ModelRepository::LoadFolder(const std::string& name) {
  return Serve(name, Read(name));
}

absl::Status ModelRepository::LoadAll() {
  const absl::StatusOr<std::vector<std::string>> names = ModelFolders(root_);
  return names.ok() ? LoadSome(*names) : names.status();
}

void ModelRepository::Know(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    Set(name, [](ModelState& state) {
      const bool untouched = state.phase == ModelPhase::kUnavailable && state.reason.empty();
      if (untouched) state.reason = kNotLoaded;
    });
  }
  const std::set<std::string_view> there(names.begin(), names.end());
  const std::lock_guard lock(mutex_);
  std::erase_if(models_, [&](const auto& model) {
    const ModelState& state = model.second;
    return state.phase == ModelPhase::kUnavailable && state.reason == kNotLoaded &&
           !there.contains(model.first);
  });
}

absl::Status ModelRepository::LoadSome(const std::vector<std::string>& names) {
  // All are known from the start: a request for one that is not there yet is told so.
  for (const std::string& name : names) {
    Set(name, [](ModelState& state) { state.phase = ModelPhase::kLoading; });
  }
  const std::lock_guard lock(changes_);
  std::vector<absl::StatusOr<ModelVersion>> read;
  std::vector<std::shared_ptr<const Model>> alive;  // as long as they are expected
  std::vector<const Model*> expected;
  for (const std::string& name : names) {
    read.push_back(Read(name));
    if (!read.back().ok()) continue;
    alive.push_back((*read.back()).model);
    expected.push_back(alive.back().get());
  }
  scheduler_.ExpectModels(expected);
  std::vector<std::string> problems;
  for (size_t i = 0; i < read.size(); ++i) {
    const absl::Status s = Serve(names[i], std::move(read[i]));
    if (!s.ok()) problems.emplace_back(s.message());
  }
  scheduler_.ExpectModels({});
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}", fmt::join(problems, "\n")));
}

absl::Status ModelRepository::Load(std::string_view name) {
  if (absl::Status s = CheckModelName(name); !s.ok()) return s;
  const std::lock_guard lock(changes_);
  std::error_code error;
  const std::string folder = fmt::format("{}/{}", root_, name);
  if (!fs::is_directory(folder, error)) {
    ForgetIfGone(std::string(name));
    return absl::NotFoundError(fmt::format(
        "model {}: there is no folder of that name in the model repository", Quoted(name)));
  }
  const std::string key(name);
  // Before it is read: that takes seconds, and its memory.
  absl::Status room = CheckRoom(key, ServedBeside(key), max_models_);
  return room.ok() ? LoadFolder(key) : Serve(key, std::move(room));
}

absl::Status ModelRepository::TakePolicy(const std::string& name, const Model& model) {
  const std::string folder = root_ + "/" + name;
  const absl::StatusOr<PolicySpec> spec = LoadPolicy(folder, model, limits_);
  if (!spec.ok()) return spec.status();
  absl::StatusOr<LaneRules> rules = MakeRules(*spec, {}, model.types.size());
  if (!rules.ok()) return rules.status();
  return scheduler_.SetPolicy(model.id, *std::move(rules));
}

// No model is held while the change of another is waited for, which may wait for that model.
std::vector<ModelRepository::PolicyNews> ModelRepository::TakeChangedPolicies() {
  std::vector<std::string> names;
  for (const ModelState& state : Index()) {
    if (state.model != nullptr && state.phase == ModelPhase::kReady) names.push_back(state.name);
  }
  std::vector<PolicyNews> news;
  for (const std::string& name : names) {
    const std::lock_guard lock(changes_);
    if (std::optional<PolicyNews> one = TakeChangedPolicy(name)) news.push_back(*std::move(one));
  }
  return news;
}

std::optional<ModelRepository::PolicyNews> ModelRepository::TakeChangedPolicy(
    const std::string& name) {
  std::shared_ptr<const Model> model = Serving(name);
  if (model == nullptr) return std::nullopt;
  const std::string folder = root_ + "/" + name;
  const int64_t version = model->version;
  std::string stamp = PolicyStamp(folder, version);
  std::string& known = policy_stamps_[name];
  if (stamp == known) return std::nullopt;
  known = std::move(stamp);
  absl::Status status = TakePolicy(name, *model);
  model.reset();
  // Not with another version, which nobody asked for.
  const absl::StatusOr<int64_t> highest = HighestVersion(folder);
  const bool load_again = absl::IsFailedPrecondition(status) && highest.ok() && *highest == version;
  if (load_again) {
    status = LoadFolder(name);
  } else {
    const std::string reason(status.message());
    Set(name, [&](ModelState& s) { s.reason = reason; });
  }
  if (!status.ok()) {
    return PolicyNews{false, Indented(name, fmt::format("its policy goes on as it was: {}",
                                                        std::string(status.message())))};
  }
  return PolicyNews{true, fmt::format("model \"{}\": its policy.textproto is taken over{}", name,
                                      load_again ? ", the model loaded again for it" : "")};
}

absl::Status ModelRepository::Unload(std::string_view name) {
  const std::lock_guard lock(changes_);
  const std::string key(name);
  std::shared_ptr<const Model> model = Serving(key);
  if (model == nullptr) {
    ForgetIfGone(key);
    return absl::NotFoundError(fmt::format("model {} is not served", Quoted(name)));
  }
  const ModelId id = model->id;
  Set(key, [](ModelState& state) {
    state.phase = ModelPhase::kUnloading;
    state.model = nullptr;
  });
  model.reset();
  const absl::Status status = Remove(id, held_.extract(key).mapped());
  Set(key, [](ModelState& state) {
    state.phase = ModelPhase::kUnavailable;
    state.reason = "unloaded";
  });
  ForgetIfGone(key);
  return status;
}

void ModelRepository::Close() {
  std::vector<std::string> names;
  for (const ModelState& state : Index()) {
    if (state.model != nullptr) names.push_back(state.name);
  }
  for (const std::string& name : names) Unload(name).IgnoreError();
}

absl::StatusOr<std::shared_ptr<const Model>> ModelRepository::Find(std::string_view name,
                                                                   std::string_view version) const {
  if (absl::Status s = CheckModelName(name); !s.ok()) return s;
  if (absl::Status s = CheckModelVersion(version); !s.ok()) return s;
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) {
    return absl::NotFoundError(fmt::format("unknown model {}", Quoted(name)));
  }
  const ModelState& state = found->second;
  if (state.model == nullptr) {
    return absl::UnavailableError(fmt::format("model {} is {}{}{}", Quoted(name), Name(state.phase),
                                              state.reason.empty() ? "" : ": ", state.reason));
  }
  if (!version.empty() && version != std::to_string(state.model->version)) {
    return absl::NotFoundError(fmt::format("model {} has version {} ready, not {}", Quoted(name),
                                           state.model->version, Quoted(version)));
  }
  return state.model;
}

std::vector<ModelState> ModelRepository::Index() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelState> states;
  for (const auto& [name, state] : models_) states.push_back(state);
  return states;
}

}  // namespace cellbatch
