// A server under every attack at once, and then SIGTERM: are honest clients' answers all there, and is its memory bounded?
//
//   siege.lost             honest requests that were accepted and did not get the right answer, in every bit; must be 0
//   siege.rss_over_limit   the most memory it had at any moment (the kernel's VmHWM, set back when the siege begins) / (what
//                          it had with honest clients alone + the sum of its bounds in bytes); bound 1.2
//   siege.longest_wait_s   of an honest client, from its first try to its right answer, tries again included
//   siege.honest           honest answers, all ways of asking; siege.honest_refused: tries that were refused for now
//   siege.exit_code        of the server; 0: it went in order
//   siege.attacks_NAME     attacks made, of each kind
//
// One cellbatch-server with its default flags but for small bounds (kBounds below: those are what the limit is the sum of).
// Honest clients (siege_honest.h) ask by ModelInfer, typed Infer, Decode and HTTP, and whether it is live and ready; attackers (tests/fault/attacks) are a
// thread for each kind, at --rates=KIND=BOUTS_A_SECOND,.. (each kind has a default), and all together may take --attackers_cpu
// cores: who is beyond waits. (Their own threads' time: what gRPC's library does for them in threads of its own is not
// counted.) At the end a crowd of honest requests that take long is put in flight, SIGTERM comes a second later, and the
// attackers leave a second after that. Refused for now (RESOURCE_EXHAUSTED, 429) is not lost: the client asks again, for a minute.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/bench/report.h"
#include "tests/bench/siege_honest.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"
#include "tests/fault/attacks/attacks.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(double, seconds, 300, "Length of the siege.");
ABSL_FLAG(double, calm_seconds, 5,
          "Before it, honest clients alone: the memory that counts as idle.");
ABSL_FLAG(int, pause_ms, 5, "Of an honest client between two requests.");
ABSL_FLAG(int, in_flight, 6, "Requests of about a second in flight when SIGTERM comes.");
ABSL_FLAG(double, attackers_cpu, 0.5, "Cores that all attackers together may use.");
ABSL_FLAG(std::string, rates, "", "KIND=BOUTS_A_SECOND,..; 0: none of them.");
ABSL_FLAG(std::string, only, "", "KIND,..: no other attacks.");
ABSL_FLAG(uint64_t, seed, 1, "Of what is drawn.");

namespace cellbatch {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kMostMessage = 16 * kMiB;

// What is bounded in bytes, and is not taken when the server starts.
struct Bound {
  const char* flag;
  int64_t bytes;
};
constexpr Bound kBounds[] = {
    {"--max-queued-bytes", 64 * kMiB},
    {"--row-budget", 64 * kMiB},
    {"--http-max-held-bytes", 32 * kMiB},
};
// What is bounded otherwise, or as one of the above.
constexpr const char* kOtherFlags[] = {
    "--max-queued-requests=500",   "--max-queued-cells=200000",
    "--max-answer-bytes=8MiB",     "--grpc-max-message-bytes=16MiB",
    "--http-max-body-bytes=16MiB", "--grpc-max-connections=300",
    "--http-max-connections=300",  "--log-level=warn"};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "siege: %s\n", what.c_str());
  std::exit(1);
}

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// What all attackers together have used, and may use.
class Budget {
 public:
  explicit Budget(double cores) : cores_(cores) {}
  void Use(double seconds) { used_.fetch_add(seconds); }
  bool left() const { return used_ <= cores_ * Seconds(Clock::now() - start_).count() + 0.1; }

 private:
  const double cores_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<double> used_ = 0;
};

// All bouts of one kind, from one thread.
class Attacker {
 public:
  Attacker(const AttackKind& kind, double per_second, AttackTarget target, Budget& budget)
      : kind_(kind),
        per_second_(per_second),
        target_(std::move(target)),
        budget_(budget),
        random_(absl::GetFlag(FLAGS_seed)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Attacker() {
    Stop();
    thread_.join();
  }
  void Stop() { stopping_ = true; }
  const AttackKind& kind() const { return kind_; }
  int64_t attacks() const { return attacks_; }

 private:
  struct Staying {
    std::unique_ptr<AttackBout> bout;
    Clock::time_point until;
  };
  void Run() {
    const Seconds between(1 / per_second_);
    Clock::time_point next = Clock::now();
    while (!stopping_) {
      const double before = ThreadSeconds();
      const Clock::time_point now = Clock::now();
      while (!staying_.empty() && staying_.front().until <= now) staying_.pop_front();
      for (const Staying& staying : staying_) staying.bout->Trickle();
      if (now >= next && budget_.left()) {
        staying_.push_back(
            {kind_.begin(target_, random_),
             now + std::chrono::duration_cast<Clock::duration>(Seconds(kind_.seconds))});
        attacks_ += staying_.back().bout->attacks();
        // What could not be made in time is not made up for: a siege is steady.
        next = std::max(next + std::chrono::duration_cast<Clock::duration>(between), now);
      }
      budget_.Use(ThreadSeconds() - before);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    staying_.clear();
  }

  const AttackKind& kind_;
  const double per_second_;
  const AttackTarget target_;
  Budget& budget_;
  std::mt19937_64 random_;
  std::deque<Staying> staying_;  // the thread's
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> attacks_ = 0;
  std::thread thread_;
};

std::map<std::string, double> Rates() {
  std::map<std::string, double> rates;
  const std::vector<std::string> only =
      absl::StrSplit(absl::GetFlag(FLAGS_only), ',', absl::SkipEmpty());
  for (const AttackKind& kind : AttackKinds()) {
    const bool made = only.empty() || std::count(only.begin(), only.end(), kind.name) > 0;
    rates[kind.name] = made ? kind.per_second : 0;
  }
  for (const std::string& name : only) {
    if (rates.count(name) == 0) Die("--only: there is no attack " + name);
  }
  const std::vector<std::string> given =
      absl::StrSplit(absl::GetFlag(FLAGS_rates), ',', absl::SkipEmpty());
  for (const std::string& rate : given) {
    const std::vector<std::string> parts = absl::StrSplit(rate, '=');
    if (parts.size() != 2 || rates.count(parts[0]) == 0 ||
        !absl::SimpleAtod(parts[1], &rates[parts[0]])) {
      Die("--rates: " + rate + " is not KIND=BOUTS_A_SECOND");
    }
  }
  return rates;
}

double Mib(int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kMiB); }

std::vector<std::string> ServerFlags() {
  std::vector<std::string> flags(std::begin(kOtherFlags), std::end(kOtherFlags));
  for (const Bound& bound : kBounds) {
    flags.push_back(std::string(bound.flag) + "=" + std::to_string(bound.bytes));
  }
  return flags;
}

// One server, from its start to its end.
class Siege {
 public:
  explicit Siege(Report& report) : report_(report), repository_(NewRepository()) {
    Honest::AddModels(repository_);
    server_ = ServerProcess::Serving(repository_, ServerFlags());
    if (server_ == nullptr) Die("the server does not start");
    honest_ = std::make_unique<Honest>(server_->grpc(), server_->http());
    crowd_ = std::make_unique<HonestCrowd>(server_->grpc());
  }
  ~Siege() { std::filesystem::remove_all(repository_); }

  void Run() {
    honest_->Begin(std::chrono::milliseconds(absl::GetFlag(FLAGS_pause_ms)));
    std::this_thread::sleep_for(Seconds(absl::GetFlag(FLAGS_calm_seconds)));
    limit_ = idle_ = server_->PeakResidentBytes();
    for (const Bound& bound : kBounds) limit_ += bound.bytes;
    report_.Text("calm: " + Number(Mib(idle_), 0) + " MiB, with its bounds " +
                 Number(Mib(limit_), 0) + "; longest wait " + Number(LongestWait(), 3) + " s\n");
    ForgetPeak(*server_);
    Attack();
    End();
  }

