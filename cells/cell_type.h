// A cell type: definition + weights + limits. Nodes of one type, of any request, run in one batch
// ("same cell type" of BatchMaker). Immutable once its Model is made; any thread.
#ifndef CELLBATCH_CELLS_CELL_TYPE_H_
#define CELLBATCH_CELLS_CELL_TYPE_H_

#include <memory>
#include <string>
#include <vector>

#include "cells/cell_definition.h"
#include "cells/hoisted_sum.h"
#include "cells/ids.h"
#include "cells/precision.h"

namespace cellbatch {

// One parameter's values, row-major. Shared with the weight store; several types may share one
// (an embedding read by two cells).
struct Weight {
  std::shared_ptr<const float[]> data;
  Shape shape;
};
using Weights = std::vector<Weight>;  // by ParameterId

struct CellType {
  CellTypeId id;
  std::string name;  // unique in the model: metrics and logs use it ("lstm_l0")
  std::shared_ptr<const CellDefinition> definition;
  Weights weights;
  std::vector<TableId> in;  // by InputId: the one table whose rows that input reads
  TableId out;              // the table this type's nodes write
  int32_t min_batch = 1;    // Algorithm 1: after a round's first task, smaller ones are not formed
  int32_t max_batch = 0;    // 0: measured at load (T(b) knee)
  int32_t least_max_batch = 0;  // of a max_batch that is measured
  // Beside a max_batch: the most while its queue stays longer than that; 0: max_batch.
  int32_t peak_batch = 0;
  int32_t priority = 0;                    // higher first; later stages of a model get more
  Precision precision = Precision::kFp32;  // of its products
  // What another type computes for all steps at once (hoisted_model.h); empty: nothing.
  std::vector<HoistedSum> hoisted = {};
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_CELL_TYPE_H_
