#include "scheduler/ready/type_shape.h"

#include <algorithm>

namespace cellbatch {

TypeShape::TypeShape(const CellType& t)
    : type(t.id),
      num_inputs(static_cast<int>(t.definition->inputs().size())),
      wide(num_inputs > 2),
      out(t.out),
      priority(t.priority),
      min_batch(t.min_batch) {
  in.fill(TableId());
  sums.fill(false);
  for (int i = 0; i < num_inputs; ++i) {
    const size_t at = static_cast<size_t>(i);
    in[at] = t.in[at];
    sums[at] = t.definition->inputs()[at].arity == Arity::kSum;
    if (sums[at]) ++num_sums;
  }
  if (num_sums > 0) wide = true;
  if (num_sums == 0 && t.definition->carry()) carry = t.definition->carry()->value();
}

bool TypeShape::HasFarBases() const {
  const auto far = [](TableId t) { return t.valid() && t.value() >= RequestBlock::kNearBases; };
  return far(out) || std::any_of(in.begin(), in.end(), far);
}

}  // namespace cellbatch
