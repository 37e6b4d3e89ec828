// The threads that encode answers and send them off: one an outbox, woken once per batch of
// completions, so that neither the manager nor a device ever waits for protobuf or a socket.
#ifndef CELLBATCH_SERVER_REQUESTS_RESPONDER_H_
#define CELLBATCH_SERVER_REQUESTS_RESPONDER_H_

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "scheduler/scheduler.h"
#include "server/requests/request_path.h"

namespace cellbatch {

class Responder {
 public:
  // One thread for each of the path's outboxes, until Stop. Both outlive it.
  Responder(Scheduler& scheduler, RequestPath& path);
  ~Responder();
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  // Answers what is in the outbox now; returns how many. The threads' step, and tests' (who make a
  // Responder of no threads by calling this function alone).
  static int Step(Scheduler& scheduler, RequestPath& path, int outbox);

  // Answers what is there and ends the threads.
  void Stop();

 private:
  void Loop(int outbox);

  Scheduler& scheduler_;
  RequestPath& path_;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_RESPONDER_H_
