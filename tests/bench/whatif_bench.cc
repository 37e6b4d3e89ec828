// Does cellbatch-whatif say what would be served? The real server records at 30 and 60 % load, and is asked what it cannot know.
// At 30 % for twice as long, so that both have as many requests: a queue that is nearly full says more of three per cent of
// requests more than of the prediction.
//
//   whatif.WORKLOAD.p99_LOAD         x: predicted p99 / served p99, same requests, same policy
//   whatif.WORKLOAD.p50_LOAD         x
//   whatif.WORKLOAD.p99_rate         x: the record of 30 %, twice as fast / what was served at 60 %
//   whatif.WORKLOAD.p99_rate_half    x: the record of 60 %, half as fast / what was served at 30 %
//   whatif.WORKLOAD.p99_policy       x: the record of Algorithm 1 at 60 %, under LB-greedy / what LB-greedy served then
//   whatif.WORKLOAD.p99_again        x: what was served at 60 % / in another round, the widest of the rounds: two runs of one
//                                    server differ by that much, so no prediction of the last two can be better
//
// Medians of --rounds.
//
// Times are the server's own, from a request's first byte to the end of its last task. Each run has a server of its own,
// so each record begins with a warm-up. The load generator shares the machine with the server. Load is in parts of what
// Algorithm 1 answers in a closed loop.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "loadgen/capacity.h"
#include "loadgen/run.h"
#include "loadgen/workload.h"
#include "tests/bench/report.h"
#include "tests/e2e/server_process.h"
#include "tests/zoo/workload.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, workloads, "treelstm,latticelstm,nmt", "Of the zoo; commas between.");
ABSL_FLAG(int, h, 512, "Units of every recurrent cell.");
ABSL_FLAG(double, seconds, 20, "Length of a phase at 60 % load; at 30 %, twice as long.");
ABSL_FLAG(int, rounds, 3, "In each all is served and predicted once.");
ABSL_FLAG(std::string, keep, "", "A folder where records are kept; none: they are not.");
ABSL_FLAG(std::string, devices, "auto", "cellbatch-server's --devices.");
ABSL_FLAG(uint64_t, seed, 1, "Of the requests and of their arrivals.");

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

// Ends the program with a message unless it is OK.
void Require(const absl::Status& status, const std::string& doing) {
  if (status.ok()) return;
  std::fprintf(stderr, "whatif: %s: %s\n", doing.c_str(), status.ToString().c_str());
  std::exit(1);
}
template <typename T>
T Require(absl::StatusOr<T> value, const std::string& doing) {
  Require(value.status(), doing);
  return *std::move(value);
}

// In ms.
struct Tails {
  double p50 = 0, p99 = 0;
};

// What cellbatch-whatif says of a record.
struct Said {
  Tails served, predicted;
};

Tails TailsIn(const std::string& text, const std::string& line) {
  Tails tails;
  const size_t at = text.find("\n" + line);
  const size_t p50 = text.find("p50 ", at), p99 = text.find("p99 ", at);
  if (at == text.npos || p50 == text.npos || p99 == text.npos) {
    Require(absl::InternalError(text), "reading what cellbatch-whatif says");
  }
  tails.p50 = std::stod(text.substr(p50 + 4));
  tails.p99 = std::stod(text.substr(p99 + 4));
  return tails;
}

Said Ask(const std::string& record, const std::string& flags, Report& report) {
  const std::string command = absl::StrCat("server/learn/cellbatch-whatif ", record, " ", flags);
  std::string text;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) Require(absl::InternalError(command), "asking");
  char block[512];
  for (size_t n = 0; (n = fread(block, 1, sizeof(block), pipe)) > 0;) text.append(block, n);
  if (pclose(pipe) != 0) Require(absl::InternalError(command), "asking");
  report.Text(absl::StrCat(flags, "\n", text));
  return {TailsIn(text, "served "), TailsIn(text, "predicted ")};
}

// One server of one model, from its start to its end.
class Server {
 public:
  Server(const std::string& folder, const std::string& record) {
    std::vector<std::string> flags = {"--devices=" + absl::GetFlag(FLAGS_devices),
                                      "--row-budget=256MiB"};
    if (!record.empty()) flags.push_back("--record=" + record);
    process_ = ServerProcess::Serving(folder, std::move(flags));
    if (process_ == nullptr) Require(absl::UnavailableError("it ended"), "starting the server");
    client_ = Require(Client::Connect({.url = process_->grpc()}), "connecting");
  }
  // In order, so that the record is whole.
  void Stop() {
    process_->Signal(SIGTERM);
    if (process_->Wait() != 0) Require(absl::InternalError(process_->Log()), "stopping the server");
  }

  AsyncCallerOptions caller() const {
    AsyncCallerOptions options;
    options.url = process_->grpc();
    options.timeout = std::chrono::seconds(60);
    return options;
  }
  std::unique_ptr<Workload> Load(const std::vector<std::string>& outputs) const {
    MixEntry entry;
    entry.model = "model";
    entry.outputs = outputs;
    return Require(MakeWorkload(*client_, {entry}, absl::GetFlag(FLAGS_seed)), "requests");
  }

