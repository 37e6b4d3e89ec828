// Random layout problems for tests: small, valid, and full of contradictions.
#ifndef CELLBATCH_MEMPLAN_RANDOM_PROBLEM_H_
#define CELLBATCH_MEMPLAN_RANDOM_PROBLEM_H_

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "memplan/layout_problem.h"

namespace cellbatch {

struct RandomProblemShape {
  int num_variables = 8;
  int max_batches = 4;
  int max_operators = 4;
  bool anything =
      true;  // constants, inputs, repetitions, fixed runs, sizes; else values only, none repeated
};

class RandomProblem {
 public:
  explicit RandomProblem(uint64_t seed) : random_(seed) {}

  LayoutProblem Make(const RandomProblemShape& shape) {
    LayoutProblem problem;
    for (int v = 0; v < shape.num_variables; ++v) {
      Variable variable{"v" + std::to_string(v), VariableKind::kValue, 4};
      if (shape.anything) {
        variable.kind = static_cast<VariableKind>(Below(10) < 6 ? 2 : Below(4));
        variable.bytes = Below(4) == 0 ? 16 : 4;
      }
      problem.variables.push_back(variable);
    }
    if (shape.anything && Below(2)) problem.broadcasts = Broadcasts::kByStride;
    const int num_batches = 1 + Below(shape.max_batches);
    std::vector<bool> written(shape.num_variables, false);
    for (int b = 0; b < num_batches; ++b) AddBatch(shape, written, problem);
    if (shape.anything && Below(3) == 0) AddFixed(problem);
    return problem;
  }

  int Below(int n) { return static_cast<int>(random_() % n); }

 private:
  std::vector<VariableId> Shuffled(const LayoutProblem& problem, int64_t bytes) {
    std::vector<VariableId> ids;
    for (size_t v = 0; v < problem.variables.size(); ++v) {
      if (problem.variables[v].bytes == bytes) ids.push_back(static_cast<VariableId>(v));
    }
    std::shuffle(ids.begin(), ids.end(), random_);
    return ids;
  }
  int64_t SomeSize(const LayoutProblem& problem) {
    return problem.variables[Below(static_cast<int>(problem.variables.size()))].bytes;
  }

  void AddBatch(const RandomProblemShape& shape, std::vector<bool>& written,
                LayoutProblem& problem) {
    OperandBatch batch{"b" + std::to_string(problem.batches.size()), {{}}};
    const int wanted = 1 + Below(shape.max_operators);
    for (VariableId v : Shuffled(problem, SomeSize(problem))) {
      const VariableKind kind = problem.variables[v].kind;
      const bool writable = kind == VariableKind::kValue || kind == VariableKind::kOutput;
      if (!writable || written[v] || batch.size() == wanted) continue;
      batch.operands[0].push_back(v);
    }
    if (batch.size() == 0) return;
    for (VariableId v : batch.operands[0]) written[v] = true;
    const int num_sources = Below(4);
    for (int s = 0; s < num_sources; ++s) {
      std::vector<VariableId> ids = Shuffled(problem, SomeSize(problem));
      const bool repeat = shape.anything && Below(4) == 0;
      Operand source;
      for (int i = 0; i < batch.size(); ++i) {
        if (repeat || i >= static_cast<int>(ids.size())) {
          source.push_back(ids[Below(std::min<int>(2, static_cast<int>(ids.size())))]);
        } else {
          source.push_back(ids[i]);
        }
      }
      batch.operands.push_back(source);
    }
    problem.batches.push_back(std::move(batch));
  }

  void AddFixed(LayoutProblem& problem) {
    std::vector<VariableId> ids(problem.variables.size());
    for (size_t v = 0; v < ids.size(); ++v) ids[v] = static_cast<VariableId>(v);
    std::shuffle(ids.begin(), ids.end(), random_);
    for (int runs = 1 + Below(2); runs > 0; --runs) {
      const int length = std::min<int>(1 + Below(4), static_cast<int>(ids.size()));
      problem.fixed.emplace_back(ids.begin(), ids.begin() + length);
      ids.erase(ids.begin(), ids.begin() + length);
    }
    std::erase_if(problem.fixed, [](const auto& run) { return run.empty(); });
  }

  std::mt19937_64 random_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_MEMPLAN_RANDOM_PROBLEM_H_
