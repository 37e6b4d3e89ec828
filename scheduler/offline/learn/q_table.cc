#include "scheduler/offline/learn/q_table.h"

#include <bit>

#include "cells/check.h"

namespace cellbatch {

QTable::QTable(const StateEncoding& encoding, int32_t num_types)
    : encoding_(encoding), types_(static_cast<size_t>(num_types)), places_(256, kNoRow) {
  Check(num_types <= StateEncoding::kMostTypes, "more cell types than a state has room for");
}

int32_t QTable::RowOf(Frontier frontier, double first_value) {
  return RowOf(StateOf(encoding_, frontier), first_value);
}

int32_t QTable::RowOf(const StateKey& key, double first_value) {
  const size_t place = PlaceOf(key);
  if (places_[place] != kNoRow) return places_[place];
  const auto row = static_cast<int32_t>(keys_.size());
  places_[place] = row;
  keys_.push_back(key);
  uint32_t actions = 0;
  for (const CellTypeId type : TypesOf(key)) actions |= 1u << type.value();
  actions_.push_back(actions);
  values_.resize(values_.size() + types_, first_value);
  if (2 * keys_.size() > places_.size()) Grow();
  return row;
}

int32_t QTable::Find(Frontier frontier) const {
  return places_[PlaceOf(StateOf(encoding_, frontier))];
}

int32_t QTable::Best(int32_t row) const {
  int32_t best = -1;
  for (uint32_t left = actions(row); left != 0; left &= left - 1) {
    const int32_t type = std::countr_zero(left);
    if (best < 0 || value(row, type) > value(row, best)) best = type;
  }
  return best;
}

std::vector<FsmTable::Rule> QTable::Rules() const {
  std::vector<FsmTable::Rule> rules;
  for (size_t row = 0; row < keys_.size(); ++row) {
    rules.push_back({keys_[row], CellTypeId(Best(static_cast<int32_t>(row)))});
  }
  return rules;
}

size_t QTable::PlaceOf(const StateKey& key) const {
  uint64_t hash = 0;
  for (const uint64_t word : key.words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  for (size_t at = hash & (places_.size() - 1);; at = (at + 1) & (places_.size() - 1)) {
    if (places_[at] == kNoRow || keys_[At(places_[at])] == key) return at;
  }
}

void QTable::Grow() {
  places_.assign(2 * places_.size(), kNoRow);
  for (size_t row = 0; row < keys_.size(); ++row) {
    places_[PlaceOf(keys_[row])] = static_cast<int32_t>(row);
  }
}

}  // namespace cellbatch
