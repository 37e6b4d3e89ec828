// The load generator. Tables go to stdout, progress and complaints to stderr; tables, too, where a file is stdout.

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/null_server.h"
#include "client/output.h"
#include "loadgen/capacity.h"
#include "loadgen/options.h"
#include "loadgen/report.h"
#include "loadgen/run.h"
#include "loadgen/sweep.h"
#include "loadgen/workload.h"

namespace cellbatch {
namespace {

// SIGINT and SIGTERM set a flag, from a thread that waits for them; all others ignore them.
class StopOnSignal {
 public:
  StopOnSignal() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::jthread([this](std::stop_token over) {
      const timespec tick{0, 100'000'000};
      while (!over.stop_requested()) {
        if (sigtimedwait(&signals_, nullptr, &tick) > 0) {
          stop_ = true;
        }
      }
    });
  }
  const std::atomic<bool>& flag() const { return stop_; }

 private:
  sigset_t signals_;
  std::atomic<bool> stop_{false};
  std::jthread thread_;
};

// One line on a terminal, written over each second; nothing where stderr is no terminal.
class ProgressLine {
 public:
  ProgressCallback Callback() {
    if (isatty(STDERR_FILENO) == 0) {
      return {};
    }
    return [this](const RunProgress& progress) {
      std::cerr << "\r\033[K" << ProgressText(progress) << std::flush;
      shown_ = true;
    };
  }
  void Clear() {
    if (shown_) {
      std::cerr << "\r\033[K" << std::flush;
    }
    shown_ = false;
  }

 private:
  bool shown_ = false;
};

AsyncCallerOptions CallerOptions(const Options& options, double timeout) {
  AsyncCallerOptions caller;
  caller.url = options.url;
  caller.security = options.security;
  caller.connections = static_cast<int>(options.connections);
  caller.most_in_flight = static_cast<int>(options.most_outstanding);
  caller.timeout = std::chrono::nanoseconds(static_cast<int64_t>(timeout * 1e9));
  return caller;
}

absl::StatusOr<std::unique_ptr<Workload>> AskAndMake(const Options& options) {
  const auto client = Client::Connect({.url = options.url, .security = options.security});
  if (!client.ok()) {
    return client.status();
  }
  return MakeWorkload(**client, options.entries, static_cast<uint64_t>(options.seed));
}

absl::StatusOr<Capacity> FindCapacity(const Options& options, const Workload& workload,
                                      const std::atomic<bool>& stop) {
  CapacityOptions capacity;
  // A saturated server may take its time.
  capacity.caller = CallerOptions(options, std::max(options.timeout, 60.0));
  capacity.in_flight = static_cast<int>(options.in_flight);
  capacity.warmup_seconds = options.capacity_warmup;
  capacity.seconds = options.capacity_duration;
  capacity.seed = options.seed;
  return MeasureCapacity(capacity, workload, stop);
}

// False: it was stopped meanwhile.
bool Pause(double seconds, const std::atomic<bool>& stop) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (!stop && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return !stop;
}

// Into `results` what was measured, also where a later run could not be made. CANCELLED where it was stopped before it
// came to every rate.
absl::Status RunAll(const Options& options, double capacity, const Workload& workload,
                    const std::atomic<bool>& stop, std::vector<RunResult>& results) {
  ProgressLine line;
  for (const Rate& rate : options.rates) {
    if (!results.empty() && !Pause(options.cooldown, stop)) {
      return absl::CancelledError("stopped before every rate was measured");
    }
    RunOptions run;
    run.caller = CallerOptions(options, options.timeout);
    run.process = options.process;
    run.rate = rate.Resolve(capacity);
    run.warmup_seconds = options.warmup;
    run.seconds = options.duration;
    run.seed = options.seed + results.size();
    run.limits.least_answers = options.min_answers;
    auto result = RunOpenLoop(run, workload, line.Callback(), stop);
    line.Clear();
    if (!result.ok()) {
      return result.status();
    }
    results.push_back(*std::move(result));
  }
  return absl::OkStatus();
}

// Before hours are measured. What is in a file stays until there is something to write.
absl::Status CheckFiles(const Options& options) {
  for (const std::string* path : {&options.json, &options.csv, &options.records}) {
    if (path->empty() || *path == "-") {
      continue;
    }
    if (!std::ofstream(*path, std::ios::app)) {
      return absl::UnavailableError(fmt::format("{} cannot be written", *path));
    }
  }
  return absl::OkStatus();
}

// Where people read.
std::ostream& Tables(const Options& options) {
  return options.stdout_is_a_file() ? std::cerr : std::cout;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) {
    return absl::OkStatus();
  }
  if (path == "-") {
    std::cout << text;
    return absl::OkStatus();
  }
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  return file ? absl::OkStatus()
              : absl::UnavailableError(fmt::format("{} cannot be written", path));
}

