// What the sizes of a cell's text stand for, found from the shapes that are known; and where these disagree, which of
// them is to blame: one that all others contradict, or a matrix that is written the wrong way round.
//
//   "W" [H, D] is [7, 5],  "U" [H, H] is [7, 7]   --Solve-->   H = 7, D = 5
//   "W" [D, H] is [7, 5],  "U" [H, H] is [7, 7]   --Solve-->   "W" is [D = 5, H = 7], tensor .. is [7, 5]: turned round ..
//
// One thread. O(shapes x sizes); where shapes disagree, that for each of up to 32 of them.
#ifndef CELLBATCH_SERVER_CELLS_CELL_SIZES_H_
#define CELLBATCH_SERVER_CELLS_CELL_SIZES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/cells/cell_codec.h"
#include "server/cells/dimension.h"

namespace cellbatch {

// The names of a text's sizes, in their order.
std::vector<std::string> SizesOf(const CellText& text);

class CellSizes {
 public:
  // `text` and `known` are borrowed.
  CellSizes(const CellText& text, Sizes given, absl::Span<const KnownShape> known);

  // `partly`: sizes that stay open are no problem. INVALID_ARGUMENT "FILE:LINE: ..": a line for each shape to blame.
  absl::Status Solve(bool partly);

  // The value of a dimension. INVALID_ARGUMENT: what is wrong with it, or which size nothing gives and where to give it.
  absl::StatusOr<int64_t> Value(const std::string& dimension) const;

 private:
  // A parameter or column whose shape is known, as the text has it.
  struct Equation {
    std::vector<std::string> dims;
    std::string place;
    bool there = false;  // the text has such a name
  };
  struct Solution {
    Sizes sizes;
    std::map<std::string, std::string> from;  // what gave each
    std::vector<size_t> misfits;              // equations
  };
  // Equation `left_out` does not count; those of `turned` are read [columns, rows].
  Solution SolveWith(size_t left_out, const std::vector<bool>& turned, bool partly) const;
  std::vector<std::string> DimsOf(size_t equation, const std::vector<bool>& turned) const;
  bool Fits(const std::vector<std::string>& dims, const std::vector<int64_t>& known,
            const Sizes& sizes, bool partly) const;
  bool Blame(bool partly, Solution& solution, std::vector<bool>& turned) const;
  std::string Wrong(size_t equation, const Solution& solution, bool turned) const;

  const CellText& text_;
  const absl::Span<const KnownShape> known_;
  std::vector<Equation> equations_;  // of known_
  Sizes sizes_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CELLS_CELL_SIZES_H_
