#include "server/repository/model_repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "scheduler/policy/make_rules.h"
#include "scheduler/warm/background.h"
#include "server/policy/policy_codec.h"
#include "server/repository/model_folders.h"
#include "server/requests/client_text.h"

namespace cellbatch {
namespace {

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
      ids_(ModelIds::Make(std::move(options.gone))),
      warn_(std::move(options.warn)) {}

template <typename Change>
void ModelRepository::Set(const std::string& name, Change change) {
  const std::lock_guard lock(mutex_);
  change(models_[name]);
}

std::vector<int64_t> ModelRepository::Serving(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  std::vector<int64_t> versions;
  if (found == models_.end()) return versions;
  for (const auto& [version, model] : found->second.models) versions.push_back(version);
  return versions;
}

int64_t ModelRepository::ServedBeside(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  size_t served = 0;
  for (const auto& [other, known] : models_) served += other == name ? 0 : known.models.size();
  return static_cast<int64_t>(served);
}

// Whoever loads models of many names for years leaves no trace of those whose folders are gone. Under changes_.
void ModelRepository::ForgetIfGone(const std::string& name) {
  if (IsModelFolder(root_, name)) return;
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(name);
  if (found == models_.end() || !found->second.models.empty()) return;
  models_.erase(found);
  policy_stamps_.erase(name);
}

absl::Status ModelRepository::Remove(Models models) {
  std::vector<std::pair<ModelId, std::future<void>>> going;
  for (const auto& [version, model] : models) {
    going.emplace_back(model->id, std::move(held_.extract(model->id.value()).mapped()));
  }
  models.clear();
  const auto limit = std::chrono::steady_clock::now() + unload_limit_;
  absl::Status status;
  for (const auto& [id, held] : going) {
    held.wait_until(limit);
    status.Update(scheduler_.RemoveModel(id));
  }
  return status;
}

absl::Status ModelRepository::Add(const std::shared_ptr<const Model>& model,
                                  const ModelVersion& version) {
  auto rules = MakeRules(version.policy, version.join, model->types.size());
  if (!rules.ok()) return rules.status();
  try {
    return scheduler_.AddModel(model, *std::move(rules));
  } catch (const std::bad_alloc& why) {
    return NoMemoryFor(model->version, why);
  }
}

absl::StatusOr<ModelRepository::Models> ModelRepository::Warm(Versions versions) {
  Models warm;
  for (ModelVersion& version : versions) {
    std::shared_ptr<const Model> model = std::move(version.model);
    const absl::Status status = Add(model, version);
    if (!status.ok()) {
      Remove(std::move(warm)).IgnoreError();
      return status;
    }
    if (version.policy.about.starts_with(kInPlaceOf)) {
      warn_(fmt::format("model \"{}\" version {}: policy {} {}", model->name, model->version,
                        Name(version.policy.kind), version.policy.about));
    }
    std::promise<void> let_go;
    held_[model->id.value()] = let_go.get_future();
    warm.emplace(model->version, Watched(model, std::move(let_go)));
  }
  return warm;
}

// The new ones are warm before the old ones go; requests hold what they were unfolded for.
absl::Status ModelRepository::Swap(const std::string& name, Versions versions) {
  absl::Status room = CheckRoom(name, versions.size(), ServedBeside(name), max_models_);
  if (!room.ok()) return room;
  absl::StatusOr<Models> models = Warm(std::move(versions));
  if (!models.ok()) return models.status();
  Set(name, [&](Known& known) {
    known.phase = ModelPhase::kReady;
    known.version = models->rbegin()->first;
    known.models.swap(*models);
    known.reason.clear();
    known.old_policies.clear();
  });
  return Remove(*std::move(models));
}

absl::StatusOr<std::vector<ModelId>> ModelRepository::TakeIds(size_t count) {
  std::vector<ModelId> ids;
  while (ids.size() < count) {
    const absl::StatusOr<ModelId> id = ids_->Take();
    if (!id.ok()) {
      for (const ModelId taken : ids) ids_->GiveBack(taken);
      return id.status();
    }
    ids.push_back(*id);
  }
  return ids;
}

absl::StatusOr<ModelRepository::Versions> ModelRepository::Read(const std::string& name) {
  const bool there = IsModelFolder(root_, name);
  Set(name, [&](Known& known) {
    known.phase = ModelPhase::kLoading;
    known.reason.clear();
    known.had_folder |= there;
  });
  const absl::StatusOr<std::vector<int64_t>> versions = FindVersions(root_, name, limits_);
  if (!versions.ok()) return versions.status();
  // Before they are read: that takes seconds, and their memory.
  absl::Status room = CheckRoom(name, versions->size(), ServedBeside(name), max_models_);
  if (!room.ok()) return room;
  // Likewise: who writes meanwhile is noticed.
  std::map<int64_t, std::string>& stamps = policy_stamps_[name];
  stamps.clear();
  for (const int64_t v : *versions) stamps[v] = PolicyStamp(root_ + "/" + name, v);
  const absl::StatusOr<std::vector<ModelId>> ids = TakeIds(versions->size());
  if (!ids.ok()) return ids.status();
  absl::StatusOr<Versions> read;
  RunInBackground([&] { read = ReadVersions(root_, name, *versions, *ids, limits_); });
  if (read.ok()) {
    for (ModelVersion& version : *read) version.model = ids_->Hold(std::move(version.model));
  } else {
    for (const ModelId id : *ids) ids_->GiveBack(id);
  }
  return read;
}

absl::Status ModelRepository::Serve(const std::string& name, absl::StatusOr<Versions> versions) {
  const absl::Status status = versions.ok() ? Swap(name, *std::move(versions)) : versions.status();
  if (status.ok()) return status;
  const std::string reason(status.message());
  Set(name, [&](Known& known) {
    known.phase = known.models.empty() ? ModelPhase::kUnavailable : ModelPhase::kReady;
    known.reason = reason;
  });
  return absl::Status(status.code(), Indented(name, reason));
}

// What a load that failed has read of the policies is not what the old versions go by.
absl::Status ModelRepository::LoadFolder(const std::string& name) {
  const std::map<int64_t, std::string> stamps = policy_stamps_[name];
  absl::Status status = Serve(name, Read(name));
  if (!status.ok()) policy_stamps_[name] = stamps;
  if (!status.ok() && stamps.empty()) policy_stamps_.erase(name);
  return status;
}

absl::Status ModelRepository::LoadAll() {
  const absl::StatusOr<std::vector<std::string>> names = ModelFolders(root_);
  return names.ok() ? LoadSome(*names) : names.status();
}

void ModelRepository::Know(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    Set(name, [](Known& known) {
      const bool untouched = known.phase == ModelPhase::kUnavailable && known.reason.empty();
      if (untouched) known.reason = kNotLoaded;
      known.had_folder = true;
    });
  }
  const std::set<std::string_view> there(names.begin(), names.end());
  const std::lock_guard lock(mutex_);
  std::erase_if(models_, [&](const auto& model) {
    const Known& known = model.second;
    return known.phase == ModelPhase::kUnavailable && known.had_folder &&
           !there.contains(model.first);
  });
}

absl::Status ModelRepository::LoadSome(const std::vector<std::string>& names) {
  // All are known from the start: a request for one that is not there yet is told so.
  for (const std::string& name : names) {
    Set(name, [](Known& known) { known.phase = ModelPhase::kLoading; });
  }
  const std::lock_guard lock(changes_);
  std::vector<absl::StatusOr<Versions>> read;       // of the first of `names`
  std::vector<std::shared_ptr<const Model>> alive;  // as long as they are expected
  std::vector<const Model*> expected;
  for (const std::string& name : names) {
    // What there will be no room for takes no memory. (One of those before it may fail: then it is read when its turn comes.)
    if (static_cast<int64_t>(expected.size()) >= max_models_) break;
    read.push_back(Read(name));
    if (!read.back().ok()) continue;
    for (const ModelVersion& version : *read.back()) {
      alive.push_back(version.model);
      expected.push_back(version.model.get());
    }
  }
  scheduler_.ExpectModels(expected);
  std::vector<std::string> problems;
  for (size_t i = 0; i < names.size(); ++i) {
    const absl::Status s =
        i < read.size() ? Serve(names[i], std::move(read[i])) : LoadFolder(names[i]);
    if (!s.ok()) problems.emplace_back(s.message());
  }
  scheduler_.ExpectModels({});
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}", fmt::join(problems, "\n")));
}