 private:
  std::unique_ptr<ServerProcess> process_;
  std::unique_ptr<Client> client_;
};

class Measured {
 public:
  Measured(const std::string& workload, Report& report)
      : workload_(workload),
        report_(report),
        model_(zoo::MakeWorkload(workload, zoo::Sizes::Benchmark(absl::GetFlag(FLAGS_h)), 1)) {
    std::string folder = fs::temp_directory_path() / "cellbatch-whatif-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) Require(absl::InternalError(folder), "a folder");
    folder_ = folder;
    for (const char* kind : {"CELLULAR", "LB_GREEDY"}) {
      model_.model.Write(Repository(kind), "model", absl::StrCat("policy { kind: ", kind, " }"));
    }
  }
  ~Measured() {
    const std::string keep = absl::GetFlag(FLAGS_keep);
    if (!keep.empty()) {
      fs::copy(folder_, fs::path(keep) / workload_, fs::copy_options::recursive);
    }
    fs::remove_all(folder_);
  }

  void Run() {
    per_second_ = Capacity();
    report_.Text(absl::StrCat("\n", workload_, ": ", Number(per_second_, 1),
                              " requests/s in a closed loop\n"));
    std::vector<double> served_p99;
    for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
      served_p99.push_back(Round(round));
    }
    for (const auto& [name, seen] : ratios_) {
      report_.Figure(absl::StrCat("whatif.", workload_, ".", name), QuartilesOf(seen).median, "x");
    }
    const auto [least, most] = std::minmax_element(served_p99.begin(), served_p99.end());
    report_.Figure(absl::StrCat("whatif.", workload_, ".p99_again"), *most / *least, "x");
  }

 private:
  std::string Repository(const std::string& kind) const { return folder_ + "/" + kind; }

  void Add(const std::string& name, double predicted, double served) {
    ratios_[name].push_back(predicted / served);
  }

  // The p99 that was served at 60 %.
  double Round(int round) {
    const std::string at_30 = Serve("CELLULAR", 30, round), at_60 = Serve("CELLULAR", 60, round),
                      other = Serve("LB_GREEDY", 60, round);
    const Said same_30 = Ask(at_30, "", report_), same_60 = Ask(at_60, "", report_);
    const Said rate = Ask(at_30, "--rate 2", report_);
    const Said half = Ask(at_60, "--rate 0.5", report_);
    const Said policy = Ask(at_60, "--policy lb_greedy", report_);
    const Tails other_served = Ask(other, "", report_).served;
    Add("p50_30", same_30.predicted.p50, same_30.served.p50);
    Add("p99_30", same_30.predicted.p99, same_30.served.p99);
    Add("p50_60", same_60.predicted.p50, same_60.served.p50);
    Add("p99_60", same_60.predicted.p99, same_60.served.p99);
    Add("p99_rate", rate.predicted.p99, same_60.served.p99);
    Add("p99_rate_half", half.predicted.p99, same_30.served.p99);
    Add("p99_policy", policy.predicted.p99, other_served.p99);
    return same_60.served.p99;
  }

  double Capacity() const {
    Server server(Repository("CELLULAR"), "");
    CapacityOptions options;
    options.caller = server.caller();
    options.seconds = absl::GetFlag(FLAGS_seconds) / 2;
    options.warmup_seconds = options.seconds / 2;
    options.seed = absl::GetFlag(FLAGS_seed);
    const std::atomic<bool> stop = false;
    const auto load = server.Load(model_.paper_outputs);
    const double per_second =
        Require(MeasureCapacity(options, *load, stop), "the closed loop").per_second;
    server.Stop();
    return per_second;
  }

  // Where its record is.
  std::string Serve(const std::string& kind, int percent, int round) const {
    const std::string record =
        absl::StrCat(folder_, "/", kind, "_", percent, "_", round, ".record");
    Server server(Repository(kind), record);
    RunOptions options;
    options.caller = server.caller();
    options.rate = per_second_ * percent / 100;
    options.seconds = absl::GetFlag(FLAGS_seconds) * 60 / percent;
    options.warmup_seconds = 60.0 / percent;
    options.seed = absl::GetFlag(FLAGS_seed);
    const std::atomic<bool> stop = false;
    const auto load = server.Load(model_.paper_outputs);
    Require(RunOpenLoop(options, *load, {}, stop).status(), "the open loop");
    server.Stop();
    return record;
  }

  const std::string workload_;
  Report& report_;
  const zoo::Workload model_;
  std::string folder_;
  double per_second_ = 0;
  std::map<std::string, std::vector<double>> ratios_;  // of each round, by figure
};

int Main() {
  Report report("whatif");
  report.Fact("seconds of a run", Number(absl::GetFlag(FLAGS_seconds), 1));
  GoToRunfiles();
  for (const absl::string_view workload : absl::StrSplit(absl::GetFlag(FLAGS_workloads), ',')) {
    Measured(std::string(workload), report).Run();
  }
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What cellbatch-whatif predicts, and what is served.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}
