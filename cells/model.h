// One version of one model: everything a request needs to know to be unfolded, and everything a
// device needs to know to be loaded. Immutable; any thread. Every request holds a shared_ptr to
// its Model; manager and workers see raw pointers only.
#ifndef CELLBATCH_CELLS_MODEL_H_
#define CELLBATCH_CELLS_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "cells/cell_type.h"
#include "cells/device_kind.h"
#include "cells/ids.h"
#include "cells/shape.h"

namespace cellbatch {

class Unfolder;

// Rows of one kind: request inputs ("token", "x") or what a cell type leaves ({h, c}).
// Cell types that leave the same columns share a table.
struct TableSpec {
  std::string name;
  std::vector<Column> columns;
  int64_t row_bytes() const;                     // sum over columns
  ColumnId Find(std::string_view column) const;  // invalid: no such column
};

enum class WireType : uint8_t { kInt32, kInt64, kFp32, kBytes };
const char* Name(WireType type);  // KServe's words: "INT32", "INT64", "FP32", "BYTES"

// Of one tensor of a request or an answer; few have more than four, and those allocate.
using TensorDims = absl::InlinedVector<int64_t, 4>;

// A named tensor of the request or the answer, as ModelMetadata lists it.
struct TensorSpec {
  std::string name;
  WireType type = WireType::kFp32;
  std::vector<int64_t> dims;  // -1: any length (>= 1)
  bool optional = false;      // an input that may be absent
  bool on_request = false;    // an output sent only when named (ALL_HIDDEN, FINAL_H, FINAL_C)
  bool listed = true;         // ModelMetadata shows it: tools send and ask for all they see there
  bool words = false;         // an INT32 input of words: each must lie in the vocabulary
  bool may_be_empty = false;  // of an input the first dimension may be 0: as if absent
  bool one_a_sequence =
      false;  // of an input: beside LENGTHS [B] it has B of them, a dimension more in front
};

// A part of the state that a sequence carries from step to step, FP32: what a request may bring to begin from, and what it
// leaves, in one shape. Both are names of TensorSpecs.
struct StateTensor {
  std::string initial, left;
  std::vector<int64_t> dims;
};

enum class OutOfVocabulary : uint8_t { kReject, kUnknown };

struct Signature {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;      // OUTPUT first
  std::vector<StateTensor> state;       // all of it; none: no request brings any
  std::vector<std::string> parameters;  // int64 parameters of a request that the unfolder reads
  int64_t vocabulary_size = 0;          // 0: no token input
  OutOfVocabulary out_of_vocabulary = OutOfVocabulary::kReject;
  int32_t unknown_token = 0;        // what kUnknown maps to
  int64_t max_sequence_length = 0;  // steps of one request; longer: INVALID_ARGUMENT
};

inline constexpr int32_t kMostPriorityLevels = 256;

// What is done with what the unfolder knows of a request's structure. None of it changes an answer by a bit.
struct UnfoldOptions {
  // Stages of the request's program that policies are told of (cell_graph_depths.h); 1: none.
  int32_t phases = 1;
  // Whether shorter arms of branches are told as deep as longer ones (the same place).
  bool ghosts = false;
  // Whether nodes of one level and type have neighbouring rows, leaves the last (Cortex's numbering).
  bool level_rows = false;
};

struct Model {
  ModelId id;
  std::string name;
  int64_t version = 1;
  std::vector<CellType> types;    // by CellTypeId
  std::vector<TableSpec> tables;  // by TableId
  Signature signature;
  std::shared_ptr<const Unfolder> unfolder;
  Precision precision = Precision::kFp32;  // of all its types
  DeviceKinds devices;                     // it lives on devices of these kinds, and no others
  double weight = 1.0;                     // share of device time against other models
  // Its requests have levels from 1, the most urgent, to this; those that say none have the default.
  int32_t priority_levels = 1, default_priority_level = 1;
  // Tools that ask are told that its requests are pieces of sequences whose state the server keeps.
  bool asks_for_sequences = false;
  UnfoldOptions unfold;

  const CellType& type(CellTypeId id) const { return types[static_cast<size_t>(id.value())]; }
  const TableSpec& table(TableId id) const { return tables[static_cast<size_t>(id.value())]; }

  // Checks that levels are in their ranges, ids are dense, weights have the parameters' shapes and finite values, every input's
  // columns exist in its table, and every type's columns are its table's. Loaders call it once.
  absl::Status Validate() const;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_MODEL_H_
