// One traced call: its spans as they come to be known.
//
//   request (server) |-------------------------------------------------|  from its message to its answer
//     decode         |----|                                               checked, unfolded, admitted      for each of the call's
//     queue               |-------|                                       until its first cell starts      requests, up to
//     compute                     |------------------------|              until its last cell is done      kMostRequests of them
//     encode                                               |-----------|  until its answer is written
//
// compute says for each cell type how many cells of it ran for the request, where that is known, and how many tasks of that type ran in that time for
// its model, and how long they took: with others' cells, too, as a task has no owner.
//
// Threads: as the call's (plain_call.h), under its mutex. Allocates.
#ifndef CELLBATCH_SERVER_TRACE_REQUEST_TRACE_H_
#define CELLBATCH_SERVER_TRACE_REQUEST_TRACE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cells/model.h"
#include "scheduler/request.h"
#include "scheduler/stats.h"
#include "server/trace/tracer.h"

namespace cellbatch {

class RequestTrace {
 public:
  static constexpr size_t kMostRequests = 16;
  static constexpr size_t kMostTypes = 32;

  // `received_ns`, like all times but those of spans: of the steady clock.
  RequestTrace(const TracePlace& place, int64_t received_ns)
      : place_(place), received_ns_(received_ns) {}

  const TracePlace& place() const { return place_; }
  // The tasks that the model had run when the call's requests were submitted.
  void Submitted(std::vector<TypeTasks> tasks) { before_ = std::move(tasks); }
  // Request `i` is done. `after`: those that it has run by now; `encoded_ns`: its answer is written.
  void Done(int i, const Model& model, const Request& request, const std::vector<TypeTasks>& after,
            int64_t encoded_ns);

  // So many of the call's requests have failed.
  void Failed(int requests) { failed_ += requests; }

  struct Ending {
    std::string_view wire, id, model, version, outcome;
    absl::Status status;        // without contents
    int64_t ended_ns, unix_ns;  // the same moment
  };
  // All spans, the call's own first; once.
  std::vector<Span> End(const Ending& ending);

 private:
  Span& Add(const char* name, int64_t start_ns, int64_t end_ns, int i);

  const TracePlace place_;
  const int64_t received_ns_;
  std::vector<TypeTasks> before_;
  std::vector<Span> spans_;  // their times still of the steady clock
  size_t requests_ = 0;
  int64_t failed_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TRACE_REQUEST_TRACE_H_
