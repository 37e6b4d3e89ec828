#include "server/assemble/open_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "cells/unfold/type_check.h"
#include "server/names/nearest_name.h"

namespace cellbatch {
namespace {

ElementType ElementOf(const disk::CellColumn& column) {
  return column.type() == disk::INT32 ? ElementType::kInt32 : ElementType::kFp32;
}

// Finds where the inputs of one type after the other come from, and makes the types.
class OpenTypeMaker {
 public:
  OpenTypeMaker(Assembly& assembly, const OpenTypesConfig& config)
      : a_(assembly), config_(config) {}

  // False: one is broken.
  bool Add(const std::string& name) {
    const absl::StatusOr<CellText> text = a_.types.TextOf(name);
    TypeRole role{.what = config_.unfolder + ": types", .inputs = {}, .others = {}};
    std::vector<int> from_request;
    // A text that cannot be read is a problem that Add tells.
    for (int i = 0; text.ok() && i < text->message.inputs_size(); ++i) {
      const disk::CellInput& input = text->message.inputs(i);
      const InputSource source = SourceOf(name, text->message, input);
      if (source.kind == InputSource::Kind::kRequest) from_request.push_back(i);
      role.inputs.emplace_back(input.name(), source);
    }
    const CellTypeId id = a_.types.Add(name, role);
    if (!id.valid()) return false;
    made.types.push_back(id);
    for (const int i : from_request) made.inputs.push_back({id, InputId(i), {}});
    return true;
  }

  // Inputs that the config names and no type has, or that read what is not before them.
  std::vector<std::string> Wrong() const {
    std::vector<std::string> wrong = wrong_;
    const auto check = [&](const char* field, const std::string& input) {
      if (std::find(inputs_.begin(), inputs_.end(), input) != inputs_.end()) return;
      wrong.push_back(fmt::format("{}: {} names \"{}\", no type has such an input{}",
                                  config_.unfolder, field, input,
                                  MeantOrThere(input, {inputs_.begin(), inputs_.end()})));
    };
    for (const std::string& input : config_.from_request) check("from_request", input);
    for (const auto& [input, type] : config_.rows_of) check("rows_of", input);
    for (const auto& [type, phase] : config_.phases) {
      if (std::find(config_.types.begin(), config_.types.end(), type) == config_.types.end()) {
        wrong.push_back(
            fmt::format("{}: phases names \"{}\", which is none of its types{}", config_.unfolder,
                        type, MeantOrThere(type, {config_.types.begin(), config_.types.end()})));
      }
    }
    return wrong;
  }

  // Of every type. What they must be, unfolders say.
  void FindPhases() {
    for (const std::string& type : config_.types) {
      const auto named = config_.phases.find(type);
      made.phases.push_back(named == config_.phases.end() ? 0 : named->second);
    }
  }

  OpenTypes made;

 private:
  InputSource SourceOf(const std::string& type, const disk::CellDefinition& cell,
                       const disk::CellInput& input) {
    inputs_.push_back(fmt::format("{}.{}", type, input.name()));
    const std::string& name = inputs_.back();
    if (input.name() == cell.carry()) return InputSource::Own();
    if (const auto named = config_.rows_of.find(name); named != config_.rows_of.end()) {
      return RowsOf(name, type, named->second);
    }
    const bool request = std::find(config_.from_request.begin(), config_.from_request.end(),
                                   name) != config_.from_request.end();
    for (size_t i = request ? 0 : made.types.size(); i > 0; --i) {
      const CellType& below = a_.model.type(made.types[i - 1]);
      if (!Leaves(below, input)) continue;
      InputSource source = InputSource::Of(below.out);
      source.remedy = fmt::format(
          "; {}: {} reads it because the names of its columns fit: rows_of {{ key: \"{}\" value: "
          ".. }} "
          "names the type it is to read, from_request: \"{}\" the request",
          config_.unfolder, name, name, name);
      return source;
    }
    if (!request && Leaves(cell, input)) return InputSource::Own();
    const bool ids = input.columns_size() > 0 && ElementOf(input.columns(0)) == ElementType::kInt32;
    return InputSource::Request(name.c_str(), ids ? ElementType::kInt32 : ElementType::kFp32);
  }
  InputSource RowsOf(const std::string& input, const std::string& type, const std::string& named) {
    if (named == type) return InputSource::Own();
    for (const CellTypeId id : made.types) {
      if (a_.model.type(id).name == named) return InputSource::Of(a_.model.type(id).out);
    }
    wrong_.push_back(
        fmt::format("{}: rows_of \"{}\" names \"{}\", which is neither its own type nor "
                    "one before it",
                    config_.unfolder, input, named));
    return InputSource::Own();
  }
  // By name alone: what sizes come to is not known before a type is made.
  static bool Leaves(const disk::CellDefinition& cell, const disk::CellInput& input) {
    return std::all_of(input.columns().begin(), input.columns().end(), [&](const auto& column) {
      return std::any_of(cell.outputs().begin(), cell.outputs().end(),
                         [&](const auto& output) { return output.column() == column.name(); });
    });
  }
  static bool Leaves(const CellType& type, const disk::CellInput& input) {
    return std::all_of(input.columns().begin(), input.columns().end(), [&](const auto& column) {
      return ColumnNamed(type, column.name(), ElementOf(column)).valid();
    });
  }

  Assembly& a_;
  const OpenTypesConfig& config_;
  std::deque<std::string> inputs_;  // "type.input" of all types; their addresses stay
  std::vector<std::string> wrong_;
};

// The model's vocabulary, for every number of the request that a cell looks up.
bool FindIds(Assembly& a, OpenTypes& made) {
  bool all = true;
  for (BroughtInput& input : made.inputs) {
    const CellType& type = a.model.type(input.type);
    const TableId table = type.in[static_cast<size_t>(input.input.value())];
    if (a.types.LookupRows(table) == 0) continue;
    const std::string& name =
        type.definition->inputs()[static_cast<size_t>(input.input.value())].name;
    const auto known =
        a.KnownIds(a.config.vocabulary(), table, fmt::format("{}.{}", type.name, name));
    all = known.has_value() && all;
    if (known) input.known = *known;
  }
  return all;
}

}  // namespace

std::optional<OpenTypes> MakeOpenTypes(Assembly& a, const OpenTypesConfig& config) {
  if (a.config.max_sequence_length() != 0) {
    a.Problem("max_sequence_length",
              "max_sequence_length is for sequences; graphs are bounded by max_nodes");
  }
  OpenTypeMaker maker(a, config);
  bool all = true;
  for (const std::string& name : config.types) all = all && maker.Add(name);
  if (!a.Finish(all)) return std::nullopt;
  if (config.types.empty()) {
    a.Problem(config.unfolder + ": no types");
    return std::nullopt;
  }
  const std::vector<std::string> wrong = maker.Wrong();
  for (const std::string& text : wrong) a.Problem(text);
  if (!wrong.empty() || !FindIds(a, maker.made)) return std::nullopt;
  maker.FindPhases();
  return std::move(maker.made);
}

}  // namespace cellbatch
