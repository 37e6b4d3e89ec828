// Random graphs, valid and not, against a checker that expands every node and every link.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "cells/cell_graph.h"
#include "cells/cell_graph_test_model.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using namespace cell_graph_testing;  // NOLINT: a test's own words

struct Call {  // one AddInput (no type) or Add
  bool input = false;
  TableId table;
  CellTypeId type;
  int32_t length = 1;
  std::vector<Link> links;
  Stop stop;
};

using Node = std::pair<int32_t, int32_t>;  // subgraph, number within it

// The slow and obvious reading of cell_graph.h.
class Naive {
 public:
  Naive(const Model& model, const std::vector<Call>& calls) : model_(model), calls_(calls) {
    for (int32_t i = 0; i < static_cast<int32_t>(calls.size()); ++i) valid_ = valid_ && Expand(i);
  }
  bool valid() const { return valid_; }
  // What node (s, t) reads, in link order.
  const std::vector<Node>& reads(Node n) const { return reads_.at(n); }
  std::set<int32_t> readers(int32_t of) const {
    std::set<int32_t> result;
    for (const auto& [node, reads] : reads_) {
      for (const Node& r : reads) {
        if (r.first == of) result.insert(node.first);
      }
    }
    return result;
  }
  bool middle_read(int32_t of) const {
    for (const auto& [node, reads] : reads_) {
      for (const Node& r : reads) {
        if (r.first == of && node.first != of && r.second != call(of).length - 1) return true;
      }
    }
    return false;
  }
  bool chain(int32_t s) const { return !call(s).input && Definition(s).carry().has_value(); }
  int32_t depth(int32_t s) const {
    int32_t deepest = 0;
    for (const Link& l : call(s).links) {
      const int32_t f = l.from.value();
      if (f < 0 || call(f).input) continue;
      deepest = std::max(deepest, depth(f) + (chain(f) ? call(f).length : 1));
    }
    return deepest;
  }

 private:
  const Call& call(int32_t s) const { return calls_[static_cast<size_t>(s)]; }
  const CellDefinition& Definition(int32_t s) const {
    return *model_.type(call(s).type).definition;
  }
  TableId Table(int32_t s) const {
    return call(s).input ? call(s).table : model_.type(call(s).type).out;
  }
  bool Expand(int32_t s) {
    const Call& c = call(s);
    if (c.input) return true;
    const CellDefinition& cell = Definition(s);
    if (c.stop.column.valid() && c.type != kDecoder) return false;
    if (c.type == kSum && c.length > 1) return false;
    std::map<int32_t, int> times;
    for (int32_t t = 0; t < c.length; ++t) {
      std::vector<Node>& reads = reads_[{s, t}];
      if (t > 0 && chain(s)) reads.push_back({s, t - 1});
      for (const Link& l : c.links) {
        const bool carry = cell.carry() == l.input;
        if (t == 0 && cell.inputs()[static_cast<size_t>(l.input.value())].arity == Arity::kOne &&
            ++times[l.input.value()] > 1) {
          return false;
        }
        if (l.from == kZeroSource || (carry && t > 0)) continue;
        const int32_t f = l.from.value();
        if (f >= s) return false;
        const TableId wanted = model_.type(c.type).in[static_cast<size_t>(l.input.value())];
        if (Table(f) != wanted) return false;
        const int32_t stride = carry || c.length == 1 ? 0 : l.stride;
        if (call(f).stop.column.valid() && l.first != kLastNode) return false;
        if (l.first == kLastNode && stride != 0) return false;
        const int32_t node = l.first == kLastNode ? call(f).length - 1 : l.first + t * stride;
        if (node < 0 || node >= call(f).length) return false;
        reads.push_back({f, node});
      }
    }
    return true;
  }

  const Model& model_;
  const std::vector<Call>& calls_;
  std::map<Node, std::vector<Node>> reads_;
  bool valid_ = true;
};

class Generator {
 public:
  Generator(const Model& model, uint32_t seed) : model_(model), random_(seed) {}

  std::vector<Call> Make() {
    std::vector<Call> calls;
    const int n = Pick(1, 12);
    const bool wild = Pick(0, 3) == 0;  // most graphs are meant to be valid
    for (int i = 0; i < n; ++i) {
      Call c;
      c.input = Pick(0, 4) == 0 || i == 0;
      c.length = Pick(1, 6);
      if (c.input) {
        c.table = kTokens;
      } else {
        FillCell(calls, c, wild);
      }
      calls.push_back(c);
    }
    return calls;
  }

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void FillCell(const std::vector<Call>& calls, Call& c, bool wild) {
    c.type = CellTypeId(Pick(0, 5));
    if (c.type == kSum && !(wild && Pick(0, 3) == 0)) c.length = 1;
    if (c.type == kDecoder && Pick(0, 1) == 0) c.stop = {kWord, Pick(0, 9)};
    const CellType& type = model_.type(c.type);
    for (size_t i = 0; i < type.in.size(); ++i) {
      const bool sum = type.definition->inputs()[i].arity == Arity::kSum;
      for (int k = Pick(0, sum ? 5 : 1); k > 0; --k) {
        Link link{kZeroSource, InputId(static_cast<int64_t>(i)), 0, 0};
        if (wild && Pick(0, 9) == 0) {
          link = {SubgraphId(Pick(0, static_cast<int>(calls.size()))), link.input, Pick(-2, 7),
                  Pick(-1, 1)};
        } else {
          Aim(calls, type, c, link);
        }
        c.links.push_back(link);
      }
    }
    std::shuffle(c.links.begin(), c.links.end(), random_);
  }

