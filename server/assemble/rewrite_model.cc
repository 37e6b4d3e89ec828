#include "server/assemble/rewrite_model.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "cells/deferred_model.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/exploded_model.h"
#include "cells/hoisted_model.h"
#include "cells/recurrent_columns.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

// What a step must save for it to be done unasked: 16 MiB of weights, which caches do not keep from step to step beside the
// others. With less the first step comes later than without, and full batches pay more (cells/compile/README.md has the figures).
constexpr int64_t kWorthHoisting = int64_t{1} << 22;
// Of a setting that is ON where it cannot be.
absl::Status Refused(const ConfigPlaces& places, const char* field, const char* text) {
  return absl::InvalidArgumentError(fmt::format("{}: {} is ON: {}", places.Of(field), field, text));
}

absl::StatusOr<std::shared_ptr<const Model>> Deferred(std::shared_ptr<const Model> model,
                                                      const disk::ModelDescription& config,
                                                      const ConfigPlaces& places) {
  if (config.defer() != disk::ON) return model;
  if (config.library().max_pieces() > 0) {
    return Refused(places, "defer", "that is for graphs that do not grow (max_pieces)");
  }
  const DeferRule rule = {.least_operations = 0,
                          .limits = kCpuLimits,
                          .stops = config.has_encoder_decoder() || config.has_library()};
  std::shared_ptr<const Model> deferred = DeferModel(model, rule);
  if (deferred == nullptr) deferred = std::move(model);
  if (TypesThatMayWait(*deferred).empty()) {
    return Refused(
        places, "defer",
        "each cell type feeds something recurrent, or none does, and none could be taken "
        "apart with the same bits (its products share weights, or a parameter alone is "
        "computed with on both sides)");
  }
  return deferred;
}

absl::StatusOr<std::shared_ptr<const Model>> Hoisted(std::shared_ptr<const Model> model,
                                                     const disk::ModelDescription& config,
                                                     const ConfigPlaces& places) {
  const bool on = config.hoist() == disk::ON;
  if (config.hoist() == disk::OFF) return model;
  std::shared_ptr<const Model> hoisted;
  if (config.has_chain() && config.chain().input() == disk::VECTORS) {
    hoisted = HoistModel(model, {on ? 0 : kWorthHoisting, kCpuLimits});
  }
  if (on && hoisted == nullptr) {
    return Refused(
        places, "hoist",
        "no layer of a chain over VECTORS multiplies X, or none could be taken apart (cut "
        "out, its products with X would have more operators, columns or inputs than a "
        "cell may, or weights that are computed at load)");
  }
  return hoisted == nullptr ? model : hoisted;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Model>> RewriteModel(std::shared_ptr<const Model> model,
                                                          const disk::ModelDescription& config,
                                                          const ConfigPlaces& places) {
  const bool operators = config.granularity() == disk::OPERATOR;
  for (const auto& [field, setting] :
       {std::pair("hoist", config.hoist()), std::pair("defer", config.defer())}) {
    if (setting == disk::ON && (operators || config.has_join())) {
      return Refused(places, field,
                     "that is for cells that requests join one by one, not beside `join` or "
                     "granularity OPERATOR");
    }
  }
  if (operators) return ExplodeModel(std::move(model));
  if (config.has_join()) return model;
  absl::StatusOr<std::shared_ptr<const Model>> deferred =
      Deferred(std::move(model), config, places);
  if (!deferred.ok()) return deferred;
  return Hoisted(*std::move(deferred), config, places);
}

}  // namespace cellbatch
