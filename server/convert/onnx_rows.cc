// What moving dimensions about does to rows: their blocks stay in order, or it is not understood.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "server/convert/onnx_scope.h"

namespace cellbatch {
namespace {

constexpr size_t kMaxRank = 8;
constexpr size_t kMaxBlocks = 256;
constexpr int64_t kFarEnd =
    std::numeric_limits<int32_t>::max();  // exporters' "to the end" is this or more

// The product of the inner dimensions from place `begin` to `end`.
int64_t InnerSize(const OnnxScope& scope, const OnnxRows& rows, size_t begin, size_t end) {
  int64_t size = 1;
  for (size_t i = begin; i < end; ++i) {
    if (scope.axis(rows.axes[i]).role == AxisRole::kInner) size *= scope.axis(rows.axes[i]).size;
  }
  return size;
}

// One way to read a target shape: the dimensions that `sizes` make of `from`'s. Batches come and go.
class Matching {
 public:
  Matching(OnnxScope& scope, const OnnxRows& from) : scope_(scope), from_(from) {}

  bool Run(absl::Span<const OnnxDim> sizes) {
    for (const OnnxDim& size : sizes) {
      if (!Take(size)) return false;
    }
    if (pending_ > 1) return false;
    while (at_ < from_.axes.size()) {
      if (!Droppable(Here())) return false;
      ++at_;
    }
    return true;
  }
  std::vector<int> made() && { return std::move(made_); }

 private:
  const OnnxAxis& Here() const { return scope_.axis(from_.axes[at_]); }
  static bool Droppable(const OnnxAxis& axis) {
    return axis.role == AxisRole::kBatch || (axis.role == AxisRole::kInner && axis.size == 1);
  }
  bool More() const { return at_ < from_.axes.size(); }
  void Keep() { made_.push_back(from_.axes[at_++]); }
  bool Insert() {
    made_.push_back(scope_.NewAxis(AxisRole::kBatch, 1));
    return true;
  }
  void SkipDroppable() {
    while (More() && Droppable(Here())) ++at_;
  }

  bool Take(const OnnxDim& size) {
    if (!size.known()) {
      const AxisRole role = scope_.axis(size.axis).role;
      if (pending_ > 1 && role != AxisRole::kBatch) return false;
      if (More() && from_.axes[at_] == size.axis) return Keep(), true;
      if (role == AxisRole::kBatch) return Insert();
      SkipDroppable();
      if (!More() || from_.axes[at_] != size.axis) return false;
      return Keep(), true;
    }
    if (pending_ > 1) return TakeInner(size.value);
    if (More() && Droppable(Here()) && Here().size == size.value) return Keep(), true;
    if (size.value == 1) return Insert();
    SkipDroppable();
    if (!More()) return false;
    if (Here().role == AxisRole::kInner) return TakeInner(size.value);
    if (Here().size != size.value) return false;
    return Keep(), true;
  }

  // A dimension of `size` numbers: whole inner ones together, or the front of one.
  bool TakeInner(int64_t size) {
    int64_t have = std::exchange(pending_, 1);
    while (have < size) {
      SkipDroppable();
      if (!More() || Here().role != AxisRole::kInner) return false;
      have *= Here().size;
      ++at_;
    }
    if (size < 1 || have % size != 0) return false;
    pending_ = have / size;
    made_.push_back(scope_.NewAxis(AxisRole::kInner, size));
    return true;
  }

