#include "client/typed_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/typed_messages.h"

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TypedFlags Parsed(const std::vector<std::string>& arguments) {
  TypedFlags typed;
  Flags flags("test", "");
  typed.AddTo(flags);
  EXPECT_TRUE(flags.Parse(arguments).ok());
  return typed;
}

TEST(TypedCommandsTest, SpansAreWordsOverCharacters) {
  const auto words = SpansFromText("0-2:17, 1-3:8 4-5:0");
  ASSERT_TRUE(words.ok()) << words.status();
  ASSERT_EQ(words->size(), 3u);
  EXPECT_EQ((*words)[1].start, 1);
  EXPECT_EQ((*words)[1].end, 3);
  EXPECT_EQ((*words)[1].word, 8);
  EXPECT_TRUE(SpansFromText("")->empty());
  EXPECT_EQ(SpansFromText("1--2:-3")->at(0).end, -2);  // wrong, which the server says
  // 2^32 + 5 is not word 5.
  for (const char* wrong :
       {"0-2", "0:2-3", "0-2:x", "0-2:3y", "a", "0-2:4294967301", "9999999999-2:1"}) {
    EXPECT_THAT(std::string(SpansFromText(wrong).status().message()),
                HasSubstr(std::string("--spans: \"") + wrong + "\""));
  }
}

TEST(TypedCommandsTest, OneFlagSaysWhatTheInputIs) {
  const auto tree = InputOf(Parsed({"--tree=(1 (2 a) (3 b))"}));
  EXPECT_EQ(std::get<TreeInput>(*tree).bracketed, "(1 (2 a) (3 b))");
  const auto text = InputOf(Parsed({"--text=A good film."}));
  EXPECT_THAT(std::get<SequenceInput>(*text).words, ElementsAre("A", "good", "film", "."));
  const auto lattice = InputOf(Parsed({"--chars=1 2 3", "--spans=0-2:9"}));
  EXPECT_THAT(std::get<LatticeInput>(*lattice).characters, ElementsAre(1, 2, 3));
  EXPECT_EQ(std::get<LatticeInput>(*lattice).words[0].word, 9);
  const TypedFlags source = Parsed({"--source=4,5", "--max-decode-steps=7"});
  EXPECT_THAT(std::get<SequenceInput>(*InputOf(source)).tokens, ElementsAre(4, 5));
  EXPECT_EQ(source.Parameters().at("max_decode_steps"), 7);
  EXPECT_EQ(source.Parameters().count("priority"), 0u);
  EXPECT_EQ(Parsed({"--source=4", "--priority=2"}).Parameters().at("priority"), 2);
  EXPECT_FALSE(Parsed({}).NameAnInput());
  EXPECT_THAT(std::string(InputOf(Parsed({"--source=1", "--text=a"})).status().message()),
              HasSubstr("2 of --text, --source, --tree and --chars are given"));
  EXPECT_FALSE(InputOf(Parsed({"--source=x"})).ok());
}

TEST(TypedCommandsTest, EveryMemberOfAnInputIsAFieldOfItsMessage) {
  InferManyInput many{.model = "m", .version = "2", .id = "a"};
  many.inputs = {SequenceInput{.vectors = {0.5f, 1}, .width = 2},
                 SequenceInput{.tokens = {1}, .character_ids = {2}, .character_counts = {3}},
                 TreeInput{.tokens = {1, 2}, .left = {3}, .right = {4}, .internal_types = {5}},
                 TreeInput{.tokens = {1}, .parents = {-1}},
                 LatticeInput{.characters = {1}, .words = {{2, 3, 4}}},
                 GraphInput{.node_types = {1},
                            .edges = {{2, 3, 4}},
                            .rows = {{.name = "f", .width = 2, .floats = {1, 2}},
                                     {.name = "i", .integers = {3}}}},
                 std::vector<Tensor>{Int32Tensor("T", {1}, {1})}};
  many.outputs = {"O"};
  many.parameters = {{"p", 7}};
  EXPECT_EQ(
      ToMessage(many).ShortDebugString(),
      "model_name: \"m\" model_version: \"2\" id: \"a\" "
      "inputs { sequence { vectors: 0.5 vectors: 1 width: 2 } } "
      "inputs { sequence { tokens: 1 character_ids: 2 character_counts: 3 } } "
      "inputs { tree { tokens: 1 tokens: 2 binary { left: 3 right: 4 } internal_types: 5 } } "
      "inputs { tree { tokens: 1 parents: -1 } } "
      "inputs { lattice { characters: 1 words { start: 2 end: 3 word: 4 } } } "
      "inputs { graph { node_types: 1 edges { from: 2 to: 3 input: 4 } "
      "rows { name: \"f\" width: 2 floats: 1 floats: 2 } rows { name: \"i\" width: 1 integers: 3 } "
      "} } "
      "inputs { tensors { tensors { name: \"T\" datatype: \"INT32\" shape: 1 "
      "contents: \"\\001\\000\\000\\000\" } } } "
      "outputs: \"O\" parameters { key: \"p\" value: 7 }");
}

TEST(TypedCommandsTest, AnswersThatBreakTheProtocolAreInternalErrors) {
  v1::InferResponse response;
  v1::Output& output = *response.add_answers()->add_outputs();
  output.set_name("OUTPUT");
  output.set_datatype("FP32");
  output.add_shape(2);
  output.add_floats(1);
  EXPECT_TRUE(absl::IsInternal(FromMessage(response).status()));
  output.add_floats(2);
  const auto good = FromMessage(response);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_THAT(*(*good->answers[0])[0].AsFloats(), ElementsAre(1, 2));
  v1::Answer& refused = *response.add_answers();
  refused.set_code(3);
  refused.set_error("no such word");
  EXPECT_EQ(FromMessage(response)->answers[1].status(), absl::InvalidArgumentError("no such word"));
}

}  // namespace
}  // namespace cellbatch
