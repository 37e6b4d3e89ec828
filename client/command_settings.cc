#include "client/command_settings.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "client/command_flags.h"

namespace cellbatch {
namespace {

constexpr char kPurpose[] =
    "Talks to a Cellbatch server, or to any other that speaks KServe v2 over gRPC.\n"
    "\n"
    "commands:\n"
    "  health      is the server alive and ready, and with --model that model (exit code 1 where\n"
    "              it is not)\n"
    "  metadata    the server and its models; with --model, that model's tensors\n"
    "  config      a model's settings\n"
    "  repository  the models and their states\n"
    "  infer       one request: --tokens, --random or --input; or, of a Cellbatch server, --text,\n"
    "              --source, --tree or --chars with --spans\n"
    "  decode      words as they are decoded: --source or --text\n"
    "  tag TEXT    labels for the words of a sentence; with --input, of each line of a file, "
    "whose\n"
    "              words are cut already (--model, if it is not called tagger)\n"
    "  stats       requests, tasks and mean times since the server started, of every version\n"
    "              that is served where --version names none\n"
    "  latency     exact percentiles over the last seconds\n"
    "  token       draws a token into a new --token-file, and prints its entry for a server's "
    "--tokens";

// Which request, said twice, or said in part: then something would be left out in silence.
std::string WrongRequests(const CommandSettings& settings) {
  const TypedFlags& typed = settings.typed;
  const std::pair<const char*, bool> all[] = {
      {"--tokens", !settings.tokens.empty()}, {"--random", settings.random != 0},
      {"--input", !settings.input.empty()},   {"--text", !typed.text.empty()},
      {"--source", !typed.source.empty()},    {"--tree", !typed.tree.empty()},
      {"--chars", !typed.chars.empty()}};
  std::vector<std::string_view> given;
  for (const auto& [name, is_given] : all) {
    if (is_given) given.emplace_back(name);
  }
  if (given.size() > 1) return fmt::format("infer wants one of {}", fmt::join(given, ", "));
  if (typed.spans.empty() || !typed.chars.empty()) return "";
  return "--spans are words over --chars, which are not given";
}

// What is wrong with numbers of flags, whatever the command; empty where nothing is.
std::string WrongNumbers(const CommandSettings& settings) {
  constexpr double kMostSeconds = 1e8;  // three years: what clocks hold in nanoseconds, by far
  if (!(settings.timeout > 0 && settings.timeout <= kMostSeconds)) {
    return fmt::format("--timeout={:g}: wants more than 0 seconds, {:g} at most", settings.timeout,
                       kMostSeconds);
  }
  if (settings.random < 0) {
    return fmt::format("--random={}: wants a number of steps, 1 or more", settings.random);
  }
  return settings.values >= 0 ? "" : fmt::format("--values={}: wants 0 or more", settings.values);
}

}  // namespace

Flags CommandFlags(CommandSettings& settings) {
  Flags flags("cellbatch-client COMMAND", kPurpose);
  flags.Add("url", &settings.url, "HOST:PORT", "The server's gRPC address.");
  settings.security.AddTo(flags);
  flags.Add("json", &settings.json, "", "Print JSON.");
  flags.Add("model", &settings.model, "NAME",
            "Which model; none = all of them, where that makes sense.");
  flags.Add("version", &settings.version, "N",
            "Which version; none = the one being served (stats: all of them).");
  flags.Add("timeout", &settings.timeout, "SECONDS",
            "How long to wait, for the connection and for an answer.");
  flags.Add("tokens", &settings.tokens, "IDS",
            "infer: token ids, as \"17 4 250\" or \"17,4,250\".");
  flags.Add("random", &settings.random, "STEPS",
            "infer: so many random tokens or vectors, as the model reads.");
  flags.Add("seed", &settings.seed, "N", "infer: for --random.");
  flags.Add("input", &settings.input, "FILE",
            "infer: a request in KServe's JSON form; tag: sentences; - reads stdin.");
  flags.Add("outputs", &settings.outputs, "NAMES",
            "infer: which outputs, with commas; none = OUTPUT.");
  flags.Add("id", &settings.id, "TEXT", "infer: the request's id, echoed by the server.");
  flags.Add("values", &settings.values, "N", "infer: how many values of each output to print.");
  flags.Add("sequence", &settings.sequence, "ID",
            "infer: the next piece of that sequence, whose state the server keeps; with --tokens, "
            "--random or --input.");
  flags.Add("sequence-start", &settings.sequence_start, "", "infer: it is the first piece.");
  flags.Add("sequence-end", &settings.sequence_end, "", "infer: it is the last piece.");
  settings.typed.AddTo(flags);
  flags.Add("name", &settings.name, "NAME", "token: what the server's metrics are to call it.");
  flags.Add("window", &settings.window, "SECONDS",
            "latency: how far to look back; 0 = all that is remembered.");
  return flags;
}

std::string WhatIsWrong(const std::vector<std::string>& words, const std::set<std::string>& given,
                        const CommandSettings& settings) {
  if (words.empty()) return "no command; --help lists them";
  const bool tag = words[0] == "tag";
  if (words.size() > 1 && !tag) {
    return fmt::format("one command at a time, not also \"{}\"", words[1]);
  }
  if (tag && (words.size() == 1) == settings.input.empty()) {
    return "tag wants a sentence, or --input=FILE";
  }
  if (!IsCommand(words[0])) return fmt::format("no command \"{}\"; --help lists them", words[0]);
  if (std::string wrong = WhatIsNotRead(words[0], given); !wrong.empty()) return wrong;
  const bool of_a_model = words[0] == "infer" || words[0] == "decode" || words[0] == "config";
  if (of_a_model && settings.model.empty()) {
    return fmt::format("{} wants --model=NAME", words[0]);
  }
  if (words[0] == "token" && (settings.name.empty() || settings.security.token_file.empty())) {
    return "token wants --name=NAME and --token-file=FILE, which is not there yet";
  }
  if (std::string wrong = WrongNumbers(settings); !wrong.empty()) return wrong;
  return words[0] == "infer" ? WrongRequests(settings) : "";
}

}  // namespace cellbatch
