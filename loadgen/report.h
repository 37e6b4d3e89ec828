// What a run or a sweep says: text for people, JSON and CSV for programs. Pure functions.

#ifndef CELLBATCH_LOADGEN_REPORT_H_
#define CELLBATCH_LOADGEN_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/client.h"
#include "loadgen/capacity.h"
#include "loadgen/run.h"

namespace cellbatch {

// The latency table of one run, with its verdict as the last lines.
std::string RunText(const RunResult& run);

// One line for each point, then what is wrong with those that are INVALID.
std::string SweepText(const std::vector<RunResult>& points);

std::string CapacityText(const Capacity& capacity);

// Percentiles that the count cannot carry are null in JSON and empty in CSV. Times are in ms. Of a mix, the CSV
// has a line for all requests, then one for each model's.
nlohmann::json RunJson(const RunResult& run);
nlohmann::json CapacityJson(const Capacity& capacity);
std::string RunsCsv(const std::string& model, const std::vector<RunResult>& runs);

// Every request of a run: intended, sent, done and first word in ns from its start, length, outcome, model.
std::string RecordsCsv(const RunResult& run);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_REPORT_H_
