#include "client/commands.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <utility>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/command_settings.h"
#include "client/flags.h"
#include "client/json_request.h"
#include "client/output.h"
#include "client/sentence.h"
#include "client/tag.h"
#include "client/token_entry.h"
#include "client/typed_commands.h"

namespace cellbatch {
namespace {

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

absl::StatusOr<Tensor> RandomFor(Client& client, const CommandSettings& settings,
                                 CallOptions options) {
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
void NameParts(const CommandSettings& settings, InferInput& request) {
  request.model = settings.model;
  request.version = settings.version;
  if (!settings.id.empty()) {
    request.id = settings.id;
  }
  for (std::string& name : SplitAtCommas(settings.outputs)) {
    request.outputs.push_back(std::move(name));
  }
}

absl::StatusOr<InferInput> MakeRequest(Client& client, const CommandSettings& settings,
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

absl::StatusOr<InferResult> InferTyped(Client& client, const CommandSettings& settings,
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

absl::StatusOr<Shown> RunInfer(Client& client, const CommandSettings& settings,
                               CallOptions options) {
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
absl::StatusOr<std::vector<std::vector<std::string>>> SentencesOf(const CommandSettings& settings,
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

absl::StatusOr<Shown> RunTag(Client& client, const CommandSettings& settings,
                             const std::string& text, CallOptions options) {
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

absl::StatusOr<Shown> RunMetadata(Client& client, const CommandSettings& settings,
                                  CallOptions options) {
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

absl::StatusOr<Shown> RunHealth(Client& client, const CommandSettings& settings,
                                CallOptions options) {
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

CallOptions Timeout(const CommandSettings& settings) {
  return {.timeout = std::chrono::nanoseconds(static_cast<int64_t>(settings.timeout * 1e9))};
}

absl::StatusOr<Shown> Run(Client& client, const std::string& command, const std::string& text,
                          const CommandSettings& settings) {
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

absl::Status RunDecoding(Client& client, const CommandSettings& settings, CallOptions options,
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

}  // namespace

CommandResult RunCommand(const std::vector<std::string>& arguments, const Print& live) {
  CommandSettings settings;
  Flags flags = CommandFlags(settings);
  const auto words = flags.Parse(arguments);
  if (flags.help_wanted()) {
    return {0, flags.Help(), ""};
  }
  if (!words.ok()) {
    return {2, "", fmt::format("cellbatch-client: {}\n", std::string(words.status().message()))};
  }
  if (const std::string wrong = WhatIsWrong(*words, flags.given(), settings); !wrong.empty()) {
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
