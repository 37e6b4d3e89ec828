#include "cells/explain/equations.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

// How strongly an expression holds together: one that holds less than its place wants stands in brackets.
enum Holds : uint8_t { kSum, kScaled, kProduct, kAtom };

struct Text {
  std::string text;
  Holds holds = kAtom;
};

// Lanes [begin, begin + width) of a value, row-major.
struct View {
  ValueId value;
  int32_t begin = 0, width = 0;

  auto Key() const { return std::tuple(value.value(), begin, width); }
  friend bool operator<(const View& a, const View& b) { return a.Key() < b.Key(); }
};

std::string Number(const Op& op) {
  if (op.type == ElementType::kInt32) return std::to_string(op.attr[0]);
  float value = 0;
  std::memcpy(&value, &op.attr[0], sizeof(value));
  return fmt::format("{}", value);
}

std::string Function(OpKind kind) {
  std::string name = Name(kind);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

bool IsLeaf(const Op& op) { return Family(op.kind) == OpFamily::kLeaf; }

bool IsElementWise(const Op& op) {
  return Family(op.kind) == OpFamily::kUnary || Family(op.kind) == OpFamily::kBinary;
}

class Writer {
 public:
  explicit Writer(const CellDefinition& cell) : cell_(cell) {}

  std::string Write() {
    for (const Parameter& parameter : cell_.parameters()) reserved_.insert(parameter.name);
    for (const Input& input : cell_.inputs()) {
      for (size_t c = 0; c < input.reads.size(); ++c) {
        reserved_.insert(ColumnName(cell_, input, c));
      }
    }
    for (const Output& output : cell_.outputs()) {
      const View view = Resolved(Whole(output.value));
      reserved_.insert(output.column);
      if (!IsLeaf(cell_.op(view.value))) names_.try_emplace(view, output.column);
    }
    for (const Output& output : cell_.outputs()) Visit(Resolved(Whole(output.value)));
    // As the definition's text has them: operators read earlier ones only, parts of a value the whole.
    std::stable_sort(order_.begin(), order_.end(), [&](const View& a, const View& b) {
      return std::pair(a.value.value(), !IsWhole(a)) < std::pair(b.value.value(), !IsWhole(b));
    });
    for (const View& view : order_) NameIfWanted(view);
    for (const View& view : order_) {
      if (names_.contains(view)) Line(names_.at(view), Formula(view).text);
    }
    for (const Output& output : cell_.outputs()) {
      const View view = Resolved(Whole(output.value));
      const auto name = names_.find(view);
      if (name != names_.end() && name->second == output.column) continue;
      Line(output.column, Read(view, kSum));
    }
    return std::move(lines_);
  }

 private:
  View Whole(ValueId v) const { return {v, 0, static_cast<int32_t>(cell_.op(v).shape.size())}; }
  bool IsWhole(const View& view) const { return view.width == cell_.op(view.value).shape.size(); }
  const Op& Arg(const Op& op, size_t which) const { return cell_.op(op.args[which]); }

  // Columns of a matrix turned round are rows: Transpose(Slice(Transpose(U), a, b)) is U from row a on.
  bool IsRowsTurnedTwice(const Op& op) const {
    return op.kind == OpKind::kTranspose && Arg(op, 0).kind == OpKind::kSlice &&
           Arg(Arg(op, 0), 0).kind == OpKind::kTranspose;
  }

  // Through slices and concatenations of vectors, to who makes those lanes.
  View Resolved(View view) {
    for (;;) {
      const Op& op = cell_.op(view.value);
      if (op.kind == OpKind::kSlice && op.shape.is_vector() && Arg(op, 0).shape.is_vector()) {
        const View part = {op.args[0], op.attr[0] + view.begin, view.width};
        if (IsWhole(view)) sliced_as_.try_emplace(part, view.value);
        view = part;
        continue;
      }
      if (IsRowsTurnedTwice(op)) {
        const Op& columns = Arg(op, 0);
        view = {Arg(columns, 0).args[0], columns.attr[0] * op.shape.cols + view.begin, view.width};
        continue;
      }
      if (op.kind != OpKind::kConcat) return view;
      int32_t begin = 0;
      const ValueId whole = view.value;
      for (const ValueId piece : op.args) {
        if (!piece.valid()) break;
        const auto width = static_cast<int32_t>(cell_.op(piece).shape.size());
        if (view.begin >= begin && view.begin + view.width <= begin + width) {
          view = {piece, view.begin - begin, view.width};
          break;
        }
        begin += width;
      }
      if (view.value == whole) return view;
    }
  }

  // Whether these lanes follow from lanes of the operands; else only the whole value has a formula.
  bool IsTakenApart(const View& view) {
    const Op& op = cell_.op(view.value);
    if (IsWhole(view) || IsLeaf(op)) return true;
    if (sources_.size() >= kMaxEquationViews || !op.shape.is_vector()) return false;
    return IsElementWise(op) || (op.kind == OpKind::kMatMul && ByRowsOfParameter(op));
  }
  bool ByRowsOfParameter(const Op& op) {
    return Arg(op, 0).shape.is_vector() &&
           cell_.op(Resolved(Whole(op.args[1])).value).kind == OpKind::kParameter;
  }

  // Lanes of a value that only as a whole has a formula.
  static bool IsInPart(const View& view, const std::vector<View>& sources) {
    return sources.size() == 1 && sources[0].value == view.value;
  }

  // What a view is computed from.
  std::vector<View> SourcesOf(const View& view) {
    const Op& op = cell_.op(view.value);
    if (IsLeaf(op)) return {};
    if (!IsTakenApart(view)) return {Whole(view.value)};
    std::vector<View> sources;
    for (size_t a = 0; a < op.args.size() && op.args[a].valid(); ++a) {
      View source = Whole(op.args[a]);
      if (IsElementWise(op) && source.width > 1) source = {op.args[a], view.begin, view.width};
      if (op.kind == OpKind::kMatMul && a == 1 && ByRowsOfParameter(op)) {
        const int32_t depth = Arg(op, 1).shape.cols;
        source = {op.args[a], view.begin * depth, view.width * depth};  // rows of it
      }
      sources.push_back(Resolved(source));
    }
    return sources;
  }

  void Visit(const View& view) {
    ++uses_[view];
    if (uses_[view] > 1) return;
    const std::vector<View> sources = SourcesOf(view);
    sources_[view] = sources;
    for (const View& source : sources) {
      Visit(source);
      if (IsInPart(view, sources)) ++uses_[source];  // read by its name
    }
    order_.push_back(view);
  }

  // After its sources.
  void NameIfWanted(const View& view) {
    const Op& op = cell_.op(view.value);
    if (IsLeaf(op)) return;
    bool product = op.kind == OpKind::kMatMul || op.kind == OpKind::kLookup;
    for (const View& source : sources_.at(view)) product |= of_product_.contains(source);
    const OpFamily family = Family(op.kind);
    const bool function = family == OpFamily::kUnary || family == OpFamily::kReduction;
    if (!IsInPart(view, sources_.at(view)) && (uses_.at(view) > 1 || (function && product))) {
      names_.try_emplace(view, NewName(view));
    }
    if (product && !names_.contains(view)) of_product_.insert(view);
  }

  std::string NewName(const View& view) {
    const auto sliced = sliced_as_.find(view);
    ValueId value = view.value;
    std::string part;
    if (!IsWhole(view)) {
      if (sliced != sliced_as_.end()) {
        value = sliced->second;
      } else {
        part = fmt::format("_{}_{}", view.begin, view.begin + view.width);
      }
    }
    const auto number = static_cast<size_t>(value.value());
    std::string name = cell_.op_names().empty() ? fmt::format("v{}", number)
                                                : std::string(cell_.op_names()[number]);
    name += part;
    while (!reserved_.insert(name).second) name += "_";
    return name;
  }

  void Line(const std::string& name, const std::string& formula) {
    lines_ += name + " = " + formula + "\n";
  }

  // As an operand in a place that wants at least `wanted`.
  std::string Read(const View& view, Holds wanted) {
    const auto name = names_.find(view);
    const Text text = name != names_.end() ? Text{name->second} : Formula(view);
    return text.holds >= wanted ? text.text : "(" + text.text + ")";
  }

  static std::string Lanes(const View& view) {
    return fmt::format("[{}:{}]", view.begin, view.begin + view.width);
  }

  Text Leaf(const View& view) const {
    const Op& op = cell_.op(view.value);
    if (op.kind == OpKind::kConstant) return {Number(op)};
    const auto number = static_cast<size_t>(op.attr[0]);
    if (op.kind == OpKind::kInput) {
      const std::string column =
          ColumnName(cell_, cell_.inputs()[number], static_cast<size_t>(op.attr[1]));
      return {column + (IsWhole(view) ? "" : Lanes(view))};
    }
    const Parameter& parameter = cell_.parameters()[number];
    if (IsWhole(view)) return {parameter.name};
    const int32_t cols = parameter.shape.is_vector() ? 1 : parameter.shape.cols;
    return {parameter.name + Lanes({view.value, view.begin / cols, view.width / cols})};
  }

  Text Formula(const View& view) {
    const Op& op = cell_.op(view.value);
    if (IsLeaf(op)) return Leaf(view);
    const std::vector<View>& from = sources_.at(view);
    if (IsInPart(view, from)) return {Read(from[0], kAtom) + Lanes(view)};
    switch (Family(op.kind)) {
      case OpFamily::kBinary:
        return Binary(op.kind, from);
      case OpFamily::kLookup:
        return {Read(from[0], kAtom) + "[" + Read(from[1], kSum) + "]"};
      case OpFamily::kProduct:
        return Product(op, from);
      case OpFamily::kUnary:
      case OpFamily::kReduction:
        return {Function(op.kind) + "(" + Read(from[0], kSum) + ")"};
      case OpFamily::kLeaf:
      case OpFamily::kRearranging:
        return Rearranged(op, from);
    }
    NoSuchEnumerator();
  }

  Text Binary(OpKind kind, const std::vector<View>& from) {
    const auto joined = [&](const char* sign, Holds left, Holds right, Holds holds) {
      return Text{Read(from[0], left) + sign + Read(from[1], right), holds};
    };
    if (kind == OpKind::kAdd) return joined(" + ", kSum, kSum, kSum);
    if (kind == OpKind::kSub) return joined(" - ", kSum, kScaled, kSum);
    // "W x * y" could be read in two ways.
    const auto operand = [&](size_t which, bool again) {
      const bool product = !names_.contains(from[which]) && IsProduct(from[which]);
      return Read(from[which], product || again ? kAtom : kScaled);
    };
    if (kind == OpKind::kMul) return {operand(0, false) + " * " + operand(1, false), kScaled};
    if (kind == OpKind::kDiv) return {operand(0, false) + " / " + operand(1, true), kScaled};
    return {"max(" + Read(from[0], kSum) + ", " + Read(from[1], kSum) + ")"};
  }
  bool IsProduct(const View& view) const { return cell_.op(view.value).kind == OpKind::kMatMul; }

  // W x for a vector; rows of a matrix are multiplied one by one: x W^T.
  Text Product(const Op& op, const std::vector<View>& from) {
    if (Arg(op, 0).shape.is_vector()) {
      return {Read(from[1], kAtom) + " " + Read(from[0], kAtom), kProduct};
    }
    const bool turned = cell_.op(from[1].value).kind == OpKind::kTranspose && IsWhole(from[1]) &&
                        !names_.contains(from[1]);
    const std::string by =
        turned ? Read(sources_.at(from[1])[0], kAtom) : Read(from[1], kAtom) + "^T";
    return {Read(from[0], kAtom) + " " + by, kProduct};
  }

  Text Rearranged(const Op& op, const std::vector<View>& from) {
    if (op.kind == OpKind::kTranspose) return {Read(from[0], kAtom) + "^T"};
    if (op.kind == OpKind::kSlice) {
      return {fmt::format("{}[:, {}:{}]", Read(from[0], kAtom), op.attr[0], op.attr[1])};
    }
    std::string pieces;
    for (const View& piece : from) pieces += (pieces.empty() ? "" : "; ") + Read(piece, kSum);
    return {"[" + pieces + "]"};
  }

  const CellDefinition& cell_;
  std::map<View, std::vector<View>> sources_;
  std::map<View, int> uses_;
  std::map<View, ValueId> sliced_as_;  // the slice that first named those lanes
  std::vector<View> order_;            // sources first
  std::set<View> of_product_;          // nameless, with a product inside
  std::map<View, std::string> names_;
  std::set<std::string> reserved_;
  std::string lines_;
};

}  // namespace

std::string ColumnName(const CellDefinition& cell, const Input& input, size_t column) {
  const std::string& name = input.reads[column].name;
  const std::string from = input.arity == Arity::kSum ? "sum(" + input.name + ")" : input.name;
  const bool left = std::any_of(cell.columns().begin(), cell.columns().end(),
                                [&](const Column& c) { return c.name == name; });
  const bool alone = input.reads.size() == 1 && from == name && !left;
  return alone ? name : from + "." + name;
}

std::string Equations(const CellDefinition& cell) { return Writer(cell).Write(); }

}  // namespace cellbatch
