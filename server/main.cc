// cellbatch-server: flags in, requests served, exit code out.
//   0  stopped by a signal, every accepted request answered (or --check found nothing wrong, or --explain
//      said what became of its model)
//   1  could not start, no device was left to compute on, or accepted requests were cut off by --drain-timeout
//   2  bad flags
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "cells/device/cpu/cpu_device.h"
#include "cells/device/cpu/process_limits.h"
#include "cells/device/open_devices.h"
#include "cells/device/parse_devices.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "server/control/log_lines.h"
#include "server/explain/explain_served.h"
#include "server/options.h"
#include "server/part_options.h"
#include "server/repository/check_repository.h"
#include "server/server.h"
#include "server/service_manager.h"
#include "server/signals.h"
#include "server/startable_threads.h"
#include "spdlog/spdlog.h"

namespace cellbatch {
namespace {

constexpr int kFailed = 1, kBadFlags = 2;
constexpr int kWatchdogExtraSeconds = 20;  // beyond the drain's own limits

// Who was started without one of them (a supervisor that closes what it does not read) would give its number to the next
// file that is opened: to a record, or a client's connection, and the log would be written there. By the system's calls
// alone, and before any library is initialised, a sanitizer's included: gRPC's opens a file then.
[[gnu::no_sanitize("address", "undefined")]] void KeepStandardFiles() {
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file) {
    if (syscall(SYS_fcntl, file, F_GETFD) >= 0) continue;
    syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);  // becomes the lowest that is free
  }
}
[[gnu::section(".preinit_array"), gnu::used]] void (*keep_standard_files)() = KeepStandardFiles;

void SetUpLogging(const ServerOptions& options) {
  SetUpLog(options.log_level, LogFormatNamed(options.log_format));
  // Libraries say on stderr what clients did wrong; that is an answer here, and a line only in debug.
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel, const char*, int, const std::string& text) {
        spdlog::debug("protobuf: {}", text);
      });
  gpr_set_log_function([](gpr_log_func_args* args) {
    if (args->severity == GPR_LOG_SEVERITY_ERROR) {
      spdlog::debug("grpc: {}", args->message);
    }
  });
}

// A line of the log for each of its lines.
int Fail(const absl::Status& status) {
  const std::vector<std::string> problems = absl::StrSplit(std::string(status.message()), '\n');
  for (const std::string& problem : problems) {
    spdlog::error("{}", problem);
  }
  return kFailed;
}

// Ends with `code`, or as what failed: what a full disk does not take is lost.
int Print(const std::string& text, int code = 0) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return code;
  std::fputs("cellbatch-server: stdout cannot be written\n", stderr);
  return kFailed;
}

int CheckModels(const ServerOptions& options) {
  const auto devices = KindsNamed(options.devices);
  const auto models =
      devices.ok() ? CheckRepository(options.model_repository,
                                     LoaderLimits{.unfolder_libraries = options.unfolder_libraries,
                                                  .devices = *devices},
                                     options.max_models)
                   : devices.status();
  if (!models.ok()) {
    std::fprintf(stderr, "%s\n", std::string(models.status().message()).c_str());
    return kFailed;
  }
  const CheckReport check = DescribeCheck(*models);
  std::fputs(check.problems.c_str(), stderr);
  return Print(check.report, check.problems.empty() ? 0 : kFailed);
}

absl::StatusOr<OpenedDevices> Open(const ServerOptions& options) {
  OpenOptions open;
  open.cpu.fold_budget_bytes = options.fold_budget;
  MeasureCpu(open.cpu);
  open.cuda_libraries = options.cuda_libraries;
  open.cuda.host_block_bytes = options.cuda_host_bytes;
  open.cuda.memory.fp32 = options.cuda_fp32 == "3xtf32" ? Fp32By::kTensorCores : Fp32By::kFma;
  open.cuda.memory.queue.tasks_a_launch = static_cast<int>(options.cuda_tasks_a_launch);
  return OpenDevices(options.devices, open);
}

absl::StatusOr<std::string> ExplainModelOf(const ServerOptions& options) {
  auto devices = Open(options);
  if (!devices.ok()) return devices.status();
  const LoaderLimits limits{.unfolder_libraries = options.unfolder_libraries,
                            .devices = devices->kinds(),
                            .splits_fp32 = devices->splits_fp32};
  return ExplainServed(options.model_repository, options.explain, limits, OfScheduler(options),
                       std::move(devices->set));
}

int Explain(const ServerOptions& options) {
  const absl::StatusOr<std::string> text = ExplainModelOf(options);
  if (!text.ok()) {
    std::fprintf(stderr, "%s\n", std::string(text.status().message()).c_str());
    return kFailed;
  }
  return Print(*text);
}

void Tell(const ServerOptions& options, const std::string& state) {
  const absl::Status told = TellServiceManager(options.notify_socket, state);
  if (!told.ok()) spdlog::warn("{}", std::string(told.message()));
}

// What signals do, on their thread, while this thread starts, serves and ends a server.
class Signalled {
 public:
  explicit Signalled(const ServerOptions& options)
      : options_(options),
        longest_drain_((options.drain_delay + options.drain_timeout).count() / 1000 +
                       kWatchdogExtraSeconds),
        signals_([this] { Stop(); }, [this] { LookForPolicies(); }) {}