  // Points the link at something it may read, if there is anything.
  void Aim(const std::vector<Call>& calls, const CellType& type, const Call& c, Link& link) {
    std::vector<int> sources;
    for (size_t f = 0; f < calls.size(); ++f) {
      const TableId table = calls[f].input ? calls[f].table : model_.type(calls[f].type).out;
      if (table == type.in[static_cast<size_t>(link.input.value())]) {
        sources.push_back(static_cast<int>(f));
      }
    }
    if (sources.empty()) return;
    const int f = sources[static_cast<size_t>(Pick(0, static_cast<int>(sources.size()) - 1))];
    const Call& from = calls[static_cast<size_t>(f)];
    link.from = SubgraphId(f);
    if (from.stop.column.valid() || Pick(0, 2) == 0) {
      link.first = kLastNode;
    } else if (from.length >= c.length && Pick(0, 1) == 0) {
      link.stride = Pick(0, 1) == 0 ? 1 : -1;
      link.first = Pick(0, from.length - c.length) + (link.stride < 0 ? c.length - 1 : 0);
    } else {
      link.first = Pick(0, from.length - 1);
    }
  }

  const Model& model_;
  std::mt19937 random_;
};

void ExpectLaidOutWell(const CellGraph& graph, const Naive& naive) {
  std::map<std::pair<int32_t, int32_t>, int32_t> owner;  // (table, row) -> subgraph
  std::map<std::pair<int32_t, int32_t>, Node> holds;  // what the row holds, as nodes run in order
  std::map<int32_t, int32_t> rows;
  const auto row_of = [&](Node n) {
    const Subgraph& s = graph.subgraphs()[static_cast<size_t>(n.first)];
    return std::make_pair(s.table.value(), s.first_row + n.second % s.ring);
  };
  int64_t nodes = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(graph.subgraphs().size()); ++i) {
    const Subgraph& s = graph.subgraphs()[static_cast<size_t>(i)];
    for (int32_t r = 0; r < s.ring; ++r) {
      EXPECT_TRUE(owner.emplace(std::pair(s.table.value(), s.first_row + r), i).second);
    }
    rows[s.table.value()] += s.ring;
    for (int32_t t = 0; t < s.length; ++t) {
      if (s.type.valid()) {
        ++nodes;
        for (const Node& r : naive.reads({i, t})) EXPECT_EQ(holds[row_of(r)], r);
      }
      holds[row_of({i, t})] = {i, t};
      EXPECT_EQ(owner[row_of({i, t})], i);
    }
    const int32_t ring = s.stop.column.valid() ? 3 : 2;
    const bool short_ring = naive.chain(i) && !naive.middle_read(i);
    EXPECT_EQ(s.ring, short_ring ? std::min(s.length, ring) : s.length);
    EXPECT_EQ(s.depth, naive.depth(i));
    const auto consumers = graph.consumers().subspan(static_cast<size_t>(s.first_consumer),
                                                     static_cast<size_t>(s.num_consumers));
    std::vector<int32_t> listed;
    for (SubgraphId id : consumers) listed.push_back(id.value());
    std::set<int32_t> readers = naive.readers(i);
    readers.erase(i);
    EXPECT_EQ(listed, std::vector<int32_t>(readers.begin(), readers.end()));
  }
  EXPECT_EQ(graph.num_nodes(), nodes);
  for (size_t t = 0; t < graph.row_counts().size(); ++t) {
    EXPECT_EQ(graph.row_counts()[t], rows[static_cast<int32_t>(t)]);
  }
}

// Row by row the deepest subgraphs first, of one depth by type, of one type as they are numbered.
void ExpectRowsByLevel(const CellGraph& graph) {
  std::map<std::pair<int32_t, int32_t>, int32_t> by_row;  // (table, first row) -> subgraph
  for (int32_t i = 0; i < static_cast<int32_t>(graph.subgraphs().size()); ++i) {
    const Subgraph& s = graph.subgraphs()[static_cast<size_t>(i)];
    by_row[{s.table.value(), s.first_row}] = i;
  }
  std::map<int32_t, std::array<int32_t, 3>> last;  // by table
  for (const auto& [row, i] : by_row) {
    const Subgraph& s = graph.subgraphs()[static_cast<size_t>(i)];
    const std::array<int32_t, 3> key = {-s.depth, static_cast<int32_t>(s.type.value()), i};
    const auto [at, is_first] = last.emplace(row.first, key);
    EXPECT_TRUE(is_first || at->second < key) << "subgraph " << i;
    at->second = key;
  }
}

TEST(CellGraphRandomTest, SealAgreesWithAnExpansionNodeByNode) {
  Model model = TestModel();
  const std::byte data[1024] = {};
  int valid = 0, refused = 0;
  for (uint32_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    model.unfold.level_rows = seed % 2 == 0;
    const std::vector<Call> calls = Generator(model, seed).Make();
    CellGraph graph;
    bool cells = false;
    for (const Call& c : calls) {
      cells = cells || !c.input;
      if (c.input) {
        graph.AddInput(c.table, c.length, data);
      } else {
        graph.Add(c.type, c.length, c.links, c.stop);
      }
    }
    const Naive naive(model, calls);
    const absl::Status sealed = graph.Seal(model, 3);
    ASSERT_EQ(sealed.ok(), naive.valid() && cells) << sealed;
    (sealed.ok() ? valid : refused) += 1;
    if (sealed.ok()) ExpectLaidOutWell(graph, naive);
    if (sealed.ok() && model.unfold.level_rows) ExpectRowsByLevel(graph);
    if (HasFailure()) return;
  }
  EXPECT_GT(valid, 1000);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace cellbatch
