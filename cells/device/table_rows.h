// How the rows of a table lie in a device's memory: the FP32 columns of a row side by side, in the order that the model's plan
// says (cells/compile/plan_tables); each INT32 column an array of its own.
//
//   row r     | h ........ | c ........ |        columns begin at cache lines; rows are whole lines, never a multiple of
//   row r+1   | h ........ | c ........ |        4 KiB apart
//   word      w0 w1 w2 w3 ..                     dense: the host reads them as one span
//
// Pure; load time.
#ifndef CELLBATCH_CELLS_DEVICE_TABLE_ROWS_H_
#define CELLBATCH_CELLS_DEVICE_TABLE_ROWS_H_

#include <cstdint>
#include <vector>

#include "cells/model.h"

namespace cellbatch {

struct TableRows {
  struct Place {
    int32_t array = 0;
    int64_t offset = 0;  // behind the start of that array's row
  };
  std::vector<int64_t> strides;  // by array: 4-byte elements from row to row
  std::vector<Place> columns;    // by ColumnId

  int64_t RowElements() const;  // of all arrays
};

// `order`: of the FP32 columns.
TableRows LayTable(const TableSpec& table, const std::vector<int32_t>& order);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_TABLE_ROWS_H_
