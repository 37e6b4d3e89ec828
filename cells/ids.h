// Strong integers: the ids and row numbers that the rooms exchange.
//
// An Id<Tag> is a 32-bit integer that cannot be mixed up with another kind of id. Plain value, any
// thread, free. A default-constructed Id is invalid (-1).
#ifndef CELLBATCH_CELLS_IDS_H_
#define CELLBATCH_CELLS_IDS_H_

#include <compare>
#include <cstdint>
#include <functional>

namespace cellbatch {

template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(int64_t value) : value_(static_cast<int32_t>(value)) {}
  constexpr int32_t value() const { return value_; }
  constexpr bool valid() const { return value_ >= 0; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  int32_t value_ = -1;
};

using CellTypeId = Id<struct CellTypeTag>;    // index into Model::types
using TableId = Id<struct TableTag>;          // index into Model::tables
using ColumnId = Id<struct ColumnTag>;        // index into TableSpec::columns
using InputId = Id<struct InputTag>;          // index into CellDefinition::inputs()
using ParameterId = Id<struct ParameterTag>;  // index into CellDefinition::parameters()
using ValueId = Id<struct ValueTag>;        // index into CellDefinition::ops(): op i makes value i
using SubgraphId = Id<struct SubgraphTag>;  // index into one request's CellGraph
using ModelId = Id<struct ModelTag>;        // one version of one model, unique in a process

// A row of a table: what a node leaves behind. The same number in each column. Absolute once the
// request has joined, counted from 0 before that.
using Row = int32_t;
inline constexpr Row kZeroRow = 0;  // reads as zeros in every table; never written

}  // namespace cellbatch

template <typename Tag>
struct std::hash<cellbatch::Id<Tag>> {
  size_t operator()(cellbatch::Id<Tag> id) const { return std::hash<int32_t>()(id.value()); }
};

#endif  // CELLBATCH_CELLS_IDS_H_
