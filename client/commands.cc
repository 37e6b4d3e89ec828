#include "client/commands.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/command_flags.h"
#include "client/flags.h"
#include "client/json_request.h"
#include "client/output.h"
#include "client/sentence.h"
#include "client/tag.h"
#include "client/token_entry.h"
#include "client/typed_commands.h"

namespace cellbatch {
namespace {

struct Settings {
  std::string url = "localhost:8001";
  bool json = false;
  std::string model;
  std::string version;
  double timeout = 10;
  std::string tokens;
  int64_t random = 0;
  int64_t seed = 1;
  std::string input;
  std::string outputs;
  std::string id;
  int64_t values = 8;
  double window = 60;
  std::string sequence;
  bool sequence_start = false;
  bool sequence_end = false;
  TypedFlags typed;
  SecurityFlags security;
  std::string name;
};

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
    "  stats       requests, tasks and mean times since the models were loaded, of every version\n"
    "              that is served where --version names none\n"
    "  latency     exact percentiles over the last seconds\n"
    "  token       draws a token into a new --token-file, and prints its entry for a server's "
    "--tokens";

Flags MakeFlags(Settings& settings) {
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

// What a command prints, in the form that was asked for.
struct Shown {
  std::string text;
  nlohmann::json json;
  int exit_code = 0;
};

template <typename T>
absl::StatusOr<Shown> Show(const absl::StatusOr<T>& answer) {
  if (!answer.ok()) {
    return answer.status();
  }
  return Shown{ToText(*answer), ToJson(*answer)};
}

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  std::error_code error;
  // A folder opens like a file, and reads like an empty one.
  if (!file || std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(fmt::format("--input={}: cannot be read", path));
  }
  return text.str();
}

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> words;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    words.push_back(word);
  }
  return words;
}

absl::StatusOr<Tensor> RandomFor(Client& client, const Settings& settings, CallOptions options) {
  const auto metadata = client.Metadata(settings.model, settings.version, options);
  if (!metadata.ok()) {
    return metadata.status();
  }
  const auto config = client.Config(settings.model, settings.version, options);
  if (!config.ok()) {
    return config.status();
  }
  return RandomSequence(*metadata, *config, settings.random, settings.seed);
}

// Which model, and what of its answer.
void NameParts(const Settings& settings, InferInput& request) {
  request.model = settings.model;
  request.version = settings.version;
  if (!settings.id.empty()) {
    request.id = settings.id;
  }
  for (std::string& name : SplitAtCommas(settings.outputs)) {
    request.outputs.push_back(std::move(name));
  }
}

absl::StatusOr<InferInput> MakeRequest(Client& client, const Settings& settings,
                                       CallOptions options) {
  InferInput request;
  if (!settings.input.empty()) {
    const auto text = ReadAll(settings.input);
    if (!text.ok()) {
      return text.status();
    }
    auto parsed = RequestFromJson(*text);
    if (!parsed.ok()) {
      return parsed.status();
    }
    request = *std::move(parsed);
  } else if (settings.random != 0) {
    auto tensor = RandomFor(client, settings, options);
    if (!tensor.ok()) {
      return tensor.status();
    }
    request.inputs.push_back(*std::move(tensor));
  } else {
    const auto tokens = TokensFromText(settings.tokens);
    if (!tokens.ok()) {
      return tokens.status();
    }
    if (tokens->empty()) {
      return absl::InvalidArgumentError(
          "infer wants --tokens, --random, --input, --text, --source, --tree or --chars");
    }
    request.inputs.push_back(
        Int32Tensor("TOKENS", {static_cast<int64_t>(tokens->size())}, *tokens));
  }
  for (const auto& [key, value] : settings.typed.Parameters()) {
    request.parameters[key] = value;
  }
  if (!settings.sequence.empty()) {
    request.parameters["sequence_id"] = settings.sequence;
  }
  if (settings.sequence_start) {
    request.parameters["sequence_start"] = true;
  }
  if (settings.sequence_end) {
    request.parameters["sequence_end"] = true;
  }
  NameParts(settings, request);
  return request;
}

