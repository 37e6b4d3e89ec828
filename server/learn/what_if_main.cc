// cellbatch-whatif: what users would wait with another policy, on other devices, at another rate, from what a server
// recorded (--record): its requests, when they came, what its tasks took.
//   0  said
//   1  the record or a policy cannot be read, or has not what is asked for
//   2  bad flags
#include <fmt/format.h>
#include <getopt.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "scheduler/offline/world/recorded_world.h"
#include "scheduler/policy/make_rules.h"
#include "server/policy/policy_codec.h"
#include "server/record/record_codec.h"
#include "server/repository/text_file.h"

namespace cellbatch {
namespace {

constexpr int64_t kMostBytes = int64_t{16} << 30, kMostPolicyBytes = int64_t{16} << 20;
constexpr char kHelp[] =
    "Says what users would wait with another policy, on other devices, at another rate, from what\n"
    "cellbatch-server --record wrote.\n\n"
    "  cellbatch-whatif server.record --policy lb_greedy --rate 1.5\n\n"
    "  --model NAME        Of several in the record.\n"
    "  --policy WHAT       cellular, agenda, agenda_of_remaining, depth, lb_greedy, random, or a\n"
    "                      policy.textproto. [what decided]\n"
    "  --rate X            The recorded requests, X times as fast, 0.001 to 1000. [1]\n"
    "  --devices N         As many like the first of the server's, 8 at most. [as many as there\n"
    "                      were]\n";
static_assert(kMostWorldDevices == 8, "what --help says");

enum Flag { kModel = 1, kPolicy, kRate, kDevices, kAsk };

constexpr option kFlags[] = {{"model", required_argument, nullptr, kModel},
                             {"policy", required_argument, nullptr, kPolicy},
                             {"rate", required_argument, nullptr, kRate},
                             {"devices", required_argument, nullptr, kDevices},
                             {"help", no_argument, nullptr, kAsk},
                             {}};

struct Asked {
  std::string record, model, policy;
  double rate = 1;
  int devices = 0;  // 0: as many as there were
};

template <typename Number>
bool Parse(std::string_view text, Number least, Number most, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least &&
         number <= most;
}

bool Set(int flag, const std::string& value, Asked& asked) {
  switch (flag) {
    case kModel:
      asked.model = value;
      return true;
    case kPolicy:
      asked.policy = value;
      return true;
    case kRate:
      return Parse(value, 0.001, 1000.0, asked.rate);
    case kDevices:
      return Parse(value, 1, kMostWorldDevices, asked.devices);
    default:
      return false;
  }
}

// By name, from a file, or what decided.
absl::StatusOr<PolicySpec> PolicyOf(const std::string& policy, const RecordedWorld& recorded) {
  if (policy.empty()) return recorded.policy;
  const std::optional<PolicyKind> kind = PolicyKindOf(policy);
  if (kind && *kind != PolicyKind::kFsm && *kind != PolicyKind::kSufficient) {
    PolicySpec spec;
    spec.kind = *kind;
    spec.may_wait = recorded.policy.may_wait;
    return spec;
  }
  const absl::StatusOr<std::string> text = ReadTextFile(policy, kMostPolicyBytes);
  if (!text.ok()) return text.status();
  return ParsePolicy(*text, policy, *recorded.model);
}

double Ms(double ns) { return ns * 1e-6; }

double MeanOf(const std::vector<int64_t>& values) {
  double sum = 0;
  for (const int64_t v : values) sum += static_cast<double>(v);
  return sum / static_cast<double>(values.size());
}

// Of arrivals `times` as fast. One alone has no rate.
std::string RateOf(const std::vector<Arrival>& arrivals, double times) {
  const double seconds = static_cast<double>(arrivals.back().at_ns) * 1e-9;
  if (seconds <= 0) return "at once";
  return fmt::format("{:.1f}/s", static_cast<double>(arrivals.size()) / seconds * times);
}

void Print(const Asked& asked, const RecordedWorld& recorded, const PolicySpec& policy,
           const WorldReport& predicted) {
  fmt::print(
      "world      {} devices, {} tasks in flight each; {:.1f} us of the scheduler's a task, "
      "{:.0f} us to wake it\n",
      asked.devices > 0 ? asked.devices : recorded.options.devices, predicted.max_tasks_in_flight,
      static_cast<double>(recorded.task_overhead_ns) * 1e-3,
      static_cast<double>(recorded.options.wake_ns) * 1e-3);
  fmt::print("served     {} requests, {}, {}: mean {:.2f}, p50 {:.2f}, p99 {:.2f} ms\n",
             recorded.served_ns.size(), RateOf(recorded.arrivals, 1), Name(recorded.policy.kind),
             Ms(MeanOf(recorded.served_ns)),
             Ms(static_cast<double>(QuantileOf(recorded.served_ns, 0.5))),
             Ms(static_cast<double>(QuantileOf(recorded.served_ns, 0.99))));
  fmt::print(
      "predicted  {}, {}: mean {:.2f}, p50 {:.2f}, p99 {:.2f} ms; {:.1f} answered/s, devices "
      "{:.0f} % busy, {:.1f} cells a task\n",
      RateOf(recorded.arrivals, asked.rate), Name(policy.kind), Ms(predicted.mean_ns),
      Ms(static_cast<double>(predicted.p50_ns)), Ms(static_cast<double>(predicted.p99_ns)),
      predicted.requests_per_s, 100 * predicted.device_busy, predicted.mean_fill());
  if (recorded.policies_taken > 0) {
    fmt::print("policies   {} were taken over meanwhile; what was served is theirs, too\n",
               recorded.policies_taken);
  }
  if (recorded.left_out > 0) {
    fmt::print("left out   {} requests that failed, were cancelled or grew\n", recorded.left_out);
  }
  if (recorded.of_other_lanes > 0) {
    fmt::print(
        "elsewhere  {} requests came before the model was loaded again, or were another "
        "version's\n",
        recorded.of_other_lanes);
  }
}

absl::Status Run(const Asked& asked) {
  const absl::StatusOr<RecordedRun> run = ReadRecord(asked.record, kMostBytes);
  if (!run.ok()) return run.status();
  RecordedPart part;
  part.model = asked.model;
  const absl::StatusOr<RecordedWorld> recorded = WorldOfRecord(*run, part);
  if (!recorded.ok()) return recorded.status();
  const absl::StatusOr<PolicySpec> policy = PolicyOf(asked.policy, *recorded);
  if (!policy.ok()) return policy.status();
  const auto rules = MakeRules(*policy, recorded->join, recorded->model->types.size());
  if (!rules.ok()) return rules.status();  // a join that the policy does not run, say
  const int devices = asked.devices > 0 ? asked.devices : recorded->options.devices;
  Print(asked, *recorded, *policy, WhatIf(*recorded, *policy, asked.rate, devices));
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Asked asked;
  for (int flag; (flag = getopt_long(argc, argv, "", kFlags, nullptr)) != -1;) {
    if (flag == kAsk) {
      fmt::print("{}", kHelp);
      return 0;
    }
    if (flag == '?') return 2;  // getopt has said what
    if (!Set(flag, optarg, asked)) {
      fmt::print(stderr, "cellbatch-whatif: --{} cannot be \"{}\", it takes {}\n",
                 kFlags[flag - 1].name, optarg,
                 flag == kRate ? "0.001 to 1000" : fmt::format("1 to {}", kMostWorldDevices));
      return 2;
    }
  }
  if (optind + 1 != argc) {
    fmt::print(stderr, "{}", kHelp);
    return 2;
  }
  asked.record = argv[optind];
  const absl::Status said = Run(asked);
  if (said.ok()) return 0;
  fmt::print(stderr, "cellbatch-whatif: {}\n", std::string(said.message()));
  return 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }
