#include "memplan/operator_batcher.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "memplan/cost_report.h"

namespace cellbatch {
namespace {

using Operators = std::vector<int32_t>;  // ascending
using Way = std::vector<Operators>;      // batches in the order they run

// Of all states that the search remembers together: some tens of MB.
constexpr int64_t kMaxOperatorsKept = 4'000'000;

struct Graph {
  int size = 0;
  std::vector<int32_t> signature;  // per operator
  int num_signatures = 0;
  std::vector<Operators> needs;  // the operators that write what it reads
  std::vector<int32_t>
      chain;  // operators of its own signature on the longest path that starts with it
  std::vector<std::vector<bool>>
      behind;  // operators of its own signature that it waits for, directly or not
};

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

// Operators before their readers; fewer than all: there is a cycle.
Operators TopologicalOrder(const std::vector<Operators>& needs) {
  std::vector<int32_t> waits(needs.size());
  std::vector<Operators> readers(needs.size());
  Operators order;
  for (size_t i = 0; i < needs.size(); ++i) {
    waits[i] = static_cast<int32_t>(needs[i].size());
    for (int32_t need : needs[i]) readers[need].push_back(static_cast<int32_t>(i));
    if (waits[i] == 0) order.push_back(static_cast<int32_t>(i));
  }
  for (size_t head = 0; head < order.size(); ++head) {
    for (int32_t reader : readers[order[head]]) {
      if (--waits[reader] == 0) order.push_back(reader);
    }
  }
  return order;
}

// What operators must share to run as one batch. Writers of outputs share with nobody.
std::string SignatureOf(const LayoutProblem& graph, int32_t op) {
  const OperandBatch& batch = graph.batches[op];
  std::string signature = batch.name;
  for (const Operand& operand : batch.operands)
    signature += fmt::format(" {}", graph.variables[operand[0]].bytes);
  if (graph.variables[batch.operands[0][0]].kind == VariableKind::kOutput)
    signature += fmt::format(" #{}", op);
  return signature;
}

void FindDependencies(const LayoutProblem& problem, Graph& graph) {
  std::vector<int32_t> writer(problem.variables.size(), -1);
  for (int32_t i = 0; i < graph.size; ++i) writer[problem.batches[i].operands[0][0]] = i;
  graph.needs.resize(graph.size);
  std::map<std::string, int32_t> signatures;
  for (int32_t i = 0; i < graph.size; ++i) {
    std::set<int32_t> needs;
    for (size_t o = 1; o < problem.batches[i].operands.size(); ++o) {
      const int32_t from = writer[problem.batches[i].operands[o][0]];
      if (from >= 0) needs.insert(from);
    }
    graph.needs[i].assign(needs.begin(), needs.end());
    const int32_t next = static_cast<int32_t>(signatures.size());
    graph.signature.push_back(signatures.try_emplace(SignatureOf(problem, i), next).first->second);
  }
  graph.num_signatures = static_cast<int>(signatures.size());
}

absl::StatusOr<Graph> Read(const LayoutProblem& problem) {
  if (absl::Status status = CheckProblem(problem); !status.ok()) return status;
  if (problem.batches.size() > kMaxOperators) {
    return Wrong(
        fmt::format("{} operators, the limit is {}", problem.batches.size(), kMaxOperators));
  }
  for (const OperandBatch& batch : problem.batches) {
    if (batch.size() == 1) continue;
    return Wrong(
        fmt::format("batch {} has {} operators already: only single operators can be batched",
                    batch.name, batch.size()));
  }
  Graph graph;
  graph.size = static_cast<int>(problem.batches.size());
  FindDependencies(problem, graph);
  const Operators order = TopologicalOrder(graph.needs);
  if (static_cast<int>(order.size()) < graph.size) {
    std::vector<bool> sorted(graph.size, false);
    for (int32_t i : order) sorted[i] = true;
    const auto stuck = std::find(sorted.begin(), sorted.end(), false) - sorted.begin();
    return Wrong(fmt::format("operator {} that writes {} waits for itself",
                             problem.batches[stuck].name,
                             problem.variables[problem.batches[stuck].operands[0][0]].name));
  }
  // Ancestors first; of those only the ones of the same signature are kept, in a second step.
  graph.behind.assign(graph.size, std::vector<bool>(graph.size, false));
  for (int32_t i : order) {
    for (int32_t need : graph.needs[i]) {
      graph.behind[i][need] = true;
      for (int32_t a = 0; a < graph.size; ++a) {
        if (graph.behind[need][a]) graph.behind[i][a] = true;
      }
    }
  }
  graph.chain.assign(graph.size, 1);
  for (size_t at = order.size(); at-- > 0;) {
    const int32_t i = order[at];
    for (int32_t a = 0; a < graph.size; ++a) {
      if (graph.signature[a] != graph.signature[i]) graph.behind[i][a] = false;
      if (graph.behind[i][a]) graph.chain[a] = std::max(graph.chain[a], graph.chain[i] + 1);
    }
  }
  return graph;
}

class Search {
 public:
  Search(const Graph& graph, const BatchOptions& options)
      : graph_(graph),
        options_(options),
        max_states_(std::min<int64_t>(options.max_states, kMaxOperatorsKept / (graph.size + 1))),
        done_(graph.size, false) {}

  // Ways of the least number of steps, different in what runs together. True: none is shorter.
  bool Run() {
    Visit();
    return states_ <= max_states_;
  }
  const std::vector<Way>& ways() const { return ways_; }

 private:
  struct Choice {
    int32_t signature = 0;
    Operators ready;
    int32_t heads =
        0;  // operators not waiting for their own kind: ready, or held back by others only
  };

  std::vector<Choice> Choices() const {
    std::vector<Choice> all(graph_.num_signatures);
    for (int32_t i = 0; i < graph_.size; ++i) {
      if (done_[i]) continue;
      Choice& choice = all[graph_.signature[i]];
      choice.signature = graph_.signature[i];
      const bool ready = std::all_of(graph_.needs[i].begin(), graph_.needs[i].end(),
                                     [&](int32_t n) { return done_[n]; });
      if (ready) choice.ready.push_back(i);
      bool waits = false;
      for (int32_t a = 0; a < graph_.size && !waits; ++a) waits = graph_.behind[i][a] && !done_[a];
      choice.heads += !waits;
    }
    std::erase_if(all, [](const Choice& choice) { return choice.ready.empty(); });
    // Nobody of its kind is held back: taking it now is never worse (the paper's lemma), and changes no batch.
    for (const Choice& choice : all) {
      if (static_cast<int32_t>(choice.ready.size()) == choice.heads) return {choice};
    }
    std::stable_sort(all.begin(), all.end(), [](const Choice& a, const Choice& b) {
      return a.ready.size() * b.heads > b.ready.size() * a.heads;
    });
    return all;
  }

  // Steps that remain at least: per signature, its longest chain.
  int64_t Bound() const {
    std::vector<int32_t> longest(graph_.num_signatures, 0);
    for (int32_t i = 0; i < graph_.size; ++i) {
      if (!done_[i])
        longest[graph_.signature[i]] = std::max(longest[graph_.signature[i]], graph_.chain[i]);
    }
    int64_t sum = 0;
    for (int32_t l : longest) sum += l;
    return sum;
  }

  void Visit() {
    // The first way down is taken whatever it costs.
    if (!ways_.empty() && ++states_ > max_states_) return;
    if (num_done_ == graph_.size) return Finish();
    const int64_t steps = static_cast<int64_t>(way_.size());
    if (!ways_.empty() && steps + Bound() > static_cast<int64_t>(ways_[0].size())) return;
    // Reached before with fewer steps, or with the same batches in another order.
    const auto [known, is_new] = fewest_.try_emplace(done_, steps);
    if (known->second < steps) return;
    known->second = steps;
    if (!met_.insert({done_, Sorted(way_)}).second) return;
    for (const Choice& choice : Choices()) {
      way_.push_back(choice.ready);
      Mark(choice.ready, true);
      Visit();
      Mark(choice.ready, false);
      way_.pop_back();
    }
  }

  void Finish() {
    if (!ways_.empty() && way_.size() > ways_[0].size()) return;
    if (!ways_.empty() && way_.size() < ways_[0].size()) ways_.clear();
    if (static_cast<int>(ways_.size()) >= options_.max_plans) return;
    for (const Way& other : ways_) {
      if (Sorted(other) == Sorted(way_)) return;
    }
    ways_.push_back(way_);
  }

  void Mark(const Operators& operators, bool done) {
    for (int32_t i : operators) done_[i] = done;
    num_done_ += done ? static_cast<int>(operators.size()) : -static_cast<int>(operators.size());
  }
  static Way Sorted(Way way) {
    std::sort(way.begin(), way.end());
    return way;
  }

  const Graph& graph_;
  const BatchOptions& options_;
  const int64_t max_states_;
  std::vector<bool> done_;
  int num_done_ = 0;
  Way way_;
  int64_t states_ = 0;
  std::vector<Way> ways_;
  std::map<std::vector<bool>, int64_t> fewest_;
  std::set<std::pair<std::vector<bool>, Way>> met_;
};

LayoutProblem Merge(const LayoutProblem& graph, const Way& way) {
  LayoutProblem problem = graph;
  problem.batches.clear();
  for (const Operators& operators : way) {
    OperandBatch batch{graph.batches[operators[0]].name, {}};
    batch.operands.resize(graph.batches[operators[0]].operands.size());
    for (int32_t i : operators) {
      for (size_t o = 0; o < batch.operands.size(); ++o) {
        batch.operands[o].push_back(graph.batches[i].operands[o][0]);
      }
    }
    problem.batches.push_back(std::move(batch));
  }
  return problem;
}

}  // namespace

absl::StatusOr<Batched> BatchOperators(const LayoutProblem& graph, const BatchOptions& options) {
  absl::StatusOr<Graph> read = Read(graph);
  if (!read.ok()) return read.status();
  Search search(*read, options);
  Batched best;
  best.fewest = search.Run();
  std::tuple<int64_t, int, int, int64_t> best_price;
  for (const Way& way : search.ways()) {
    LayoutProblem problem = Merge(graph, way);
    absl::StatusOr<MemoryLayout> layout = Plan(problem, options.plan);
    if (!layout.ok()) return layout.status();
    const CostReport cost = Cost(problem, *layout);
    const std::tuple price(cost.bytes(), cost.kernels(), cost.launches, cost.packed_bytes);
    if (best.plans++ > 0 && !(price < best_price)) continue;
    best_price = price;
    best.problem = std::move(problem);
    best.layout = *std::move(layout);
  }
  return best;
}

}  // namespace cellbatch
