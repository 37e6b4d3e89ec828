// How many bytes the folded tables of all models of one memory may take together (compile/fold.h), and which model has
// which. What is kept for models that are expected is nobody else's; else a model gets what is left, spends it where it
// saves most, and gives it back when it goes.
//
// Loads take turns (the control thread); shares are given back on any thread and may outlive the memory, and any thread
// may ask. A lock of its own, which nobody takes while requests run.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_FOLD_BUDGET_H_
#define CELLBATCH_CELLS_DEVICE_CPU_FOLD_BUDGET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cells/compile/fold.h"

namespace cellbatch {

struct Model;

using ModelFolds = std::vector<CellFolds>;  // by cell type
int64_t BytesOf(const ModelFolds& folds);

class FoldBudget {
 public:
  explicit FoldBudget(int64_t bytes) : state_(std::make_shared<State>(bytes)) {}

  // Gives back what `Take` took, when it is destroyed.
  using Share = std::unique_ptr<const Model, std::function<void(const Model*)>>;

  // A model that will be loaded, and what it will have then.
  using Expected = std::vector<std::pair<const Model*, ModelFolds>>;

  // Neither taken nor kept.
  int64_t left() const;
  // Instead of what was kept before. REQUIRES: it fits into left() and that.
  void Keep(Expected expected);
  // What is kept for `model`, or else left, becomes its share. REQUIRES: it is what was kept, or BytesOf(folds) <= left().
  Share Take(const Model& model, const ModelFolds& folds);
  // What `model` took, else what is kept for it; nullopt: neither.
  std::optional<ModelFolds> FoldsOf(const Model& model) const;
  std::optional<ModelFolds> KeptFor(const Model& model) const;

 private:
  struct State {
    explicit State(int64_t bytes) : left(bytes) {}
    std::mutex mutex;
    // Under it.
    int64_t left;  // what is kept is not
    Expected kept;
    std::optional<ModelFolds> KeptFor(const Model& model) const;
    int64_t taken = 0;  // ever
    std::map<int64_t, std::pair<const Model*, ModelFolds>> shares;
  };
  std::shared_ptr<State> state_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_FOLD_BUDGET_H_
