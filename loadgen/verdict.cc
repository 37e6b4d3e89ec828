#include "loadgen/verdict.h"

#include <fmt/format.h>

#include <cmath>

#include "client/table.h"

namespace cellbatch {
namespace {

Finding TooFewAnswers(const Summary& summary, uint64_t least) {
  const double rate = summary.completed_per_second;
  const std::string remedy =
      rate > 0 ? fmt::format("measure for at least {:.0f} s at this rate (--duration)",
                             std::ceil(1.1 * static_cast<double>(least) / rate))
               : "see why the server answers nothing (cellbatch-client health)";
  return {fmt::format("{} answers, a p99 needs {}", summary.completed, least), remedy};
}

}  // namespace

Verdict Judge(const Summary& summary, const VerdictLimits& limits, const std::string& ended_early) {
  Verdict verdict;
  if (!ended_early.empty()) {
    verdict.findings.push_back(
        {fmt::format("the schedule was not sent to its end: {}", ended_early),
         "lower --rate, or raise --most-outstanding if the server is meant to queue so many"});
  }
  if (summary.send_lag_p99 > limits.most_send_lag_p99_ns) {
    verdict.findings.push_back(
        {fmt::format("send lag p99 is {}, more than {}",
                     FormatDuration(static_cast<double>(summary.send_lag_p99)),
                     FormatDuration(static_cast<double>(limits.most_send_lag_p99_ns))),
         "give the generator a core or a machine of its own, let it raise its priority "
         "(CAP_SYS_NICE), or lower --rate"});
  }
  if (summary.lost > 0) {
    verdict.findings.push_back({fmt::format("{} requests were never answered", summary.lost),
                                "see the server's log: every request must get an answer"});
  }
  if (summary.failed > 0) {
    verdict.findings.push_back(
        {fmt::format("{} requests failed", summary.failed),
         "see the errors below; for timeouts lower --rate or raise --timeout"});
  }
  if (summary.completed < limits.least_answers) {
    verdict.findings.push_back(TooFewAnswers(summary, limits.least_answers));
  }
  // 1 % and four deviations of a Poisson count: less is chance.
  const double offered = static_cast<double>(summary.offered);
  const double chance = 4 * std::sqrt(offered) / std::max(1.0, summary.seconds);
  verdict.overload = summary.rejected > 0 ||
                     summary.completed_per_second < 0.99 * summary.offered_per_second - chance;
  return verdict;
}

}  // namespace cellbatch
