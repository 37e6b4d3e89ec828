#include "loadgen/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "client/table.h"

namespace cellbatch {
namespace {

using Json = nlohmann::json;

const char* ProcessName(ArrivalProcess process) {
  return process == ArrivalProcess::kPoisson ? "poisson" : "constant";
}

const char* OutcomeName(SampleOutcome outcome) {
  switch (outcome) {
    case SampleOutcome::kPending:
      return "pending";
    case SampleOutcome::kCompleted:
      return "completed";
    case SampleOutcome::kRejected:
      return "rejected";
    case SampleOutcome::kFailed:
    case SampleOutcome::kUnanswered:
      return "failed";
    case SampleOutcome::kCancelled:
      break;
  }
  return "cancelled";
}

double InputsPerSecond(const RunResult& run) {
  double sum = 0;
  for (const PartResult& part : run.parts) {
    sum += part.summary.completed_per_second * static_cast<double>(part.inputs);
  }
  return run.parts.empty() ? run.summary.completed_per_second : sum;
}

std::string Duration(const Distribution& distribution, double ns) {
  return distribution.count == 0 ? std::string(kNothing) : FormatDuration(ns);
}

std::vector<std::string> DistributionCells(const Distribution& distribution) {
  std::vector<std::string> cells = {FormatCount(distribution.count),
                                    Duration(distribution, distribution.mean)};
  for (const auto& percentile : distribution.percentiles) {
    cells.push_back(percentile.has_value() ? FormatDuration(static_cast<double>(*percentile))
                                           : std::string(kNothing));
  }
  cells.push_back(Duration(distribution, static_cast<double>(distribution.max)));
  return cells;
}

void AddDistribution(const std::string& name, const Distribution& distribution, TextTable& table) {
  std::vector<std::string> row = {name};
  for (std::string& cell : DistributionCells(distribution)) {
    row.push_back(std::move(cell));
  }
  table.AddRow(std::move(row));
}

std::string CountsText(const Summary& summary) {
  TextTable table({"", "requests", "requests/s", "share"});
  const auto add = [&](const char* name, uint64_t count, double rate) {
    const double share = summary.offered == 0 ? 0
                                              : 100 * static_cast<double>(count) /
                                                    static_cast<double>(summary.offered);
    table.AddRow(
        {name, FormatCount(count), fmt::format("{:.1f}", rate), fmt::format("{:.2f} %", share)});
  };
  const auto rate = [&](uint64_t count) {
    return summary.seconds > 0 ? static_cast<double>(count) / summary.seconds : 0;
  };
  add("offered", summary.offered, summary.offered_per_second);
  add("completed", summary.completed, summary.completed_per_second);
  add("rejected", summary.rejected, rate(summary.rejected));
  add("failed", summary.failed, rate(summary.failed));
  add("cancelled", summary.cancelled, rate(summary.cancelled));
  return table.ToText();
}

// Where there are several models, and where words were streamed, a line for each.
void AddParts(const RunResult& run, TextTable& table) {
  if (run.summary.first_word.count > 0) {
    AddDistribution("first word", run.summary.first_word, table);
  }
  if (run.parts.size() < 2) {
    return;
  }
  for (const PartResult& part : run.parts) {
    AddDistribution("  " + part.name, part.summary.response, table);
    if (part.summary.first_word.count > 0) {
      AddDistribution("  " + part.name + ", first word", part.summary.first_word, table);
    }
  }
}

std::string LatencyText(const RunResult& run) {
  const Summary& summary = run.summary;
  TextTable table({"latency", "answers", "mean", "p50", "p90", "p99", "p99.9", "max"});
  AddDistribution("response", summary.response, table);
  AddParts(run, table);
  for (const Summary::Bucket& bucket : summary.by_length) {
    const std::string name = bucket.longest == 1 << 30
                                 ? fmt::format("  {} steps and more", bucket.shortest)
                                 : fmt::format("  {} to {} steps", bucket.shortest, bucket.longest);
    AddDistribution(name, bucket.response, table);
  }
  AddDistribution("service", summary.service, table);
  AddDistribution("send lag", summary.send_lag, table);
  return table.ToText() +
         "response: from the intended send time to the answer. service: from the actual send.\n" +
         (summary.first_word.count == 0 ? "" : "first word: from the intended send time, too.\n");
}

// What no count of requests says: inputs and words a second.
std::string ContentText(const RunResult& run) {
  std::string text;
  if (std::any_of(run.parts.begin(), run.parts.end(),
                  [](const PartResult& part) { return part.inputs > 1; })) {
    text +=
        fmt::format("{:.1f} inputs/s: a request is a message of several\n", InputsPerSecond(run));
  }
  if (run.summary.words > 0) {
    text += fmt::format(
        "{} words streamed, {:.1f} an answer\n", FormatCount(run.summary.words),
        static_cast<double>(run.summary.words) / static_cast<double>(run.summary.first_word.count));
  }
  return text;
}

std::string VerdictText(const RunResult& run) {
  const Summary& summary = run.summary;
  std::string text;
  if (run.verdict.overload) {
    text +=
        "overload: the server did not keep up with the offered rate; latencies depend on how "
        "long it lasts\n";
  }
  for (const auto& [error, count] : run.errors) {
    text += fmt::format("{} x {}\n", FormatCount(count), error);
  }
  if (run.verdict.valid()) {
    return text + fmt::format("VALID: {} answers, none lost, send lag p99 {}\n",
                              FormatCount(summary.completed),
                              FormatDuration(static_cast<double>(summary.send_lag_p99)));
  }
  for (const Finding& finding : run.verdict.findings) {
    text += fmt::format("INVALID: {}\n  do: {}\n", finding.reason, finding.remedy);
  }
  return text;
}

Json DistributionJson(const Distribution& distribution) {
  Json json = {{"count", distribution.count},
               {"mean_ms", distribution.mean * 1e-6},
               {"max_ms", static_cast<double>(distribution.max) * 1e-6}};
  for (size_t i = 0; i < kTails.size(); ++i) {
    const auto& percentile = distribution.percentiles[i];
    json[fmt::format("{}_ms", kTails[i].name)] =
        percentile.has_value() ? Json(static_cast<double>(*percentile) * 1e-6) : Json();
  }
  return json;
}

std::string CsvMs(const std::optional<int64_t>& ns) {
  return ns.has_value() ? fmt::format("{:.6f}", static_cast<double>(*ns) * 1e-6) : "";
}

}  // namespace

std::string RunText(const RunResult& run) {
  return fmt::format(
      "{} arrivals at {:.6g} requests/s, seed {}, {:g} s warm-up, {:g} s measured\n"
      "generator threads: {}; {:.2f} cores used by this process\n\n{}\n{}{}\n{}",
      ProcessName(run.process), run.rate, run.seed, run.warmup_seconds, run.summary.seconds,
      PriorityText(run.priority), run.cpu_cores, CountsText(run.summary), LatencyText(run),
      ContentText(run), VerdictText(run));
}

std::string SweepText(const std::vector<RunResult>& points) {
  TextTable table({"offered/s", "completed/s", "rejected", "failed", "mean", "p50", "p90", "p99",
                   "p99.9", "max", "send lag p99", "verdict"});
  std::string findings;
  for (const RunResult& point : points) {
    const Summary& summary = point.summary;
    std::vector<std::string> row = {fmt::format("{:.1f}", summary.offered_per_second),
                                    fmt::format("{:.1f}", summary.completed_per_second),
                                    FormatCount(summary.rejected), FormatCount(summary.failed)};
    const auto cells = DistributionCells(summary.response);
    row.insert(row.end(), cells.begin() + 1, cells.end());
    row.push_back(FormatDuration(static_cast<double>(summary.send_lag_p99)));
    row.push_back(fmt::format("{}{}", point.verdict.valid() ? "VALID" : "INVALID",
                              point.verdict.overload ? ", overload" : ""));
    table.AddRow(std::move(row));
    if (!point.verdict.valid()) {
      findings += fmt::format("\nat {:.1f} requests/s\n{}", point.rate, VerdictText(point));
    }
  }
  return table.ToText() + findings;
}

std::string CapacityText(const Capacity& capacity) {
  return fmt::format(
      "capacity {:.1f} requests/s (closed loop, {} in flight: {} answers in {:.1f} s)\n",
      capacity.per_second, capacity.in_flight, FormatCount(capacity.answers), capacity.seconds);
}

namespace {

Json PartsJson(const RunResult& run) {
  Json parts = Json::array();
  for (const PartResult& part : run.parts) {
    const Summary& summary = part.summary;
    parts.push_back({{"name", part.name},
                     {"weight", part.weight},
                     {"inputs", part.inputs},
                     {"offered", summary.offered},
                     {"completed", summary.completed},
                     {"rejected", summary.rejected},
                     {"failed", summary.failed},
                     {"offered_per_second", summary.offered_per_second},
                     {"completed_per_second", summary.completed_per_second},
                     {"words", summary.words},
                     {"response", DistributionJson(summary.response)},
                     {"first_word", DistributionJson(summary.first_word)}});
  }
  return parts;
}

}  // namespace

Json RunJson(const RunResult& run) {
  const Summary& summary = run.summary;
  Json findings = Json::array();
  for (const Finding& finding : run.verdict.findings) {
    findings.push_back({{"reason", finding.reason}, {"remedy", finding.remedy}});
  }
  Json buckets = Json::array();
  for (const Summary::Bucket& bucket : summary.by_length) {
    Json json = DistributionJson(bucket.response);
    json["shortest"] = bucket.shortest;
    json["longest"] = bucket.longest;
    buckets.push_back(std::move(json));
  }
  return {{"process", ProcessName(run.process)},
          {"rate", run.rate},
          {"seed", run.seed},
          {"warmup_seconds", run.warmup_seconds},
          {"seconds", summary.seconds},
          {"verdict", run.verdict.valid() ? "VALID" : "INVALID"},
          {"findings", findings},
          {"overload", run.verdict.overload},
          {"offered", summary.offered},
          {"sent", summary.sent},
          {"completed", summary.completed},
          {"rejected", summary.rejected},
          {"failed", summary.failed},
          {"cancelled", summary.cancelled},
          {"lost", summary.lost},
          {"offered_per_second", summary.offered_per_second},
          {"completed_per_second", summary.completed_per_second},
          {"response", DistributionJson(summary.response)},
          {"first_word", DistributionJson(summary.first_word)},
          {"words", summary.words},
          {"inputs_per_second", InputsPerSecond(run)},
          {"models", PartsJson(run)},
          {"service", DistributionJson(summary.service)},
          {"send_lag", DistributionJson(summary.send_lag)},
          {"send_lag_p99_ms", static_cast<double>(summary.send_lag_p99) * 1e-6},
          {"response_by_length", buckets},
          {"errors", run.errors},
          {"generator_priority", PriorityText(run.priority)},
          {"generator_cores", run.cpu_cores}};
}

Json CapacityJson(const Capacity& capacity) {
  return {{"requests_per_second", capacity.per_second},
          {"in_flight", capacity.in_flight},
          {"answers", capacity.answers},
          {"seconds", capacity.seconds}};
}

namespace {

// One line of RunsCsv.
std::string CsvLine(const std::string& model, const RunResult& run, const Summary& s) {
  std::string text = fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.6f}", model, ProcessName(run.process),
      run.seed, run.rate, s.seconds, s.offered, s.completed, s.rejected, s.failed, s.cancelled,
      s.lost, s.offered_per_second, s.completed_per_second, s.response.mean * 1e-6);
  for (const auto& percentile : s.response.percentiles) {
    text += "," + CsvMs(percentile);
  }
  text += fmt::format(
      ",{},{:.6f},{},{}", CsvMs(s.response.max), static_cast<double>(s.send_lag_p99) * 1e-6,
      run.verdict.overload ? "yes" : "no", run.verdict.valid() ? "VALID" : "INVALID");
  for (const auto& percentile : s.first_word.percentiles) {
    text += "," + CsvMs(percentile);
  }
  return text + "\n";
}

}  // namespace

