#include "loadgen/verdict.h"

#include <fmt/format.h>

#include <cmath>

#include "client/table.h"

namespace cellbatch {
namespace {

// Where the schedule was not sent to its end.
Finding EndedEarly(const Summary& summary, const Ending& ending) {
  constexpr char kReason[] = "the schedule was not sent to its end: ";
  if (ending.end == SendEnd::kNoRoom) {
    return {fmt::format("{}{} requests were in flight", kReason, ending.most_in_flight),
            "lower --rate, or raise --most-outstanding if the server is meant to queue so many"};
  }
  return {fmt::format("{}it was stopped", kReason),
          summary.seconds > 0
              ? fmt::format("let it run to its end: this is of the {} measured until then",
                            FormatDuration(summary.seconds * 1e9))
              : "let it run to its end: it had measured nothing yet"};
}

Finding TooFewAnswers(const Summary& summary, uint64_t least) {
  const double rate = summary.completed_per_second;
  std::string remedy = "see why the server answers nothing (cellbatch-client health)";
  if (rate > 0) {
    remedy = fmt::format("measure for at least {:.0f} s at this rate (--duration)",
                         std::ceil(1.1 * static_cast<double>(least) / rate));
  } else if (summary.offered == 0) {
    remedy = "raise --rate or --duration: no request was due";
  } else if (summary.answered_per_second > 0) {
    remedy = "see the errors: the server answers with nothing else";
  }
  const bool for_p99 = least == static_cast<uint64_t>(ValuesNeeded(kTails[2]));
  return {fmt::format("{} answers, --min-answers asks for {}{}", summary.completed, least,
                      for_p99 ? ", as a p99 needs" : ""),
          remedy};
}

}  // namespace

Verdict Judge(const Summary& summary, const VerdictLimits& limits, const Ending& ending) {
  Verdict verdict;
  if (ending.end != SendEnd::kAll) {
    verdict.findings.push_back(EndedEarly(summary, ending));
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
    verdict.findings.push_back({fmt::format("{} requests failed", summary.failed),
                                "see the errors; for timeouts lower --rate or raise --timeout"});
  }
  // A run that was stopped, or ended in its warm-up, had no time for them: nothing to be said of server or --duration.
  const bool had_time =
      ending.end == SendEnd::kAll || (ending.end == SendEnd::kNoRoom && summary.seconds > 0);
  if (had_time && summary.completed < limits.least_answers) {
    verdict.findings.push_back(TooFewAnswers(summary, limits.least_answers));
  }
  // 1 % and four deviations of a Poisson count: less is chance. An error that came at once was kept up with.
  const double offered = static_cast<double>(summary.offered);
  const double chance = 4 * std::sqrt(offered) / std::max(1.0, summary.seconds);
  const bool behind = summary.answered_per_second < 0.99 * summary.offered_per_second - chance;
  // Where the sender ended early, what was in flight just then is missing from a phase of any length.
  verdict.overload = summary.rejected > 0 || (behind && ending.end == SendEnd::kAll);
  return verdict;
}

}  // namespace cellbatch
