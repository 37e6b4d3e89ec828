// What a device makes of a model's cells, said for people: `cellbatch-server --explain`, and the page of a served model.
// Plain values.
#ifndef CELLBATCH_CELLS_DEVICE_ACCOUNT_H_
#define CELLBATCH_CELLS_DEVICE_ACCOUNT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch {

// Something computed at load so that no task has to.
struct PreparedPart {
  std::string what;
  int64_t bytes = 0;
};

struct CellAccount {
  std::vector<std::string> steps;  // by step of the program: what computes it
  std::vector<PreparedPart> prepared;
  std::vector<std::string>
      folds;  // tables that could be made, how much each is worth, and whether it was made
  int64_t weight_bytes = 0;  // packed weights, with what was prepared
};

struct ModelAccount {
  std::string kernels;             // the instruction set chosen
  std::vector<CellAccount> types;  // by CellTypeId
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_ACCOUNT_H_
