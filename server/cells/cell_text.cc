// Parsing and putting together; no sizes yet.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cells/free_name.h"
#include "server/cells/cell_codec.h"
#include "server/names/nearest_name.h"
#include "server/repository/text_file.h"

namespace cellbatch {
namespace {

using PlacesTree = google::protobuf::TextFormat::ParseInfoTree;

std::vector<std::string> Places(const PlacesTree& tree, const char* field, int count,
                                const std::string& file) {
  std::vector<std::string> places;
  for (int i = 0; i < count; ++i) {
    places.push_back(PlaceOf(tree, *disk::CellDefinition::descriptor(), field, i, file));
  }
  return places;
}

template <typename Message>
bool Named(const google::protobuf::RepeatedPtrField<Message>& list, std::string_view name) {
  for (const Message& m : list) {
    if (m.name() == name) return true;
  }
  return false;
}

// Whether something of the definition that operators can read is called that.
bool IsRead(const disk::CellDefinition& cell, std::string_view name) {
  return Named(cell.inputs(), name) || Named(cell.parameters(), name) || Named(cell.ops(), name);
}

// Appends a definition's parts to another's under new names.
class Joiner {
 public:
  Joiner(const CellText& before, const CellText& cell, std::string_view input)
      : before_(before), cell_(cell), input_(input) {}

  absl::StatusOr<CellText> Join() {
    joined_.file = cell_.file;
    joined_.message.set_name(cell_.message.name());
    joined_.message.set_carry(cell_.message.carry());
    joined_.carry = cell_.carry;
    if (absl::Status s = CheckColumns(); !s.ok()) return s;
    AddInputs();
    AddFront();
    AddCell();
    return std::move(joined_);
  }

 private:
  std::string Renamed(const std::string& name) const { return before_.message.name() + "/" + name; }

  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("{}: cell \"{}\" before input \"{}\": {}",
                                                  cell_.file, before_.message.name(), input_,
                                                  what));
  }

  // Every column that the input reads must be an output in front; and the carry stays a row.
  absl::Status CheckColumns() const {
    if (!Named(cell_.message.inputs(), input_)) {
      std::vector<std::string> names;
      for (const disk::CellInput& in : cell_.message.inputs()) names.push_back(in.name());
      return Wrong("there is no such input" + MeantOrThere(input_, names));
    }
    if (cell_.message.carry() == input_) return Wrong("it is what a chain carries");
    if (!before_.message.carry().empty()) return Wrong("the cell in front is a chain");
    std::set<std::string> outputs;
    for (const disk::CellOutput& o : before_.message.outputs()) outputs.insert(o.column());
    for (const disk::CellInput& in : cell_.message.inputs()) {
      if (in.name() != input_) continue;
      if (in.arity() == disk::SUM) return Wrong("it is a sum of rows");
      for (const disk::CellColumn& c : in.columns()) {
        if (outputs.contains(c.name())) continue;
        return Wrong(fmt::format("it reads column \"{}\", which the cell in front does not leave",
                                 c.name()));
      }
    }
    for (const disk::CellInput& in : before_.message.inputs()) {
      if (in.name() != input_ && Named(cell_.message.inputs(), in.name())) {
        return Wrong(fmt::format("both have an input \"{}\"", in.name()));
      }
    }
    return absl::OkStatus();
  }

  void AddInputs() {
    for (int i = 0; i < before_.message.inputs_size(); ++i) {
      *joined_.message.add_inputs() = before_.message.inputs(i);
      joined_.inputs.push_back(before_.inputs[static_cast<size_t>(i)]);
    }
    for (int i = 0; i < cell_.message.inputs_size(); ++i) {
      if (cell_.message.inputs(i).name() == input_) continue;
      *joined_.message.add_inputs() = cell_.message.inputs(i);
      joined_.inputs.push_back(cell_.inputs[static_cast<size_t>(i)]);
    }
  }

  // An argument in front: a column of an input keeps its name, a value or parameter does not.
  std::string FrontArgument(const std::string& name) const {
    return Named(before_.message.ops(), name) || Named(before_.message.parameters(), name)
               ? Renamed(name)
               : name;
  }

  void AddFront() {
    for (int i = 0; i < before_.message.parameters_size(); ++i) {
      disk::CellParameter* p = joined_.message.add_parameters();
      *p = before_.message.parameters(i);
      p->set_name(Renamed(p->name()));
      joined_.parameters.push_back(before_.parameters[static_cast<size_t>(i)]);
    }
    for (int i = 0; i < before_.message.ops_size(); ++i) {
      disk::CellOp* op = joined_.message.add_ops();
      *op = before_.message.ops(i);
      op->set_name(Renamed(op->name()));
      for (std::string& a : *op->mutable_args()) a = FrontArgument(a);
      joined_.ops.push_back(before_.ops[static_cast<size_t>(i)]);
    }
  }