  OnnxScope& scope_;
  const OnnxRows& from_;
  size_t at_ = 0;
  int64_t pending_ = 1;  // what is left of an inner dimension that was split
  std::vector<int> made_;
};

std::string TargetText(absl::Span<const OnnxDim> to) {
  std::vector<std::string> texts;
  for (const OnnxDim& d : to) texts.push_back(d.known() ? std::to_string(d.value) : "?");
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// The last step, or the first: for a chain that is done there.
absl::StatusOr<OnnxRows> TakeStep(OnnxScope& scope, OnnxRows rows, size_t place, bool last,
                                  bool drop) {
  if (rows.stage != RowsStage::kHidden) {
    return OnnxWrong(fmt::format("takes one step of {}", rows.stage == RowsStage::kHead
                                                             ? "what a linear layer left"
                                                             : "the input"));
  }
  for (const OnnxBlock& block : rows.blocks) {
    if (block.backward != last) continue;
    return OnnxWrong(
        fmt::format("takes the {} step of the {} direction of layer {}, which has then read one "
                    "step; the state "
                    "at its end is served",
                    last ? "last" : "first", last ? "backward" : "forward", block.layer));
  }
  rows.stage = RowsStage::kFinal;
  if (drop) {
    rows.axes.erase(rows.axes.begin() + static_cast<ptrdiff_t>(place));
  } else {
    rows.axes[place] = scope.NewAxis(AxisRole::kBatch, 1);
  }
  return rows;
}

// Numbers begin <= i < end of an inner dimension: whole blocks.
absl::StatusOr<OnnxRows> TakeInner(OnnxScope& scope, OnnxRows rows, size_t place, int64_t begin,
                                   int64_t end, bool drop) {
  if (InnerSize(scope, rows, 0, place) != 1) {
    return OnnxWrong("takes a part of every direction's or layer's state");
  }
  const int64_t stride = InnerSize(scope, rows, place + 1, rows.axes.size());
  std::vector<OnnxBlock> kept;
  int64_t at = 0, got = 0;
  for (const OnnxBlock& block : rows.blocks) {
    if (at >= begin * stride && at + block.width <= end * stride) {
      kept.push_back(block);
      got += block.width;
    }
    at += block.width;
  }
  if (got != (end - begin) * stride) {
    return OnnxWrong(fmt::format("takes numbers {} to {} of {}: whole states only are served",
                                 begin * stride, end * stride, at));
  }
  rows.blocks = std::move(kept);
  if (drop) {
    rows.axes.erase(rows.axes.begin() + static_cast<ptrdiff_t>(place));
  } else {
    rows.axes[place] = scope.NewAxis(AxisRole::kInner, end - begin);
  }
  return rows;
}

}  // namespace

absl::StatusOr<OnnxRows> TransposeRows(const OnnxScope& scope, OnnxRows rows,
                                       std::vector<int64_t> order) {
  const size_t rank = rows.axes.size();
  if (order.empty()) {
    for (size_t i = rank; i > 0; --i) order.push_back(static_cast<int64_t>(i) - 1);
  }
  std::vector<int> moved;
  int64_t last_inner = -1;
  for (const int64_t place : order) {
    if (order.size() != rank || place < 0 || place >= static_cast<int64_t>(rank)) {
      return OnnxWrong(fmt::format("perm {} of {} dimensions", DimsText(order), rank));
    }
    const int axis = rows.axes[static_cast<size_t>(place)];
    if (std::find(moved.begin(), moved.end(), axis) != moved.end()) {
      return OnnxWrong(fmt::format("perm {} names a dimension twice", DimsText(order)));
    }
    moved.push_back(axis);
    if (scope.axis(axis).role != AxisRole::kInner || scope.axis(axis).size == 1) continue;
    if (place < last_inner) {
      return OnnxWrong(fmt::format("perm {} puts features before directions", DimsText(order)));
    }
    last_inner = place;
  }
  rows.axes = std::move(moved);
  return rows;
}

absl::StatusOr<OnnxRows> ReshapeRows(OnnxScope& scope, const OnnxRows& rows,
                                     std::vector<OnnxDim> to, bool zero_copies) {
  if (to.size() > kMaxRank) return OnnxWrong(fmt::format("to {} dimensions", to.size()));
  std::vector<size_t> open;
  int64_t named = 1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].known() && to[i].value == 0 && zero_copies && i < rows.axes.size()) {
      const OnnxAxis& axis = scope.axis(rows.axes[i]);
      to[i] = axis.role == AxisRole::kInner ? OnnxDim{.value = axis.size}
                                            : OnnxDim{.value = 0, .axis = rows.axes[i]};
    }
    if (to[i].known() && to[i].value < 1 && to[i].value != -1) {
      return OnnxWrong(fmt::format("to a dimension of {}", to[i].value));
    }
    const bool unknown = to[i].axis == OnnxDim::kUnknown || (to[i].known() && to[i].value == -1);
    if (unknown) open.push_back(i);
    if (!unknown && to[i].known() && named < kMaxOnnxElements / std::max<int64_t>(1, to[i].value)) {
      named *= to[i].value;
    }
  }
  // What a -1 may stand for: what is left of the inner dimensions, one of the others, or one.
  std::vector<OnnxDim> readings = {{.value = 1}};
  const int64_t inner = InnerSize(scope, rows, 0, rows.axes.size());
  readings.push_back({.value = inner});
  readings.push_back({.value = inner / named});
  for (const int axis : rows.axes) {
    if (scope.axis(axis).role != AxisRole::kInner) readings.push_back({.value = 0, .axis = axis});
  }
  if (open.empty()) readings.resize(1);
  for (const OnnxDim& reading : readings) {
    if (open.size() > 1) break;
    if (!open.empty()) to[open[0]] = reading;
    Matching matching(scope, rows);
    if (!matching.Run(to)) continue;
    OnnxRows made = rows;
    made.axes = std::move(matching).made();
    return made;
  }
  return OnnxWrong(
      fmt::format("to {}: steps and features cannot be told apart behind it", TargetText(to)));
}

