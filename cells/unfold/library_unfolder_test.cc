// What a user's library may say, at the bounds: the calls of cellbatch_unfolder.h by a table of this process, and what became of
// each. Libraries that are compiled as users compile them: tests/graphs.
#include "cells/unfold/library_unfolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kRows = 4, kWidth = 3;
enum Type : int32_t { kLeaf, kWord, kStep, kTotal, kBest };

// The library's side: what it does is the test's.
struct Calls {
  const CellbatchHost* host;
  CellbatchBuilder* builder;

  int32_t Input(int32_t type, int32_t input, int32_t rows, const void* data) const {
    return host->add_input(builder, type, input, rows, data);
  }
  int32_t Nodes(int32_t type, int32_t length, const std::vector<CellbatchLink>& links) const {
    return host->add_nodes(builder, type, length, links.data(), static_cast<int32_t>(links.size()));
  }
  int32_t Output(const char* name, const std::vector<int64_t>& dims) const {
    return host->add_output(builder, name, static_cast<int32_t>(dims.size()), dims.data());
  }
  int32_t Unsent(int32_t type, const std::vector<int64_t>& dims) const {
    return host->add_unsent(builder, type, static_cast<int32_t>(dims.size()), dims.data());
  }
  int32_t Return(int32_t subgraph, int32_t column, int32_t first, int32_t count, int32_t output,
                 int64_t offset, int64_t stride) const {
    return host->return_rows(builder, subgraph, column, first, count, output, offset, stride);
  }
  const void* Data(const char* name) const { return host->find_tensor(builder, name)->data; }
};
using Code = std::function<void(const Calls&)>;
using Declare = std::function<void(const CellbatchHost*, CellbatchModel*)>;

Declare declares;
Code unfolds, extends;

void* Create(const CellbatchHost* host, CellbatchModel* model, const char*) {
  declares(host, model);
  return &declares;
}
int32_t Unfold(const void*, const CellbatchHost* host, CellbatchBuilder* builder) {
  unfolds({host, builder});
  return 0;
}
int32_t Extend(const void*, const CellbatchHost* host, CellbatchBuilder* builder) {
  extends({host, builder});
  return 0;
}
constexpr CellbatchUnfolder kTable = {
    sizeof(CellbatchUnfolder), CELLBATCH_UNFOLDER_VERSION, Create, Unfold, [](void*) {}, Extend};

class LibraryUnfolderTest : public ::testing::Test {
 protected:
  LibraryUnfolderTest() {
    testing::ModelBuilder builder("library");
    CellBuilder leaf("leaf"), word("word"), step("step"), total("total"), best("best");
    leaf.Leave("h", leaf.Tanh(leaf.Read("x", "x", kWidth)));
    const ValueId token = word.Read("token", "token", 1, ElementType::kInt32);
    word.Leave("h", word.Lookup(word.Matrix("E", 9, kWidth), token));
    const ValueId x = step.Read("x", "x", kWidth);
    step.Leave("h", step.Add(x, step.Carry("before", "h", kWidth)));
    total.Leave("h", total.Tanh(total.Read("all", "h", kWidth, ElementType::kFp32, Arity::kSum)));
    const ValueId scores = best.Read("h", "h", kWidth);
    best.Leave("best", best.Op1(OpKind::kArgMax, scores));
    best.Leave("y", best.Tanh(scores));
    for (const CellBuilder* cell : {&leaf, &word, &step, &total, &best}) {
      spec_.types.push_back(builder.Add(cell->Build(), 1));
    }
    model_ = builder.Build();
    spec_.name = "lib.so";
    spec_.table = &kTable;
    spec_.inputs = {{CellTypeId(kLeaf), InputId(0), {}},
                    {CellTypeId(kWord), InputId(0), {9, {}}},
                    {CellTypeId(kStep), InputId(0), {}}};
    spec_.limits = {.max_nodes = 8, .max_pieces = 2};
    declares = [](const CellbatchHost* host, CellbatchModel* model) {
      const int64_t rows[] = {-1, kWidth}, any[] = {-1};
      host->declare_input(model, "X", CELLBATCH_FP32, 2, rows, 0);
      host->declare_input(model, "IDS", CELLBATCH_INT32, 1, any, 1);
      host->declare_output(model, "OUTPUT", CELLBATCH_FP32, 1, any, 0);  // listed all the same
      host->declare_output(model, "BEST", CELLBATCH_INT32, 1, any, 0);
      host->declare_output(model, "ALL", CELLBATCH_FP32, 1, any, 1);
    };
  }

