#include "tests/bench/scheduler_bench_models.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cells/any_cell.h"
#include "cells/cell_graph.h"
#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr TableId kTokens{0}, kState{1}, kLogits{2};
constexpr CellTypeId kChain{0}, kLeaf{1}, kPair{2}, kHead{3}, kWord{4}, kMerge{5};
constexpr InputId kIn0{0}, kIn1{1};
constexpr int32_t kEndless = 20'000'000;

template <typename Fill>
std::unique_ptr<Request> Make(std::shared_ptr<const Model> model, Fill fill) {
  auto request = std::make_unique<Request>();
  request->model = std::move(model);
  fill(request->graph);
  const absl::Status sealed = request->graph.Seal(*request->model, 2);
  Check(sealed.ok(), std::string(sealed.message()));
  return request;
}

const std::byte* Tokens() {
  static const std::vector<int32_t> tokens(64);
  return reinterpret_cast<const std::byte*>(tokens.data());
}

void Answer(CellGraph& g, Link last) {
  const SubgraphId head = g.Add(kHead, 1, {last});
  g.Return(head, ColumnId(0), {}, {.tensor = g.AddTensor("OUTPUT", WireType::kFp32, {8})});
}

int32_t EuroparlLength(std::mt19937& random) {
  std::lognormal_distribution<double> length(2.957, 0.664);  // mean 24
  return std::clamp(static_cast<int32_t>(std::lround(length(random))), 1, 330);
}

}  // namespace

std::shared_ptr<const Model> BenchModel(int32_t max_batch) {
  const Column token{"token", ElementType::kInt32, 1}, h{"h", ElementType::kFp32, 1024},
      c{"c", ElementType::kFp32, 1024}, y{"y", ElementType::kFp32, 8};
  auto model = std::make_shared<Model>();
  model->id = ModelId(1);
  model->name = "bench";
  model->tables = {{"tokens", {token}}, {"state", {h, c}}, {"logits", {y}}};
  const auto add = [&](std::string name, std::vector<Input> inputs, std::vector<Column> leaves,
                       std::vector<TableId> in, TableId out, std::optional<InputId> carry = {}) {
    CellType type;
    type.id = CellTypeId(static_cast<int64_t>(model->types.size()));
    type.name = name;
    type.definition = testing::AnyCell(std::move(name), std::move(inputs), leaves, carry);
    type.in = std::move(in);
    type.out = out;
    type.max_batch = max_batch;
    type.priority = type.id.value();
    model->types.push_back(std::move(type));
  };
  add("chain", {{"x", {token}}, {"before", {h, c}}}, {h, c}, {kTokens, kState}, kState, kIn1);
  add("leaf", {{"x", {token}}}, {h, c}, {kTokens}, kState);
  add("pair", {{"left", {h, c}}, {"right", {h, c}}}, {h, c}, {kState, kState}, kState);
  add("head", {{"x", {h}}}, {y}, {kState}, kLogits);
  add("word", {{"token", {token}}, {"from", {h, c}}}, {h, c}, {kTokens, kState}, kState);
  add("merge", {{"token", {token}}, {"ends", {h, c}, Arity::kSum}}, {h, c}, {kTokens, kState},
      kState);
  return model;
}

std::unique_ptr<Request> Sentence(std::shared_ptr<const Model> model, std::mt19937& random) {
  const int32_t length = EuroparlLength(random);
  static const std::vector<int32_t> tokens(400);
  return Make(std::move(model), [&](CellGraph& g) {
    const SubgraphId in =
        g.AddInput(kTokens, length, reinterpret_cast<const std::byte*>(tokens.data()));
    const SubgraphId chain = g.Add(kChain, length, {{.from = in, .input = kIn0, .stride = 1}});
    Answer(g, {.from = chain, .input = kIn0, .first = kLastNode});
  });
}

std::unique_ptr<Request> EndlessChain(std::shared_ptr<const Model> model) {
  return Make(std::move(model), [&](CellGraph& g) {
    const SubgraphId in = g.AddInput(kTokens, 1, Tokens());
    const SubgraphId chain = g.Add(kLeaf, 1, {{.from = in, .input = kIn0}});
    const SubgraphId c =
        g.Add(kChain, kEndless, {{.from = in, .input = kIn0}, {.from = chain, .input = kIn1}});
    Answer(g, {.from = c, .input = kIn0, .first = kLastNode});
  });
}

std::unique_ptr<Request> Tree(std::shared_ptr<const Model> model, std::mt19937& random) {
  std::normal_distribution<double> words(19.0, 9.0);  // SST
  const int32_t leaves = std::clamp(static_cast<int32_t>(std::lround(words(random))), 2, 50);
  return Make(std::move(model), [&](CellGraph& g) {
    const SubgraphId in = g.AddInput(kTokens, leaves, Tokens());
    const SubgraphId set = g.Add(kLeaf, leaves, {{.from = in, .input = kIn0, .stride = 1}});
    std::vector<Link> roots;
    for (int32_t i = 0; i < leaves; ++i) roots.push_back({.from = set, .input = kIn0, .first = i});
    while (roots.size() > 1) {  // two neighbours, drawn at random, become one
      const size_t at = random() % (roots.size() - 1);
      Link right = roots[at + 1];
      right.input = kIn1;
      roots[at] = {.from = g.Add(kPair, 1, {roots[at], right}), .input = kIn0};
      roots.erase(roots.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    Answer(g, roots[0]);
  });
}

std::unique_ptr<Request> Lattice(std::shared_ptr<const Model> model, std::mt19937& random) {
  constexpr int32_t kCharacters = 20;
  return Make(std::move(model), [&](CellGraph& g) {
    const SubgraphId in = g.AddInput(kTokens, 2 * kCharacters, Tokens());
    std::vector<std::vector<Link>> ends(kCharacters + 1);
    SubgraphId merged;
    for (int32_t i = 0; i < kCharacters; ++i) {
      std::vector<Link> links = {{.from = in, .input = kIn0, .first = i}};
      links.insert(links.end(), ends[static_cast<size_t>(i)].begin(),
                   ends[static_cast<size_t>(i)].end());
      merged = g.Add(kMerge, 1, links);
      const int32_t words = 1 + static_cast<int32_t>(random() % 2);
      for (int32_t w = 0; w < words; ++w) {
        const int32_t end = std::min(kCharacters, i + 1 + w * static_cast<int32_t>(random() % 3));
        const SubgraphId word = g.Add(kWord, 1,
                                      {{.from = in, .input = kIn0, .first = kCharacters + i},
                                       {.from = merged, .input = kIn1}});
        ends[static_cast<size_t>(end)].push_back({.from = word, .input = kIn1});
      }
    }
    Answer(g, {.from = merged, .input = kIn0});
  });
}

}  // namespace cellbatch
