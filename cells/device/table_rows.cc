#include "cells/device/table_rows.h"

#include <numeric>

#include "cells/kernels/cpu/rows.h"

namespace cellbatch {
namespace {

constexpr int64_t kLineElements = 16;

int64_t WholeLines(int64_t elements) {
  return (elements + kLineElements - 1) / kLineElements * kLineElements;
}

}  // namespace

int64_t TableRows::RowElements() const {
  return std::accumulate(strides.begin(), strides.end(), int64_t{0});
}

TableRows LayTable(const TableSpec& table, const std::vector<int32_t>& order) {
  TableRows rows;
  rows.columns.resize(table.columns.size());
  int64_t width = 0;
  for (const int32_t c : order) {
    rows.columns[static_cast<size_t>(c)] = {0, width};
    width += WholeLines(table.columns[static_cast<size_t>(c)].width);
  }
  if (width > 0) rows.strides.push_back(kernels::PaddedStride(width));
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (table.columns[c].type != ElementType::kInt32) continue;
    rows.columns[c] = {static_cast<int32_t>(rows.strides.size()), 0};
    rows.strides.push_back(table.columns[c].width);
  }
  return rows;
}

}  // namespace cellbatch
