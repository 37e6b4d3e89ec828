// cellbatch-convert: a PyTorch state_dict, saved as safetensors, or an ONNX file becomes a model folder that
// cellbatch-server serves.
#include <fmt/format.h>
#include <getopt.h>

#include <charconv>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/convert/import_onnx.h"
#include "server/convert/import_torch.h"
#include "server/convert/precision_cost.h"
#include "server/learn/learn_order.h"

namespace cellbatch {
namespace {

constexpr char kAbout[] =
    "Makes a model folder of a PyTorch state_dict saved as safetensors, or of an ONNX file.\n\n"
    "  cellbatch-convert --from lstm.safetensors --repository models --name lstm\n"
    "  cellbatch-convert --from lstm.onnx --repository models --name lstm\n\n"
    "Names and shapes of a state_dict say what the model is: an optional embedding, one stack of "
    "LSTM,\n"
    "GRU or RNN (any number of layers, one or both directions, projections; or LSTMCell, GRUCell,\n"
    "RNNCell in a list), an optional linear head. What they leave open is said, with the flag "
    "that\n"
    "settles it. An ONNX graph says all of it; what in it cannot be converted is named.\n\n";

struct Flag {
  const char* name;
  const char* value;                          // what it takes; null: nothing
  const char* help;                           // with its default
  std::function<bool(std::string_view)> set;  // false: no such value
};

template <typename Number>
bool Parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// What is done beside converting.
struct More {
  bool learn = false;
  std::string inputs;
};

std::vector<Flag> Flags(ImportOptions& o, More& more) {
  const auto text = [](std::string& to) {
    return [&to](std::string_view value) {
      to = value;
      return true;
    };
  };
  return {
      {"from", "FILE", "A state_dict as .safetensors, or an .onnx file.", text(o.from)},
      {"repository", "DIR", "The folder of the models; made if it is not there.",
       text(o.repository)},
      {"name", "NAME", "The model's name: its folder in the repository.", text(o.name)},
      {"version", "N", "Its version; the server serves the highest. [1]",
       [&o](std::string_view v) { return Parse(v, o.version); }},
      {"precision", "NAME",
       "FP32, FP32_SPLIT, AUTO, TF32 (on GPUs), BF16 or W8 (int8 weights): arithmetic of the "
       "products. What it costs on a CPU is measured and told. [FP32]",
       text(o.precision)},
      {"inputs", "FILE",
       "Sequences to measure that on: a .safetensors, each tensor one, [T, D] of floats or [T] of "
       "words' numbers. Not for FP32, which costs nothing. [made up]",
       text(more.inputs)},
      {"max-sequence-length", "STEPS", "The longest sequence accepted; 0: the server's limit. [0]",
       [&o](std::string_view v) { return Parse(v, o.max_sequence_length); }},
      {"learn-order", nullptr,
       "Learn in which order its cells run, from made-up requests (see cellbatch-learn).",
       [&more](std::string_view) { return more.learn = true; }},
      {"overwrite", nullptr, "Replace the version if it is there.",
       [&o](std::string_view) { return o.overwrite = true; }},
      {"rnn", "PREFIX",
       "The recurrent module (\"encoder.rnn\"), where there are several; or those that lie on each "
       "other, \"low,high\".",
       text(o.hints.rnn_prefix)},
      {"nonlinearity", "tanh|relu", "Of an nn.RNN, whose file does not say.",
       text(o.hints.nonlinearity)},
      {"embedding", "TENSOR|none", "The embedding, where that is ambiguous.",
       text(o.hints.embedding)},
      {"head", "TENSOR|none", "The linear head's weight, where that is ambiguous.",
       text(o.hints.head)},
      {"head-reads", "final|every",
       "What the head reads: the final hidden states, or what every step leaves (a tagger: OUTPUT "
       "has a row a step). [final]",
       text(o.head_reads)},
      {"zeros", "INPUT", "An ONNX graph's input that is always zeros; may be repeated.",
       [&o](std::string_view v) { return o.zeros.emplace_back(v), true; }},
      {"ignore", "PREFIX",
       "A tensor (or all below a prefix), or an ONNX graph's output, to leave out; may be "
       "repeated.",
       [&o](std::string_view v) { return o.hints.ignored.emplace_back(v), true; }},
  };
}

void PrintHelp(const std::vector<Flag>& flags) {
  fmt::print("{}", kAbout);
  for (const Flag& f : flags) {
    const std::string left = fmt::format("--{}{}{}", f.name, f.value == nullptr ? "" : " ",
                                         f.value == nullptr ? "" : f.value);
    fmt::print("  {:<28} {}\n", left, f.help);
  }
}

// -1: go on; else the exit status.
int ReadFlags(int argc, char** argv, const std::vector<Flag>& flags) {
  std::vector<option> options;
  for (const Flag& f : flags) {
    options.push_back({f.name, f.value == nullptr ? no_argument : required_argument, nullptr, 0});
  }
  options.push_back({"help", no_argument, nullptr, 'h'});
  options.push_back({});
  int index = 0;
  for (int got; (got = getopt_long(argc, argv, "h", options.data(), &index)) != -1;) {
    if (got == 'h') {
      PrintHelp(flags);
      return 0;
    }
    if (got != 0) return 2;  // getopt has said what
    const Flag& flag = flags[static_cast<size_t>(index)];
    if (flag.set(optarg == nullptr ? "" : optarg)) continue;
    fmt::print(stderr, "cellbatch-convert: --{} {}: no such value, it takes {}\n", flag.name,
               optarg, flag.value);
    return 2;
  }
  if (optind == argc) return -1;
  fmt::print(stderr, "cellbatch-convert: what is \"{}\"? See --help.\n", argv[optind]);
  return 2;
}

// False: it failed, and that was said.
bool LearnItsOrder(const ImportOptions& options) {
  LearnOrderOptions learn;
  learn.repository = options.repository;
  learn.model = options.name;
  learn.version = options.version;
  const absl::StatusOr<LearnedOrder> learned = LearnOrder(learn);
  if (learned.ok()) {
    fmt::print("{}", learned->summary);
    return true;
  }
  const bool one_type = absl::IsFailedPrecondition(learned.status());
  fmt::print(one_type ? stdout : stderr, "{}{}\n",
             one_type ? "" : "cellbatch-convert: ", std::string(learned.status().message()));
  return one_type;
}

// Likewise.
bool TellWhatItCosts(const ImportOptions& options, const Imported& imported,
                     const std::string& inputs) {
  const absl::StatusOr<PrecisionCost> cost =
      MeasurePrecisionCost(imported.folder, options.name, options.version, inputs);
  if (!cost.ok()) {
    fmt::print(stderr, "cellbatch-convert: the model is written; what {} costs: {}\n",
               options.precision, std::string(cost.status().message()));
    return false;
  }
  fmt::print("{}", Describe(*cost));
  return true;
}

int Main(int argc, char** argv) {
  ImportOptions options;
  More more;
  const std::vector<Flag> flags = Flags(options, more);
  if (argc == 1) {
    PrintHelp(flags);
    return 2;
  }
  if (const int status = ReadFlags(argc, argv, flags); status >= 0) return status;
  if (!more.inputs.empty() && options.precision == "FP32") {
    fmt::print(stderr,
               "cellbatch-convert: --inputs {} with --precision FP32: they measure what another "
               "precision costs; say which, or leave --inputs out\n",
               more.inputs);
    return 2;
  }
  const absl::StatusOr<Imported> imported =
      options.from.ends_with(".onnx") ? ImportOnnx(options) : ImportTorch(options);
  if (!imported.ok()) {
    fmt::print(stderr, "cellbatch-convert: {}\n", std::string(imported.status().message()));
    return 1;
  }
  fmt::print("{}", Summary(*imported, options));
  if (options.precision != "FP32" && !TellWhatItCosts(options, *imported, more.inputs)) return 1;
  return more.learn && !LearnItsOrder(options) ? 1 : 0;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }
