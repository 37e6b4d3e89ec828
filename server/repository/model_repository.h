// The model repository: which models there are, in which version and state, and how they come and go.
//
//   <root>/<model>/config.textproto
//   <root>/<model>/<version>/weights.safetensors        served: the highest version, or those of its version_policy
//
//                  Load                 warm
//   UNAVAILABLE ----------> LOADING ----------> READY ----> UNLOADING ----> UNAVAILABLE
//        ^                     |                              (Unload, or Close)
//        +---- with a reason --+
//
// A model that is loaded again answers with its old versions until all of the new ones are warm; if one of
// those fails, the old ones stay, and the index says why. At most --max-models versions are served at once; what
// takes the place of its own model's old versions does not count twice.
//
// A version that goes is first found by nobody, then let go of by all who have found it (requests that are decoded, that
// wait, that run), and then taken from the scheduler: so no request meets a door that was closed behind it. After
// --unload-limit it is taken from whoever still holds it.
//
// Threads: Find and Index from any thread (a lock held for a lookup); Load, Unload, LoadAll and
// Close block for seconds and are made one after the other inside. Files are read in the background (background.h).
// Whoever calls one of those holds no model that Find or Index gave: they would wait for themselves.
#ifndef CELLBATCH_SERVER_REPOSITORY_MODEL_REPOSITORY_H_
#define CELLBATCH_SERVER_REPOSITORY_MODEL_REPOSITORY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/model.h"
#include "scheduler/scheduler.h"
#include "server/repository/model_loader.h"
#include "server/requests/model_ids.h"

namespace cellbatch {

// The reason of a model that is there and was never asked for.
inline constexpr std::string_view kNotLoaded = "not loaded";

enum class ModelPhase : uint8_t { kUnavailable, kLoading, kReady, kUnloading };
const char* Name(ModelPhase phase);  // KServe's words: "UNAVAILABLE", "LOADING", "READY", ..

// One line of the index: a version that answers, or a model of which none does.
struct ModelState {
  std::string name;
  int64_t version = 0;  // of a model of which none answers: the highest that did; 0: none ever has
  ModelPhase phase = ModelPhase::kUnavailable;
  // Of kUnavailable; or why the last Load failed while an old version serves, or its changed policy is not taken over.
  std::string reason;
  std::shared_ptr<const Model> model;  // that answers: kReady, and kLoading where an old one does
};

struct RepositoryOptions {
  int64_t max_models = kMostModels;  // served at once (--max-models)
  // For how long requests hold a version that goes (--unload-limit).
  std::chrono::milliseconds unload_limit{60'000};
  // Hears of every model that nobody holds any more (ModelIds); outlives them.
  std::function<void(ModelId)> gone;
  // Hears what is to be known of a model that is served all the same: by Algorithm 1, for one, because its policy cannot be
  // used. `model "a" version 1: what`, perhaps of several lines; on the thread that loads.
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

class ModelRepository {
 public:
  // `scheduler` outlives the repository. Nothing is read before LoadAll.
  ModelRepository(std::string root, LoaderLimits limits, Scheduler& scheduler,
                  RepositoryOptions options = {});

  // Loads every model folder of the root, by name. All are read first (of more than --max-models, so many), so that what they
  // share (the budget of folds) is divided between them whatever their names; who loads or unloads meanwhile waits. All are
  // tried; the error names each that failed, a line a problem. A root that cannot be read or holds no model is an error, too.
  absl::Status LoadAll();
  // The same of these, in this order.
  absl::Status LoadSome(const std::vector<std::string>& names);
  // Those folders are there, and no others: they are known, and UNAVAILABLE because nobody has loaded them, unless they are known
  // already. One that had a folder, has none now and serves nothing is forgotten, whatever became of it.
  void Know(const std::vector<std::string>& names);
  // Loads, or loads again, the model from its folder as it is now.
  // NOT_FOUND: no such folder. INVALID_ARGUMENT: its files are wrong; every problem is listed. RESOURCE_EXHAUSTED: as many
  // others are served as may be.
  absl::Status Load(std::string_view name);
  // New requests are refused, accepted ones finish; returns when the last one has, and its memory is free. NOT_FOUND: it
  // is not served. A model whose folder is gone is not known afterwards.
  absl::Status Unload(std::string_view name);
  // Lets every served model whose policy.textproto changed since it was read take over what it says now, while it serves
  // (Scheduler::SetPolicy); where that cannot be, by loading the model again. A file that cannot be used changes nothing:
  // the old policy goes on, and that version's line of the index says why until there is a better one. What is being
  // loaded is waited for, and looked at, too. What changed, for people.
  struct PolicyNews {
    bool taken = false;
    std::string text;
  };
  std::vector<PolicyNews> TakeChangedPolicies();
  // Unloads every model (for an orderly end).
  void Close();

  // The model to serve. `version` empty: the highest that serves; else a positive decimal number.
  // INVALID_ARGUMENT: a name or version that cannot be one. NOT_FOUND: unknown. UNAVAILABLE: known,
  // not ready, with the reason.
  absl::StatusOr<std::shared_ptr<const Model>> Find(std::string_view name,
                                                    std::string_view version) const;
  std::vector<ModelState> Index() const;  // by name and version
  // Those of a model that answer, ascending.
  std::vector<int64_t> Serving(std::string_view name) const;

 private:
  using Models = std::map<int64_t, std::shared_ptr<const Model>>;  // by version
  using Versions = std::vector<ModelVersion>;
  struct Known {
    ModelPhase phase = ModelPhase::kUnavailable;
    std::string reason;
    int64_t version = 0;  // the highest of `models`, or that it was
    Models models;        // that answer
    std::map<int64_t, std::string>
        old_policies;  // of them, those whose changed file cannot be used: why
    bool had_folder = false;
  };

  // Under changes_, like the next nine.
  absl::StatusOr<Versions> Read(const std::string& name);
  absl::StatusOr<std::vector<ModelId>> TakeIds(size_t count);
  absl::Status Serve(const std::string& name, absl::StatusOr<Versions> versions);
  absl::Status LoadFolder(const std::string& name);
  absl::Status Swap(const std::string& name, Versions versions);
  absl::Status Add(const std::shared_ptr<const Model>& model, const ModelVersion& version);
  // All of them are with the scheduler, warm, or none is.
  absl::StatusOr<Models> Warm(Versions versions);
  absl::Status TakePolicy(const PolicySpec& spec, const Model& model);
  std::optional<PolicyNews> TakeChangedPolicy(const std::string& name, int64_t version);
  // From the scheduler; nobody finds them any more.
  absl::Status Remove(Models models);
  // Changes what is known under the lock; makes it where it is not there.
  template <typename Change>
  void Set(const std::string& name, Change change);
  void ForgetIfGone(const std::string& name);
  int64_t ServedBeside(const std::string& name) const;

  const std::string root_;
  const LoaderLimits limits_;
  Scheduler& scheduler_;
  const int64_t max_models_;
  const std::chrono::milliseconds unload_limit_;
  const std::shared_ptr<ModelIds> ids_;
  const std::function<void(const std::string&)> warn_;
  std::mutex changes_;  // one Load or Unload at a time
  // Under changes_; by name and version, of the file that was read.
  std::map<std::string, std::map<int64_t, std::string>> policy_stamps_;
  // Likewise; by id, ready when nobody holds that model that serves.
  std::map<int32_t, std::future<void>> held_;
  mutable std::mutex mutex_;
  std::map<std::string, Known, std::less<>> models_;  // under mutex_
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REPOSITORY_MODEL_REPOSITORY_H_