absl::Status ModelRepository::Load(std::string_view name) {
  if (absl::Status s = CheckModelName(name); !s.ok()) return s;
  const std::lock_guard lock(changes_);
  if (!IsModelFolder(root_, name)) {
    const absl::Status root = ListModels(root_).status();
    if (!root.ok()) {  // it may be there as soon as its disk is
      return absl::NotFoundError(
          fmt::format("model {}: {}", Quoted(name), std::string(root.message())));
    }
    ForgetIfGone(std::string(name));
    return absl::NotFoundError(fmt::format(
        "model {}: there is no folder of that name in the model repository", Quoted(name)));
  }
  return LoadFolder(std::string(name));
}

absl::Status ModelRepository::TakePolicy(const PolicySpec& spec, const Model& model) {
  absl::StatusOr<LaneRules> rules = MakeRules(spec, {}, model.types.size());
  if (!rules.ok()) return rules.status();
  return scheduler_.SetPolicy(model.id, *std::move(rules));
}

// No model is held while the change of another is waited for, which may wait for that model.
std::vector<ModelRepository::PolicyNews> ModelRepository::TakeChangedPolicies() {
  std::vector<std::pair<std::string, int64_t>> served;
  {
    const std::lock_guard lock(changes_);  // what is read already and not served yet is, then
    for (const ModelState& state : Index()) {
      const bool ready = state.model != nullptr && state.phase == ModelPhase::kReady;
      if (ready) served.emplace_back(state.name, state.version);
    }
  }
  std::vector<PolicyNews> news;
  for (const auto& [name, version] : served) {
    const std::lock_guard lock(changes_);
    std::optional<PolicyNews> one = TakeChangedPolicy(name, version);
    if (one.has_value()) news.push_back(*std::move(one));
  }
  return news;
}