  std::unique_ptr<LibraryUnfolder> Made() const {
    auto made = LibraryUnfolder::Create(spec_, *model_);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *std::move(made) : nullptr;
  }
  std::string CreateError() const {
    const auto made = LibraryUnfolder::Create(spec_, *model_);
    return made.ok() ? "" : std::string(made.status().message());
  }
  RequestInput Request(std::vector<std::string_view> outputs = {}) const {
    RequestInput input;
    const auto* x = reinterpret_cast<const std::byte*>(rows_.data());
    const auto* ids = reinterpret_cast<const std::byte*>(ids_.data());
    input.tensors = {{"X", WireType::kFp32, {kRows, kWidth}, {x, kRows * kWidth * 4}},
                     {"IDS", WireType::kInt32, {2}, {ids, 8}}};
    input.outputs = std::move(outputs);
    return input;
  }
  // What is wrong with a request of which `code` is made, before its answer is added; "": nothing.
  std::string Error(Code code, std::vector<std::string_view> outputs = {}) {
    unfolds = [&](const Calls& c) {
      const int32_t x = c.Input(kLeaf, 0, kRows, c.Data("X"));  // subgraph 0
      c.Nodes(kLeaf, 1, {{0, x, 0, 0}});                        // subgraph 1
      code(c);
      const int32_t output = c.Output("OUTPUT", {kWidth});
      c.Return(1, 0, 0, 1, output, 0, 0);
    };
    graph_ = CellGraph();
    const absl::Status status = Made()->Unfold(Request(std::move(outputs)), graph_);
    if (!status.ok()) return std::string(status.message());
    return std::string(graph_.Seal(*model_, 2).message());
  }
  // The same of the piece after one of a chain of four, which may have three more nodes and rows.
  std::string ExtendError(Code code, bool keep = false) {
    unfolds = [&](const Calls& c) {
      c.host->grow(c.builder, 2);
      c.host->grow_nodes(c.builder, kStep, 3, 3);
      const int32_t x = c.Input(kStep, 0, kRows, c.Data("X"));
      const int32_t chain = c.Nodes(kStep, kRows, {{0, x, 0, 1}});
      if (keep) c.host->keep_rows(c.builder, chain);
      c.Return(chain, 0, 3, 1, c.Output("OUTPUT", {2 * kWidth}), 0, 0);
    };
    extends = std::move(code);
    graph_ = CellGraph();
    const auto unfolder = Made();
    EXPECT_EQ(unfolder->Unfold(Request(), graph_), absl::OkStatus());
    EXPECT_EQ(graph_.Seal(*model_, 2), absl::OkStatus());
    const absl::Status status = unfolder->Extend(Request(), graph_);
    if (!status.ok()) return std::string(status.message());
    return graph_.added() ? std::string(graph_.Seal(*model_, 2).message()) : "";
  }

  std::shared_ptr<Model> model_;
  LibrarySpec spec_;
  CellGraph graph_;
  const std::vector<float> rows_ = std::vector<float>(2 * kRows * kWidth, 0.5f);
  const std::vector<int32_t> ids_ = {8, 3};
};

