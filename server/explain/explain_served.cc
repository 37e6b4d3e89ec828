#include "server/explain/explain_served.h"

#include <memory>
#include <utility>

#include "scheduler/clock.h"
#include "server/explain/explain_model.h"
#include "server/repository/model_repository.h"

namespace cellbatch {

absl::StatusOr<std::string> ExplainServed(const std::string& repository, const std::string& name,
                                          const LoaderLimits& limits,
                                          const SchedulerOptions& options, DeviceSet devices) {
  const SteadyClock clock;
  const std::vector<const Memory*> memories =
      MemoriesIn(devices);  // the scheduler's, as long as it lives
  auto scheduler = Scheduler::Create(options, std::move(devices), clock);
  if (!scheduler.ok()) return scheduler.status();
  ModelRepository models(repository, limits, **scheduler);
  if (absl::Status s = models.Load(name); !s.ok()) return s;
  const auto model = models.Find(name, "");
  if (!model.ok()) return model.status();
  const absl::StatusOr<ExplainedModel> explained =
      ExplainModel(**model, HomeOf(**model, memories), (*scheduler)->Calibration((*model)->id));
  if (!explained.ok()) return explained.status();
  (*scheduler)->Stop();
  return ToText(*explained);
}

}  // namespace cellbatch
