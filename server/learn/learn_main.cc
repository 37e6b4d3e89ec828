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
    "  --version N                Its version. [the highest]\n"
    "  --requests FILE            A request's shape a line: a number of words (read, then "
    "written,\n"
    "                             for a decoder), a bracketed tree, heads; a lattice, a graph\n"
    "                             or a request's tensors as JSON. Or what cellbatch-server\n"
    "                             --record wrote.\n"
    "                             [made up, of the statistics of the papers' data]\n"
    "  --outputs NAME,NAME        That requests name. [OUTPUT, and NODE_OUTPUTS if there are any]\n"
    "  --unfolder-libraries       Run the model's own unfolder, as the server does with this "
    "flag.\n"
    "  --seed N                   The same seed learns the same. [1]\n"
    "  --curve FILE.svg           Batches over the bound while learning.\n"
    "  --drawing FILE.dot         The machine that was learned, for Graphviz.\n"
    "  --objective WHAT           batches: the fewest for a fixed set of requests. latency: a mix "
    "of\n"
    "                             mean and tail where requests come and go. [batches]\n"
    "  --load N%                  latency: of what Algorithm 1 answers in a closed loop. [60%]\n"
    "  --tail-weight W            latency: (1 - W) mean + W p99 is to be small. [0.5]\n"
    "  --devices SPEC             latency: whose tasks are measured, as the server's. [auto]\n"
    "  --costs FILE               latency: what tasks take, measured before.\n"
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
  return error == std::errc() && end == text.data() + text.size() && number > 0;
}

// What they mean together.
struct Asked {
  LearnServingOptions options;
  bool latency = false;
};

// False: no such value.
bool SetServing(int flag, const std::string& value, Asked& asked) {
  LearnServingOptions& options = asked.options;
  switch (flag) {
    case kObjective:
      asked.latency = value == "latency";
      return asked.latency || value == "batches";
    case kLoad: {
      const std::string_view number(value.data(), value.ends_with('%') ? value.size() - 1 : 0);
      if (!Parse(number, options.load)) return false;
      options.load /= 100;
      return true;
    }
    case kTailWeight:
      return value == "0" ? (options.tail_weight = 0, true) : Parse(value, options.tail_weight);
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
      return Parse(value, options.version);
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
      return Parse(value, options.seed);
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
      fmt::print(stderr, "cellbatch-learn: --{} cannot be \"{}\"; --help says what it can be\n",
                 kFlags[flag - 1].name, optarg);
      return 2;
    }
  }
  if (optind < argc || options.repository.empty() || options.model.empty()) {
    fmt::print(stderr, "{}", kHelp);
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