  void Show() const {
    Table table({"honest clients of", "right", "lost", "refused for now", "longest wait s"});
    int64_t right = 0, refused = 0;
    for (const auto& way : honest_->ways()) {
      const Honest::Counts& counts = way->counts;
      table.Add({way->name, std::to_string(counts.right), std::to_string(counts.lost),
                 std::to_string(counts.refused),
                 Number(static_cast<double>(counts.longest_ns) * 1e-9, 3)});
      right += counts.right;
      refused += counts.refused;
    }
    table.Add({"SIGTERM's crowd", std::to_string(ended_.right), std::to_string(ended_.lost),
               std::to_string(ended_.refused), ""});
    report_.Text(table.ToString());
    report_.Text(honest_->Losses() + ended_.why + "\n");
    for (const AttackKind& kind : AttackKinds()) {
      if (attacks_.count(kind.name) == 0) continue;
      const auto attacks = static_cast<double>(attacks_.at(kind.name));
      report_.Text(Number(attacks, 0) + " " + kind.name + ": " + kind.what + "\n");
      report_.Figure(std::string("siege.attacks_") + kind.name, attacks, "1");
    }
    report_.Figure("siege.honest", static_cast<double>(right + ended_.right), "1");
    report_.Figure("siege.honest_refused", static_cast<double>(refused + ended_.refused), "1");
    report_.Figure("siege.longest_wait_s", LongestWait(), "s");
    report_.Figure("siege.exit_code", exit_code_, "1");
    report_.Figure("siege.rss_over_limit", static_cast<double>(peak_) / static_cast<double>(limit_),
                   "x");
    report_.Figure("siege.lost", static_cast<double>(honest_->lost() + ended_.lost), "1");
  }

 private:
  void Attack() {
    const std::map<std::string, double> rates = Rates();
    for (const AttackKind& kind : AttackKinds()) {
      if (rates.at(kind.name) <= 0) continue;
      attackers_.push_back(std::make_unique<Attacker>(
          kind, rates.at(kind.name), AttackTarget{server_->grpc(), server_->http(), kMostMessage},
          budget_));
    }
    const auto start = Clock::now();
    const double seconds = absl::GetFlag(FLAGS_seconds);
    constexpr int kTold = 20;  // times
    for (int part = 1; part <= kTold; ++part) {
      std::this_thread::sleep_until(
          start + std::chrono::duration_cast<Clock::duration>(Seconds(seconds * part / kTold)));
      peak_ = std::max(peak_, server_->PeakResidentBytes());  // 0: it is gone
      report_.Text(Number(seconds * part / kTold, 0) + " s: at most " + Number(Mib(peak_), 0) +
                   " MiB, lost " + std::to_string(honest_->lost()) + ", longest wait " +
                   Number(LongestWait(), 3) + " s\n");
    }
  }

  // SIGTERM while honest requests are in flight and attackers are at it.
  void End() {
    crowd_->Begin(absl::GetFlag(FLAGS_in_flight));
    std::this_thread::sleep_for(std::chrono::seconds(1));
    peak_ = std::max(peak_, server_->PeakResidentBytes());
    honest_->Draining();
    server_->Signal(SIGTERM);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    for (const auto& attacker : attackers_) attacker->Stop();
    ended_ = crowd_->Wait();
    honest_->End();
    exit_code_ = server_->Wait();
    for (const auto& attacker : attackers_) {
      attacks_[attacker->kind().name] = attacker->attacks();
    }
    attackers_.clear();
    const std::string log = server_->Log();
    constexpr size_t kEnough = 3000;
    if (exit_code_ != 0) report_.Text(log.substr(log.size() - std::min(log.size(), kEnough)));
  }

  double LongestWait() const {
    int64_t longest = 0;
    for (const auto& way : honest_->ways())
      longest = std::max<int64_t>(longest, way->counts.longest_ns);
    return static_cast<double>(longest) * 1e-9;
  }

  Report& report_;
  const std::string repository_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Honest> honest_;
  std::unique_ptr<HonestCrowd> crowd_;
  Budget budget_{absl::GetFlag(FLAGS_attackers_cpu)};
  std::vector<std::unique_ptr<Attacker>> attackers_;
  std::map<std::string, int64_t> attacks_;
  HonestCrowd::End ended_;
  int64_t idle_ = 0, limit_ = 0, peak_ = 0;
  int exit_code_ = -1;
};

int Main() {
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;  // attackers hold many connections
  setrlimit(RLIMIT_NOFILE, &files);
  GoToRunfiles();
  Report report("siege");
  Siege siege(report);
  siege.Run();
  siege.Show();
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Honest clients beside every attack at once.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}
