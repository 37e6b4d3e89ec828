#include "client/typed_commands.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "client/json_request.h"
#include "client/sentence.h"

namespace cellbatch {
namespace {

using Json = nlohmann::json;

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// What a step said, for people or for programs.
std::string WordText(const DecodedWord& word, bool json) {
  if (!json) {
    return (word.text.empty() ? std::to_string(word.id) : word.text) + " ";
  }
  Json line = {{"step", word.step}, {"word", word.id}};
  if (!word.text.empty()) {
    line["text"] = word.text;
  }
  return Line(line);
}

std::string EndText(const DecodeResult& result, bool json) {
  if (json) {
    return Line({{"length", result.length}, {"stopped", result.stopped}});
  }
  return fmt::format("\n{} words, then {}\n", result.length,
                     result.stopped ? "the end of the sequence" : "the cap");
}

// From the front of what is left of a text.
bool TakeNumber(std::string_view& rest, int32_t& number) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  return error == std::errc();
}

bool TakeMark(std::string_view& rest, char mark) {
  if (!rest.starts_with(mark)) return false;
  rest.remove_prefix(1);
  return true;
}

}  // namespace

void TypedFlags::AddTo(Flags& flags) {
  flags.Add("text", &text, "SENTENCE", "infer, decode: words that the server looks up.");
  flags.Add("source", &source, "IDS", "infer, decode: token ids of a sequence to translate.");
  flags.Add("tree", &tree, "TREE", "infer: a bracketed tree, as \"(3 (2 good) (2 film))\".");
  flags.Add("chars", &chars, "IDS", "infer: a lattice's characters.");
  flags.Add("spans", &spans, "SPANS",
            "infer: its words, as \"0-2:17, 1-3:8\": characters [0, 2) are word 17.");
  flags.Add("max-decode-steps", &max_decode_steps, "N",
            "infer, decode: at most so many words; 0 = the model's cap.");
  flags.Add("decode-steps", &decode_steps, "N",
            "infer, decode: exactly so many words, whatever they are.");
  flags.Add("priority", &priority, "LEVEL",
            "infer, decode: 1, the most urgent, to the model's priority_levels; 0 = its default.");
}

std::map<std::string, int64_t> TypedFlags::Parameters() const {
  std::map<std::string, int64_t> parameters;
  if (max_decode_steps != 0) {
    parameters["max_decode_steps"] = max_decode_steps;
  }
  if (decode_steps != 0) {
    parameters["decode_steps"] = decode_steps;
  }
  if (priority != 0) {
    parameters["priority"] = priority;
  }
  return parameters;
}

absl::StatusOr<std::vector<LatticeInput::Word>> SpansFromText(const std::string& text) {
  std::vector<LatticeInput::Word> words;
  std::string spaced = text;
  for (char& c : spaced) {
    c = c == ',' ? ' ' : c;
  }
  std::stringstream stream(spaced);
  for (std::string span; stream >> span;) {
    LatticeInput::Word word;
    std::string_view rest = span;
    if (!TakeNumber(rest, word.start) || !TakeMark(rest, '-') || !TakeNumber(rest, word.end) ||
        !TakeMark(rest, ':') || !TakeNumber(rest, word.word) || !rest.empty()) {
      return Wrong(fmt::format(
          "--spans: \"{}\" is not of the form START-END:WORD, of numbers of 32 bits", span));
    }
    words.push_back(word);
  }
  return words;
}

absl::StatusOr<TypedInput> InputOf(const TypedFlags& flags) {
  const int given = static_cast<int>(!flags.text.empty()) +
                    static_cast<int>(!flags.source.empty()) +
                    static_cast<int>(!flags.tree.empty()) + static_cast<int>(!flags.chars.empty());
  if (given != 1) {
    return Wrong(
        fmt::format("{} of --text, --source, --tree and --chars are given, one is needed", given));
  }
  if (!flags.tree.empty()) {
    return TypedInput(TreeInput{.bracketed = flags.tree});
  }
  if (!flags.text.empty()) {
    return TypedInput(SequenceInput{.words = WordsOf(flags.text)});
  }
  const auto ids = TokensFromText(flags.source.empty() ? flags.chars : flags.source);
  if (!ids.ok()) {
    return ids.status();
  }
  if (!flags.source.empty()) {
    return TypedInput(SequenceInput{.tokens = *ids});
  }
  auto words = SpansFromText(flags.spans);
  if (!words.ok()) {
    return words.status();
  }
  return TypedInput(LatticeInput{.characters = *ids, .words = *std::move(words)});
}

absl::StatusOr<InferResult> InferOne(Client& client, const InferInput& names, TypedInput input,
                                     const TypedFlags& flags, CallOptions options) {
  InferManyInput many{.model = names.model,
                      .version = names.version,
                      .id = names.id,
                      .inputs = {},
                      .outputs = names.outputs,
                      .parameters = flags.Parameters()};
  many.inputs.push_back(std::move(input));
  auto result = client.InferMany(many, options);
  if (!result.ok()) {
    return result.status();
  }
  if (result->answers.size() != 1) {
    return absl::InternalError(fmt::format("one input has {} answers", result->answers.size()));
  }
  if (!result->answers[0].ok()) {
    return result->answers[0].status();
  }
  return InferResult{result->model, result->version, result->id, *std::move(result->answers[0])};
}

absl::Status RunDecode(Client& client, const InferInput& names, SequenceInput source,
                       const TypedFlags& flags, bool json, CallOptions options,
                       const Print& print) {
  DecodeInput input{.model = names.model, .version = names.version, .source = std::move(source)};
  if (flags.max_decode_steps != 0) {
    input.max_decode_steps = flags.max_decode_steps;
  }
  if (flags.decode_steps != 0) {
    input.decode_steps = flags.decode_steps;
  }
  input.priority = flags.priority;
  const auto result = client.Decode(input, options, [&](const DecodedWord& word) {
    print(WordText(word, json));
    return true;
  });
  if (!result.ok()) {
    return result.status();
  }
  print(EndText(*result, json));
  return absl::OkStatus();
}

}  // namespace cellbatch