std::optional<ModelRepository::PolicyNews> ModelRepository::TakeChangedPolicy(
    const std::string& name, int64_t version) {
  absl::StatusOr<std::shared_ptr<const Model>> model = Find(name, std::to_string(version));
  if (!model.ok()) return std::nullopt;
  const std::string folder = root_ + "/" + name;
  std::string stamp = PolicyStamp(folder, version);
  std::string& known = policy_stamps_[name][version];
  if (stamp == known) return std::nullopt;
  known = std::move(stamp);
  const absl::StatusOr<PolicySpec> spec = LoadPolicy(folder, **model, limits_);
  absl::Status status = spec.ok() ? TakePolicy(*spec, **model) : spec.status();
  model->reset();
  // Not with another version, which nobody asked for.
  const absl::StatusOr<std::vector<int64_t>> would = FindVersions(root_, name, limits_);
  const bool load_again =
      absl::IsFailedPrecondition(status) && would.ok() && *would == Serving(name);
  if (load_again) status = LoadFolder(name);
  std::string reason;
  Set(name, [&](Known& of_model) {
    of_model.old_policies.erase(version);
    if (status.ok()) return;
    reason = load_again ? std::exchange(of_model.reason, "") : std::string(status.message());
    of_model.old_policies[version] = reason;
  });
  if (!status.ok()) {
    return PolicyNews{false, Indented(name, "its policy goes on as it was: " + reason)};
  }
  // Which need not be the file's: the configuration may name another.
  return PolicyNews{true,
                    fmt::format("model \"{}\": its policy is {} now{}", name, Name(spec->kind),
                                load_again ? ", the model loaded again for it" : "")};
}

absl::Status ModelRepository::Unload(std::string_view name) {
  const std::lock_guard lock(changes_);
  const std::string key(name);
  if (Serving(key).empty()) {
    ForgetIfGone(key);
    return absl::NotFoundError(fmt::format("model {} is not served", Quoted(name)));
  }
  Models going;
  Set(key, [&](Known& known) {
    known.phase = ModelPhase::kUnloading;
    known.models.swap(going);
    known.old_policies.clear();
  });
  const absl::Status status = Remove(std::move(going));
  policy_stamps_.erase(key);
  Set(key, [](Known& known) {
    known.phase = ModelPhase::kUnavailable;
    known.reason = "unloaded";
  });
  ForgetIfGone(key);
  return status;
}

void ModelRepository::Close() {
  std::set<std::string> names;
  for (const ModelState& state : Index()) {
    if (state.model != nullptr) names.insert(state.name);
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
  const Known& known = found->second;
  if (known.models.empty()) {
    return absl::UnavailableError(fmt::format("model {} is {}{}{}", Quoted(name), Name(known.phase),
                                              known.reason.empty() ? "" : ": ", known.reason));
  }
  if (version.empty()) return known.models.rbegin()->second;
  std::vector<std::string> there;
  for (const auto& [number, model] : known.models) {
    there.push_back(std::to_string(number));
    if (there.back() == version) return model;
  }
  return absl::NotFoundError(fmt::format("model {} has version{} {} ready, not {}", Quoted(name),
                                         there.size() == 1 ? "" : "s", fmt::join(there, ", "),
                                         Quoted(version)));
}

std::vector<ModelState> ModelRepository::Index() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelState> states;
  for (const auto& [name, known] : models_) {
    const ModelState none = {name, known.version, known.phase, known.reason, nullptr};
    if (known.models.empty()) states.push_back(none);
    for (const auto& [version, model] : known.models) {
      const auto policy = known.old_policies.find(version);
      const bool old = policy != known.old_policies.end();
      const char* const and_why = old && !known.reason.empty() ? "\n" : "";
      states.push_back({name, version, known.phase,
                        known.reason + and_why + (old ? policy->second : ""), model});
    }
  }
  return states;
}

}  // namespace cellbatch