absl::StatusOr<InferResult> InferTyped(Client& client, const Settings& settings,
                                       CallOptions options) {
  if (!settings.sequence.empty() || settings.sequence_start || settings.sequence_end) {
    return absl::InvalidArgumentError(
        "--sequence goes with --tokens, --random or --input, not with typed inputs");
  }
  auto input = InputOf(settings.typed);
  if (!input.ok()) {
    return input.status();
  }
  InferInput names;
  NameParts(settings, names);
  return InferOne(client, names, *std::move(input), settings.typed, options);
}

absl::StatusOr<Shown> RunInfer(Client& client, const Settings& settings, CallOptions options) {
  if (settings.typed.NameAnInput()) {
    const auto result = InferTyped(client, settings, options);
    if (!result.ok()) {
      return result.status();
    }
    return Shown{ToText(*result, settings.values), ToJson(*result)};
  }
  const auto request = MakeRequest(client, settings, options);
  if (!request.ok()) {
    return request.status();
  }
  const auto result = client.Infer(*request, options);
  if (!result.ok()) {
    return result.status();
  }
  return Shown{ToText(*result, settings.values), ToJson(*result)};
}

// The sentence after the command; or one a line, whose words stand between spaces.
absl::StatusOr<std::vector<std::vector<std::string>>> SentencesOf(const Settings& settings,
                                                                  const std::string& text) {
  if (settings.input.empty()) return std::vector<std::vector<std::string>>{WordsOf(text)};
  const auto lines = ReadAll(settings.input);
  if (!lines.ok()) return lines.status();
  std::vector<std::vector<std::string>> sentences;
  std::stringstream stream(*lines);
  for (std::string line; std::getline(stream, line);) {
    std::stringstream words(line);
    sentences.emplace_back(std::istream_iterator<std::string>(words),
                           std::istream_iterator<std::string>());
    if (sentences.back().empty()) sentences.pop_back();
  }
  return sentences;
}

absl::StatusOr<Shown> RunTag(Client& client, const Settings& settings, const std::string& text,
                             CallOptions options) {
  const std::string model = settings.model.empty() ? "tagger" : settings.model;
  auto sentences = SentencesOf(settings, text);
  if (!sentences.ok()) return sentences.status();
  if (sentences->empty() || sentences->front().empty()) {
    return absl::InvalidArgumentError("there is no word to tag");
  }
  const auto tagged = Tag(client, model, settings.version, *std::move(sentences), options);
  if (!tagged.ok()) return tagged.status();
  Shown shown;
  shown.json = {{"model_name", model}, {"sentences", nlohmann::json::array()}};
  for (const TaggedSentence& s : *tagged) {
    shown.text += (shown.text.empty() ? "" : "\n") + ToText(s);
    shown.json["sentences"].push_back({{"words", s.words}, {"labels", s.labels}});
  }
  return shown;
}

absl::StatusOr<Shown> RunMetadata(Client& client, const Settings& settings, CallOptions options) {
  if (!settings.model.empty()) {
    return Show(client.Metadata(settings.model, settings.version, options));
  }
  const auto server = client.Server(options);
  const auto models = client.RepositoryIndex(false, options);
  if (!server.ok() || !models.ok()) {
    return server.ok() ? models.status() : server.status();
  }
  nlohmann::json json = ToJson(*server);
  json["models"] = ToJson(*models)["models"];
  return Shown{ToText(*server, *models), json};
}

absl::StatusOr<Shown> RunHealth(Client& client, const Settings& settings, CallOptions options) {
  const auto health = client.Health(options);
  auto shown = Show(health);
  if (shown.ok() && !(health->live && health->ready)) {
    shown->exit_code = 1;
  }
  if (!shown.ok() || settings.model.empty()) {
    return shown;
  }
  const auto ready = client.ModelReady(settings.model, settings.version, options);
  if (!ready.ok()) {
    return ready.status();
  }
  shown->text += fmt::format("model   {}\n", *ready ? "yes" : "no");
  shown->json["model_ready"] = *ready;
  if (!*ready) {
    shown->exit_code = 1;
  }
  return shown;
}

CallOptions Timeout(const Settings& settings) {
  return {.timeout = std::chrono::nanoseconds(static_cast<int64_t>(settings.timeout * 1e9))};
}