TEST_F(LibraryUnfolderTest, RowsLieInTheRequestOrAreKeptWithinABound) {
  spec_.limits.max_kept_bytes = 2 * kWidth * 4;
  EXPECT_EQ(Error([&](const Calls& c) { c.Input(kLeaf, 0, kRows - 1, rows_.data() + kWidth); }),
            "");
  EXPECT_EQ(graph_.subgraphs()[2].data, reinterpret_cast<const std::byte*>(rows_.data() + kWidth));
  const std::vector<float> own(3 * kWidth, 2.0f);
  const auto keeps = [&](int32_t rows, const void* data) {
    return Error([&, rows, data](const Calls& c) { c.Input(kLeaf, 0, rows, data); });
  };
  EXPECT_EQ(keeps(2, own.data()), "");
  EXPECT_NE(graph_.subgraphs()[2].data, reinterpret_cast<const std::byte*>(own.data()));
  const char* const too_many =
      "add_input: 36 bytes of rows that do not lie in the request, the limit is 24";
  EXPECT_THAT(keeps(3, own.data()), HasSubstr(too_many));
  EXPECT_THAT(keeps(3, rows_.data() + 2 * kWidth), HasSubstr(too_many)) << "a row beyond its end";
  EXPECT_EQ(keeps(1, reinterpret_cast<const char*>(rows_.data()) + 2), "");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(graph_.subgraphs()[2].data) % 4, 0u)
      << "as floats must lie";
  EXPECT_THAT(Error([&](const Calls& c) {
                for (int i = 0; i < 3; ++i) c.Input(kLeaf, 0, 1, own.data());
              }),
              HasSubstr(too_many));
  EXPECT_THAT(keeps(-1, own.data()), HasSubstr("add_input: -1 rows for leaf_0.x"));
}

TEST_F(LibraryUnfolderTest, TheRequestsTensorsAreAsItSentThem) {
  EXPECT_EQ(Error([&](const Calls& c) {
              const CellbatchTensor* const x = c.host->find_tensor(c.builder, "X");
              const CellbatchTensor* const ids = c.host->find_tensor(c.builder, "IDS");
              EXPECT_EQ(c.host->find_tensor(c.builder, "Y"), nullptr);
              EXPECT_EQ(x->type, CELLBATCH_FP32);
              EXPECT_EQ(ids->type, CELLBATCH_INT32);
              EXPECT_EQ(x->rank, 2);
              EXPECT_EQ(x->dims[1], kWidth);
              EXPECT_EQ(ids->data, ids_.data());
              EXPECT_EQ(ids->bytes, 8);
            }),
            "");
}

TEST_F(LibraryUnfolderTest, NumbersThatAreNoneOfTheModelsAreNamed) {
  const std::vector<int32_t> ids = {8, 9};
  const auto input = [&](int32_t type, int32_t number, const void* data) {
    return Error([=](const Calls& c) { c.Input(type, number, 2, data); });
  };
  EXPECT_EQ(input(kWord, 0, ids_.data()), "");
  EXPECT_THAT(input(kWord, 0, ids.data()),
              HasSubstr("word_1.token: value 1 is 9, the vocabulary ends at 8"));
  EXPECT_THAT(input(5, 0, rows_.data()), HasSubstr("add_input: type 5, there are 5"));
  EXPECT_THAT(input(-1, 0, rows_.data()), HasSubstr("add_input: type -1, there are 5"));
  for (const int32_t number : {-1, 1, 2}) {  // 1 is carried
    EXPECT_THAT(input(kStep, number, rows_.data()), HasSubstr("is none that the request brings"));
  }
  spec_.inputs[1].known = {};
  EXPECT_EQ(input(kWord, 0, ids.data()), "") << "no vocabulary, any number";
}

