// A step that several threads make, one at a time, until it finds nothing to do. Nobody waits: who comes while another is at it
// leaves word, and that one makes one step more, which sees whatever was published before the word was left.
//
//   Step()   asked = true;  while somebody asked and nobody is at it: asked = false, asked = step        no call is lost
//
// Each step sees all that the steps before it wrote. Any thread; a call that finds somebody at it costs two locked instructions.
#ifndef CELLBATCH_SCHEDULER_SHARED_STEP_H_
#define CELLBATCH_SCHEDULER_SHARED_STEP_H_

#include <atomic>
#include <functional>
#include <utility>

namespace cellbatch {

class SharedStep {
 public:
  // `step`: whether it did work.
  explicit SharedStep(std::function<bool()> step) : step_(std::move(step)) {}

  struct Result {
    bool worked = false;
    bool asked = false;  // there may be more to do: the caller sees to it that somebody calls Step
  };
  // At most `most` steps, one at least where nobody else is at it.
  Result Step(int most) {
    asked_.store(true);
    Result result;
    for (int made = 0; asked_.load(); ++made) {
      result.asked = made == most;
      if (result.asked || taken_.exchange(true)) break;
      asked_.exchange(false);  // what was published before it was set is seen by this step
      if (step_()) {
        result.worked = true;
        asked_.store(true);
      }
      taken_.store(false);
    }
    return result;
  }

 private:
  const std::function<bool()> step_;
  alignas(64) std::atomic<bool> taken_ = false;
  std::atomic<bool> asked_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_SHARED_STEP_H_