std::string RunsCsv(const std::string& model, const std::vector<RunResult>& runs) {
  std::string text =
      "model,process,seed,rate,seconds,offered,completed,rejected,failed,cancelled,lost,"
      "offered_per_second,completed_per_second,mean_ms,p50_ms,p90_ms,p99_ms,p99.9_ms,max_ms,"
      "send_lag_p99_ms,overload,verdict,first_word_p50_ms,first_word_p90_ms,first_word_p99_ms,"
      "first_word_p99.9_ms\n";
  for (const RunResult& run : runs) {
    text += CsvLine(model, run, run.summary);
    for (const PartResult& part : run.parts) {
      text += run.parts.size() < 2 ? "" : CsvLine(part.name, run, part.summary);
    }
  }
  return text;
}

std::string RecordsCsv(const RunResult& run) {
  std::string text = "phase,length,intended_ns,sent_ns,done_ns,outcome,model,first_word_ns,words\n";
  for (size_t i = 0; i < run.samples->size(); ++i) {
    const Samples::Record record = run.samples->at(i);
    text += fmt::format("{},{},{},{},{},{},{},{},{}\n",
                        i < run.samples->first_measured() ? "warm-up" : "measure", run.lengths[i],
                        record.intended, record.sent, record.done, OutcomeName(record.outcome),
                        i < run.part_of.size() ? run.parts[run.part_of[i]].name : "",
                        record.first_word, record.words);
  }
  return text;
}

}  // namespace cellbatch
