// What each thing that once hurt a server costs it now: memory, an honest client's wait, and what stays when the stranger has left.
//
//   strangers.ROW.more_mib    the most memory it had (the kernel's VmHWM) beyond what it had with honest clients alone
//   strangers.ROW.mib         of that, what is beyond the sum of its bounds in bytes; bound 256
//   strangers.ROW.wait_s      the longest wait of an honest client from its first try to its right answer; bound 0.5
//   strangers.ROW.kept_mib    memory beyond what it had before, five seconds after the stranger has left
//   strangers.ROW.lost        honest answers that did not come, or came with other bits; must be 0
//
// Each row is a server of its own with small bounds (kBounds), honest clients (siege_honest.h), and one of
// tests/fault/attacks/strangers.h. --proxy: all of them come through Debian's HAProxy as deploy/proxy ships it, strangers from an
// address of their own where they make their connections themselves.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_split.h"
#include "tests/bench/report.h"
#include "tests/bench/siege_honest.h"
#include "tests/deploy/proxy_process.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"
#include "tests/fault/attacks/strangers.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, only, "", "ROW,..: no other.");
ABSL_FLAG(bool, proxy, false, "Through HAProxy with the configuration of deploy/proxy.");
ABSL_FLAG(double, stay_seconds, 2, "That a stranger stays when all is sent.");

ABSL_FLAG(int, stranger_nice, 0,
          "Niceness of strangers. They compute elsewhere in truth and here on the server's cores: "
          "19 leaves the server all that it wants of them.");

namespace cellbatch {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr double kMiB = 1 << 20;
constexpr std::chrono::milliseconds kPause{5};  // of an honest client between two requests
constexpr std::chrono::seconds kCalm{2}, kAfter{5};
constexpr const char* kStranger = "127.0.0.66";

struct Bound {
  const char* flag;
  int64_t mib;
};
constexpr Bound kBounds[] = {{"--max-queued-bytes", 64},
                             {"--row-budget", 64},
                             {"--grpc-max-unfinished-bytes", 64},
                             {"--http-max-held-bytes", 32}};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "strangers: %s\n", what.c_str());
  std::exit(1);
}

struct Cost {
  double more_mib = 0, mib = 0, wait_s = 0, kept_mib = 0;
  int64_t lost = 0;
  std::string heard, losses;
};

double LongestWait(const Honest& honest) {
  int64_t longest = 0;
  for (const auto& way : honest.ways())
    longest = std::max<int64_t>(longest, way->counts.longest_ns);
  return static_cast<double>(longest) * 1e-9;
}

// In a thread of its own, which all that it starts take after.
StrangerLeft Attack(const StrangerAttack& attack, const StrangerTarget& target) {
  StrangerLeft left;
  std::thread stranger([&] {
    if (setpriority(PRIO_PROCESS, 0, absl::GetFlag(FLAGS_stranger_nice)) != 0) Die("setpriority");
    left = attack.make(target);
  });
  stranger.join();
  return left;
}

Cost Measure(const std::string& repository, const StrangerAttack& attack) {
  std::vector<std::string> flags = attack.flags;
  double bounds = 0;
  for (const Bound& bound : kBounds) {
    flags.push_back(std::string(bound.flag) + "=" + std::to_string(bound.mib) + "MiB");
    bounds += static_cast<double>(bound.mib);
  }
  flags.emplace_back("--log-level=warn");
  const auto server = ServerProcess::Serving(repository, std::move(flags));
  if (server == nullptr) Die("the server does not start");
  if (attack.files > 0) server->LimitFiles(attack.files);
  const auto proxy = absl::GetFlag(FLAGS_proxy) ? std::make_unique<ProxyProcess>(*server) : nullptr;
  const StrangerTarget target = proxy == nullptr
                                    ? StrangerTarget{server->grpc(), server->http(), ""}
                                    : StrangerTarget{proxy->grpc(), proxy->http(), kStranger};
  Honest honest(target.grpc, target.http);
  honest.Begin(kPause);
  std::this_thread::sleep_for(kCalm);
  const auto before = static_cast<double>(server->ResidentBytes());
  ForgetPeak(*server);
  Cost cost;
  {
    const StrangerLeft left = Attack(attack, target);
    std::this_thread::sleep_for(Seconds(absl::GetFlag(FLAGS_stay_seconds)));
    cost.heard = left.heard;
  }
  cost.more_mib = (static_cast<double>(server->PeakResidentBytes()) - before) / kMiB;
  cost.mib = std::max(0.0, cost.more_mib - bounds);
  std::this_thread::sleep_for(kAfter);
  cost.kept_mib = (static_cast<double>(server->ResidentBytes()) - before) / kMiB;
  honest.End();
  cost.wait_s = LongestWait(honest);
  cost.lost = honest.lost();
  cost.losses = honest.Losses();
  return cost;
}

int Main() {
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  GoToRunfiles();
  Report report("strangers");
  report.Fact("through", absl::GetFlag(FLAGS_proxy) ? "HAProxy, deploy/proxy" : "nothing");
  const std::string repository = NewRepository();
  Honest::AddModels(repository);
  AddStrangersModel(repository);
  const std::vector<std::string> only =
      absl::StrSplit(absl::GetFlag(FLAGS_only), ',', absl::SkipEmpty());
  Table table({"sent", "MiB more", "beyond its bounds", "longest wait s", "MiB kept", "lost",
               "and the stranger"});
  std::string losses;
  for (const StrangerAttack& attack : StrangerAttacks()) {
    if (!only.empty() && std::count(only.begin(), only.end(), attack.name) == 0) continue;
    const Cost cost = Measure(repository, attack);
    table.Add({attack.what, Number(cost.more_mib, 0), Number(cost.mib, 0), Number(cost.wait_s, 3),
               Number(cost.kept_mib, 0), std::to_string(cost.lost), cost.heard});
    losses += cost.losses;
    const std::string name = std::string("strangers.") + attack.name;
    report.Figure(name + ".more_mib", cost.more_mib, "MiB");
    report.Figure(name + ".mib", cost.mib, "MiB");
    report.Figure(name + ".wait_s", cost.wait_s, "s");
    report.Figure(name + ".kept_mib", cost.kept_mib, "MiB");
    report.Figure(name + ".lost", static_cast<double>(cost.lost), "1");
  }
  report.Text(table.ToString() + losses);
  std::filesystem::remove_all(repository);
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What strangers cost a server.");
  absl::ParseCommandLine(argc, argv);
  std::signal(SIGPIPE, SIG_IGN);
  return cellbatch::Main();
}