absl::StatusOr<Shown> Run(Client& client, const std::string& command, const std::string& text,
                          const Settings& settings) {
  const CallOptions options = Timeout(settings);
  if (command == "health") {
    return RunHealth(client, settings, options);
  }
  if (command == "metadata") {
    return RunMetadata(client, settings, options);
  }
  if (command == "config") {
    return Show(client.Config(settings.model, settings.version, options));
  }
  if (command == "repository") {
    return Show(client.RepositoryIndex(false, options));
  }
  if (command == "infer") {
    return RunInfer(client, settings, options);
  }
  if (command == "tag") {
    return RunTag(client, settings, text, options);
  }
  if (command == "stats") {
    return Show(client.Statistics(settings.model, settings.version, options));
  }
  return Show(client.Latency(settings.model, settings.version, settings.window, options));
}

absl::Status RunDecoding(Client& client, const Settings& settings, CallOptions options,
                         const Print& print) {
  if (settings.typed.source.empty() && settings.typed.text.empty()) {
    return absl::InvalidArgumentError("decode wants --source or --text");
  }
  const auto input = InputOf(settings.typed);
  if (!input.ok()) {
    return input.status();
  }
  const auto* source = std::get_if<SequenceInput>(&*input);
  if (source == nullptr) {
    return absl::InvalidArgumentError("decode wants --source or --text");
  }
  InferInput names;
  NameParts(settings, names);
  return RunDecode(client, names, *source, settings.typed, settings.json, options, print);
}

// Which request, said twice, or said in part: then something would be left out in silence.
std::string WrongRequests(const Settings& settings) {
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
std::string WrongNumbers(const Settings& settings) {
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

// What is wrong with the words after the program's name; empty where nothing is.
std::string WrongWords(const std::vector<std::string>& words, const std::set<std::string>& given,
                       const Settings& settings) {
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

}  // namespace

CommandResult RunCommand(const std::vector<std::string>& arguments, const Print& live) {
  Settings settings;
  Flags flags = MakeFlags(settings);
  const auto words = flags.Parse(arguments);
  if (flags.help_wanted()) {
    return {0, flags.Help(), ""};
  }
  if (!words.ok()) {
    return {2, "", fmt::format("cellbatch-client: {}\n", std::string(words.status().message()))};
  }
  if (const std::string wrong = WrongWords(*words, flags.given(), settings); !wrong.empty()) {
    return {2, "", fmt::format("cellbatch-client: {}\n", wrong)};
  }
  if (words->front() == "token") {
    const auto entry = DrawToken(settings.name, settings.security.token_file);
    if (entry.ok()) return {0, *entry, ""};
    return {1, "", ToText(entry.status())};
  }
  const auto security = settings.security.Read();
  if (!security.ok()) {
    return {2, "", fmt::format("cellbatch-client: {}\n", std::string(security.status().message()))};
  }
  const auto client = Client::Connect(
      {.url = settings.url,
       .connect_timeout = std::chrono::milliseconds(static_cast<int64_t>(settings.timeout * 1e3)),
       .security = *security});
  // What is no UTF-8 came from the caller's own words, files or tensors: it must not end the program.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  const auto failed = [&](const absl::Status& status, std::string output) {
    if (settings.json) output += ToJson(status).dump(2, ' ', false, kReplace) + "\n";
    return CommandResult{1, std::move(output), ToText(status)};
  };
  if (!client.ok()) return failed(client.status(), "");
  if (words->front() == "decode") {
    std::string output;
    const absl::Status status = RunDecoding(
        **client, settings, Timeout(settings),
        [&](std::string_view piece) { live ? live(piece) : static_cast<void>(output += piece); });
    return status.ok() ? CommandResult{0, output, ""} : failed(status, output);
  }
  // A sentence need not be quoted.
  const std::string text = fmt::format("{}", fmt::join(words->begin() + 1, words->end(), " "));
  const absl::StatusOr<Shown> shown = Run(**client, words->front(), text, settings);
  if (!shown.ok()) return failed(shown.status(), "");
  return {shown->exit_code,
          settings.json ? shown->json.dump(2, ' ', false, kReplace) + "\n" : shown->text, ""};
}

}  // namespace cellbatch
