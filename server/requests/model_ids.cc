#include "server/requests/model_ids.h"

#include <utility>

#include "fmt/format.h"
#include "server/requests/model_table.h"

namespace cellbatch {

std::shared_ptr<ModelIds> ModelIds::Make(std::function<void(ModelId)> gone) {
  return std::shared_ptr<ModelIds>(new ModelIds(std::move(gone)));
}

ModelIds::ModelIds(std::function<void(ModelId)> gone)
    : gone_(std::move(gone)), turns_(kModelPlaces, 0) {}

absl::StatusOr<ModelId> ModelIds::Take() {
  const std::lock_guard lock(mutex_);
  int32_t place = fresh_;
  if (!free_.empty()) {
    place = *free_.begin();
    free_.erase(free_.begin());
  } else if (fresh_ < kModelPlaces) {
    ++fresh_;
  } else {
    return absl::ResourceExhaustedError(fmt::format(
        "{} model versions are loaded, or unloaded and still held by requests, the most is {}",
        kModelPlaces, kModelPlaces));
  }
  int32_t& turn = turns_[static_cast<size_t>(place)];
  const ModelId id(int64_t{turn} * kModelPlaces + place);
  turn = (turn + 1) % kModelTurns;
  return id;
}

void ModelIds::GiveBack(ModelId id) {
  const std::lock_guard lock(mutex_);
  free_.insert(static_cast<int32_t>(PlaceOf(id)));
}

std::shared_ptr<const Model> ModelIds::Hold(std::shared_ptr<const Model> model) {
  const Model* const bare = model.get();
  return {bare, [ids = shared_from_this(), held = std::move(model)](const Model*) mutable {
            const ModelId id = held->id;
            held.reset();
            if (ids->gone_) ids->gone_(id);
            ids->GiveBack(id);
          }};
}

int ModelIds::taken() const {
  const std::lock_guard lock(mutex_);
  return fresh_ - static_cast<int>(free_.size());
}

}  // namespace cellbatch
