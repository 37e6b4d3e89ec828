#include "loadgen/run.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "loadgen/sender.h"

namespace cellbatch {
namespace {

// The first request is due so long after the threads are told to start.
constexpr int64_t kLeadNs = 50'000'000;
constexpr size_t kMostErrorTexts = 8;
constexpr double kMostRequests = 1e8;  // of a schedule, some 60 bytes each
// Three independent streams from one printed seed.
constexpr uint64_t kWarmupStream = 0x9e3779b97f4a7c15u;
constexpr uint64_t kOrderStream = 0xc2b2ae3d27d4eb4fu;

// `gave_up`: what is in flight was given up by this side. Before that a CANCELLED is the server's, or of a proxy between.
SampleOutcome OutcomeOf(absl::StatusCode code, bool gave_up) {
  switch (code) {
    case absl::StatusCode::kOk:
      return SampleOutcome::kCompleted;
    case absl::StatusCode::kResourceExhausted:
      return SampleOutcome::kRejected;
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnavailable:
      return SampleOutcome::kUnanswered;
    case absl::StatusCode::kCancelled:
      return gave_up ? SampleOutcome::kCancelled : SampleOutcome::kFailed;
    default:
      return SampleOutcome::kFailed;
  }
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// One run's machinery. The sender has a thread of its own, completions come on the caller's; the
// calling thread only watches.
class Run final : public SendTarget {
 public:
  Run(const RunOptions& options, const Workload& workload, const std::atomic<bool>& stop);

  absl::Status Connect();
  RunResult Measure(const ProgressCallback& progress);

  bool Send(size_t i) override { return caller_->Send(workload_.Request(picks_[i], i), i); }

 private:
  void Complete(const AsyncCaller::Done& done);
  void SendAll();
  bool WaitForSender(double seconds);
  void Drain(const ProgressCallback& progress);
  RunProgress Now(const char* phase) const;
  double MeasuredSeconds() const;

  const RunOptions& options_;
  const Workload& workload_;
  const std::atomic<bool>& stop_;
  SteadySendClock clock_;
  std::vector<Pick> picks_;
  std::shared_ptr<Samples> samples_;
  int64_t start_ns_ = 0;
  std::atomic<bool> gave_up_{false};  // what is in flight was cut off by this side
  std::atomic<bool> over_{false};     // who has no answer by now has none

  std::mutex mutex_;
  std::condition_variable sender_ended_;
  bool sender_done_ = false;
  SendEnd end_ = SendEnd::kAll;
  int64_t ended_ns_ = 0;    // when the sender did, from the run's start
  bool cut_short_ = false;  // stopped when all was sent, and not all answered
  ThreadPriority priority_ = ThreadPriority::kNormal;
  std::map<std::string, uint64_t> errors_;

  std::unique_ptr<AsyncCaller> caller_;  // last: its threads end before what they use
};

Run::Run(const RunOptions& options, const Workload& workload, const std::atomic<bool>& stop)
    : options_(options), workload_(workload), stop_(stop) {
  const double seconds = options.warmup_seconds + options.seconds;
  samples_ = std::make_shared<Samples>(
      MakeArrivals({options.process, options.rate, seconds, options.seed}),
      static_cast<int64_t>(options.warmup_seconds * 1e9));
  const size_t warmup = samples_->first_measured();
  picks_ = workload.Order(warmup, options.seed ^ kWarmupStream);
  // A fresh permutation, and exact shares, for what is measured.
  const auto measured = workload.Order(samples_->size() - warmup, options.seed ^ kOrderStream);
  picks_.insert(picks_.end(), measured.begin(), measured.end());
}

absl::Status Run::Connect() {
  AsyncCallerOptions options = options_.caller;
  options.on_thread_start = [] { RaiseThisThread(); };
  auto caller = AsyncCaller::Create(std::move(options),
                                    [this](const AsyncCaller::Done& done) { Complete(done); });
  if (!caller.ok()) {
    return caller.status();
  }
  caller_ = *std::move(caller);
  return absl::OkStatus();
}

void Run::Complete(const AsyncCaller::Done& done) {
  if (over_) return;
  const SampleOutcome outcome = OutcomeOf(done.code, gave_up_);
  if (outcome != SampleOutcome::kCompleted) {
    std::lock_guard lock(mutex_);
    const std::string text = fmt::format("{}: {}", absl::StatusCodeToString(done.code), done.text);
    const bool room = errors_.size() < kMostErrorTexts || errors_.count(text) > 0;
    ++errors_[room ? text : "other errors"];
  }
  if (done.first_word_ns >= 0) {
    samples_->Words(done.tag, done.first_word_ns - start_ns_, done.words);
  }
  samples_->Done(done.tag, done.at_ns - start_ns_, outcome);
}

void Run::SendAll() {
  const ThreadPriority priority = RaiseThisThread();
  const SendEnd end = SendOnSchedule(start_ns_, *samples_, clock_, *this, stop_);
  const int64_t ended_ns = clock_.Now() - start_ns_;
  std::lock_guard lock(mutex_);
  priority_ = priority;
  end_ = end;
  ended_ns_ = ended_ns;
  sender_done_ = true;
  sender_ended_.notify_all();
}

bool Run::WaitForSender(double seconds) {
  std::unique_lock lock(mutex_);
  return sender_ended_.wait_for(lock, std::chrono::duration<double>(seconds),
                                [this] { return sender_done_; });
}

RunProgress Run::Now(const char* phase) const {
  RunProgress now{phase};
  now.total = options_.warmup_seconds + options_.seconds;
  now.elapsed =
      std::clamp(static_cast<double>(SteadySendClock().Now() - start_ns_) * 1e-9, 0.0, now.total);
  now.sent = samples_->sent();
  now.completed = samples_->so_far(SampleOutcome::kCompleted);
  now.rejected = samples_->so_far(SampleOutcome::kRejected);
  now.failed =
      samples_->so_far(SampleOutcome::kFailed) + samples_->so_far(SampleOutcome::kUnanswered);
  return now;
}

void Run::Drain(const ProgressCallback& progress) {
  if (end_ != SendEnd::kAll) {
    gave_up_ = true;
    caller_->CancelAll();
  }
  // Every call ends by its own timeout; two seconds more are for the machine.
  const int64_t last_ns = clock_.Now() + options_.caller.timeout.count() + 2'000'000'000;
  int64_t next_line_ns = clock_.Now() + 1'000'000'000;
  while (samples_->finished() < samples_->sent() && clock_.Now() < last_ns) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (stop_ && !gave_up_) {
      gave_up_ = cut_short_ = true;
      caller_->CancelAll();
    }
    if (progress && clock_.Now() >= next_line_ns) {
      next_line_ns += 1'000'000'000;
      progress(Now("drain"));
    }
  }
}

// All that was planned, or as far as the sender got; 0 where that was not beyond the warm-up.
double Run::MeasuredSeconds() const {
  if (end_ == SendEnd::kAll) {
    return options_.seconds;
  }
  const double seconds = static_cast<double>(ended_ns_ - samples_->measure_from()) * 1e-9;
  return std::clamp(seconds, 0.0, options_.seconds);
}

RunResult Run::Measure(const ProgressCallback& progress) {
  const double cpu_before = CpuSeconds();
  const int64_t begin_ns = clock_.Now();
  start_ns_ = begin_ns + kLeadNs;
  const int64_t measure_from_ns = static_cast<int64_t>(options_.warmup_seconds * 1e9);
  std::thread sender([this] { SendAll(); });
  while (!WaitForSender(1)) {
    if (progress) {
      progress(Now(clock_.Now() - start_ns_ < measure_from_ns ? "warm-up" : "measure"));
    }
  }
  sender.join();
  Drain(progress);
  // Of the same time, and of no less than the lead, which an empty schedule does not wait for.
  const double cpu = CpuSeconds() - cpu_before;
  const double wall = static_cast<double>(std::max(clock_.Now() - begin_ns, kLeadNs)) * 1e-9;
  over_ = true;
  caller_.reset();  // what is still in flight was never answered

  RunResult result;
  result.rate = options_.rate;
  result.process = options_.process;
  result.seed = options_.seed;
  result.warmup_seconds = options_.warmup_seconds;
  for (const Pick pick : picks_) {
    result.lengths.push_back(workload_.length(pick));
    result.part_of.push_back(pick.part);
  }
  const double seconds = MeasuredSeconds();
  result.summary = Summarize(*samples_, result.lengths, seconds);
  for (uint32_t p = 0; p < workload_.parts().size(); ++p) {
    const Workload::Part& part = workload_.parts()[p];
    result.parts.push_back({part.name, part.weight, part.inputs,
                            SummarizePart(*samples_, result.lengths, seconds, result.part_of, p)});
  }
  result.verdict = Judge(result.summary, options_.limits, {end_, options_.caller.most_in_flight});
  if (cut_short_) {
    result.verdict.findings.push_back(
        {"it was stopped before all was answered", "await the drain, which ends with --timeout"});
  }
  result.errors = errors_;
  result.priority = priority_;
  result.cpu_cores = cpu / wall;
  result.samples = samples_;
  return result;
}

}  // namespace

std::string ProgressText(const RunProgress& progress) {
  const uint64_t answered = progress.completed + progress.rejected + progress.failed;
  return fmt::format(
      "{:<7} {:3.0f}/{:.0f} s   sent {}   done {}   rejected {}   failed {}   in "
      "flight {}",
      progress.phase, progress.elapsed, progress.total, progress.sent, progress.completed,
      progress.rejected, progress.failed, progress.sent > answered ? progress.sent - answered : 0);
}

absl::StatusOr<RunResult> RunOpenLoop(const RunOptions& options, const Workload& workload,
                                      const ProgressCallback& progress,
                                      const std::atomic<bool>& stop) {
  const double seconds = options.warmup_seconds + options.seconds;
  if (!(options.rate * seconds <= kMostRequests)) {
    return absl::InvalidArgumentError(
        fmt::format("{:g} requests/s for {:g} s are {:g} requests, the most is {:g}: lower "
                    "--rate, --duration or --warmup",
                    options.rate, seconds, options.rate * seconds, kMostRequests));
  }
  Run run(options, workload, stop);
  if (absl::Status status = run.Connect(); !status.ok()) {
    return status;
  }
  return run.Measure(progress);
}

}  // namespace cellbatch
