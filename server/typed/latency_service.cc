#include "server/typed/latency_service.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "server/requests/client_text.h"

namespace cellbatch {

namespace {

constexpr double kLongestWindowSeconds = 1e9;

struct Times {
  std::vector<int64_t> request, queue, compute;
  uint64_t failed = 0;
};

void Add(v1::Phase phase, const ExactPercentiles& times, v1::ModelLatency& model) {
  v1::PhaseLatency& out = *model.add_phases();
  out.set_phase(phase);
  out.set_count(times.count);
  out.set_mean_ns(static_cast<uint64_t>(times.mean));
  out.set_p50_ns(static_cast<uint64_t>(times.p50));
  out.set_p90_ns(static_cast<uint64_t>(times.p90));
  out.set_p99_ns(static_cast<uint64_t>(times.p99));
  out.set_p999_ns(static_cast<uint64_t>(times.p999));
  out.set_max_ns(static_cast<uint64_t>(times.max));
}

}  // namespace

std::vector<ModelPercentiles> PercentilesOfWindow(const RequestPath& path,
                                                  const std::vector<TimedModel>& models,
                                                  int64_t now_ns, int64_t window_ns) {
  const int64_t since = window_ns > 0 ? now_ns - window_ns : 0;
  std::vector<LatencySample> samples;
  int64_t covered_since = since;
  for (int i = 0; i < path.responders(); ++i) {
    covered_since = std::max(covered_since, path.latencies(i).CopySince(since, samples));
  }
  std::vector<Times> times(models.size());
  std::vector<int64_t> oldest(models.size(), now_ns);
  for (const LatencySample& sample : samples) {
    // Of a responder that had little to do, from before those that another one remembers.
    if (sample.end_ns < covered_since) continue;
    for (size_t m = 0; m < models.size(); ++m) {
      if (models[m].id != sample.model) continue;
      oldest[m] = std::min(oldest[m], sample.end_ns);
      if (!sample.ok) {
        ++times[m].failed;
        continue;
      }
      times[m].request.push_back(sample.request_ns);
      times[m].queue.push_back(sample.queue_ns);
      times[m].compute.push_back(sample.compute_ns);
    }
  }
  std::vector<ModelPercentiles> result;
  for (size_t m = 0; m < models.size(); ++m) {
    const int64_t reach = covered_since > 0 ? covered_since : oldest[m];
    result.push_back({.model = models[m],
                      .request = PercentilesOf(std::move(times[m].request)),
                      .queue = PercentilesOf(std::move(times[m].queue)),
                      .compute = PercentilesOf(std::move(times[m].compute)),
                      .failed = times[m].failed,
                      .covered_seconds = static_cast<double>(now_ns - reach) * 1e-9});
  }
  return result;
}

LatencyService::LatencyService(const RequestPath& path,
                               std::function<std::vector<TimedModel>()> models, const Clock& clock)
    : path_(path), models_(std::move(models)), clock_(clock) {}

absl::StatusOr<v1::LatencyResponse> LatencyService::Latency(
    const v1::LatencyRequest& request) const {
  const double seconds = request.window_seconds();
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kLongestWindowSeconds) {
    return absl::InvalidArgumentError(fmt::format("window_seconds is {}, expected 0 (all) to {}",
                                                  seconds, kLongestWindowSeconds));
  }
  std::vector<TimedModel> models = models_();
  std::erase_if(models, [&](const TimedModel& model) {
    return (!request.model_name().empty() && model.name != request.model_name()) ||
           (!request.model_version().empty() && model.version != request.model_version());
  });
  if (models.empty() && !request.model_name().empty()) {
    return absl::NotFoundError(fmt::format(
        "model {}{} is not being served", Quoted(request.model_name()),
        request.model_version().empty() ? std::string()
                                        : " version " + Quoted(request.model_version())));
  }
  v1::LatencyResponse response;
  const auto window_ns = static_cast<int64_t>(seconds * 1e9);
  for (const ModelPercentiles& times :
       PercentilesOfWindow(path_, models, clock_.NowNs(), window_ns)) {
    v1::ModelLatency& out = *response.add_models();
    out.set_model_name(times.model.name);
    out.set_model_version(times.model.version);
    Add(v1::PHASE_REQUEST, times.request, out);
    Add(v1::PHASE_QUEUE, times.queue, out);
    Add(v1::PHASE_COMPUTE, times.compute, out);
    out.set_failed(times.failed);
    out.set_covered_seconds(times.covered_seconds);
  }
  return response;
}

}  // namespace cellbatch
