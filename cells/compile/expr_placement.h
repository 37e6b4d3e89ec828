// Where and when each expression of a lane graph is computed: its level, its home, and where else it goes. In scratch it
// has a name, not an address (skeleton.h). Part of skeleton.cc, apart because it is the half that decides; step_builder.h is the half that writes.
//
//   trivial (input, table row, parameter, constant, part)   lies somewhere: no step makes it
//   inline                                                  recomputed on the fly by the tail that needs it
//   root                                                    stored by a step: has a home and maybe more destinations
//
// Where tails may read one number for all units (ProgramLimits), a broadcast that they read is no row: they read the number,
// in whichever step. So is what is stored less such a number: made again where it is needed, not stored a second time.
// What is made of stored values alone, and read once, by a tail of a later level, is made there: nobody stores it.
#ifndef CELLBATCH_CELLS_COMPILE_EXPR_PLACEMENT_H_
#define CELLBATCH_CELLS_COMPILE_EXPR_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "cells/compile/lane_graph.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

class ExprPlacement {
 public:
  // Expressions with cut[e] are stored even where they could be inlined.
  ExprPlacement(const LaneGraph& graph, const std::vector<bool>& cut, bool scalars);

  // The step level that computes `e`; a trivial one can be read from this level on.
  int Level(ExprId e) const;
  // Whether the tail of `reader` recomputes its operand `e` instead of loading it.
  bool IsInline(ExprId reader, ExprId e) const;
  // The one number that `e` is in every lane, if tails read it as that; else kNoExpr.
  ExprId NumberOf(ExprId e) const;
  bool IsRoot(ExprId e) const { return !destinations_[static_cast<size_t>(e)].empty(); }
  // All places `e` is stored to, its home first.
  const std::vector<Place>& Destinations(ExprId e) const {
    return destinations_[static_cast<size_t>(e)];
  }
  // Where a reader finds `e`: a root's home, or where a trivial one lies.
  Place PlaceOf(ExprId e) const;

  const std::vector<ExprId>& roots() const { return roots_; }  // in the order they were demanded
  const std::vector<SumStep>& sums() const { return sums_; }
  const std::vector<ExprId>& used_lookups() const { return table_rows_; }  // one table row of each
  const std::vector<int32_t>& scratch() const { return scratch_; }         // by value: elements

 private:
  int ComputeLevel(ExprId e) const;
  int OperandLevel(ExprId e) const;
  int SourceLevel(ExprId e) const;
  bool IsLessANumber(ExprId e) const;
  bool MayWait(ExprId e) const;
  bool ComputeMayWait(ExprId e) const;
  void CountReaders();
  void StoreAt(ExprId e, Place place);
  void Need(ExprId e);        // its value must lie somewhere
  void NeedSource(ExprId e);  // likewise, constants too
  void Visit(ExprId e);
  void VisitTableRow(ExprId e, const TableRowExpr& row);
  void VisitSum(ExprId e, const SummedInputExpr& column);
  void VisitConcat(ExprId e, const ConcatExpr& concat);
  const SumStep* SumOf(const SummedInputExpr& column) const;  // null: not asked for yet
  Place HomeOf(ExprId e) const;
  Place NewScratch(int32_t width);

  const LaneGraph& graph_;
  const std::vector<bool>& cut_;
  const bool scalars_;
  mutable std::vector<int> level_;
  std::vector<int> readers_;  // expressions that read it, and outputs that are it
  enum class Wait : uint8_t { kUnknown, kMayNot, kMay };
  mutable std::vector<Wait> may_wait_;
  std::vector<std::vector<Place>> destinations_;
  std::vector<bool> visited_;
  std::vector<ExprId> roots_;
  std::vector<SumStep> sums_;
  std::vector<ExprId> table_rows_;
  std::vector<int32_t> scratch_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_EXPR_PLACEMENT_H_
