#include "cells/unfold/chain_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "cells/unfold/request_check.h"

namespace cellbatch {
namespace {

constexpr int64_t kFloat = sizeof(float);

size_t Index(int64_t i) { return static_cast<size_t>(i); }

const std::vector<Column>& Carried(const CellType& type) {
  return type.definition->inputs()[Index(type.definition->carry()->value())].reads;
}

bool Carries(const CellType& type, std::string_view column) {
  const std::vector<Column>& reads = Carried(type);
  return std::any_of(reads.begin(), reads.end(),
                     [&](const Column& read) { return read.name == column; });
}

}  // namespace

ColumnId FindFloats(const CellType& type, std::string_view name) {
  const absl::Span<const Column> columns = type.definition->columns();
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].name != name || columns[c].type != ElementType::kFp32) continue;
    return ColumnId(static_cast<int64_t>(c));
  }
  return ColumnId();
}

// Nothing, if the chains do not leave it alike.
void ChainStates::AddPart(const Model& model, absl::Span<const CellTypeId> chains,
                          std::string_view name) {
  std::string letters(name);
  absl::AsciiStrToUpper(&letters);
  Part part{.initial = "INITIAL_" + letters, .final = "FINAL_" + letters, .columns = {}};
  for (const Part& other : parts_) {
    if (other.final == part.final) return;  // there already, or "n" beside "N"
  }
  for (const CellTypeId chain : chains) {
    const CellType& type = model.type(chain);
    const ColumnId column = FindFloats(type, name);
    if (!column.valid()) return;
    const int32_t width = type.definition->columns()[Index(column.value())].width;
    if (part.width != 0 && part.width != width) return;
    part.width = width;
    part.carried = part.carried || Carries(type, name);
    part.columns.push_back(column);
  }
  parts_.push_back(std::move(part));
}

int ChainStates::PartOf(size_t chain, ColumnId column) const {
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].carried && parts_[p].columns[chain] == column) return static_cast<int>(p);
  }
  return -1;
}

ChainStates::ChainStates(const Model& model, absl::Span<const CellTypeId> chains) {
  AddPart(model, chains, "h");
  AddPart(model, chains, "c");
  for (const Column& read : Carried(model.type(chains[0]))) AddPart(model, chains, read.name);
  may_be_brought_ = true;
  for (size_t k = 0; k < chains.size(); ++k) {
    const CellType& type = model.type(chains[k]);
    Row& row = rows_.emplace_back();
    row.table = type.out;
    const std::vector<Column>& columns = model.table(type.out).columns;
    for (size_t c = 0; c < columns.size(); ++c) {
      const int part = PartOf(k, FindFloats(type, columns[c].name));
      if (part < 0) {
        may_be_brought_ = may_be_brought_ && !Carries(type, columns[c].name);
        continue;
      }
      row.columns.set(c);
      row.parts.push_back(part);
    }
  }
}

bool ChainStates::Brings(const RequestInput& input) const {
  return may_be_brought_ && std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
           return part.carried && input.Find(part.initial) != nullptr;
         });
}

absl::StatusOr<ChainStates::Begins> ChainStates::Read(const RequestInput& input,
                                                      std::optional<int64_t> sequences,
                                                      CellGraph& graph) const {
  Begins begins;
  if (!Brings(input)) return begins;
  std::vector<const InputTensor*> brought(parts_.size());  // by part
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (!parts_[p].carried) continue;
    brought[p] = input.Find(parts_[p].initial);
    if (brought[p] == nullptr) {
      return WrongInput(parts_[p].initial, "missing: a state is brought whole");
    }
    TensorDims dims = {num_chains(), parts_[p].width};
    if (sequences.has_value()) dims.insert(dims.begin(), *sequences);
    if (absl::Status s = CheckTensor(*brought[p], WireType::kFp32, dims); !s.ok()) return s;
  }
  const int64_t count = sequences.value_or(1);
  for (size_t k = 0; k < rows_.size(); ++k) {
    const Row& row = rows_[k];
    const auto bytes_of = [&](int part) { return int64_t{parts_[Index(part)].width} * kFloat; };
    int64_t bytes = 0;
    for (const int part : row.parts) bytes += count * bytes_of(part);
    std::byte* at = graph.Keep(bytes);
    begins.push_back(graph.AddInput(row.table, static_cast<int32_t>(count), at, row.columns));
    for (const int part : row.parts) {
      for (int64_t b = 0; b < count; ++b, at += bytes_of(part)) {
        const int64_t chain = b * num_chains() + static_cast<int64_t>(k);
        std::memcpy(at, brought[Index(part)]->bytes.data() + chain * bytes_of(part),
                    Index(bytes_of(part)));
      }
    }
  }
  return begins;
}

}  // namespace cellbatch
