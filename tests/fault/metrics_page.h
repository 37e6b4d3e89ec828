// The server's own counts, as one page has them: what a fault test trusts where a client's library would answer by
// itself. Waiting for a count has no bound of its own: Bazel's timeout is far beyond what a busy machine needs.
#ifndef CELLBATCH_TESTS_FAULT_METRICS_PAGE_H_
#define CELLBATCH_TESTS_FAULT_METRICS_PAGE_H_

#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/server_process.h"

namespace cellbatch {

class MetricsPage {
 public:
  explicit MetricsPage(const ServerProcess& server) : MetricsPage(server.metrics()) {}
  // Of a server that has not said where yet.
  explicit MetricsPage(const std::string& address) : text_(HttpGet(address, "/metrics")) {}

  bool there() const { return !text_.empty(); }
  // The sum of a family's samples that have all of these labels: {R"(model="words")"}.
  double Sum(const std::string& family, const std::vector<std::string>& labels = {}) const {
    double sum = 0;
    std::istringstream lines(text_);
    for (std::string line; std::getline(lines, line);) {
      const char after = line.size() > family.size() ? line[family.size()] : '\0';
      if (!line.starts_with(family) || (after != ' ' && after != '{')) continue;
      bool all = true;
      for (const std::string& label : labels) all = all && line.find(label) != line.npos;
      if (all) sum += std::stod(line.substr(line.rfind(' ') + 1));
    }
    return sum;
  }
  // Requests that ended so; all of them without a name. Of every model, and of none.
  double Ended(const std::string& outcome = "") const {
    if (outcome.empty()) return Sum("cellbatch_requests_total");
    return Sum("cellbatch_requests_total", {"outcome=\"" + outcome + "\""});
  }
  double Cells(const std::string& model) const {
    return Sum("cellbatch_cells_executed_total", {"model=\"" + model + "\""});
  }
  // Of them, those of the recurrent cell of a small model: one a step.
  double Steps(const std::string& model) const {
    return Sum("cellbatch_cells_executed_total", {"model=\"" + model + "\"", R"(cell="lstm_l0")"});
  }
  double Admitted() const { return Sum("cellbatch_admitted_requests"); }
  double Queued() const { return Sum("cellbatch_queued_requests"); }
  double Running() const { return Sum("cellbatch_running_requests"); }
  double RowsUsed() const { return Sum("cellbatch_rows_used"); }
  // Nothing is left of any request: no ticket, no place in line, no row.
  bool Empty() const {
    return there() && Admitted() == 0 && Sum("cellbatch_admitted_cells") == 0 &&
           Sum("cellbatch_admitted_bytes") == 0 && Queued() == 0 &&
           Sum("cellbatch_queued_cells") == 0 && Running() == 0 && RowsUsed() == 0;
  }

 private:
  std::string text_;
};

// The first page, of a server or an address, of which `holds` is true.
template <typename Server, typename Holds>
MetricsPage WaitForPage(const Server& server, const Holds& holds) {
  while (true) {
    MetricsPage page(server);
    if (page.there() && holds(page)) return page;
    std::this_thread::yield();
  }
}
// A page is not read at one moment, and requests that end are counted above what they held: so it is read again.
inline MetricsPage WaitUntilEmpty(const ServerProcess& server) {
  WaitForPage(server, [](const MetricsPage& page) { return page.Empty(); });
  return MetricsPage(server);
}

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_METRICS_PAGE_H_
