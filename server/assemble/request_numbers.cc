#include "server/assemble/request_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cellbatch {
namespace {

// As the cell's text calls it: "i0" (Slice).
std::string Called(const CellDefinition& cell, ValueId value) {
  const auto index = static_cast<size_t>(value.value());
  return fmt::format(
      "\"{}\" ({})",
      index < cell.op_names().size() ? cell.op_names()[index] : fmt::format("op {}", index),
      Name(cell.op(value).kind));
}

}  // namespace

RequestNumbers::RequestNumbers(const Model& model, std::set<TableId> request)
    : model_(model), request_(std::move(request)) {
  Follow();
}

// True: there is something new in `to`. What does not come as it is by one way cannot be held, whatever the others are.
bool RequestNumbers::Merge(const Numbers& from, bool as_they_came, Numbers& to) {
  bool more = false;
  for (const auto& [table, came] : from) {
    const bool as_it_came = came && as_they_came;
    const auto [there, added] = to.emplace(table, as_it_came);
    more = more || added || (there->second && !as_it_came);
    there->second = there->second && as_it_came;
  }
  return more;
}

RequestNumbers::Numbers RequestNumbers::Read(const CellType& type, const Op& input) const {
  const auto i = static_cast<size_t>(input.attr[0]);
  const TableId table = type.in[i];
  if (request_.contains(table)) return {{table, true}};
  const Input& in = type.definition->inputs()[i];
  const auto passed = passed_.find({table, in.reads[static_cast<size_t>(input.attr[1])].name});
  return passed == passed_.end() ? Numbers() : passed->second;
}

std::vector<RequestNumbers::Numbers> RequestNumbers::In(const CellType& type) const {
  std::vector<Numbers> values;
  for (const Op& op : type.definition->ops()) {
    Numbers& numbers = values.emplace_back();
    if (op.type != ElementType::kInt32) continue;
    if (op.kind == OpKind::kInput) numbers = Read(type, op);
    if (Family(op.kind) != OpFamily::kRearranging) continue;
    for (const ValueId arg : op.args) {
      if (arg.valid()) Merge(values[static_cast<size_t>(arg.value())], false, numbers);
    }
  }
  return values;
}

// Until nothing new is passed on: types that share a table read what those after them leave.
void RequestNumbers::Follow() {
  for (bool more = true; more;) {
    more = false;
    for (const CellType& type : model_.types) {
      const std::vector<Numbers> values = In(type);
      for (const Output& output : type.definition->outputs()) {
        const Numbers& left = values[static_cast<size_t>(output.value.value())];
        if (left.empty()) continue;
        more = Merge(left, true, passed_[{type.out, output.column}]) || more;
      }
    }
  }
}

int64_t RequestNumbers::LookupRows(TableId request) const {
  int64_t rows = std::numeric_limits<int64_t>::max();
  for (const CellType& type : model_.types) {
    const std::vector<Numbers> values = In(type);
    for (const Op& op : type.definition->ops()) {
      if (op.kind != OpKind::kLookup) continue;
      const Numbers& index = values[static_cast<size_t>(op.args[1].value())];
      const auto found = index.find(request);
      if (found == index.end() || !found->second) continue;
      rows = std::min<int64_t>(rows, type.definition->op(op.args[0]).shape.rows);
    }
  }
  return rows == std::numeric_limits<int64_t>::max() ? 0 : rows;
}

std::vector<RequestNumbers::Unheld> RequestNumbers::UnheldLookups() const {
  std::vector<Unheld> unheld;
  for (const CellType& type : model_.types) {
    const CellDefinition& cell = *type.definition;
    const std::vector<Numbers> values = In(type);
    for (size_t v = 0; v < values.size(); ++v) {
      const ValueId lookup(static_cast<int64_t>(v));
      if (cell.op(lookup).kind != OpKind::kLookup) continue;
      const ValueId index = cell.op(lookup).args[1];
      for (const auto& [table, as_it_came] : values[static_cast<size_t>(index.value())]) {
        if (as_it_came) continue;
        const TableSpec& request = model_.table(table);
        unheld.push_back(
            {type.name,
             fmt::format("operator {}: its index {} is taken out of column \"{}\" of the request's "
                         "{}, and only what is looked up as it came is held to the vocabulary: "
                         "each number that is looked up is a column of its own, INT32 [1]",
                         Called(cell, lookup), Called(cell, index), request.columns[0].name,
                         request.name)});
      }
    }
  }
  return unheld;
}

}  // namespace cellbatch
