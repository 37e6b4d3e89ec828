// Runs a packed cell over the nodes of a batched task, step after step, each split over the cores of a team.
//
//   for each chunk of at most kChunkNodes nodes        scratch is bounded, whatever the batch and the cell
//     for each step                                    a product: blocks of panels, and of rows where those are too few
//       team.Run(blocks, ...)                          (step_split.h); the rest: blocks of rows
//
// Steps without weights that follow each other (a normalisation: sums, and tails that read them) are one to the team: each 16
// rows go through all of them before the next 16, so that what one leaves is still near when the next reads it.
//
// Where all nodes of a chunk read row 0, zeros, no weight is read for it: the first step of chains from a zero state costs
// its input half only. A product starts at the end of its panels where it ended the time before, every core in its
// home range: there caches still hold weights (PanelWalk). Bits do not depend on either, nor on chunks, blocks or cores.
// Denormals are flushed meanwhile, on the caller's thread as on the team's; the caller's mode comes back. Allocates nothing; scratch is made once, at load.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_CELL_RUN_H_
#define CELLBATCH_CELLS_DEVICE_CPU_CELL_RUN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cells/device/batched_task.h"
#include "cells/device/cpu/core_team.h"
#include "cells/device/cpu/packed_cell.h"
#include "cells/device/cpu/step_split.h"
#include "cells/kernels/cpu/packed_memory.h"
#include "cells/kernels/cpu/product.h"
#include "cells/shape.h"

namespace cellbatch {

inline constexpr int kChunkNodes = 512;
static_assert(kChunkNodes <= kernels::kLargestRows);
// Scratch of a chunk: a cell whose nodes need much of it (matrices) runs in smaller chunks.
inline constexpr int64_t kChunkFloats = int64_t{1} << 24;

// One column of a table: row r at base + r * stride (4-byte elements, floats or int32).
struct ColumnArray {
  float* base = nullptr;
  int64_t stride = 0;
  int32_t width = 0;
  ElementType type = ElementType::kFp32;

  float* At(Row row) const { return base + row * stride; }
  int32_t* Int32At(Row row) const { return reinterpret_cast<int32_t*>(At(row)); }
};

// Floats from row to row of a column that lies alone. Those of int32 are dense: the host reads them as one span.
int64_t ColumnStride(const Column& column);

// Where the rows of one cell type lie.
struct CellColumns {
  std::vector<std::vector<ColumnArray>> inputs;  // by InputId, then column read
  std::vector<ColumnArray> outputs;              // by output
  // Row 0 of every input is zeros, for good, as in a model's tables: what is multiplied by it is known.
  bool zero_row = false;
};

// The nodes of a task, as in BatchedTask.
struct NodeLists {
  int32_t num_nodes = 0;
  const InputRows* inputs = nullptr;
  const Row* output_rows = nullptr;
};

// What running needs beside rows and weights. One per device: its steps run one after the other.
class CellScratch {
 public:
  // Enough for every one of `programs`.
  explicit CellScratch(const std::vector<const CellProgram*>& programs);
  // What that takes, to be asked before.
  static int64_t BytesFor(const std::vector<const CellProgram*>& programs);

  float* values() { return values_.data(); }
  float* rounded() { return rounded_.data(); }  // what one product reads, rounded to bf16
  int32_t* indices(int32_t lookup) { return indices_.data() + int64_t{lookup} * kChunkNodes; }
  int64_t bytes() const;
  // Where the product's next run starts. Of no more than kWalks products that is remembered; others start anew.
  kernels::PanelWalk& WalkOf(const kernels::PackedProduct& product);

 private:
  static constexpr size_t kWalks = 64;
  struct Walk {
    const kernels::PackedProduct* of = nullptr;
    kernels::PanelWalk walk;
  };

  kernels::PackedMemory values_, rounded_;
  std::vector<int32_t> indices_;
  std::array<Walk, kWalks> walks_;
  size_t oldest_walk_ = 0;
};

// The cores of one device and what each of them needs.
struct Cores {
  CoreTeam* team = nullptr;
  std::vector<kernels::ProductScratch>* scratch = nullptr;  // by thread
  SplitCosts costs = {};
};

void RunCell(const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes,
             CellScratch& scratch, const Cores& cores);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_CELL_RUN_H_