TEST_F(LibraryUnfolderTest, LinksReadWhatIsThere) {
  const auto nodes = [&](int32_t type, int32_t length, const std::vector<CellbatchLink>& links) {
    return Error([=](const Calls& c) {
      const int32_t set = c.Nodes(kLeaf, 3, {{0, 0, 0, 1}});  // subgraph 2
      EXPECT_EQ(set, 2);
      c.Nodes(type, length, links);
    });
  };
  EXPECT_EQ(nodes(kStep, 3, {{0, 0, 3, -1}, {1, 2, 2, 1}}), "") << "a chain begins from one node";
  EXPECT_EQ(nodes(kStep, 3, {{0, 0, 0, 0}, {1, CELLBATCH_ZEROS, 7, 7}}), "");
  EXPECT_EQ(nodes(kTotal, 1, {{0, 2, 0, 0}, {0, 2, 0, 0}, {0, 1, 0, 0}}), "");
  const auto wrong = [&](int32_t length, CellbatchLink link, const std::string& text) {
    EXPECT_THAT(nodes(kStep, length, {link}), HasSubstr(text)) << text;
  };
  wrong(1, {-1, 0, 0, 0}, "link 0: input -1, the type has 2");
  wrong(1, {2, 0, 0, 0}, "link 0: input 2, the type has 2");
  wrong(1, {1, 3, 0, 0}, "reads subgraph 3; the 3 before it");
  wrong(1, {1, -2, 0, 0}, "reads subgraph -2");
  wrong(1, {0, 2, 0, 0}, "step_2.x reads rows of \"x\", subgraph 2 leaves rows of");
  wrong(2, {0, 0, 3, 1}, "step_2.x reads nodes 3, 1 further each of 2, of subgraph 0, which has 4");
  wrong(2, {0, 0, 0, -1}, "reads nodes 0, -1 further each of 2");
  wrong(2, {0, 0, 0, 2}, "reads nodes 0, 2 further each of 2");
  wrong(2, {0, 0, 3, -2}, "reads nodes 3, -2 further each of 2");
  wrong(1, {0, 0, 4, 0}, "reads nodes 4");
  wrong(-1, {0, 0, 0, 0}, "-1 nodes, the least is 1");
  EXPECT_THAT(nodes(kTotal, 2, {}), HasSubstr("2 nodes; a type with an input that sums has 1"));
  EXPECT_THAT(nodes(5, 1, {}), HasSubstr("add_nodes: type 5, there are 5"));
  EXPECT_THAT(Error([](const Calls& c) { c.host->add_nodes(c.builder, kLeaf, 1, nullptr, -1); }),
              HasSubstr("-1 links at null"));
}

TEST_F(LibraryUnfolderTest, CellsLinksAndReturnsMayBeAsManyAsTheModelTakes) {
  const auto cells = [&](int32_t more) {
    return Error([=](const Calls& c) { c.Nodes(kStep, more, {}); });
  };
  EXPECT_EQ(cells(7), "");
  EXPECT_THAT(cells(8), HasSubstr("the request makes 9 cells or more, the model takes 8"));
  const auto links = [&](size_t more) {
    return Error([=](const Calls& c) {
      c.Nodes(kTotal, 1, std::vector<CellbatchLink>(more, {0, 1, 0, 0}));
    });
  };
  EXPECT_EQ(links(8 * 16 - 1), "");
  EXPECT_THAT(links(8 * 16), HasSubstr("129 links or more, the model takes 128"));
  spec_.limits.max_links_per_node = 1000;
  EXPECT_EQ(links(kMaxSumLinks), "");
  EXPECT_THAT(links(kMaxSumLinks + 1),
              HasSubstr("total_3.all has 4097 links or more, 4096 may be"));
  const auto returns = [&](int more) {
    return Error([=](const Calls& c) {
      const int32_t unsent = c.Unsent(CELLBATCH_FP32, {kWidth});
      for (int i = 0; i < more; ++i) c.Return(1, 0, 0, 1, unsent, 0, 0);
    });
  };
  EXPECT_EQ(returns(8 * 4 - 1), "");
  EXPECT_THAT(returns(8 * 4), HasSubstr("return_rows: 33 calls or more, the model takes 32"));
}

