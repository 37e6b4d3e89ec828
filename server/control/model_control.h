// Models without restarts: who says which models are served, and what becomes of a change that somebody asks for.
//
//   --model-control   at the start        then
//   none              all                 nothing changes
//   explicit          --load-model, ..    Change: RepositoryModelLoad and RepositoryModelUnload
//   poll              all                 every --repository-poll what the folders show (folder_watch.h)
//
//   LoadAtStart -----------------------------> one thread: ModelRepository --> who waits is told
//   Change --> line of --max-model-changes --> the same, after it          --> done, on that thread
//      \-> refused: done, at once
//
// A change takes seconds, so nobody waits for it on a thread that others need: who asked is told when it is done, and that is
// when the version that went has been let go of by its last request. It is done whether they still want to know or not.
// Changes are made one after the other, in the order in which they came.
//
// The load at the start is that thread's first work. Who asked for it waits, and is told at once when the server is to stop:
// models that are warm have answered requests by then, and those are to be seen to, however long a file takes to read.
//
// At the end Refuse answers what waits, GiveUp what is under way; the destructor waits until the thread is out of it, which
// it soon is once the scheduler has stopped: when the files are read. Who does not want to wait for those asks loading().
//
// Threads: any, but LoadAtStart (once).
#ifndef CELLBATCH_SERVER_CONTROL_MODEL_CONTROL_H_
#define CELLBATCH_SERVER_CONTROL_MODEL_CONTROL_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/control/folder_watch.h"
#include "server/kserve/kserve_service.h"
#include "server/repository/model_repository.h"

namespace cellbatch {

enum class ModelControlMode : uint8_t { kNone, kExplicit, kPoll };
const char* Name(ModelControlMode mode);  // "none", "explicit", "poll"
std::optional<ModelControlMode> ModelControlNamed(std::string_view name);

struct ControlOptions {
  ModelControlMode mode = ModelControlMode::kNone;
  std::string root;                      // the repository's
  std::vector<std::string> load_models;  // of kExplicit; "*": all that are there
  std::chrono::milliseconds poll{15'000};
  int64_t max_changes = 16;  // that wait or are under way
};

class ModelControl {
 public:
  // A line for people, of every change that was made or tried; `problem`: one that failed, which may have more lines than
  // one.
  using Log = std::function<void(bool problem, const std::string& text)>;

  // `repository` outlives it.
  ModelControl(ControlOptions options, ModelRepository& repository, Log log);
  ~ModelControl();
  ModelControl(const ModelControl&) = delete;
  ModelControl& operator=(const ModelControl&) = delete;

  // Waits for seconds, until all are loaded, or tried. What failed, as ModelRepository::LoadAll says it; UNAVAILABLE: Refuse came
  // before that, and the thread may be in the load for as long as it takes, or has not begun it and never will.
  absl::Status LoadAtStart();
  // Whether the thread is in that load.
  bool loading() const;
  // With kExplicit: folders that came or went since are known or forgotten (ModelRepository::Know). Reads the root.
  void LookForFolders() const;
  // May a server without a model be right?
  bool may_be_empty() const { return options_.mode != ModelControlMode::kNone; }

  // `done` is called exactly once: at once on this thread, with UNAVAILABLE (the mode takes no changes, or the server is
  // stopping) or RESOURCE_EXHAUSTED (the line is full), else later, with what ModelRepository says.
  void Change(ModelChange what, std::string name, ModelChangeDone done);

  // From now on changes are refused, those that wait and LoadAtStart too. The one under way goes on.
  void Refuse();
  // And whoever asked for that is told that the server is stopping, whatever becomes of it.
  void GiveUp();

 private:
  struct Asked {
    ModelChange what;
    std::string name;
    ModelChangeDone done;
  };
  enum class Start : uint8_t { kNotAsked, kAsked, kUnderWay, kDone };

  void Begin(std::unique_lock<std::mutex>& lock);
  absl::Status LoadFolders();
  std::vector<std::string> AtStart(const std::vector<std::string>& there) const;
  void TryFailedOnesAgain();
  void Run();
  void Make(ModelChange what, const std::string& name);
  void Look();
  void Take(const FolderNews& news);
  absl::Status CheckMode() const;

  const ControlOptions options_;
  ModelRepository& repository_;
  const Log log_;
  FolderWatch folders_;  // the thread's
  std::string trouble_;  // the thread: why the root could not be read, as it was last said
  std::map<std::string, std::string>
      refused_;  // the thread: by name, why it is tried again, as it was last said
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Asked> line_;     // under mutex_, like the following
  ModelChangeDone under_way_;  // of the change that is being made; empty: none, or given up
  Start start_ = Start::kNotAsked;
  absl::Status started_;  // of kDone
  bool making_ = false, stop_ = false;
  std::thread thread_;  // last: it needs the others
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONTROL_MODEL_CONTROL_H_
