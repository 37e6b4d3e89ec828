// What of a model feeds something recurrent, by what its cell types read of each other: the columns that lie on a cycle (a
// chain's state, a tree node's), and all that whoever leaves one of those reads. What else there is only answers read:
// heads over steps or nodes, labels, and columns of recurrent cells that no later step looks at. Load time.
#ifndef CELLBATCH_CELLS_RECURRENT_COLUMNS_H_
#define CELLBATCH_CELLS_RECURRENT_COLUMNS_H_

#include <vector>

#include "cells/ids.h"
#include "cells/model.h"

namespace cellbatch {

// By table, column. `stops`: graphs may end chains early (Stop), so that words of theirs are read between steps, too.
std::vector<std::vector<bool>> RecurrentColumns(const Model& model, bool stops);

// Types that leave none of those, where there are others: nodes of theirs may wait. By id.
std::vector<CellTypeId> TypesThatMayWait(const Model& model);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_RECURRENT_COLUMNS_H_
