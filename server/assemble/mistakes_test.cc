// Model folders with one mistake each, as people make them, and the whole text that comes out: the line, both values, what
// would do. What each cell's own text may get wrong is in server/cells/cell_mistakes_test.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/assemble/model_folder.h"
#include "server/repository/model_loader.h"

namespace cellbatch {
namespace {

constexpr char kSequence[] = R"(cell_types {
  name: "low" cell: "lstm" reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "emb" }
  parameters { name: "W" tensors: "w0" }
  parameters { name: "U" tensors: "u0" }
}
cell_types {
  name: "top" cell: "lstm" reads { input: "x" through: "below" }
  parameters { name: "W" tensors: "w1" }
  parameters { name: "U" tensors: "u1" }
}
cell_types {
  name: "head" cell: "linear" reads { input: "x" through: "below" }
  parameters { name: "W" tensors: "fc" }
}
chain { input: TOKENS layers { forward: "low" } layers { forward: "top" } head: "head" }
)";
constexpr char kNodes[] = R"(cell_types {
  name: "leaf" cell: "word_leaf" reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "emb" }
  parameters { name: "W" tensors: "w" }
}
cell_types {
  name: "node" cell: "pair_node"
  parameters { name: "U0" tensors: "p0" }
  parameters { name: "U1" tensors: "p1" }
}
cell_types {
  name: "out" cell: "linear" reads { input: "x" through: "below" }
  parameters { name: "W" tensors: "fc" }
}
)";
constexpr char kTree[] = "tree { leaf: \"leaf\" internal: \"node\" output: \"out\" }\n";
constexpr char kDag[] =
    "dag { types: \"leaf\" types: \"node\" types: \"out\" output_type: \"out\" }\n";
// Puts twice the state into the row.
constexpr char kTwice[] =
    "ops { name: \"twice\" kind: CONCAT args: \"h\" args: \"h\" }\n"
    "outputs { column: \"h\" value: \"twice\" }";

// `text` with `from` replaced by `to`.
std::string With(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class MistakesTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) const { folder_.Write(file, text); }
  std::string Error(const std::string& config) const {
    Write("config.textproto", config);
    const auto model = LoadModel(folder_.path(), "model", 1, ModelId(0), {});
    return model.ok() ? "loaded" : std::string(model.status().message());
  }
  std::string Sequence(const std::string& from, const std::string& to) const {
    return Error(With(kSequence, from, to));
  }

  const ModelFolder folder_{"mistakes",
                            {{"emb", {20, 5}},
                             {"w0", {12, 5}},
                             {"u0", {12, 3}},
                             {"w1", {12, 3}},
                             {"u1", {12, 3}},
                             {"fc", {2, 3}},
                             {"fc4", {2, 4}},
                             {"w", {3, 5}},
                             {"p0", {3, 3}},
                             {"p1", {3, 3}},
                             {"w2", {12, 6}}}};
};

TEST_F(MistakesTest, WithoutAMistakeTheyAreModels) {
  EXPECT_EQ(Error(kSequence), "loaded");
  EXPECT_EQ(Error(std::string(kNodes) + kTree), "loaded");
  EXPECT_EQ(Error(std::string(kNodes) + kDag), "loaded");
}

TEST_F(MistakesTest, ALayerThatReadsOtherColumnsIsToldOfTheCellThatHelps) {
  const auto text = [](const char* reader, const char* below) {
    return fmt::format(
        "{}: input \"x\" reads column \"x\" FP32, what cell type \"{}\" leaves is {{h FP32[3], c "
        "FP32[3]}}; reads {{ input: \"x\" through: \"below\" }} puts a cell in front that reads h "
        "and "
        "leaves x",
        reader, below);
  };
  EXPECT_EQ(Sequence("\"lstm\" reads { input: \"x\" through: \"below\" }", "\"lstm\""),
            text("config.textproto:7: cell type \"top\"", "low"));
  EXPECT_EQ(Sequence("\"linear\" reads { input: \"x\" through: \"below\" }", "\"linear\""),
            text("config.textproto:12: cell type \"head\"", "top"));
}

TEST_F(MistakesTest, NamesThatDoNotExistComeWithThoseThatDo) {
  EXPECT_EQ(
      Sequence("forward: \"low\"", "forward: \"lowe\""),
      "config.textproto:16: chain: layers names cell type \"lowe\", which is not there; did you "
      "mean \"low\"?");
  EXPECT_EQ(
      Sequence("tensors: \"emb\"", "tensors: \"enb\""),
      "config.textproto:1: cell type \"low\": parameter \"embed/table\": tensor \"enb\" is not in "
      "the file; did you mean \"emb\"?");
  EXPECT_EQ(
      Sequence("reads { input: \"x\"", "reads { input: \"y\""),
      "config.textproto:1: cell type \"low\": shipped lstm.textproto: cell \"embed\" before input "
      "\"y\": there is no such input (there are \"x\", \"before\")");
  EXPECT_EQ(
      Sequence("name: \"embed/table\"", "name: \"table\""),
      "config.textproto:1: cell type \"low\": parameter \"embed/table\" of cell \"lstm\" has no "
      "tensor; parameters { name: \"embed/table\" tensors: \"..\" } names it\n"
      "config.textproto:1: cell type \"low\": shipped lstm.textproto: cell \"lstm\" has no "
      "parameter or input \"table\"; did you mean \"embed/table\"?");
  // What follows is the list of shipped cells.
  const auto start = [](const std::string& text) {
    return text.substr(0, text.find(" in the folder"));
  };
  EXPECT_EQ(start(Sequence("cell: \"lstm\"", "cell: \"lsmt\"")),
            "config.textproto:1: cell type \"low\": there is no cell \"lsmt\"; did you mean "
            "\"lstm\"?: no "
            "lsmt.textproto");
  EXPECT_EQ(start(Error(With(std::string(kNodes) + kTree, "\"pair_node\"", "\"pairnode\""))),
            "config.textproto:6: cell type \"node\": there is no cell \"pairnode\"; did you mean "
            "\"pair_node\"?: no pairnode.textproto");
  EXPECT_EQ(
      Sequence("chain {", "optional_outputs: \"FINAL_X\"\nchain {"),
      "config.textproto:16: optional_outputs: the model has no output \"FINAL_X\"; did you mean "
      "\"FINAL_H\"?");
  EXPECT_EQ(
      Sequence("layers {", "layer {"),
      "config.textproto:16:29: Message type \"cellbatch.disk.ChainUnfolder\" has no field named "
      "\"layer\"; did you mean \"layers\"?");
  EXPECT_EQ(
      Sequence("chain {", "policy { kind: LB_GREEDI }\nchain {"),
      "config.textproto:16:26: Unknown enumeration value of \"LB_GREEDI\" for field \"kind\"; did "
      "you mean \"LB_GREEDY\"?");
}

// The parser has read on by then.
TEST_F(MistakesTest, AWordAtTheEndOfItsLineIsToldByThatLine) {
  EXPECT_EQ(Sequence("chain {", "precision: PRECISION_FP16\n\n# wide\nchain {"),
            "config.textproto:16:12: Unknown enumeration value of \"PRECISION_FP16\" for field "
            "\"precision\"; did you mean \"PRECISION_FP32\"?");
  EXPECT_EQ(
      Sequence("tensors: \"w0\" }", "tensors: \"w0\" transposed: yes\n }"),
      "config.textproto:4:52: Invalid value for boolean field \"transposed\". Value: \"yes\".");
}

TEST_F(MistakesTest, SizesThatDisagreeNameWhatGivesThem) {
  const std::string at = "config.textproto:1: cell type \"low\": ";
  EXPECT_EQ(
      Sequence("tensors: \"w0\" }", "tensors: \"w0\" transposed: true }"),
      at + "shipped lstm.textproto:15: cell \"lstm\": \"W\" is [4*H = 12, D = 5], tensor \"w0\" is "
           "[5, 12]; turned round, every shape fits: a matrix is written [rows out, columns in], "
           "and a tensor that is stored the other way is read with transposed: true");
  EXPECT_EQ(
      Sequence("tensors: \"w0\"", "tensors: \"w1\""),
      at + "shipped lstm.textproto:15: cell \"lstm\": \"W\" is [4*H = 12, D = 5], tensor \"w1\" is "
           "[12, 3] (D = 5 by tensor \"emb\")");
  EXPECT_EQ(
      Sequence("tensors: \"emb\" }", "tensors: \"emb\" } sizes { key: \"H\" value: 4 }"),
      at +
          "shipped lstm.textproto:15: cell \"lstm\": \"W\" is [4*H = 16, D = 5], tensor \"w0\" is "
          "[12, 5] (H = 4 by the cell type's sizes, D = 5 by tensor \"emb\")\n" +
          at +
          "shipped lstm.textproto:16: cell \"lstm\": \"U\" is [4*H = 16, H = 4], tensor \"u0\" is "
          "[12, 3] (H = 4 by the cell type's sizes)");
  EXPECT_EQ(Sequence("tensors: \"emb\" }", "tensors: \"emb\" } sizes { key: \"K\" value: 4 }"),
            at + "sizes: cell \"lstm\" has no size \"K\" (there are \"D\", \"H\", \"V\")");
  EXPECT_EQ(Sequence("tensors: \"fc\"", "tensors: \"fc4\""),
            "config.textproto:12: cell type \"head\": shipped below.textproto:4: cell \"linear\": "
            "\"x.h\" is [D = 4], what cell type \"top\" leaves is [3] (D = 4 by tensor \"fc4\")");
}

TEST_F(MistakesTest, ACellInAPlaceThatIsNotItsOwnIsToldWhatThePlaceTakes) {
  EXPECT_EQ(
      Sequence(" head: \"head\" }", " layers { forward: \"head\" } }"),
      "config.textproto:16: chain: cell type \"head\" carries nothing from step to step; a layer's "
      "cell says carry: the input that reads the step before");
  EXPECT_EQ(
      Sequence("layers { forward: \"top\" } head: \"head\"",
               "layers { forward: \"head\" } head: \"top\""),
      "config.textproto:7: cell type \"top\": input \"x\" reads column \"h\" FP32, what cell type "
      "\"head\" leaves is {y FP32[2]}");
  EXPECT_EQ(
      Sequence("head: \"head\" }", "head: \"top\" }"),
      "config.textproto:16: chain: head: cell type \"top\" is used twice; each place takes a type "
      "of its own, which may name the same tensors");
  EXPECT_EQ(
      Sequence("\"linear\" reads { input: \"x\" through: \"below\" }\n  parameters { name: \"W\" "
               "tensors: \"fc\" }",
               "\"below\""),
      "config.textproto:15: chain: head \"head\" leaves no FP32 column \"y\", but {x FP32[3]}");
  EXPECT_EQ(
      Sequence("\"lstm\" reads { input: \"x\" through: \"embed\" }\n  parameters { name: "
               "\"embed/table\" tensors: \"emb\" }",
               "\"lstm\""),
      "config.textproto:1: cell type \"low\": reads FP32 by input \"x\", the request's TOKENS is "
      "INT32, and chain: layers is given it; reads { input: \"x\" through: \"embed\" } looks it "
      "up");
  EXPECT_EQ(
      Sequence("input: TOKENS", "input: VECTORS"),
      "config.textproto:1: cell type \"low\": reads INT32 by input \"token\", the request's X is "
      "FP32, and chain: layers is given it; what is looked up comes as TOKENS");
  EXPECT_EQ(
      Sequence(" head: \"head\" }", " }"),
      "config.textproto:12: cell type \"head\" is not used; nothing at config.textproto:16 names "
      "it");
}

TEST_F(MistakesTest, NodesOfATreeThatLeaveOtherColumnsAreShownWithThem) {
  const std::string config = std::string(kNodes) + kTree;
  Write("word_leaf.textproto", With(kLeafCell, "column: \"h\"", "column: \"state\""));
  EXPECT_EQ(
      Error(config),
      "config.textproto:6: cell type \"node\": input \"child0\" reads column \"h\" FP32, what cell "
      "type \"leaf\" leaves is {state FP32[3]}");
  Write("word_leaf.textproto",
        With(kLeafCell, "outputs {", "outputs { column: \"e\" value: \"product\" }\noutputs {"));
  EXPECT_EQ(Error(config),
            "config.textproto:15: tree: cell type \"leaf\" leaves {e FP32[3], h FP32[3]}, \"node\" "
            "leaves "
            "{h FP32[3]}; all nodes of a tree leave the same columns, in one order");
  Write("word_leaf.textproto", kLeafCell);
  EXPECT_EQ(Error(With(config, "leaf: \"leaf\"", "leaf: \"node\"")),
            "config.textproto:6: cell type \"node\": reads FP32 by input \"child0\", the request's "
            "TOKENS "
            "is INT32, and tree: leaf is given it; reads { input: \"child0\" through: \"embed\" } "
            "looks it "
            "up");
  EXPECT_EQ(
      Error(With(config, "internal: ", "node: ")),
      "config.textproto:15:25: Message type \"cellbatch.disk.TreeUnfolder\" has no field named "
      "\"node\" (there are \"embedding\", \"leaf\", \"internal\", \"edge\", \"output\")");
}