TEST_F(LibraryUnfolderTest, OutputsAreThoseDeclaredAndAskedFor) {
  EXPECT_EQ(Error([](const Calls& c) {
              EXPECT_EQ(c.Output("BEST", {1}), CELLBATCH_NOT_ASKED);
              EXPECT_EQ(c.Return(99, 99, 0, 1, CELLBATCH_NOT_ASKED, 0, 0), 0);
            }),
            "");
  EXPECT_EQ(Error([](const Calls& c) { EXPECT_EQ(c.Output("BEST", {1}), 0); }, {"BEST", "OUTPUT"}),
            "");
  EXPECT_THAT(Error([](const Calls&) {}, {"OUTPUT", "BEST"}),
              HasSubstr("unfold: \"BEST\" was asked for and not added"));
  EXPECT_THAT(Error([](const Calls& c) { c.Output("OUTPUT", {kWidth}); }),
              HasSubstr("add_output: \"OUTPUT\" a second time"));
  EXPECT_THAT(Error([](const Calls& c) {
                c.Output("OUTPUT", {kWidth, 1});
              }),
              HasSubstr("add_output: \"OUTPUT\" has 2 dimensions, 1 are declared"));
  EXPECT_THAT(Error([](const Calls& c) { c.Output("OUTPUT", {0}); }),
              HasSubstr("\"OUTPUT\": dimension 0 is 0, declared is -1"));
  spec_.limits.max_answer_bytes = 400;
  const auto unsent = [&](const std::vector<int64_t>& dims) {
    return Error([=](const Calls& c) { c.Unsent(CELLBATCH_FP32, dims); });
  };
  EXPECT_EQ(unsent({97}), "") << "and the three of OUTPUT";
  for (const int64_t elements : {98, 100}) {
    EXPECT_THAT(unsent({elements}), HasSubstr("add_output: the answer is larger than 400 bytes"));
  }
  EXPECT_THAT(unsent({101}), HasSubstr("add_unsent: \"\" is larger than 400 bytes"));
  EXPECT_THAT(unsent({int64_t{1} << 32, int64_t{1} << 32}), HasSubstr("is larger than 400 bytes"));
}

TEST_F(LibraryUnfolderTest, WhatIsReturnedLiesInItsOutput) {
  // `unsent` of 7 elements; a set of three leaves of 3 is subgraph 2, what is best of one subgraph 3.
  const auto returned = [&](int32_t subgraph, int32_t column, int32_t first, int32_t count,
                            int64_t offset, int64_t stride) {
    return Error([=](const Calls& c) {
      c.Nodes(kLeaf, 3, {{0, 0, 0, 1}});
      c.Nodes(kBest, 1, {{0, 1, 0, 0}});
      c.Return(subgraph, column, first, count, c.Unsent(CELLBATCH_FP32, {7}), offset, stride);
    });
  };
  EXPECT_EQ(returned(2, 0, 0, 2, 4, -4), "");
  EXPECT_EQ(returned(2, 0, 1, 2, 0, 4), "");
  EXPECT_EQ(graph_.returns()[1].where.offset_bytes, 0);
  EXPECT_EQ(graph_.returns()[1].where.stride_bytes, 16);
  EXPECT_EQ(returned(3, 1, 0, 1, 4, 0), "");
  EXPECT_THAT(returned(3, 0, 0, 1, 0, 0), HasSubstr("column \"best\" is INT32, \"\" is FP32"));
  for (const auto& [offset, stride] : {std::pair<int64_t, int64_t>(5, 0),
                                       {-1, 4},
                                       {1, 4},
                                       {3, -4},
                                       {0, int64_t{1} << 62},
                                       {0, -(int64_t{1} << 62)},
                                       {int64_t{1} << 62, 0}}) {
    EXPECT_THAT(returned(2, 0, 0, 2, offset, stride), HasSubstr("do not fit \"\" of 7"));
  }
  EXPECT_THAT(returned(4, 0, 0, 1, 0, 0), HasSubstr("subgraph 4: there are 4"));
  EXPECT_THAT(returned(-1, 0, 0, 1, 0, 0), HasSubstr("subgraph -1: there are 4"));
  EXPECT_THAT(returned(2, 1, 0, 1, 0, 0), HasSubstr("column 1 of subgraph 2, its type leaves 1"));
  EXPECT_THAT(returned(2, -1, 0, 1, 0, 0), HasSubstr("column -1 of subgraph 2"));
  EXPECT_THAT(returned(2, 0, 2, 2, 0, 0), HasSubstr("2 nodes from 2 of subgraph 2, which has 3"));
  EXPECT_THAT(returned(2, 0, 0, 0, 0, 0), HasSubstr("0 nodes from 0"));
  EXPECT_THAT(returned(2, 0, 1, 0, 0, 0), HasSubstr("0 nodes from 1"));
  EXPECT_THAT(Error([](const Calls& c) { c.Return(1, 0, 0, 1, 1, 0, 0); }),
              HasSubstr("return_rows: output 1, 0 were added"));
}

