#include "scheduler/living_devices.h"

#include "absl/strings/str_cat.h"

namespace cellbatch {

MemorySet LivingDevices::MemoriesOf(DeviceKinds kinds) const {
  MemorySet memories = 0;
  for (size_t m = 0; m < set_.memories.size(); ++m) {
    if (kinds.Has(set_.memories[m]->kind())) memories |= MemorySet{1} << m;
  }
  return memories;
}

int LivingDevices::NumLeft(MemorySet memories) const {
  int left = 0;
  for (size_t d = 0; d < workers_.size(); ++d) {
    if (InSet(memories, memory_of_[d]) && !workers_[d]->failed()) ++left;
  }
  return left;
}

absl::Status LivingDevices::Health(MemorySet memories) const {
  for (size_t d = 0; d < workers_.size(); ++d) {
    if (!InSet(memories, memory_of_[d]) || !workers_[d]->failed()) continue;
    return absl::Status(workers_[d]->failure().code(),
                        absl::StrCat("device ", set_.devices[d]->info().name, ": ",
                                     workers_[d]->failure().message()));
  }
  return absl::OkStatus();
}

absl::Status LivingDevices::CheckAnyFor(const Model& model) const {
  const MemorySet memories = MemoriesOf(model.devices);
  if (memories == 0) {
    return absl::FailedPreconditionError(absl::StrCat("model \"", model.name, "\" lives on ",
                                                      Name(model.devices), ", the devices are ",
                                                      NamesOf(set_)));
  }
  if (NumLeft(memories) > 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("model \"", model.name, "\" is not served: no device ",
                                             "is left: ", Health(memories).message()));
}

}  // namespace cellbatch
