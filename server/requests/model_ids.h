// Who has which ModelId. An id names a place and a turn at it (model_table.h): the place is had by one version at a time,
// from Take until nobody holds its model any more (the repository, the scheduler's lane, requests under way), and then by
// another. So a process loads and replaces models for as long as it likes, and what it keeps for each of them is bounded.
//
//   Take -> id -> the model is made -> Hold(model) -- the last one lets go --> gone(id) -> the place is free
//                              \-> it cannot be: GiveBack(id) ------------------------------^
//
// Any thread. A mutex, for as long as a look at the free places takes.
#ifndef CELLBATCH_SERVER_REQUESTS_MODEL_IDS_H_
#define CELLBATCH_SERVER_REQUESTS_MODEL_IDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"

namespace cellbatch {

class ModelIds : public std::enable_shared_from_this<ModelIds> {
 public:
  // `gone`: hears of every id whose model is gone, before its place is anybody else's; on the thread that let go last.
  // It outlives the models that are held.
  static std::shared_ptr<ModelIds> Make(std::function<void(ModelId)> gone);

  // Of the lowest free place. RESOURCE_EXHAUSTED: all kModelPlaces are had.
  absl::StatusOr<ModelId> Take();
  // Of a model that was not made after all.
  void GiveBack(ModelId id);
  // That model, which nobody else holds yet, for as long as anybody does; its id is one that Take gave.
  std::shared_ptr<const Model> Hold(std::shared_ptr<const Model> model);
  int taken() const;

 private:
  explicit ModelIds(std::function<void(ModelId)> gone);

  const std::function<void(ModelId)> gone_;
  mutable std::mutex mutex_;
  std::vector<int32_t> turns_;  // by place: the next one
  std::set<int32_t> free_;      // places that were had before
  int32_t fresh_ = 0;           // those from here on never were
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_MODEL_IDS_H_
