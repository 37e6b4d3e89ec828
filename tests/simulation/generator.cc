#include "tests/simulation/generator.h"

#include <algorithm>

#include "cells/check.h"
#include "tests/simulation/sim_world.h"

namespace cellbatch::sim {

Plan Generator::Any() {
  return Make(static_cast<Shape>(Pick(0, static_cast<int>(Shape::kNumShapes) - 1)));
}

Plan Generator::Make(Shape shape) {
  switch (shape) {
    case Shape::kSentence:
      return Sentence();
    case Shape::kStacked:
      return Stacked();
    case Shape::kBidirectional:
      return Bidirectional();
    case Shape::kTree:
      return BinaryTree();
    case Shape::kChildSum:
      return ChildSum(false);
    case Shape::kEdgeTree:
      return ChildSum(true);
    case Shape::kLattice:
      return Lattice();
    case Shape::kDag:
      return Dag();
    case Shape::kTranslation:
      return Translation();
    case Shape::kAlternation:
      return Alternation();
    case Shape::kTwoSinks:
      return TwoSinks();
    case Shape::kNumShapes:
      break;
  }
  CheckFailed("no such shape", std::source_location::current());
}

void Generator::Cut(Plan& plan) {
  const int32_t n = static_cast<int32_t>(plan.subgraphs.size());
  const int percent = Chance(20) ? 100 : Pick(1, 60);  // plans end in cells
  bool has_cell = false;
  for (int32_t s = 0; s < n; ++s) {
    if (has_cell && Chance(percent)) {
      plan.cuts.push_back(s);
      has_cell = false;
    }
    has_cell = has_cell || !plan.subgraphs[static_cast<size_t>(s)].is_input;
  }
  if (Chance(40)) {  // what comes last brings rows of its own
    plan.cuts.push_back(n);
    const SubgraphId tokens = plan.AddTokens(Length());
    Sink(plan, Chain(plan, tokens, Chance(50)), kLastNode);
  }
  plan.closes = Chance(50);
}

int Generator::Length() { return Chance(90) ? Pick(1, 12) : Pick(13, 40); }

// Rows of a table that cells leave, brought by the request: of all its columns, or of some.
SubgraphId Generator::States(Plan& plan, TableId table) {
  return plan.AddStates(table, Pick(1, 3), Chance(70) ? kEveryColumn : ColumnSet(Pick(1, 2)));
}

std::vector<Link> Generator::Begins(Plan& plan, Link over, InputId carry) {
  if (!Chance(25)) return {over};
  return {over, Reads(plan, States(plan, kState), carry)};
}

SubgraphId Generator::Chain(Plan& plan, SubgraphId tokens, bool backward) {
  const int32_t n = plan.length(tokens);
  const Link over = {tokens, kIn0, backward ? n - 1 : 0, backward ? -1 : 1};
  return plan.Add(kChain, n, Begins(plan, over, kIn1));
}

// A head over that node of `state`, returned.
void Generator::Sink(Plan& plan, SubgraphId state, int32_t node) {
  const SubgraphId head = plan.Add(kHead, 1, {Link{state, kIn0, node, 0}});
  plan.Return(head, kY, {0, 1});
}

Plan Generator::Sentence() {
  Plan plan;
  const SubgraphId chain = Chain(plan, plan.AddTokens(Length()), Chance(20));
  const int32_t n = plan.length(chain);
  if (Chance(80)) Sink(plan, chain, n - 1);
  if (Chance(40)) plan.Return(chain, kH, {0, n});
  if (Chance(30)) plan.Return(chain, kC, {n - 1, 1});
  if (Chance(10)) plan.Return(chain, kH, {n / 2, 1});
  return plan;
}

Plan Generator::Stacked() {
  Plan plan;
  SubgraphId layer = Chain(plan, plan.AddTokens(Length()), false);
  const int32_t n = plan.length(layer);
  for (int k = Pick(1, 3); k > 0; --k) {
    if (Chance(30)) plan.Return(layer, kC, {n - 1, 1});
    const bool backward = Chance(30);
    const Link over = {layer, kIn0, backward ? n - 1 : 0, backward ? -1 : 1};
    layer = plan.Add(kStack, n, Begins(plan, over, kIn1));
  }
  plan.Return(layer, kH, {0, n});
  if (Chance(50)) Sink(plan, layer, kLastNode);
  return plan;
}

Plan Generator::Bidirectional() {
  Plan plan;
  const SubgraphId tokens = plan.AddTokens(Length());
  const int32_t n = plan.length(tokens);
  SubgraphId forward = Chain(plan, tokens, false), backward = Chain(plan, tokens, true);
  for (int k = Pick(0, 2); k > 0; --k) {
    const SubgraphId both =
        plan.Add(kPair, n, {Link{forward, kIn0, 0, 1}, Link{backward, kIn1, n - 1, -1}});
    forward = plan.Add(kStack, n, {Link{both, kIn0, 0, 1}});
    backward = plan.Add(kStack, n, {Link{both, kIn0, n - 1, -1}});
  }
  const SubgraphId top =
      plan.Add(kPair, 1, {Link{forward, kIn0, kLastNode, 0}, Link{backward, kIn1, kLastNode, 0}});
  Sink(plan, top, 0);
  if (Chance(40)) plan.Return(backward, kH, {0, n});
  return plan;
}

SubgraphId Generator::Tree(Plan& plan, SubgraphId leaves, int first, int count) {
  const int left_count = Pick(1, count - 1);
  Link left{leaves, kIn0, first, 0}, right{leaves, kIn1, first + left_count, 0};
  if (left_count > 1) left = {Tree(plan, leaves, first, left_count), kIn0, 0, 0};
  if (count - left_count > 1) {
    right = {Tree(plan, leaves, first + left_count, count - left_count), kIn1, 0, 0};
  }
  return plan.Add(kPair, 1, {left, right});
}

Plan Generator::BinaryTree() {
  Plan plan;
  const SubgraphId tokens = plan.AddTokens(std::max(2, Length()));
  const int32_t n = plan.length(tokens);
  const SubgraphId leaves = plan.Add(kLeaf, n, {Link{tokens, kIn0, 0, 1}});
  const SubgraphId root = Tree(plan, leaves, 0, n);
  Sink(plan, root, 0);
  if (Chance(30)) plan.Return(leaves, kH, {0, n});
  return plan;
}

// A tree of `count` nodes, one token each; returns its root.
SubgraphId Generator::SumTree(Plan& plan, SubgraphId tokens, int& next, int count, bool edges) {
  const int32_t own = next++;
  std::vector<SubgraphId> children;
  for (int left = count - 1; left > 0;) {
    const int take = Pick(1, left);
    const SubgraphId child = SumTree(plan, tokens, next, take, edges);
    children.push_back(
        edges ? plan.Add(kEdge, 1, {Link{child, kIn0, 0, 0}, Link{tokens, kIn1, own, 0}}) : child);
    left -= take;
  }
  std::shuffle(children.begin(), children.end(), random_);
  std::vector<Link> links = {{tokens, kIn0, own, 0}};
  for (SubgraphId child : children) links.push_back({child, kIn1, 0, 0});
  return plan.Add(edges ? kGather : kMerge, 1, std::move(links));
}

Plan Generator::ChildSum(bool edges) {
  Plan plan;
  const SubgraphId tokens = plan.AddTokens(Length());
  int next = 0;
  const SubgraphId root = SumTree(plan, tokens, next, plan.length(tokens), edges);
  plan.Return(root, kH, {0, 1});
  if (Chance(50)) Sink(plan, root, 0);
  return plan;
}

Plan Generator::Lattice() {
  Plan plan;
  const SubgraphId tokens = plan.AddTokens(Length());
  const int32_t n = plan.length(tokens);
  std::vector<std::vector<SubgraphId>> ending(static_cast<size_t>(n) + 1);
  SubgraphId state = Chance(20) ? States(plan, kState) : kZeroSource;
  for (int32_t t = 0; t < n; ++t) {
    state = plan.Add(kChain, 1, {Link{tokens, kIn0, t, 0}, Link{state, kIn1, 0, 0}});
    std::vector<SubgraphId>& words = ending[static_cast<size_t>(t)];
    if (!words.empty()) {
      words.push_back(state);
      std::shuffle(words.begin(), words.end(), random_);
      std::vector<Link> links = {{tokens, kIn0, t, 0}};
      for (SubgraphId w : words) links.push_back({w, kIn1, 0, 0});
      state = plan.Add(kMerge, 1, std::move(links));
    }
    for (int k = Pick(0, 2); k > 0 && t + 2 < n; --k) {
      const int32_t end = std::min(n - 1, t + Pick(2, 5));
      const SubgraphId word =
          plan.Add(kStack, 1, {Link{state, kIn0, 0, 0}, Link{state, kIn1, 0, 0}});
      const SubgraphId longer =
          plan.Add(kPair, 1, {Link{word, kIn0, 0, 0}, Link{k == 1 ? state : word, kIn1, 0, 0}});
      ending[static_cast<size_t>(end)].push_back(longer);
    }
  }
  Sink(plan, state, 0);
  return plan;
}

SubgraphId Generator::AnyState(const std::vector<SubgraphId>& states) {
  const int n = static_cast<int>(states.size());
  const int low = Chance(60) ? std::max(0, n - 4) : 0;  // mostly recent ones: deep graphs
  return states[static_cast<size_t>(Pick(low, n - 1))];
}

Link Generator::Reads(Plan& plan, SubgraphId from, InputId input) {
  return {from, input, Pick(0, plan.length(from) - 1), 0};
}

Plan Generator::Dag() {
  Plan plan;
  const SubgraphId tokens = plan.AddTokens(Length());
  const int32_t n = plan.length(tokens);
  std::vector<SubgraphId> states = {plan.Add(kLeaf, n, {Link{tokens, kIn0, 0, 1}})};
  if (Chance(30)) states.insert(states.begin(), States(plan, kState));  // read as any other
  for (int k = Pick(1, 20); k > 0; --k) {
    const SubgraphId a = AnyState(states), b = AnyState(states), c = AnyState(states);
    switch (Pick(0, 5)) {
      case 0:
        states.push_back(plan.Add(kPair, 1, {Reads(plan, a, kIn0), Reads(plan, b, kIn1)}));
        break;
      case 1:
        states.push_back(plan.Add(
            kTriple, 1, {Reads(plan, a, kIn0), Reads(plan, b, kIn1), Reads(plan, c, kIn2)}));
        break;
      case 2: {  // a chain over all of a, from b
        const Link over = {a, kIn0, Chance(50) ? 0 : plan.length(a) - 1, 0};
        Link along = over;
        along.stride = over.first == 0 ? 1 : -1;
        states.push_back(plan.Add(kStack, plan.length(a), {along, Reads(plan, b, kIn1)}));
        break;
      }
      case 3: {
        std::vector<Link> links = {{tokens, kIn0, Pick(0, n - 1), 0}};
        for (int m = Pick(0, 5); m > 0; --m) links.push_back(Reads(plan, AnyState(states), kIn1));
        states.push_back(plan.Add(kMerge, 1, std::move(links)));
        break;
      }
      case 4: {  // a set, every node of it over the same node
        const Link same = Reads(plan, b, kIn1);
        states.push_back(plan.Add(kPair, plan.length(a), {Link{a, kIn0, 0, 1}, same}));
        break;
      }
      default: {
        const SubgraphId words = plan.Add(kBridge, 1, {Reads(plan, a, kIn0)});
        const SubgraphId more = plan.Add(kDecoder, Pick(1, 4), {Link{words, kIn0, 0, 0}});
        states.push_back(plan.Add(kProject, 1, {Link{more, kIn0, kLastNode, 0}}));
      }
    }
  }
  for (int k = Pick(1, 4); k > 0; --k) {
    const SubgraphId s = AnyState(states);
    if (plan.subgraphs[static_cast<size_t>(s.value())].is_input) continue;
    if (Chance(50)) plan.Return(s, kH, {Pick(0, plan.length(s) - 1), 1});
  }
  Sink(plan, states.back(), kLastNode);
  return plan;
}

Plan Generator::Translation() {
  Plan plan;
  Link begins = {kZeroSource, kIn0, 0, 0};
  if (Chance(20)) {  // it goes on from what another request left
    begins.from = plan.AddStates(kWords, 1, Chance(70) ? kEveryColumn : ColumnSet(1));
  } else {
    const SubgraphId encoder = Chain(plan, plan.AddTokens(Length()), false);
    begins.from = plan.Add(kBridge, 1, {Link{encoder, kIn0, kLastNode, 0}});
  }
  const Stop stop = {kWord, Pick(0, 17)};  // words are below 16: some never stop
  SubgraphId decoder = plan.Add(kDecoder, Pick(1, 30), {begins}, stop);
  plan.Return(decoder, kWord, {0, plan.length(decoder)});
  if (Chance(30)) return plan;
  // Who goes on where the first one stopped.
  const SubgraphId state = plan.Add(kProject, 1, {Link{decoder, kIn0, kLastNode, 0}});
  if (Chance(50)) Sink(plan, state, 0);
  if (Chance(40)) {
    const SubgraphId again = plan.Add(kBridge, 1, {Link{state, kIn0, 0, 0}});
    decoder = plan.Add(kDecoder, Pick(1, 10), {Link{again, kIn0, 0, 0}},
                       Chance(50) ? Stop{kWord, Pick(0, 17)} : Stop{});
    plan.Return(decoder, kWord, {0, plan.length(decoder)});
  }
  return plan;
}

Plan Generator::Alternation() {
  Plan plan;
  const SubgraphId encoder = Chain(plan, plan.AddTokens(Length()), false);
  SubgraphId words = plan.Add(kBridge, 1, {Link{encoder, kIn0, kLastNode, 0}});
  for (int k = Pick(1, 12); k > 0; --k) {
    words = plan.Add(kDecoder, Pick(1, 2), {Link{words, kIn0, kLastNode, 0}});
    plan.Return(words, kWord, {0, plan.length(words)});
    const SubgraphId state = plan.Add(kProject, 1, {Link{words, kIn0, kLastNode, 0}});
    words = plan.Add(kBridge, 1, {Link{state, kIn0, 0, 0}});
  }
  plan.Return(words, kH, {0, 1});
  return plan;
}

Plan Generator::TwoSinks() {
  Plan plan;
  const SubgraphId tokens = plan.AddTokens(Length());
  const int32_t n = plan.length(tokens);
  const SubgraphId leaves = plan.Add(kLeaf, n, {Link{tokens, kIn0, 0, 1}});
  for (int k = Pick(2, 4); k > 0; --k) {
    const bool backward = Chance(50);
    const SubgraphId branch = plan.Add(
        kStack, n,
        {Link{leaves, kIn0, backward ? n - 1 : 0, backward ? -1 : 1}, Reads(plan, leaves, kIn1)});
    if (Chance(50)) {
      Sink(plan, branch, kLastNode);
    } else {
      plan.Return(branch, kH, {n - 1, 1});
    }
  }
  return plan;
}

}  // namespace cellbatch::sim
