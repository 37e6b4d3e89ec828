// Where answers leave: a connection. Sending a small answer on its own, and waking its client for it, is a quarter of what a call
// costs; so those that are taken from the scheduler at once and go to the same client leave in one piece:
//
//   responder   Take: a1 b1 a2 c1 a3 b2    Hold(a) Hold(b)    a1 b1 a2 c1 a3 b2    Flow(a) Flow(b)
//
// All flow at the end: who answered one client after the other would be interrupted by the calls that the first one sends next, and
// woken for them again and again. One that is alone is not held, and what takes long (RequestPath::OutletOf) comes after that.
#ifndef CELLBATCH_SERVER_REQUESTS_ANSWER_OUTLET_H_
#define CELLBATCH_SERVER_REQUESTS_ANSWER_OUTLET_H_

#include <memory>

namespace cellbatch {

// Any thread.
class AnswerOutlet : public std::enable_shared_from_this<AnswerOutlet> {
 public:
  virtual ~AnswerOutlet() = default;
  // What is sent from now on may wait, until Flow was called as often.
  virtual void Hold() {}
  virtual void Flow() {}
};

// Holds an outlet as long as it lives, if there is one; the outlet stays as long.
class HeldOutlet {
 public:
  explicit HeldOutlet(AnswerOutlet* outlet)
      : outlet_(outlet == nullptr ? nullptr : outlet->shared_from_this()) {
    if (outlet_ != nullptr) outlet_->Hold();
  }
  ~HeldOutlet() {
    if (outlet_ != nullptr) outlet_->Flow();
  }
  HeldOutlet(const HeldOutlet&) = delete;
  HeldOutlet& operator=(const HeldOutlet&) = delete;

 private:
  const std::shared_ptr<AnswerOutlet> outlet_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_ANSWER_OUTLET_H_
