// cellbatch.v1.Cellbatch/Latency: exact percentiles of the requests that ended in a window, from
// every one of them. Costs a copy and a sort of the window (10^6 samples: about 0.1 s); any thread.
#ifndef CELLBATCH_SERVER_TYPED_LATENCY_SERVICE_H_
#define CELLBATCH_SERVER_TYPED_LATENCY_SERVICE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cellbatch.pb.h"
#include "scheduler/clock.h"
#include "server/requests/latency_window.h"
#include "server/requests/request_path.h"

namespace cellbatch {

// A model whose times are asked for.
struct TimedModel {
  ModelId id;  // ModelStats::times_id
  std::string name;
  std::string version;
};

struct ModelPercentiles {
  TimedModel model;
  ExactPercentiles request, queue, compute;  // of requests answered OK
  uint64_t failed = 0;
  double covered_seconds = 0;
};

// One entry for each of `models`. window_ns 0: all that is remembered.
std::vector<ModelPercentiles> PercentilesOfWindow(const RequestPath& path,
                                                  const std::vector<TimedModel>& models,
                                                  int64_t now_ns, int64_t window_ns);

class LatencyService {
 public:
  // `models`: those being served now.
  LatencyService(const RequestPath& path, std::function<std::vector<TimedModel>()> models,
                 const Clock& clock);
  absl::StatusOr<cellbatch::v1::LatencyResponse> Latency(
      const cellbatch::v1::LatencyRequest& request) const;

 private:
  const RequestPath& path_;
  const std::function<std::vector<TimedModel>()> models_;
  const Clock& clock_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TYPED_LATENCY_SERVICE_H_