  Lifecycle& lifecycle() { return lifecycle_; }
  void SetServer(Server* server) {
    const std::lock_guard lock(mutex_);
    server_ = server;
  }
  void TellReady(const std::string& status) {
    const std::lock_guard lock(mutex_);
    untold_ = "READY=1\nSTATUS=" + status;
    const absl::Status told = TellUntold();
    if (!told.ok()) spdlog::warn("{}; tried again until it is heard", std::string(told.message()));
  }
  // Where it was not heard: a manager that had no room for it then would wait for ever.
  void TellReadyAgain() {
    const std::lock_guard lock(mutex_);
    TellUntold().IgnoreError();  // as was said
  }
  // No device is left, and the server has begun to stop by itself.
  void StopsByItself() {
    HurryLog();
    const std::lock_guard lock(mutex_);
    Tell(options_, "STOPPING=1\nSTATUS=stopping: no device is left");
    WatchDrain();
  }
  // The drain's own limits are kept, or the process ends.
  void WatchDrain() const { ExitAfter(static_cast<int>(longest_drain_), kFailed); }

 private:
  // Under the mutex. Nobody is told that the server is ready after being told that it stops.
  absl::Status TellUntold() {
    if (lifecycle_.phase() >= ServerPhase::kDraining) untold_.clear();
    if (untold_.empty()) return absl::OkStatus();
    absl::Status told = TellServiceManager(options_.notify_socket, untold_);
    if (told.ok()) untold_.clear();
    return told;
  }
  // Before there is a server nobody can have been answered; and a device may take long to be opened.
  void Stop() {
    HurryLog();
    const std::lock_guard lock(mutex_);
    Tell(options_, "STOPPING=1\nSTATUS=stopping: what was accepted is answered");
    const ServerPhase phase = lifecycle_.phase();
    if (phase == ServerPhase::kStarting && server_ == nullptr) {
      spdlog::info("stopped while starting: nothing had been accepted");
      _exit(0);
    }
    if (phase < ServerPhase::kDraining) WatchDrain();
    if (lifecycle_.RequestStop() == ServerPhase::kStarting) server_->GiveUpLoading();
  }
  void LookForPolicies() {
    const std::lock_guard lock(mutex_);
    if (server_ != nullptr) server_->LookForPolicies();
  }

  const ServerOptions& options_;
  const int64_t longest_drain_;
  Lifecycle lifecycle_;
  std::mutex mutex_;
  Server* server_ = nullptr;   // under it, like the next one
  std::string untold_;         // that it is ready, until the manager has heard it
  const StopSignals signals_;  // last: its thread uses the others
};

void SayReady(Signalled& signalled, const Server& server, const std::string& found,
              const std::vector<std::string>& details) {
  spdlog::info("devices: {}", found);
  for (const std::string& device : details) spdlog::info("{}", device);
  const std::string ready = server.ReadyLine();
  std::printf("%s\n", ready.c_str());
  std::fflush(stdout);
  spdlog::info("ready: {}", ready);
  signalled.TellReady(ready);
}

int Serve(const ServerOptions& options) {
  if (const absl::Status memory = CheckMemory(AvailableMemoryBytes()); !memory.ok()) {
    return Fail(memory);
  }
  if (const absl::Status threads = CheckThreads(StartableThreads(kThreadsOfServer));
      !threads.ok()) {
    return Fail(threads);
  }
  Signalled signalled(options);
  Lifecycle& lifecycle = signalled.lifecycle();
  auto devices = Open(options);
  if (!devices.ok()) return Fail(devices.status());
  const std::string found = devices->found;
  std::vector<std::string> details;
  for (const auto& device : devices->set.devices) {
    const DeviceInfo& info = device->info();
    if (!info.details.empty()) details.push_back(info.name + ": " + info.details);
  }
  auto server = Server::Start(options, *std::move(devices), lifecycle);
  if (!server.ok()) return Fail(server.status());
  signalled.SetServer(server->get());
  const absl::Status loaded = (*server)->LoadModels();
  const bool failed = !loaded.ok() && !absl::IsUnavailable(loaded);  // else it was given up
  // Models that are warm have answered since: whoever they have accepted is not left alone.
  if (failed) {
    Fail(loaded);
    signalled.WatchDrain();
    lifecycle.RequestStop();
  }
  if (loaded.ok() && lifecycle.Serve()) SayReady(signalled, **server, found, details);
  const bool computes = (*server)->WaitForStop([&] { signalled.TellReadyAgain(); });
  if (!computes) signalled.StopsByItself();
  const bool all = (*server)->Drain();
  signalled.SetServer(nullptr);
  // All is answered: a library that hangs while it ends makes no failure of it (gRPC's waits for a thread that could not be
  // started).
  const int code = all && computes && !failed ? 0 : kFailed;
  ExitAfter(kWatchdogExtraSeconds, code);
  if ((*server)->loading()) {
    (*server)->CloseAllButModels();
    _exit(code);
  }
  return code;
}

int Main(const std::vector<std::string>& arguments) {
  // Debian's Abseil notes the order in which locks are taken, to abort on a possible deadlock; gRPC takes dozens a call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const auto options = ParseOptions(arguments, DefaultOptions(AvailableMemoryBytes()));
  if (!options.ok()) {
    std::fprintf(stderr, "cellbatch-server: %s\n", std::string(options.status().message()).c_str());
    return kBadFlags;
  }
  if (options->help) return Print(OptionsHelp());
  if (options->version) {
    return Print(std::string(kServerName) + " " + std::string(kServerVersion) + "\n");
  }
  SetUpLogging(*options);
  if (options->check) return CheckModels(*options);
  return options->explain.empty() ? Serve(*options) : Explain(*options);
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main({argv + 1, argv + argc}); }
