#include "server/learn/built_in_shapes.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cellbatch {
namespace {

double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

int32_t Below(std::mt19937_64& random, int64_t n) {
  return static_cast<int32_t>(random() % static_cast<uint64_t>(n));
}

// e^(normal): a sum of twelve is near enough, and the same everywhere.
int32_t LogNormal(std::mt19937_64& random, double median, double spread, int32_t most) {
  double normal = -6;
  for (int i = 0; i < 12; ++i) normal += Uniform(random);
  const double value = median * std::exp(spread * normal);
  return std::clamp(static_cast<int32_t>(std::lround(value)), 1, most);
}

// Leaves [from, to) become a subtree by splitting anywhere; children before parents.
void SplitLeaves(std::mt19937_64& random, RequestShape& shape) {
  struct Part {
    int32_t from, to, split;
    int side = 0;  // children done
    int32_t nodes[2] = {};
  };
  if (shape.length == 1) return;
  const auto part = [&](int32_t from, int32_t to) {
    return Part{from, to, from + 1 + Below(random, to - from - 1), 0, {0, 0}};
  };
  std::vector<Part> open = {part(0, shape.length)};
  while (!open.empty()) {
    Part& top = open.back();
    if (top.side == 2) {
      const int32_t node = shape.length + static_cast<int32_t>(shape.children.size());
      shape.children.push_back({top.nodes[0], top.nodes[1]});
      open.pop_back();
      if (!open.empty()) open.back().nodes[open.back().side++] = node;
      continue;
    }
    const int32_t from = top.side == 0 ? top.from : top.split;
    const int32_t to = top.side == 0 ? top.split : top.to;
    if (to - from == 1) {
      top.nodes[top.side++] = from;
    } else {
      open.push_back(part(from, to));
    }
  }
}

// Words of two to four characters, none twice.
void AddWords(std::mt19937_64& random, RequestShape& shape) {
  const int32_t words = shape.length * 4 / 9;
  for (int32_t i = 0; i < words; ++i) {
    const int32_t long_one = Below(random, 10);
    const int32_t length = long_one < 7 ? 2 : long_one < 9 ? 3 : 4;
    if (length > shape.length) continue;
    const int32_t from = Below(random, shape.length - length + 1);
    shape.spans.push_back({from, from + length});
  }
  std::sort(shape.spans.begin(), shape.spans.end(), [](const auto& a, const auto& b) {
    return std::pair(a[1], a[0]) < std::pair(b[1], b[0]);
  });
  shape.spans.erase(std::unique(shape.spans.begin(), shape.spans.end()), shape.spans.end());
}

// Of the three words before it one that may have another child: the last of them has none yet.
void AddHeads(std::mt19937_64& random, int64_t most_children, RequestShape& shape) {
  shape.parents.push_back(-1);
  std::vector<int64_t> children(static_cast<size_t>(shape.length));
  for (int32_t i = 1; i < shape.length; ++i) {
    std::vector<int32_t> near;
    for (int32_t head = i - 1; head >= std::max(0, i - 3); --head) {
      if (children[static_cast<size_t>(head)] < most_children) near.push_back(head);
    }
    const auto drawn = static_cast<size_t>(Below(random, static_cast<int64_t>(near.size())));
    shape.parents.push_back(near[drawn]);
    ++children[static_cast<size_t>(near[drawn])];
  }
}

}  // namespace

RequestShape RandomShape(ShapeKind kind, const ShapeBounds& most, std::mt19937_64& random) {
  RequestShape shape;
  shape.length = kind == ShapeKind::kLattice ? LogNormal(random, 40, 0.6, 190)
                 : kind == ShapeKind::kTree  ? LogNormal(random, 17, 0.45, 52)
                 : kind == ShapeKind::kHeads ? LogNormal(random, 10, 0.7, 75)
                                             : LogNormal(random, 21, 0.55, 130);
  shape.length = std::min(shape.length, most.length);
  switch (kind) {
    case ShapeKind::kTree:
      SplitLeaves(random, shape);
      break;
    case ShapeKind::kHeads:
      AddHeads(random, most.children, shape);
      break;
    case ShapeKind::kLattice:
      AddWords(random, shape);
      break;
    case ShapeKind::kTranslation:
      shape.target = std::max(1, shape.length * (90 + Below(random, 40)) / 100);
      break;
    case ShapeKind::kSpelled:
      for (int32_t i = 0; i < shape.length; ++i) {
        shape.spelled.push_back(Below(random, 6) == 0 ? 2 + LogNormal(random, 8, 0.4, 30) : 0);
      }
      break;
    case ShapeKind::kSequence:
    case ShapeKind::kGraph:
    case ShapeKind::kTensors:
      break;
  }
  return shape;
}

RequestShape RandomGraphShape(const RequestDescription& described, const ShapeBounds& most,
                              std::mt19937_64& random) {
  constexpr int32_t kNear = 8, kMostSummed = 3;
  RequestShape shape;
  const auto types = static_cast<int64_t>(described.node_types.size());
  shape.length = std::min(LogNormal(random, 17, 0.5, 90), most.length);
  for (int32_t node = 0; node < shape.length; ++node) {
    const bool last = node + 1 == shape.length && described.output_type >= 0;
    const int32_t type = last ? described.output_type : Below(random, types);
    shape.node_types.push_back(type);
    const auto& inputs = described.node_types[static_cast<size_t>(type)].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<int32_t> near;
      for (int32_t from = std::max(0, node - kNear); from < node; ++from) {
        const int32_t of = shape.node_types[static_cast<size_t>(from)];
        if (std::count(inputs[i].reads.begin(), inputs[i].reads.end(), of) > 0)
          near.push_back(from);
      }
      if (inputs[i].brought || near.empty() || Below(random, kNear) == 0) continue;
      for (int32_t n = inputs[i].sums ? 1 + Below(random, kMostSummed) : 1; n > 0; --n) {
        const int32_t from =
            near[static_cast<size_t>(Below(random, static_cast<int64_t>(near.size())))];
        shape.edges.push_back({from, node, static_cast<int32_t>(i)});
      }
    }
  }
  return shape;
}

}  // namespace cellbatch
