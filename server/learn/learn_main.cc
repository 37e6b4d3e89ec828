// cellbatch-learn: in which order a model's cells are batched is learned from requests, proved on others, and written
// beside the model's weights.
#include <fmt/format.h>
#include <getopt.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/strings/str_split.h"
#include "server/learn/learn_order.h"
#include "server/learn/learn_serving.h"

namespace cellbatch {
namespace {

constexpr char kHelp[] =
    "Learns in which order a model's cells are batched, and writes policy.textproto beside its\n"
    "weights: a table, or, where none is as good on requests it has not seen, the rule of thumb\n"
    "that is best there. The server takes it at the next load.\n\n"
    "  cellbatch-learn --model-repository models --model sentiment --requests trees.ptb\n\n"
    "  --model-repository DIR     The folder of the models.\n"
    "  --model NAME               The model's folder in it.\n"
    "  --version N                Its version, 1 or more. [the highest]\n"
    "  --requests FILE            A request's shape a line: a number of words (read, then "
    "written,\n"
    "                             for a decoder), a bracketed tree, heads; a lattice, a graph\n"
    "                             or a request's tensors as JSON. Or what cellbatch-server\n"
    "                             --record wrote.\n"
    "                             [made up, of the statistics of the papers' data]\n"
    "  --outputs NAME,NAME        That requests name. [OUTPUT, and NODE_OUTPUTS if there are any]\n"
    "  --unfolder-libraries       Run the model's own unfolder, as the server does with this "
    "flag.\n"
    "  --seed N                   The same seed learns the same; 1 or more. [1]\n"
    "  --curve FILE.svg           Batches over the bound while learning.\n"
    "  --drawing FILE.dot         batches: the machine that was learned, for Graphviz.\n"
    "  --objective WHAT           batches: the fewest for a fixed set of requests. latency: a mix "
    "of\n"
    "                             mean and tail where requests come and go. [batches]\n"
    "  --load N%                  latency: of what Algorithm 1 answers in a closed loop, less "
    "than\n"
    "                             100%. [60%]\n"
    "  --tail-weight W            latency: (1 - W) mean + W p99 is to be small, W 0 to 1. [0.5]\n"
    "  --devices SPEC             latency: whose tasks are measured, as the server's. [auto]\n"
    "  --costs FILE               latency: what tasks take, measured before (so without "
    "--devices).\n"
    "  --write-costs FILE         latency: keep what was measured.\n";

enum Flag {
  kRepository = 1,
  kModel,
  kVersion,
  kRequests,
  kOutputs,
  kLibraries,
  kSeed,
  kCurve,
  kDrawing,
  kObjective,
  kLoad,
  kTailWeight,
  kDevices,
  kCosts,
  kWriteCosts,
  kAsk
};

constexpr option kFlags[] = {{"model-repository", required_argument, nullptr, kRepository},
                             {"model", required_argument, nullptr, kModel},
                             {"version", required_argument, nullptr, kVersion},
                             {"requests", required_argument, nullptr, kRequests},
                             {"outputs", required_argument, nullptr, kOutputs},
                             {"unfolder-libraries", no_argument, nullptr, kLibraries},
                             {"seed", required_argument, nullptr, kSeed},
                             {"curve", required_argument, nullptr, kCurve},
                             {"drawing", required_argument, nullptr, kDrawing},
                             {"objective", required_argument, nullptr, kObjective},
                             {"load", required_argument, nullptr, kLoad},
                             {"tail-weight", required_argument, nullptr, kTailWeight},
                             {"devices", required_argument, nullptr, kDevices},
                             {"costs", required_argument, nullptr, kCosts},
                             {"write-costs", required_argument, nullptr, kWriteCosts},
                             {"help", no_argument, nullptr, kAsk},
                             {}};

template <typename Number>
bool Parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// What they mean together.
struct Asked {
  LearnServingOptions options;
  bool latency = false;
  const char* of_latency = nullptr;  // a flag of --objective latency that was given
};

// For who gave something else.
const char* Takes(int flag) {
  if (flag == kObjective) return "batches or latency";
  if (flag == kLoad) return "more than 0% and less than 100%, such as 60%";
  return flag == kTailWeight ? "a number from 0 to 1" : "a whole number, 1 or more";
}

// False: no such value.
bool SetServing(int flag, const std::string& value, Asked& asked) {
  LearnServingOptions& options = asked.options;
  if (flag != kObjective) asked.of_latency = kFlags[flag - 1].name;
  switch (flag) {
    case kObjective:
      asked.latency = value == "latency";
      return asked.latency || value == "batches";
    case kLoad: {
      const std::string_view number(value.data(), value.ends_with('%') ? value.size() - 1 : 0);
      if (!Parse(number, options.load)) return false;
      options.load /= 100;
      return options.load > 0 && options.load < 1;
    }
    case kTailWeight:
      return Parse(value, options.tail_weight) && options.tail_weight >= 0 &&
             options.tail_weight <= 1;
    case kDevices:
      options.devices = value;
      return true;
    case kCosts:
      options.costs = value;
      return true;
    case kWriteCosts:
      options.write_costs = value;
      return true;
    default:
      return false;
  }
}

bool Set(int flag, const std::string& value, Asked& asked) {
  LearnOrderOptions& options = asked.options.order;
  switch (flag) {
    case kRepository:
      options.repository = value;
      break;
    case kModel:
      options.model = value;
      break;
    case kVersion:
      return Parse(value, options.version) && options.version > 0;
    case kRequests:
      options.requests = value;
      break;
    case kOutputs:
      options.outputs = absl::StrSplit(value, ',');
      break;
    case kLibraries:
      options.unfolder_libraries = true;
      break;
    case kSeed:
      return Parse(value, options.seed) && options.seed > 0;
    case kCurve:
      options.curve = value;
      break;
    case kDrawing:
      options.drawing = value;
      break;
    default:
      return SetServing(flag, value, asked);
  }
  return true;
}

// What is missing or of no use beside the others; empty where nothing is.
std::string Contradiction(const Asked& asked) {
  const LearnServingOptions& options = asked.options;
  if (options.order.repository.empty()) return "--model-repository DIR is missing; see --help";
  if (options.order.model.empty()) return "--model NAME is missing; see --help";
  if (!asked.latency && asked.of_latency != nullptr) {
    return fmt::format("--{} is of --objective latency, and what is learned for is batches",
                       asked.of_latency);
  }
  if (options.costs.empty()) return "";
  if (options.devices != LearnServingOptions().devices) {
    return fmt::format(
        "--costs {} and --devices {} exclude each other: what is read is not measured",
        options.costs, options.devices);
  }
  if (options.write_costs.empty()) return "";
  return fmt::format(
      "--costs {} and --write-costs {} exclude each other: what is read is there already",
      options.costs, options.write_costs);
}

int Main(int argc, char** argv) {
  Asked asked;
  LearnOrderOptions& options = asked.options.order;
  for (int flag; (flag = getopt_long(argc, argv, "", kFlags, nullptr)) != -1;) {
    if (flag == kAsk) {
      fmt::print("{}", kHelp);
      return 0;
    }
    if (flag == '?') return 2;  // getopt has said what
    if (!Set(flag, optarg == nullptr ? "" : optarg, asked)) {
      fmt::print(stderr, "cellbatch-learn: --{} cannot be \"{}\", it takes {}\n",
                 kFlags[flag - 1].name, optarg, Takes(flag));
      return 2;
    }
  }
  if (argc == 1) {
    fmt::print(stderr, "{}", kHelp);
    return 2;
  }
  const std::string wrong = optind < argc ? fmt::format("what is \"{}\"? See --help.", argv[optind])
                                          : Contradiction(asked);
  if (!wrong.empty()) {
    fmt::print(stderr, "cellbatch-learn: {}\n", wrong);
    return 2;
  }
  options.say = [](std::string_view line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  const absl::StatusOr<LearnedOrder> learned =
      asked.latency ? LearnServing(asked.options) : LearnOrder(options);
  if (!learned.ok()) {
    fmt::print(stderr, "cellbatch-learn: {}\n", std::string(learned.status().message()));
    return 1;
  }
  fmt::print("\n{}", learned->summary);
  return 0;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }
