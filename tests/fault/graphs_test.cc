// Lattices, graphs and users' unfolders that are wrong, against the real server: each request gets its
// code and text, and the next good one its answer.
#include <filesystem>
#include <limits>
#include <map>
#include <random>

#include "absl/types/span.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/fault/fault_test.h"
#include "tests/graphs/bad_growth.h"
#include "tests/graphs/bad_unfolder.h"
#include "tests/graphs/outside.h"
#include "tests/testing/lattice_model.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;
using inference::ModelInferRequest;
using testing::LatticeModel;
using testing::LatticeRequest;

// The character's cell of the lattice as a graph of its own: nodes of ids, each before the next.
constexpr char kGraphConfig[] = R"(
cell_types {
  name: "step" cell: "lstm"
  reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "0.E" }
  parameters { name: "W" tensors: "0.W" }
  parameters { name: "U" tensors: "0.U" }
  parameters { name: "b" tensors: "0.b_in" tensors: "0.b_rec" }
}
cell_types { name: "sum" cell: "merge_lstm" }
dag { types: "step" types: "sum" }
max_nodes: 100
)";

class GraphsTest : public FaultTest {
 protected:
  static void SetUpTestSuite() {
    const std::string repository = FaultRepository(), prefix = InstallHeaders();
    lattices_ = new LatticeModel({});
    lattices_->Save(repository + "/lattice");
    lattices_->Save(repository + "/graph");
    std::ofstream(repository + "/graph/config.textproto") << kGraphConfig;
    dilated_ = new DilatedModel(prefix, repository + "/dilated");
    DilatedModel(prefix, repository + "/bad");
    CompileLibrary(prefix, "bad.cc", kBadUnfolder, repository + "/bad/bad.so");
    std::ifstream in(repository + "/bad/config.textproto");
    std::string config(std::istreambuf_iterator<char>(in), {});
    config.replace(config.find("dilated.so"), 10, "bad.so");
    std::ofstream(repository + "/bad/config.textproto") << config << "max_nodes: 1000\n";
    reader_ = new ReaderModel(prefix, repository + "/reader");
    AddGrowing(prefix, repository + "/growing");
    Serve(repository, {"--devices=cpu:0", "--unfolder-libraries"});
  }
  static void TearDownTestSuite() {
    FaultTest::TearDownTestSuite();
    delete reader_;
    delete dilated_;
    delete lattices_;
  }
  // The reader's model with a library that does wrong as it grows.
  static void AddGrowing(const std::string& prefix, const std::string& folder) {
    ReaderModel(prefix, folder);
    std::string source = kBadGrowth;
    source.replace(source.find("TABLE_SIZE"), 10, "sizeof(CellbatchUnfolder)");
    CompileLibrary(prefix, "growth.cc", source, folder + "/growth.so");
    std::ifstream in(folder + "/config.textproto");
    std::string config(std::istreambuf_iterator<char>(in), {});
    for (const auto& [from, to] : std::map<std::string, std::string>{
             {"reader.so", "growth.so"}, {"4 0.5", ""}, {"max_pieces: 1000", "max_pieces: 10"}}) {
      config.replace(config.find(from), from.size(), to);
    }
    std::ofstream(folder + "/config.textproto") << config << "max_nodes: 1000\n";
  }

  static void Add(ModelInferRequest& request, const char* name, const std::vector<int32_t>& values,
                  int64_t columns = 0) {
    if (values.empty()) return;
    const auto size = static_cast<int64_t>(values.size());
    std::vector<int64_t> shape = {size};
    if (columns > 0) shape = {size / columns, columns};
    SetTensor(request, name, "INT32", shape, values);
  }
  static ModelInferRequest Lattice(const LatticeRequest& lattice) {
    ModelInferRequest request;
    request.set_model_name("lattice");
    Add(request, "CHARS", lattice.chars);
    Add(request, "WORDS", lattice.words, 3);
    Add(request, "LENGTHS", lattice.lengths);
    return request;
  }
  static ModelInferRequest Graph(const std::vector<int32_t>& types,
                                 const std::vector<int32_t>& edges,
                                 const std::vector<int32_t>& tokens) {
    ModelInferRequest request;
    request.set_model_name("graph");
    Add(request, "NODE_TYPES", types);
    Add(request, "EDGES", edges, 3);
    Add(request, "step.token", tokens);
    return request;
  }
  static ModelInferRequest Tokens(const std::string& model, const std::vector<int32_t>& tokens) {
    return cellbatch::Words(tokens, model);
  }
  static void Expect(StatusCode code, const std::string& text, const ModelInferRequest& request) {
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_NE(status.error_message().find(text), std::string::npos)
        << status.error_message() << "\nexpected: " << text;
  }
  static void Wrong(const std::string& text, const ModelInferRequest& request) {
    Expect(StatusCode::INVALID_ARGUMENT, text, request);
  }
  // Each has its code and text; the next good one the bits of before.
  static void EachEndsAlone(const std::string& model, absl::Span<const BadRequest> requests) {
    inference::ModelInferResponse first;
    ASSERT_TRUE(caller_->Infer(Tokens(model, {kGood}), first).ok());
    for (const BadRequest& bad : requests) {
      Expect(bad.its_own_fault ? StatusCode::INTERNAL : StatusCode::INVALID_ARGUMENT, bad.text,
             Tokens(model, {bad.mode}));
      inference::ModelInferResponse again;
      ASSERT_TRUE(caller_->Infer(Tokens(model, {kGood}), again).ok());
      EXPECT_EQ(FirstOutput(again), FirstOutput(first));
    }
  }
  static void ExpectAnswer(const ModelInferRequest& request, const std::vector<double>& expected) {
    inference::ModelInferResponse answer;
    const grpc::Status status = caller_->Infer(request, answer);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const std::vector<float> values = FirstOutput(answer);
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5) << i;
  }

  static LatticeModel* lattices_;
  static DilatedModel* dilated_;
  static ReaderModel* reader_;
};
LatticeModel* GraphsTest::lattices_ = nullptr;
DilatedModel* GraphsTest::dilated_ = nullptr;
ReaderModel* GraphsTest::reader_ = nullptr;

TEST_F(GraphsTest, GoodOnesAreAnswered) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 5; ++i) {
    const LatticeRequest lattice = testing::RandomLattice(random, 30);
    const std::vector<double> y = lattices_->Reference(lattice).y;
    ExpectAnswer(Lattice(lattice), {y.end() - 2, y.end()});
  }
  ExpectAnswer(Tokens("dilated", {3, 1, 4, 1, 5, 9, 2, 6}),
               dilated_->Reference({3, 1, 4, 1, 5, 9, 2, 6}).y);
  for (const std::vector<int32_t>& text : {std::vector<int32_t>{3}, std::vector<int32_t>(30, 7)}) {
    ExpectAnswer(Tokens("reader", text), reader_->Reference(text).scores);
  }
  // Without rows is as left out.
  ModelInferRequest wordless = Lattice({{5, 6, 7}, {}, {}});
  SetTensor(wordless, "WORDS", "INT32", {0, 3}, std::vector<int32_t>());
  const std::vector<double> y = lattices_->Reference({{5, 6, 7}, {}, {}}).y;
  ExpectAnswer(wordless, {y.end() - 2, y.end()});
  ModelInferRequest unlinked = Graph({0}, {}, {5});
  SetTensor(unlinked, "EDGES", "INT32", {0, 3}, std::vector<int32_t>());
  const std::vector<double> one =
      LatticeModel({.initial = false, .output = false}).Reference({{5}, {}, {}}).h;
  ExpectAnswer(unlinked, {one.end() - 4, one.end()});
  // A graph of one chain, summed with nothing: the lattice without words and start.
  const LatticeModel bare({.initial = false, .output = false});
  const std::vector<double> h = bare.Reference({{5, 6, 7}, {}, {}}).h;
  ExpectAnswer(Graph({0, 0, 0, 1}, {0, 1, 1, 1, 2, 1, 2, 3, 0}, {5, 6, 7}), {h.end() - 4, h.end()});
}

TEST_F(GraphsTest, Lattices) {
  const int32_t most = std::numeric_limits<int32_t>::max();
  Wrong("input CHARS of model \"lattice\" is missing", Lattice({{}, {0, 1, 1}, {}}));
  Wrong("model \"lattice\": input CHARS: character 1 is 20, the vocabulary ends at 19",
        Lattice({{1, 20}, {}, {}}));
  Wrong("input WORDS: word 0 is [1, 3): 0 <= start < end <= 2 is needed",
        Lattice({{1, 2}, {1, 3, 0}, {}}));
  Wrong("word 0 is [2147483647, 1)", Lattice({{1, 2}, {most, 1, 0}, {}}));
  Wrong("word 0 is [-1, 1)", Lattice({{1, 2}, {-1, 1, 0}, {}}));
  Wrong("word 0 has id 2147483647, the vocabulary ends at 29", Lattice({{1, 2}, {0, 1, most}, {}}));
  Wrong("word 1 is [0, 2) with id 3, as word 0 is", Lattice({{1, 2}, {0, 2, 3, 0, 2, 3}, {}}));
  Wrong("input CHARS: length 401, the model takes 400",
        Lattice({std::vector<int32_t>(401, 1), {}, {}}));
  LatticeRequest crowded{std::vector<int32_t>(400, 1), {}, {}};
  for (int32_t i = 0; i < 12000; ++i) {
    crowded.words.insert(crowded.words.end(), {i / 30, i / 30 + 1, i % 30});
  }
  Wrong("400 characters and 12000 words make 12802 cells, the model takes 4000", Lattice(crowded));
}

TEST_F(GraphsTest, LengthsOfLattices) {  // V18
  const std::vector<int32_t> chars = {1, 2, 3, 4};
  Wrong("input LENGTHS: the lengths add up to 3, CHARS has 4", Lattice({chars, {}, {1, 2}}));
  Wrong("lengths 0 to 1 add up to 5, CHARS has 4", Lattice({chars, {}, {1, 4}}));
  Wrong("length 1 is 0, the least is 1", Lattice({chars, {}, {4, 0}}));
  Wrong("length 0 is -4, the least is 1", Lattice({chars, {}, {-4, 8}}));
  Wrong("length 1 is 2147483647, the model takes 400",
        Lattice({chars, {}, {4, std::numeric_limits<int32_t>::max()}}));
  Wrong("word 0 is [0, 3): lattice 0 ends at 2", Lattice({chars, {0, 3, 1}, {2, 2}}));
}

TEST_F(GraphsTest, GraphsOfRequests) {
  Wrong(
      "model \"graph\": input EDGES: edge 0 leads from node 1 to node 0; edges lead from lower to "
      "higher numbers",
      Graph({0, 0}, {1, 0, 1}, {1, 2}));
  Wrong("edge 0 leads from node 0 to node 0", Graph({0}, {0, 0, 1}, {1}));
  Wrong("node 1 is of type 2, the model has 0 to 1", Graph({0, 2}, {}, {1}));
  Wrong("edge 0 leads to input 2 of node 1, its type \"step\" has 2",
        Graph({0, 0}, {0, 1, 2}, {1, 2}));
  Wrong("edge 0 leads to input 0 of node 1; the request brings step.token",
        Graph({0, 0}, {0, 1, 0}, {1, 2}));
  Wrong("edge 1 is number 2 into step.before of node 2, which takes 1",
        Graph({0, 0, 0}, {0, 2, 1, 1, 2, 1}, {1, 2, 3}));
  Wrong("input step.token: 1 rows, 2 nodes are of type \"step\"", Graph({0, 0}, {}, {1}));
  Wrong("value 1 is 20, the vocabulary ends at 19", Graph({0, 0}, {}, {1, 20}));
  Wrong("NODE_TYPES: 101 nodes, the model takes 100", Graph(std::vector<int32_t>(101, 1), {}, {}));
}

TEST_F(GraphsTest, UsersUnfoldersThatMisbehave) { EachEndsAlone("bad", kBadRequests); }

// While their graphs grow: what they had reserved is given back.
TEST_F(GraphsTest, LibrariesThatDoWrongAsTheirGraphsGrow) {
  EachEndsAlone("growing", kBadUnfolds);
  EachEndsAlone("growing", kBadExtends);
  Expect(StatusCode::INTERNAL, "needs 5 rows of table \"layer.token\"; it grows to 4",
         Tokens("growing", {kEndless}));
}

}  // namespace
}  // namespace cellbatch