// What the server itself says of the same seconds, where it has our latency call.
std::string ServersView(const Options& options) {
  const auto client = Client::Connect({.url = options.url, .security = options.security});
  if (!client.ok()) {
    return "";
  }
  std::vector<ModelTimes> all;
  std::set<std::pair<std::string, std::string>> asked;
  for (const MixEntry& entry : options.entries) {
    if (!asked.emplace(entry.model, entry.version).second) {
      continue;
    }
    const auto times = (*client)->Latency(entry.model, entry.version, options.duration,
                                          {.timeout = std::chrono::seconds(5)});
    if (!times.ok()) {
      return "";
    }
    all.insert(all.end(), times->begin(), times->end());
  }
  return "\nthe server's own view of its last seconds:\n" + ToText(all);
}

absl::Status WriteFiles(const Options& options, const Workload& workload,
                        const std::vector<RunResult>& runs, const std::vector<double>& not_measured,
                        const absl::StatusOr<Capacity>& capacity) {
  nlohmann::json json = {{"url", options.url},
                         {"model", workload.name()},
                         {"workload", workload.description()},
                         {"runs", nlohmann::json::array()}};
  if (capacity.ok()) {
    json["capacity"] = CapacityJson(*capacity);
  }
  for (const RunResult& run : runs) {
    json["runs"].push_back(RunJson(run));
  }
  if (options.sweep) {
    json["highest_sustained_rate"] = HighestSustained(runs);
    json["rates_not_measured"] = not_measured;
  }
  // A server's error text may be anything.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  absl::Status status = WriteFile(options.json, json.dump(2, ' ', false, kReplace) + "\n");
  status.Update(WriteFile(options.csv, RunsCsv(workload.name(), runs)));
  if (!options.records.empty() && !runs.empty()) {
    status.Update(WriteFile(options.records, RecordsCsv(runs.back())));
  }
  return status;
}

void PrintResults(const Options& options, const std::vector<RunResult>& runs,
                  const std::vector<double>& not_measured) {
  std::ostream& out = Tables(options);
  if (options.sweep) {
    out << SweepText(runs);
    const double highest = HighestSustained(runs);
    out << (highest > 0 ? fmt::format("\nhighest rate sustained: {:.1f} requests/s\n", highest)
                        : "\nno rate was sustained\n");
    if (!not_measured.empty()) {
      out << fmt::format("not measured: {}\n", RatesText(not_measured));
    }
    return;
  }
  for (const RunResult& run : runs) {
    out << RunText(run);
  }
}

absl::StatusOr<bool> Measure(const Options& options, const std::atomic<bool>& stop) {
  if (absl::Status status = CheckFiles(options); !status.ok()) {
    return status;
  }
  const auto workload = AskAndMake(options);
  if (!workload.ok()) {
    return workload.status();
  }
  Tables(options) << fmt::format("model {} at {}\n{}\n", (*workload)->name(), options.url,
                                 (*workload)->description())
                  << std::flush;
  absl::StatusOr<Capacity> capacity = absl::NotFoundError("not asked for");
  if (options.needs_capacity()) {
    capacity = FindCapacity(options, **workload, stop);
    if (!capacity.ok()) {
      return capacity.status();
    }
    Tables(options) << CapacityText(*capacity) << std::flush;
  }
  std::vector<RunResult> runs;
  const double per_second = capacity.ok() ? capacity->per_second : 0;
  absl::Status status = RunAll(options, per_second, **workload, stop, runs);
  if (!status.ok() && runs.empty()) {
    return status;
  }
  if (!runs.empty() && !options.sweep) {
    Tables(options) << ServersView(options) << "\n";
  }
  const std::vector<double> not_measured = NotMeasured(options.rates, per_second, runs.size());
  PrintResults(options, runs, not_measured);
  status.Update(WriteFiles(options, **workload, runs, not_measured, capacity));
  if (!status.ok()) {
    return status;
  }
  return std::all_of(runs.begin(), runs.end(),
                     [](const RunResult& run) { return run.verdict.valid(); });
}

int Main(const std::vector<std::string>& arguments) {
  std::string help;
  auto options = ParseOptions(arguments, help);
  if (!options.ok()) {
    std::cerr << "cellbatch-loadgen: " << std::string(options.status().message()) << "\n";
    return 2;
  }
  if (!options->has_value()) {
    std::cout << help;
    return 0;
  }
  const StopOnSignal stop;
  std::unique_ptr<NullServer> null_server;
  if ((*options)->null_target_ms >= 0) {
    auto started = NullServer::Start({.delay = std::chrono::nanoseconds(
                                          static_cast<int64_t>((*options)->null_target_ms * 1e6))});
    if (!started.ok()) {
      std::cerr << ToText(started.status());
      return 1;
    }
    null_server = *std::move(started);
    (*options)->url = null_server->address();
    (*options)->entries[0].model = "null";
  }
  const auto valid = Measure(**options, stop.flag());
  if (!valid.ok()) {
    std::cerr << ToText(valid.status());
    return 1;
  }
  return *valid ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  const int code = cellbatch::Main(std::vector<std::string>(argv + 1, argv + argc));
  std::cout.flush();
  if (std::cout) return code;
  // A full disk: tables that are lost are no success.
  std::cerr << "cellbatch-loadgen: stdout cannot be written\n";
  return code != 0 ? code : 1;
}