absl::StatusOr<OnnxRows> SqueezeRows(OnnxScope& scope, OnnxRows rows,
                                     const std::optional<std::vector<int64_t>>& axes) {
  std::vector<bool> drop(rows.axes.size(), false);
  if (!axes) {
    for (size_t i = 0; i < drop.size(); ++i) drop[i] = scope.axis(rows.axes[i]).size == 1;
  } else {
    for (const int64_t axis : *axes) {
      const int64_t place = NormalAxis(axis, drop.size());
      if (place < 0) return OnnxWrong(fmt::format("axis {} of {}", axis, drop.size()));
      drop[static_cast<size_t>(place)] = true;
    }
  }
  std::vector<int> kept;
  for (size_t i = 0; i < drop.size(); ++i) {
    if (!drop[i]) {
      kept.push_back(rows.axes[i]);
      continue;
    }
    OnnxAxis& axis = scope.axis(rows.axes[i]);
    if (axis.role == AxisRole::kOpen && axis.size == 1) axis.role = AxisRole::kBatch;
    const bool one = axis.role == AxisRole::kBatch || axis.size == 1;
    if (!one || axis.role == AxisRole::kOpen || axis.role == AxisRole::kTime) {
      return OnnxWrong(fmt::format("dimension {} is not one", i));
    }
  }
  rows.axes = std::move(kept);
  return rows;
}