TEST_F(LibraryUnfolderTest, WhatMayFollowIsSaidInUnfoldWithinTheModelsBounds) {
  const auto grows = [&](const Code& more) {
    return Error([=](const Calls& c) {
      c.host->grow(c.builder, 2);
      c.host->grow_nodes(c.builder, kStep, 1, 1);
      more(c);
    });
  };
  EXPECT_EQ(grows([](const Calls& c) { c.host->grow_nodes(c.builder, kStep, 6, 0); }), "");
  EXPECT_TRUE(graph_.grows());
  EXPECT_EQ(graph_.growth().pieces, 2);
  EXPECT_EQ(graph_.most_nodes(), 8);
  EXPECT_THAT(grows([](const Calls& c) { c.host->grow_nodes(c.builder, kStep, 7, 0); }),
              HasSubstr("the request makes 9 cells or more, the model takes 8"));
  EXPECT_EQ(grows([](const Calls& c) { c.host->close(c.builder); }), "");
  EXPECT_FALSE(graph_.grows()) << "closed at once";
  const std::pair<Code, const char*> cases[] = {
      {[](const Calls& c) { c.host->grow_nodes(c.builder, kStep, -1, -1); }, "-1 more cells"},
      {[](const Calls& c) { c.host->grow_nodes(c.builder, kStep, 1, -1); }, "keep -1 rows"},
      {[](const Calls& c) { c.host->grow_nodes(c.builder, kStep, 1, 2); }, "keep 2 rows"},
      {[](const Calls& c) { c.host->grow_input(c.builder, kStep, 0, -1); }, "-1 more rows for"},
      {[](const Calls& c) { c.host->keep_rows(c.builder, 0); }, "keep_rows: subgraph 0 is none"},
      {[](const Calls& c) { c.host->keep_rows(c.builder, 2); }, "keep_rows: subgraph 2 is none"},
      {[](const Calls& c) { c.host->keep_rows(c.builder, -1); }, "keep_rows: subgraph -1 is none"},
      {[](const Calls& c) {
         c.host->grow_input(c.builder, kStep, 0, 0x7fffffff);
         c.host->grow_input(c.builder, kLeaf, 0, 1);
       },
       "grow: 2147483648 more rows of \"x\", 2147483647 fit"},
      {[](const Calls& c) {
         c.Unsent(CELLBATCH_FP32, {1, 1, 1, 1, 1, 1, 1, 1, 1});
       },
       "add_unsent: a tensor of type 1 and 9 dimensions"},
      {[](const Calls& c) { c.Unsent(CELLBATCH_FP32, {}); }, "of type 1 and 0 dimensions"},
      {[](const Calls& c) { c.Unsent(2, {1}); }, "add_unsent: a tensor of type 2"},
  };
  for (const auto& [code, text] : cases) EXPECT_THAT(grows(code), HasSubstr(text));
  const auto unsent = [&](int count) {
    return Error([=](const Calls& c) {
      for (int i = 0; i < count; ++i) c.Unsent(CELLBATCH_INT32, {1, 1, 1, 1, 1, 1, 1, 1});
    });
  };
  EXPECT_EQ(unsent(64), "");
  EXPECT_THAT(unsent(65), HasSubstr("add_unsent: called more than 64 times"));
  EXPECT_THAT(Error([](const Calls& c) { c.host->grow(c.builder, 2); }),
              HasSubstr("grow: there may be other pieces, and grow_nodes said of no cells"));
}