  // An argument of the cell: a column of the replaced input is now a value in front.
  std::string CellArgument(const std::string& name) const {
    for (const disk::CellOutput& o : before_.message.outputs()) {
      if (name == fmt::format("{}.{}", input_, o.column())) return FrontArgument(o.value());
    }
    return name;
  }

  void AddCell() {
    for (int i = 0; i < cell_.message.parameters_size(); ++i) {
      *joined_.message.add_parameters() = cell_.message.parameters(i);
      joined_.parameters.push_back(cell_.parameters[static_cast<size_t>(i)]);
    }
    for (int i = 0; i < cell_.message.ops_size(); ++i) {
      disk::CellOp* op = joined_.message.add_ops();
      *op = cell_.message.ops(i);
      for (std::string& a : *op->mutable_args()) a = CellArgument(a);
      joined_.ops.push_back(cell_.ops[static_cast<size_t>(i)]);
    }
    for (int i = 0; i < cell_.message.outputs_size(); ++i) {
      disk::CellOutput* o = joined_.message.add_outputs();
      *o = cell_.message.outputs(i);
      o->set_value(CellArgument(o->value()));
      joined_.outputs.push_back(cell_.outputs[static_cast<size_t>(i)]);
    }
  }

  const CellText& before_;
  const CellText& cell_;
  std::string_view input_;
  CellText joined_;
};

}  // namespace

absl::StatusOr<CellText> ParseCell(std::string_view text, const std::string& file) {
  if (text.size() > kMaxCellText) {
    return absl::InvalidArgumentError(
        fmt::format("{}: has {} bytes, the limit is {}", file, text.size(), kMaxCellText));
  }
  CellText cell;
  cell.file = file;
  PlacesTree tree;
  if (absl::Status s = ParseTextFormat(text, file, cell.message, &tree); !s.ok()) return s;
  cell.inputs = Places(tree, "inputs", cell.message.inputs_size(), file);
  cell.parameters = Places(tree, "parameters", cell.message.parameters_size(), file);
  cell.ops = Places(tree, "ops", cell.message.ops_size(), file);
  cell.outputs = Places(tree, "outputs", cell.message.outputs_size(), file);
  cell.carry = PlaceOf(tree, *disk::CellDefinition::descriptor(), "carry", -1, file);
  return cell;
}

CellText WrapCell(const disk::CellDefinition& message, const std::string& file) {
  CellText cell;
  cell.message = message;
  cell.file = file;
  cell.inputs.assign(static_cast<size_t>(message.inputs_size()), file);
  cell.parameters.assign(static_cast<size_t>(message.parameters_size()), file);
  cell.ops.assign(static_cast<size_t>(message.ops_size()), file);
  cell.outputs.assign(static_cast<size_t>(message.outputs_size()), file);
  cell.carry = file;
  return cell;
}

absl::StatusOr<CellText> AddArgMax(CellText cell, std::string_view column, std::string_view label) {
  const auto output = [&](std::string_view name) {
    const auto& outputs = cell.message.outputs();
    const auto found = std::find_if(outputs.begin(), outputs.end(),
                                    [&](const auto& o) { return o.column() == name; });
    return found == outputs.end() ? nullptr : &*found;
  };
  if (output(label) != nullptr) return cell;
  if (output(column) == nullptr) {
    return absl::InvalidArgumentError(fmt::format("{}: cell \"{}\" leaves no column \"{}\"",
                                                  cell.file, cell.message.name(),
                                                  std::string(column)));
  }
  const std::string value = output(column)->value();
  const std::string name =
      FreeName(fmt::format("{}/argmax", std::string(label)),
               [&](const std::string& free) { return IsRead(cell.message, free); });
  disk::CellOp& largest = *cell.message.add_ops();
  largest.set_name(name);
  largest.set_kind(disk::ARGMAX);
  largest.add_args(value);
  cell.ops.push_back(cell.file);
  disk::CellOutput& out = *cell.message.add_outputs();
  out.set_column(std::string(label));
  out.set_value(largest.name());
  cell.outputs.push_back(cell.file);
  return cell;
}

absl::StatusOr<CellText> PutBefore(const CellText& before, const CellText& cell,
                                   std::string_view input) {
  return Joiner(before, cell, input).Join();
}

}  // namespace cellbatch
