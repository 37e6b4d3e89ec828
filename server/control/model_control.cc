#include "server/control/model_control.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "server/repository/model_folders.h"
#include "server/requests/client_text.h"

namespace cellbatch {
namespace {

constexpr std::pair<ModelControlMode, const char*> kModes[] = {
    {ModelControlMode::kNone, "none"},
    {ModelControlMode::kExplicit, "explicit"},
    {ModelControlMode::kPoll, "poll"}};

absl::Status Stopping() { return absl::UnavailableError("the server is stopping"); }

}  // namespace

const char* Name(ModelControlMode mode) {
  for (const auto& [known, name] : kModes) {
    if (known == mode) return name;
  }
  return "?";
}

std::optional<ModelControlMode> ModelControlNamed(std::string_view name) {
  for (const auto& [mode, known] : kModes) {
    if (name == known) return mode;
  }
  return std::nullopt;
}

ModelControl::ModelControl(ControlOptions options, ModelRepository& repository, Log log)
    : options_(std::move(options)),
      repository_(repository),
      log_(std::move(log)),
      folders_(options_.root),
      thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "cb-models");
}

ModelControl::~ModelControl() {
  GiveUp();
  thread_.join();
}

absl::Status ModelControl::LoadAtStart() {
  std::unique_lock lock(mutex_);
  start_ = Start::kAsked;
  changed_.notify_all();
  changed_.wait(lock, [this] { return stop_ || start_ == Start::kDone; });
  return start_ == Start::kDone ? started_ : Stopping();
}

bool ModelControl::loading() const {
  const std::lock_guard lock(mutex_);
  return start_ == Start::kUnderWay;
}

// The thread's, until LoadAtStart is through with; a stop before it was asked for leaves nothing to be loaded.
void ModelControl::Begin(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [this] { return stop_ || start_ == Start::kAsked; });
  if (stop_) return;
  start_ = Start::kUnderWay;
  lock.unlock();
  absl::Status loaded =
      options_.mode == ModelControlMode::kNone ? repository_.LoadAll() : LoadFolders();
  lock.lock();
  started_ = std::move(loaded);
  start_ = Start::kDone;
  changed_.notify_all();
}

// Those that are polled are known as they were before they are read, so who writes meanwhile is noticed; and none but those
// is loaded, so one that comes meanwhile is news.
absl::Status ModelControl::LoadFolders() {
  const bool poll = options_.mode == ModelControlMode::kPoll;
  const auto names = poll ? folders_.Begin() : ListModels(options_.root);
  if (!names.ok()) return names.status();
  repository_.Know(*names);
  absl::Status loaded = repository_.LoadSome(poll ? *names : AtStart(*names));
  if (poll) TryFailedOnesAgain();
  return loaded;
}

void ModelControl::LookForFolders() const {
  if (options_.mode != ModelControlMode::kExplicit) return;
  if (const auto names = ListModels(options_.root); names.ok()) repository_.Know(*names);
}

// Once each, in the order in which they are named.
std::vector<std::string> ModelControl::AtStart(const std::vector<std::string>& there) const {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  };
  for (const std::string& name : options_.load_models) {
    if (name == "*") {
      std::ranges::for_each(there, add);
    } else {
      add(name);
    }
  }
  return names;
}

// The first look finds out whether it was their files.
void ModelControl::TryFailedOnesAgain() {
  for (const ModelState& state : repository_.Index()) {
    if (state.model == nullptr) folders_.TellAgain(state.name);
  }
}

// In Triton's words, which tools look for; and the flag.
absl::Status ModelControl::CheckMode() const {
  if (options_.mode == ModelControlMode::kExplicit) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("explicit model load / unload is not allowed: the server was started with "
                  "--model-control {}, which takes no changes by call (--model-control explicit "
                  "does)",
                  Name(options_.mode)));
}

