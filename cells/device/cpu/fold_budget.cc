#include "cells/device/cpu/fold_budget.h"

#include <utility>

namespace cellbatch {

int64_t BytesOf(const ModelFolds& folds) {
  int64_t bytes = 0;
  for (const CellFolds& f : folds) bytes += f.bytes;
  return bytes;
}

int64_t FoldBudget::left() const {
  const std::lock_guard lock(state_->mutex);
  return state_->left;
}

void FoldBudget::Keep(Expected expected) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& [model, folds] : state_->kept) state_->left += BytesOf(folds);
  state_->kept = std::move(expected);
  for (const auto& [model, folds] : state_->kept) state_->left -= BytesOf(folds);
}

FoldBudget::Share FoldBudget::Take(const Model& model, const ModelFolds& folds) {
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->kept, [&](const auto& kept) {
    if (kept.first != &model) return false;
    state_->left += BytesOf(kept.second);
    return true;
  });
  state_->left -= BytesOf(folds);
  const int64_t number = state_->taken++;
  state_->shares[number] = {&model, folds};
  return {&model, [state = state_, number](const Model*) {
            const std::lock_guard its_lock(state->mutex);
            const auto share = state->shares.find(number);
            state->left += BytesOf(share->second.second);
            state->shares.erase(share);
          }};
}

std::optional<ModelFolds> FoldBudget::State::KeptFor(const Model& model) const {
  for (const auto& [kept_for, folds] : kept) {
    if (kept_for == &model) return folds;
  }
  return std::nullopt;
}

std::optional<ModelFolds> FoldBudget::KeptFor(const Model& model) const {
  const std::lock_guard lock(state_->mutex);
  return state_->KeptFor(model);
}

std::optional<ModelFolds> FoldBudget::FoldsOf(const Model& model) const {
  const std::lock_guard lock(state_->mutex);
  for (const auto& [number, share] : state_->shares) {
    if (share.first == &model) return share.second;
  }
  return state_->KeptFor(model);
}

}  // namespace cellbatch
