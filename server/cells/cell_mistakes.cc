#include "server/cells/cell_mistakes.h"

#include <fmt/format.h>

#include <functional>
#include <set>
#include <utility>

#include "server/names/nearest_name.h"

namespace cellbatch {
namespace {

absl::Status At(const std::string& place, const absl::Status& what) {
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", place, std::string(what.message().data(), what.message().size())));
}

template <typename T>
std::vector<T> First(const std::vector<T>& all, size_t count) {
  return {all.begin(), all.begin() + static_cast<ptrdiff_t>(count)};
}

// The least number of parts, up to `count`, that is refused; none: all of them are accepted. What is refused stays so
// with more behind it.
std::optional<size_t> LeastRefused(size_t count, const std::function<bool(size_t)>& accepts) {
  if (count == 0 || accepts(count)) return std::nullopt;
  size_t good = 0, bad = count;
  while (bad - good > 1) {
    const size_t middle = (good + bad) / 2;
    (accepts(middle) ? good : bad) = middle;
  }
  return bad;
}

// Widths that a column may have been meant to have: those that anything else of the cell has.
std::set<int32_t> Widths(const CellDraft& draft) {
  std::set<int32_t> widths;
  for (const Parameter& p : draft.parameters) widths.insert({p.shape.rows, p.shape.cols});
  for (const Input& in : draft.inputs) {
    for (const Column& c : in.reads) widths.insert(c.width);
  }
  return widths;
}

// The draft with column `column` of the carry (all of them: -1) as FP32 [width].
CellDraft WithCarry(CellDraft draft, int column, int32_t width) {
  const int32_t carry = draft.carry->value();
  std::vector<Column>& reads = draft.inputs[static_cast<size_t>(carry)].reads;
  for (int c = 0; c < static_cast<int>(reads.size()); ++c) {
    if (column >= 0 && c != column) continue;
    reads[static_cast<size_t>(c)].width = width;
    reads[static_cast<size_t>(c)].type = ElementType::kFp32;
    for (Op& op : draft.ops) {
      if (op.kind == OpKind::kInput && op.attr == std::array<int32_t, 2>{carry, c}) {
        op.shape = Shape::Vector(width);
      }
    }
  }
  return draft;
}

// With another width of what the carry reads everything fits: then an operator is refused for the carry's mistake.
std::optional<absl::Status> CarryToBlame(const CellText& text, const CellDraft& draft) {
  if (!draft.carry.has_value()) return std::nullopt;
  const auto index = static_cast<size_t>(draft.carry->value());
  const Input& carry = draft.inputs[index];
  const int columns = static_cast<int>(carry.reads.size());
  for (int c = 0; c <= columns; ++c) {  // the last one: all columns
    for (const int32_t width : Widths(draft)) {
      const CellDraft other = WithCarry(draft, c == columns ? -1 : c, width);
      if (!other.Create("part").ok()) continue;
      const Column& read = carry.reads[static_cast<size_t>(c == columns ? 0 : c)];
      return absl::InvalidArgumentError(fmt::format(
          "{}: cell \"{}\": carry \"{}\" reads column \"{}\" as {} [{}], the cell leaves FP32 "
          "[{}]; "
          "a chain's node reads what the one before it left, so write the same type and dims",
          text.inputs[index], text.message.name(), carry.name, read.name, Name(read.type),
          read.width, width));
    }
  }
  return std::nullopt;
}

}  // namespace

absl::Status LocateMistake(const CellText& text, const CellDraft& draft,
                           const absl::Status& refused) {
  const CellDraft one{.ops = {{.kind = OpKind::kConstant}},
                      .op_names = {},
                      .op_places = {},
                      .inputs = {},
                      .parameters = {},
                      .outputs = {{"last", ValueId(0)}},
                      .carry = {}};
  if (const auto n = LeastRefused(draft.inputs.size(), [&](size_t count) {
        CellDraft some = one;
        some.inputs = First(draft.inputs, count);
        return some.Create("part").ok();
      })) {
    return At(text.inputs[*n - 1], refused);
  }
  if (const auto n = LeastRefused(draft.parameters.size(), [&](size_t count) {
        CellDraft some = one;
        some.parameters = First(draft.parameters, count);
        return some.Create("part").ok();
      })) {
    return At(text.parameters[*n - 1], refused);
  }
  CellDraft some = draft;
  some.carry.reset();
  if (const auto n = LeastRefused(draft.ops.size(), [&](size_t count) {
        some.ops = First(draft.ops, count);
        some.outputs = {{"last", ValueId(static_cast<int64_t>(count) - 1)}};
        return some.Create("part").ok();
      })) {
    const std::optional<absl::Status> carry = CarryToBlame(text, draft);
    return carry.has_value() ? *carry : At(draft.op_places[*n - 1], refused);
  }
  some.ops = draft.ops;
  if (const auto n = LeastRefused(draft.outputs.size(), [&](size_t count) {
        some.outputs = First(draft.outputs, count);
        return some.Create("part").ok();
      })) {
    return At(text.outputs[*n - 1], refused);
  }
  const bool carried = draft.carry.has_value() && !draft.outputs.empty() && !draft.ops.empty();
  if (!carried) return At(text.file, refused);
  return At(text.inputs[static_cast<size_t>(draft.carry->value())], refused);
}

std::string WhyNothing(const CellText& text, const std::string& value) {
  std::vector<std::string> names;
  for (int i = 0; i < text.message.inputs_size(); ++i) {
    const disk::CellInput& in = text.message.inputs(i);
    std::vector<std::string> columns;
    for (const disk::CellColumn& c : in.columns()) columns.push_back(in.name() + "." + c.name());
    if (value == in.name() && !columns.empty()) {
      return fmt::format("; a column of an input is written \"{}\"", columns[0]);
    }
    if (value.compare(0, in.name().size() + 1, in.name() + ".") == 0) {
      return MeantOrThere(value, columns);
    }
    names.insert(names.end(), columns.begin(), columns.end());
  }
  for (int i = 0; i < text.message.ops_size(); ++i) {
    if (text.message.ops(i).name() == value) {
      return fmt::format("; that operator is at {}, and operators read what stands before them",
                         text.ops[static_cast<size_t>(i)]);
    }
    names.push_back(text.message.ops(i).name());
  }
  for (const disk::CellParameter& p : text.message.parameters()) names.push_back(p.name());
  const std::string nearest = NearestName(value, names);
  return nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
}

}  // namespace cellbatch
