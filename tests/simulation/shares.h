// Whether models take turns on the one device that a scheduler has, and get what their weights say while all of
// them have work. (Of several devices one model's requests may leave some idle, whatever its weight: then
// nothing of this must hold.)
//
//   a model with work    others run for so long between two tasks of it, at most
//   two models with work what each has had since they took turns first, divided by its weight, stays as near
//
// Both bounds are a few times the longest task, and do not grow with what waits. A model's tasks in flight are its
// work, too: what is ready only when they are done is seen as a pause, and two models' account begins anew.
#ifndef CELLBATCH_TESTS_SIMULATION_SHARES_H_
#define CELLBATCH_TESTS_SIMULATION_SHARES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "cells/ids.h"

namespace cellbatch::sim {

class Shares {
 public:
  // longest_ns: that a task may take, if nothing goes wrong; in_flight: tasks submitted in advance.
  Shares(int64_t longest_ns, int in_flight, std::function<void(std::string)> violated)
      : longest_ns_(longest_ns), in_flight_(in_flight), violated_(std::move(violated)) {}

  void Open(ModelId model, double weight) { models_[model.value()] = {.weight = weight}; }
  void Close(ModelId model);
  // How much of it is ready: more, or less.
  void Ready(ModelId model, int64_t nodes);
  // A task is done; `loading`: the weight of its model, if that is being loaded, and not open yet.
  void Ran(ModelId model, double loading, int64_t ns);

  int64_t longest_wait_ns() const { return longest_wait_ns_; }
  double furthest_apart() const { return furthest_apart_; }  // of what is allowed

 private:
  struct Share {
    double weight = 1;
    int64_t ready = 0;
    int64_t others_ns = 0;  // since it ran, or had work again
  };
  struct Pair {
    int last = 0;       // which of the two ran last; 0: neither yet
    bool open = false;  // they have taken turns
    double apart = 0, most = 0, least = 0;
  };

  void CheckWaits(double loading);
  void Account(int32_t model, int32_t other, int64_t ns);

  const int64_t longest_ns_;
  const int in_flight_;
  const std::function<void(std::string)> violated_;
  std::map<int32_t, Share> models_;
  std::map<std::pair<int32_t, int32_t>, Pair> pairs_;  // the lower model first
  double most_weights_ =
      0;  // of all who had a share at any time, one that is being loaded among them
  int64_t longest_wait_ns_ = 0;
  double furthest_apart_ = 0;
};

}  // namespace cellbatch::sim

#endif  // CELLBATCH_TESTS_SIMULATION_SHARES_H_
