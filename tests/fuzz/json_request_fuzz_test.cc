// Requests in JSON for the command line and the load generator, damaged or not: what was written is what is sent; what is taken
// can be sent as it says (names, shapes that the bytes fill); all else is INVALID_ARGUMENT with a text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string>
#include <vector>

#include "client/json_request.h"
#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

struct Written {
  std::string text;
  InferInput means;
};

// `values`, all in one array or rows by rows.
std::string Nested(const std::vector<std::string>& values, int64_t rows) {
  if (rows == 0) return "[" + fmt::format("{}", fmt::join(values, ",")) + "]";
  std::string text;
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  for (int64_t r = 0; r < rows; ++r) {
    const auto begin = values.begin() + r * columns;
    text += fmt::format("{}[{}]", r == 0 ? "" : ", ", fmt::join(begin, begin + columns, ","));
  }
  return "[" + text + "]";
}

// One input: its text is added, what it means returned.
Tensor AddInput(Mutator& mutator, int index, std::string& text) {
  const char* const kTypes[] = {"INT32", "INT64", "FP32", "FP64", "UINT8", "BYTES"};
  const std::string datatype = kTypes[mutator.Below(std::size(kTypes))];
  const auto rows = static_cast<int64_t>(1 + mutator.Below(3));
  const auto columns = static_cast<int64_t>(mutator.Below(4));
  std::vector<std::string> words, texts;
  std::vector<double> numbers;
  for (int64_t i = 0; i < rows * columns; ++i) {
    if (datatype == "BYTES") {
      texts.push_back(std::string(mutator.Below(4), 'a'));
      words.push_back("\"" + texts.back() + "\"");
    } else {
      numbers.push_back(static_cast<double>(1 + mutator.Below(200)) *
                        (datatype[0] == 'F' ? -0.25 : 1));
      words.push_back(fmt::format("{}", numbers.back()));
      if (datatype[0] != 'F') words.back() = fmt::format("{:.0f}", numbers.back());
    }
  }
  const std::string name = "in" + std::to_string(index);
  text += fmt::format(R"({{"name": "{}", "datatype": "{}", "shape": [{}, {}], "data": {}}})", name,
                      datatype, rows, columns, Nested(words, mutator.Below(2) == 0 ? 0 : rows));
  if (datatype == "BYTES") return TextTensor(name, {rows, columns}, texts);
  return *TensorFromNumbers(name, datatype, {rows, columns}, numbers);
}

Written Write(Mutator& mutator) {
  Written written;
  std::string inputs;
  for (int i = 0, n = 1 + static_cast<int>(mutator.Below(3)); i < n; ++i) {
    inputs += i == 0 ? "" : ", ";
    written.means.inputs.push_back(AddInput(mutator, i, inputs));
  }
  written.text = "{\"inputs\": [" + inputs + "]";
  if (mutator.Below(2) == 0) {
    written.text += R"(, "id": "seven", "outputs": [{"name": "OUT"}])";
    written.means.id = "seven";
    written.means.outputs = {"OUT"};
  }
  if (mutator.Below(2) == 0) {
    written.text += R"(, "parameters": {"priority": -3, "x": 0.5, "on": true, "s": "t"})";
    written.means.parameters = {
        {"priority", int64_t{-3}}, {"x", 0.5}, {"on", true}, {"s", std::string("t")}};
  }
  written.text += "}";
  return written;
}

void ExpectCanBeSent(const InferInput& read) {
  ASSERT_FALSE(read.inputs.empty());
  for (const Tensor& tensor : read.inputs) {
    ASSERT_FALSE(tensor.name.empty());
    const auto count = ElementCount(tensor.shape);
    ASSERT_TRUE(count.ok()) << count.status();
    if (tensor.datatype == "BYTES") {
      const auto texts = tensor.AsTexts();
      ASSERT_TRUE(texts.ok()) << texts.status();
      ASSERT_EQ(static_cast<int64_t>(texts->size()), *count);
    } else {
      const auto numbers = tensor.AsDoubles();
      ASSERT_TRUE(numbers.ok()) << numbers.status();
      ASSERT_EQ(static_cast<int64_t>(numbers->size()), *count);
      for (const double number : *numbers) ASSERT_TRUE(std::isfinite(number));
    }
  }
  for (const std::string& output : read.outputs) ASSERT_FALSE(output.empty());
}

TEST(JsonRequestFuzzTest, WhatIsTakenIsWhatWasWrittenAndCanBeSent) {
  const uint64_t seed = 20261202;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {"[",
                         "]",
                         "{",
                         "}",
                         "[[[[",
                         "\"",
                         ",",
                         "-",
                         "1e39",
                         "1e400",
                         "null",
                         "true",
                         "18446744073709551615",
                         "9007199254740993",
                         "\"shape\"",
                         "\"data\"",
                         "\"BYTES\"",
                         "FP16",
                         "\"id\": 7,",
                         "\xff",
                         std::string(200, '[')});
  int64_t accepted = 0, refused = 0;
  FuzzBudget budget(5000);
  while (budget.Next()) {
    const Written written = Write(mutator);
    const bool damaged = mutator.Below(4) != 0;
    const std::string text = damaged ? mutator.Mutate(written.text) : written.text;
    SCOPED_TRACE(text);
    const auto read = RequestFromJson(text);
    if (!read.ok()) {
      ASSERT_TRUE(damaged) << read.status();
      ASSERT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
      ASSERT_FALSE(read.status().message().empty());
      ++refused;
      continue;
    }
    ++accepted;
    ASSERT_NO_FATAL_FAILURE(ExpectCanBeSent(*read));
    if (damaged) continue;
    ASSERT_EQ(read->id, written.means.id);
    ASSERT_EQ(read->outputs, written.means.outputs);
    ASSERT_EQ(read->parameters, written.means.parameters);
    ASSERT_EQ(read->inputs.size(), written.means.inputs.size());
    for (size_t i = 0; i < read->inputs.size(); ++i) {
      ASSERT_EQ(read->inputs[i].name, written.means.inputs[i].name);
      ASSERT_EQ(read->inputs[i].datatype, written.means.inputs[i].datatype);
      ASSERT_EQ(read->inputs[i].shape, written.means.inputs[i].shape);
      ASSERT_EQ(read->inputs[i].bytes, written.means.inputs[i].bytes);
    }
  }
  EXPECT_GT(accepted, budget.cases() / 4);
  EXPECT_GT(refused, budget.cases() / 4);
}

}  // namespace
}  // namespace cellbatch
