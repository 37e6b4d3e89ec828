#include "server/assemble/rewrite_model.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/exploded_model.h"
#include "cells/hoisted_model.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

// What a step must save for it to be done unasked: 16 MiB of weights, which caches do not keep from step to step beside the
// others. With less the first step comes later than without, and full batches pay more (cells/README.md has the figures).
constexpr int64_t kWorthHoisting = int64_t{1} << 22;

}  // namespace

absl::StatusOr<std::shared_ptr<const Model>> RewriteModel(std::shared_ptr<const Model> model,
                                                          const disk::ModelDescription& config,
                                                          const ConfigPlaces& places) {
  const auto refused = [&places](const char* text) {
    return absl::InvalidArgumentError(fmt::format("{}: hoist is ON: {}", places.Of("hoist"), text));
  };
  const bool on = config.hoist() == disk::ON, operators = config.granularity() == disk::OPERATOR;
  if (on && (operators || config.has_join())) {
    return refused(
        "that is for cells that requests join one by one, not beside `join` or "
        "granularity OPERATOR");
  }
  if (operators) return ExplodeModel(std::move(model));
  if (config.hoist() == disk::OFF || config.has_join()) return model;
  std::shared_ptr<const Model> hoisted;
  if (config.has_chain() && config.chain().input() == disk::VECTORS) {
    hoisted = HoistModel(model, {on ? 0 : kWorthHoisting, kCpuLimits});
  }
  if (on && hoisted == nullptr) {
    return refused("no layer of a chain over VECTORS multiplies X");
  }
  return hoisted == nullptr ? model : hoisted;
}

}  // namespace cellbatch