TEST_F(LibraryUnfolderTest, ALaterPieceReadsOfEarlierOnesWhatWasKept) {
  const auto reads = [&](CellbatchLink link, bool keep = false) {
    return ExtendError([=](const Calls& c) { c.Nodes(kStep, 3, {link}); }, keep);
  };
  EXPECT_EQ(reads({1, 1, 3, 1}), "") << "the last node, and all of the nodes that may follow";
  EXPECT_EQ(reads({1, 1, 2, 0}, true), "");
  const char* const kept_last =
      "of subgraph 1, an earlier piece's chain of 4, which kept its last one";
  EXPECT_THAT(reads({1, 1, 2, 0}), HasSubstr(kept_last));
  EXPECT_EQ(reads({0, 0, 1, 1}), "") << "rows of the request stay";
  EXPECT_THAT(ExtendError([](const Calls& c) {
                c.Nodes(kBest, 3, {{0, 1, 3, -1}});
              }),
              HasSubstr("best_4.h reads node 3 of subgraph 1, an earlier piece's chain of 4"));
  const std::pair<Code, const char*> cases[] = {
      {[](const Calls& c) { c.Nodes(kStep, 4, {}); }, "4 cells, of those that grow_nodes said 3"},
      {[](const Calls& c) { c.Nodes(kStep, 3, {}), c.Nodes(kStep, 1, {}); }, "said 0 are left"},
      {[](const Calls& c) { c.host->keep_rows(c.builder, 1); }, "keep_rows: subgraph 1 is none"},
      {[](const Calls& c) { c.Return(1, 0, 3, 1, 0, 0, 0); }, "subgraph 1 is of an earlier piece"},
      {[](const Calls& c) { c.host->grow(c.builder, 1); }, "grow: called during extend"},
  };
  for (const auto& [code, text] : cases) EXPECT_THAT(ExtendError(code), HasSubstr(text));
  EXPECT_EQ(ExtendError([](const Calls& c) {
              EXPECT_NE(c.host->output_data(c.builder, 0), nullptr);
              EXPECT_EQ(c.host->output_data(c.builder, 1), nullptr);
              EXPECT_EQ(c.host->output_data(c.builder, -1), nullptr);
              const int32_t node = c.Nodes(kStep, 1, {{1, 1, 3, 0}});
              c.host->keep_rows(c.builder, node);
              c.Return(node, 0, 0, 1, 0, kWidth, 0);
              c.host->close(c.builder);
            }),
            "");
  EXPECT_FALSE(graph_.grows());
}

TEST_F(LibraryUnfolderTest, WhatIsDeclaredIsInTheSignatureAndTheModelIsAsked) {
  const auto unfolder = Made();
  const Signature& s = unfolder->signature();
  ASSERT_EQ(s.inputs.size(), 2u);
  EXPECT_FALSE(s.inputs[0].optional);
  EXPECT_TRUE(s.inputs[1].optional);
  EXPECT_THAT(s.inputs[0].dims, ElementsAre(-1, kWidth));
  EXPECT_EQ(s.inputs[1].type, WireType::kInt32);
  ASSERT_EQ(s.outputs.size(), 3u);
  EXPECT_TRUE(!s.outputs[0].on_request && s.outputs[0].listed);
  EXPECT_TRUE(s.outputs[1].on_request && !s.outputs[1].listed);
  EXPECT_TRUE(s.outputs[2].on_request && s.outputs[2].listed);
  EXPECT_TRUE(unfolder->Describe().users_own);
  spec_.phases = {0, 2, 0, 0, 1};
  EXPECT_EQ(Made()->phases(), 3);
  EXPECT_EQ(Error([](const Calls& c) { c.Nodes(kBest, 1, {{0, 1, 0, 0}}); }), "");
  EXPECT_EQ(graph_.subgraphs().back().phase, 1);
  declares = [](const CellbatchHost* host, CellbatchModel* model) {
    EXPECT_EQ(host->type_count(model), 5);
    EXPECT_EQ(host->find_type(model, "best_4"), kBest);
    EXPECT_EQ(host->find_type(model, "best"), CELLBATCH_NONE);
    EXPECT_EQ(host->find_input(model, kStep, "before"), 1);
    EXPECT_EQ(host->find_input(model, 5, "x"), CELLBATCH_NONE);
    EXPECT_EQ(host->find_input(model, -1, "x"), CELLBATCH_NONE);
    EXPECT_EQ(host->find_column(model, kBest, "y"), 1);
    EXPECT_EQ(host->find_column(model, 5, "y"), CELLBATCH_NONE);
    EXPECT_EQ(host->column_width(model, kBest, 1), kWidth);
    EXPECT_EQ(host->column_width(model, kBest, 2), CELLBATCH_NONE);
    EXPECT_EQ(host->column_width(model, kBest, -1), CELLBATCH_NONE);
  };
  EXPECT_THAT(CreateError(), HasSubstr("lib.so: declares no output"));
}

