// From text to CellDefinition: parses a definition, puts definitions in front of each other, finds
// what its sizes stand for from the shapes of the weights, and says where in the text something is wrong.
//
//   lstm.textproto --ParseCell--> CellText --PutBefore(embed)--> CellText --BuildCell--> CellDefinition
//                                                                   ^
//                                        shapes of weights, widths of what its inputs read
//
// Plain functions and values; any thread; O(text). Nothing in the text is trusted: sizes, nesting and
// counts are bounded, and every error is INVALID_ARGUMENT, "FILE:LINE: what": the line to change, what is there, what
// it disagrees with, and what would do (cell_sizes, cell_mistakes).
#ifndef CELLBATCH_SERVER_CELLS_CELL_CODEC_H_
#define CELLBATCH_SERVER_CELLS_CELL_CODEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_definition.h"
#include "proto/cell.pb.h"
#include "server/cells/dimension.h"

namespace cellbatch {

inline constexpr size_t kMaxCellText = 1 << 20;  // bytes of one definition

// A definition and where each of its parts was written ("lstm.textproto:23").
struct CellText {
  disk::CellDefinition message;
  std::string file;
  std::vector<std::string> inputs, parameters, ops, outputs;  // places
  std::string carry;                                          // and that of the carry
};

absl::StatusOr<CellText> ParseCell(std::string_view text, const std::string& file);
// The same for a definition written inside another file, whose errors can only name that file.
CellText WrapCell(const disk::CellDefinition& message, const std::string& file);

// A cell that computes `input` of `cell` by `before` instead of reading it. The outputs of `before`
// must be the columns that the input reads. Values and parameters of `before` are then called
// "NAME/value"; inputs and sizes keep their names.
absl::StatusOr<CellText> PutBefore(const CellText& before, const CellText& cell,
                                   std::string_view input);

// Adds the INT32 output `label`: where column `column` of the cell is largest. Nothing where the cell leaves a `label`
// already, be it that number or another; INVALID_ARGUMENT where it does not leave `column`.
absl::StatusOr<CellText> AddArgMax(CellText cell, std::string_view column, std::string_view label);

// What is known of a parameter or of a column that an input reads: its dimensions.
struct KnownShape {
  std::string name;           // a parameter, or "input.column"
  std::vector<int64_t> dims;  // a column has one
  std::string from;           // what says so, for errors: "tensor \"rnn.weight_hh_l0\""
  std::string remedy = {};    // ends an error: "; .. names another"
};

// What `known` says of the definition's parameters, against each other and `sizes`: every shape that does not fit, a
// line each. For definitions whose inputs are not known yet.
absl::Status CheckShapes(const CellText& text, const Sizes& sizes,
                         absl::Span<const KnownShape> known);

// Symbols are taken from `sizes` and from `known`; each must come out the same everywhere.
// Parameters that are marked optional and not in `known` are made of zeros by the loader.
absl::StatusOr<CellDefinition> BuildCell(const CellText& text, Sizes sizes,
                                         absl::Span<const KnownShape> known);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CELLS_CELL_CODEC_H_
