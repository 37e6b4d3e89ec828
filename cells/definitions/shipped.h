// The shipped cell definitions, as text: the files NAME.textproto beside this header, put into the
// binary, so that a server is one file. Data only; server/cells/cell_codec reads them.
#ifndef CELLBATCH_CELLS_DEFINITIONS_SHIPPED_H_
#define CELLBATCH_CELLS_DEFINITIONS_SHIPPED_H_

#include <string_view>

#include "absl/types/span.h"

namespace cellbatch {

struct ShippedCell {
  std::string_view name;  // the file's, without .textproto
  std::string_view text;
};

// By name. Any thread, free.
absl::Span<const ShippedCell> ShippedCells();

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEFINITIONS_SHIPPED_H_