// A type that an input finds by the names of its columns may leave other widths.
TEST_F(MistakesTest, AGraphsInputThatFindsTheWrongTypeIsToldOfRowsOf) {
  const std::string config = std::string(kNodes) + kDag;
  Write("pair_node.textproto", With(kPairCell, "outputs { column: \"h\" value: \"h\" }", kTwice));
  EXPECT_EQ(
      Error(config),
      "config.textproto:11: cell type \"out\": shipped below.textproto:4: cell \"linear\": \"x.h\" "
      "is [D = 3], what cell type \"node\" leaves is [6] (D = 3 by tensor \"fc\"); dag: out.x "
      "reads "
      "it because the names of its columns fit: rows_of { key: \"out.x\" value: .. } names the "
      "type "
      "it is to read, from_request: \"out.x\" the request");
  EXPECT_EQ(Error(With(config, "output_type: \"out\"",
                       "output_type: \"out\" rows_of { key: \"out.x\" value: \"leaf\" }")),
            "loaded")
      << "what the text says helps";
}

TEST_F(MistakesTest, AGraphsNamesComeWithThoseThatExist) {
  const auto error = [&](const std::string& more) {
    return Error(With(std::string(kNodes) + kDag, "output_type: \"out\"", more));
  };
  const std::string at = "config.textproto:15: dag: ";
  EXPECT_EQ(error("output_type: \"outt\""),
            at + "output_type \"outt\" is none of its types; did you mean \"out\"?");
  EXPECT_EQ(
      error("output_type: \"out\" output: \"h\""),
      at + "cell type \"out\" leaves no FP32 or INT32 column \"h\", but {y FP32[2]}; output names "
           "one of them");
  EXPECT_EQ(error(""),
            at + "cell type \"leaf\" leaves no FP32 or INT32 column \"y\", but {h FP32[3]}; "
                 "output_type names the type whose nodes are the outputs");
  EXPECT_EQ(
      error("output_type: \"out\" from_request: \"leaf.x\""),
      at + "from_request names \"leaf.x\", no type has such an input (there are \"leaf.token\", "
           "\"node.child0\", \"node.child1\", \"out.x\")");
  EXPECT_EQ(error("output_type: \"out\" rows_of { key: \"out.h\" value: \"node\" }"),
            at + "rows_of names \"out.h\", no type has such an input; did you mean \"out.x\"?");
  EXPECT_EQ(error("output_type: \"out\" phases { key: \"outt\" value: 2 }"),
            at + "phases names \"outt\", which is none of its types; did you mean \"out\"?");
}

// A vocabulary is that of a column: what is cut out of one could be any number.
TEST_F(MistakesTest, ANumberThatIsCutOutOfAColumnToBeLookedUpIsToldToBeAColumnOfItsOwn) {
  const auto text = [](const char* type, const char* lookup, const char* index, const char* of) {
    return fmt::format(
        "{}: operator \"{}\" (Lookup): its index {} is taken out of column \"ids\" of the "
        "request's {}.x, and only what is looked up as it came is held to the vocabulary: each "
        "number that is looked up is a column of its own, INT32 [1]",
        type, lookup, index, of);
  };
  const std::string slices = R"(inputs { name: "x" columns { name: "ids" type: INT32 dims: "2" } }
ops { name: "i0" kind: SLICE args: "x.ids" begin: "0" end: "1" }
ops { name: "i1" kind: SLICE args: "x.ids" begin: "1" end: "2" }
)";
  Write("two.textproto", "name: \"two\"\n" + slices + R"(
parameters { name: "E" dims: "V" dims: "D" }
ops { name: "a" kind: LOOKUP args: "E" args: "i0" }
ops { name: "b" kind: LOOKUP args: "E" args: "i1" }
ops { name: "y" kind: ADD args: "a" args: "b" }
outputs { column: "y" value: "y" }
)");
  const std::string two = "config.textproto:1: cell type \"t\"";
  EXPECT_EQ(Error(R"(cell_types { name: "t" cell: "two" parameters { name: "E" tensors: "emb" } }
dag { types: "t" })"),
            text(two.c_str(), "a", "\"i0\" (Slice)", "t") + "\n" +
                text(two.c_str(), "b", "\"i1\" (Slice)", "t"));

  Write("cut.textproto", "name: \"cut\"\n" + slices + R"(
outputs { column: "word" value: "i0" }
outputs { column: "other" value: "i1" }
)");
  Write("say.textproto", R"(name: "say"
inputs { name: "p" columns { name: "word" type: INT32 } }
parameters { name: "E" dims: "V" dims: "D" }
ops { name: "y" kind: LOOKUP args: "E" args: "p.word" }
outputs { column: "y" value: "y" }
)");
  EXPECT_EQ(Error(R"(cell_types { name: "t" cell: "cut" }
cell_types { name: "u" cell: "say" parameters { name: "E" tensors: "emb" } }
dag { types: "t" types: "u" output_type: "u" })"),
            text("config.textproto:2: cell type \"u\"", "y", "\"p.word\" (Input)", "t"))
      << "nor is it held by way of another type";
}

}  // namespace
}  // namespace cellbatch
