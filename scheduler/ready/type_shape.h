// What the manager needs to know of a cell type to form tasks of it, and which row an input names.
#ifndef CELLBATCH_SCHEDULER_READY_TYPE_SHAPE_H_
#define CELLBATCH_SCHEDULER_READY_TYPE_SHAPE_H_

#include <array>
#include <cstdint>

#include "cells/cell_type.h"
#include "scheduler/request_block.h"

namespace cellbatch {

struct TypeShape {
  explicit TypeShape(const CellType& type);

  CellTypeId type;
  int num_inputs;
  std::array<TableId, kMaxInputs> in;
  std::array<bool, kMaxInputs> sums;
  int num_sums = 0;
  int carry =
      -1;  // of types that make chains; -1 too where another input sums: no chain is longer than 1
  bool wide;  // NodeRecord::wide instead of input_row
  TableId out;
  int32_t priority, min_batch;

  bool is_chain() const { return carry >= 0; }
  // It reads or writes tables whose bases lie on another line of the request's header.
  bool HasFarBases() const;
};

// The row that input_row or a pool entry stands for, once its request has a base.
inline Row ResolveRow(const RequestBlock& block, int32_t row, TableId table) {
  if (row >= 0) [[likely]]
    return row + block.base(table);
  if (row == kReadsZero) return kZeroRow;
  const NodeRecord& from = block.records[kReadsLastOf - row];
  const int32_t node = block.info(from).stopped_at;
  return from.first_row + node % from.ring + block.base(table);
}

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_TYPE_SHAPE_H_