absl::StatusOr<OnnxRows> UnsqueezeRows(OnnxScope& scope, OnnxRows rows, std::vector<int64_t> axes) {
  const size_t rank = rows.axes.size() + axes.size();
  if (rank > kMaxRank) return OnnxWrong(fmt::format("to {} dimensions", rank));
  for (int64_t& axis : axes) {
    const int64_t place = NormalAxis(axis, rank);
    if (place < 0) return OnnxWrong(fmt::format("axis {} of {}", axis, rank));
    axis = place;
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return OnnxWrong("an axis twice");
  for (const int64_t place : axes) {
    rows.axes.insert(rows.axes.begin() + place, scope.NewAxis(AxisRole::kBatch, 1));
  }
  return rows;
}

absl::StatusOr<OnnxRows> SliceRows(OnnxScope& scope, OnnxRows rows, int64_t axis, OnnxDim begin,
                                   OnnxDim end, bool drop) {
  const int64_t normal = NormalAxis(axis, rows.axes.size());
  if (normal < 0) return OnnxWrong(fmt::format("axis {} of {}", axis, rows.axes.size()));
  const size_t place = static_cast<size_t>(normal);
  const int number = rows.axes[place];
  const OnnxAxis here = scope.axis(number);
  // Places beyond any size are all alike, and can then be reckoned with.
  begin.value = std::clamp(begin.value, -kMaxOnnxElements, kMaxOnnxElements);
  end.value = std::clamp(end.value, -kMaxOnnxElements, std::max(kFarEnd, kMaxOnnxElements));
  // A size that the file does not say is no number to compare with: -1 is the place before the last.
  const bool to_end =
      end.axis == number ||
      (end.known() && (end.value >= kFarEnd || (here.size >= 0 && end.value == here.size)));
  if (begin.known() && begin.value == 0 && to_end && !drop) return rows;
  if (here.role == AxisRole::kBatch) {  // one: its only element
    const bool first = begin.known() && begin.value == 0 && (!end.known() || end.value > 0);
    if (!first && !(begin.known() && begin.value == -1 && to_end)) {
      return OnnxWrong("takes another sequence of a batch than the first");
    }
    if (drop) rows.axes.erase(rows.axes.begin() + normal);
    return rows;
  }
  if (!begin.known()) return OnnxWrong("from a place that is not known before it is served");
  if (here.role == AxisRole::kTime) {
    const bool last = begin.value == -1 || (here.size > 1 && begin.value == here.size - 1);
    if (last && to_end) return TakeStep(scope, std::move(rows), place, true, drop);
    const bool first = begin.value == 0 && end.known() && end.value == 1;
    if (first) return TakeStep(scope, std::move(rows), place, false, drop);
    return OnnxWrong("takes some of the steps; the first, the last and all are served");
  }
  if (here.role == AxisRole::kOpen || !end.known()) return OnnxWrong("takes a part of the input");
  const auto clamp = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + here.size : i, 0, here.size);
  };
  const int64_t from = clamp(begin.value);
  const int64_t to = drop ? from + 1 : clamp(end.value);
  if (from >= to || to > here.size)
    return OnnxWrong(fmt::format("takes {} to {} of {}", from, to, here.size));
  if (rows.stage == RowsStage::kHead || rows.blocks.empty()) {
    return OnnxWrong("takes some of the numbers of a step");
  }
  return TakeInner(scope, std::move(rows), place, from, to, drop);
}

absl::StatusOr<OnnxRows> ConcatRows(OnnxScope& scope, const std::vector<const OnnxRows*>& parts,
                                    int64_t axis) {
  OnnxRows made = *parts[0];
  const int64_t normal = NormalAxis(axis, made.axes.size());
  if (normal < 0) return OnnxWrong(fmt::format("axis {} of {}", axis, made.axes.size()));
  const size_t place = static_cast<size_t>(normal);
  if (made.blocks.empty()) return OnnxWrong("of what are no states");
  int64_t size = 0;
  made.blocks.clear();
  for (const OnnxRows* part : parts) {
    bool alike = part->stage == made.stage && part->axes.size() == made.axes.size();
    for (size_t i = 0; alike && i < made.axes.size(); ++i) {
      const OnnxAxis& a = scope.axis(made.axes[i]);
      const OnnxAxis& b = scope.axis(part->axes[i]);
      // An inserted one may become the dimension of directions or layers; steps are not put behind steps.
      const bool both = a.role != AxisRole::kTime && b.role != AxisRole::kTime;
      alike =
          i == place ? both : a.role == b.role && (a.role != AxisRole::kInner || a.size == b.size);
    }
    if (!alike) return OnnxWrong("of states of different kinds or dimensions");
    if (InnerSize(scope, *part, 0, place) != 1) return OnnxWrong("between directions or layers");
    const OnnxAxis& here = scope.axis(part->axes[place]);
    size += here.role == AxisRole::kInner ? here.size : 1;
    made.blocks.insert(made.blocks.end(), part->blocks.begin(), part->blocks.end());
    if (made.blocks.size() > kMaxBlocks) {
      return OnnxWrong(fmt::format("of more than {} states", kMaxBlocks));
    }
  }
  made.axes[place] = scope.NewAxis(AxisRole::kInner, size);
  return made;
}

}  // namespace cellbatch