TEST_F(LibraryUnfolderTest, WhatCannotBeDeclaredIsRefusedByTheFirstMistake) {
  const auto declare = [&](const char* name, int32_t type, std::vector<int64_t> dims,
                           int many = 1) {
    declares = [=](const CellbatchHost* host, CellbatchModel* model) {
      for (int i = 0; i < many; ++i) {
        const std::string text = name + (i == 0 ? "" : std::to_string(i));
        host->declare_output(model, text.c_str(), type, static_cast<int32_t>(dims.size()),
                             dims.data(), 0);
      }
      host->declare_output(model, "OUTPUT", 7, 1, dims.data(), 0);  // a later one
    };
    return CreateError();
  };
  const std::string later = "declares tensor \"OUTPUT\" of type 7 and 1 dimensions";
  EXPECT_THAT(declare("a.B-9_", CELLBATCH_INT32, {-1, 1, 1, 1, 1, 1, 1, 1}), HasSubstr(later));
  EXPECT_THAT(declare(std::string(64, 'a').c_str(), CELLBATCH_FP32, {1}), HasSubstr(later));
  EXPECT_THAT(declare(std::string(65, 'a').c_str(), CELLBATCH_FP32, {1}),
              HasSubstr("declares a tensor \"aaa"));
  for (const char* name : {"", "a b", "a/b", "\xc3\xbc"}) {
    EXPECT_THAT(declare(name, CELLBATCH_FP32, {1}),
                HasSubstr(std::string("declares a tensor \"") + name + "\""));
  }
  EXPECT_THAT(declare("A", CELLBATCH_FP32, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
              HasSubstr("declares tensor \"A\" of type 1 and 9 dimensions"));
  EXPECT_THAT(declare("A", CELLBATCH_FP32, {}), HasSubstr("of type 1 and 0 dimensions"));
  EXPECT_THAT(declare("A", CELLBATCH_FP32, {1, -2}), HasSubstr("with dimension 1 of -2"));
  EXPECT_THAT(declare("A", CELLBATCH_FP32, {1}, 63), HasSubstr(later));
  EXPECT_THAT(declare("A", CELLBATCH_FP32, {1}, 64), HasSubstr("declares more than 64 tensors"));
}

TEST_F(LibraryUnfolderTest, ATableIsOfThisVersionAndWhole) {
  CellbatchUnfolder table = kTable;
  spec_.table = &table;
  EXPECT_EQ(CreateError(), "");
  table.size = offsetof(CellbatchUnfolder, extend);
  EXPECT_EQ(CreateError(), "") << "of before graphs could grow";
  EXPECT_THAT(Error([](const Calls& c) { c.host->grow(c.builder, 1); }),
              HasSubstr("grow: the library has no extend"));
  table.size -= 1;
  EXPECT_THAT(CreateError(), HasSubstr("its table has"));
  for (const int missing : {0, 1, 2}) {
    table = kTable;
    if (missing == 0) table.create = nullptr;
    if (missing == 1) table.unfold = nullptr;
    if (missing == 2) table.destroy = nullptr;
    EXPECT_THAT(CreateError(), HasSubstr("its table lacks create, unfold or destroy"));
  }
}

}  // namespace
}  // namespace cellbatch