void ModelControl::Change(ModelChange what, std::string name, ModelChangeDone done) {
  absl::Status refused = CheckMode();
  if (refused.ok()) refused = CheckModelName(name);
  if (refused.ok()) {
    const std::lock_guard lock(mutex_);
    const auto ahead = static_cast<int64_t>(line_.size()) + (making_ ? 1 : 0);
    if (stop_) {
      refused = Stopping();
    } else if (ahead >= options_.max_changes) {
      refused = absl::ResourceExhaustedError(
          fmt::format("{} changes of models wait or are being made, the most is {} "
                      "(--max-model-changes)",
                      ahead, options_.max_changes));
    } else {
      line_.push_back({what, std::move(name), std::move(done)});
    }
  }
  if (!refused.ok()) return done(refused);
  changed_.notify_all();
}

void ModelControl::Refuse() {
  std::deque<Asked> left;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    left.swap(line_);
  }
  changed_.notify_all();
  for (const Asked& asked : left) asked.done(Stopping());
}

void ModelControl::GiveUp() {
  Refuse();
  ModelChangeDone done;
  {
    const std::lock_guard lock(mutex_);
    done = std::exchange(under_way_, nullptr);
  }
  if (done) done(Stopping());
}

// Changes are made after the start, whatever became of it: the server may go on without what failed.
void ModelControl::Run() {
  const bool polls = options_.mode == ModelControlMode::kPoll;
  std::unique_lock lock(mutex_);
  Begin(lock);
  while (!stop_) {
    const auto wanted = [this] { return stop_ || !line_.empty(); };
    if (polls) {
      changed_.wait_for(lock, options_.poll, wanted);
    } else {
      changed_.wait(lock, wanted);
    }
    if (stop_) return;
    if (line_.empty()) {
      lock.unlock();
      Look();
      lock.lock();
      continue;
    }
    Asked asked = std::move(line_.front());
    line_.pop_front();
    under_way_ = std::move(asked.done);
    making_ = true;
    lock.unlock();
    Make(asked.what, asked.name);
    lock.lock();
  }
}

void ModelControl::Make(ModelChange what, const std::string& name) {
  const bool load = what == ModelChange::kLoad;
  const absl::Status status = load ? repository_.Load(name) : repository_.Unload(name);
  const bool problem = !status.ok() && !absl::IsNotFound(status);  // that is the caller's
  log_(problem, status.ok() ? fmt::format("model {} is {}, by call", Quoted(name),
                                          load ? "loaded" : "unloaded")
                            : std::string(status.message()));
  ModelChangeDone done;
  {
    const std::lock_guard lock(mutex_);
    done = std::exchange(under_way_, nullptr);
    making_ = false;
  }
  if (done) done(status);
}

void ModelControl::Look() {
  for (const ModelRepository::PolicyNews& news : repository_.TakeChangedPolicies()) {
    log_(!news.taken, news.text);
  }
  const auto news = folders_.Look();
  const std::string trouble(news.status().message());
  if (trouble != trouble_ && !trouble.empty())
    log_(true, trouble + ": nothing is loaded or unloaded");
  trouble_ = trouble;
  if (!news.ok()) return;
  for (const FolderNews& one : *news) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
    }
    Take(one);
  }
}

// Files that are wrong are wrong until they change; what there was no room for may fit the next time, and what is not there
// may be elsewhere for a moment.
void ModelControl::Take(const FolderNews& news) {
  const absl::Status status =
      news.gone ? repository_.Unload(news.name) : repository_.Load(news.name);
  std::string& said = refused_[news.name];
  if (status.ok()) {
    log_(false, fmt::format("model {} is {}: its folder {}", Quoted(news.name),
                            news.gone ? "unloaded" : "loaded", news.gone ? "is gone" : "changed"));
  } else if (absl::IsNotFound(status)) {
    folders_.TellAgain(news.name);
  } else {
    const std::string text(status.message());
    if (text != said) log_(true, text);
    said = text;
    if (!absl::IsInvalidArgument(status)) return folders_.TellAgain(news.name);
    folders_.Failed(news.name);
  }
  refused_.erase(news.name);
}

}  // namespace cellbatch
