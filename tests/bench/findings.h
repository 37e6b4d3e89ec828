// What a child process of a benchmark found, told to its parent as it finds it: text, facts and figures of a Report.
//
//   RunInChild(report, work)      fork -> work(findings) -> pipe -> report
//
// For measurements that must not share a process: a library reads once, when it is loaded, which instructions it may
// use, and one that crashes must not take the others' figures with it. Fork before anything makes threads.
#ifndef CELLBATCH_TESTS_BENCH_FINDINGS_H_
#define CELLBATCH_TESTS_BENCH_FINDINGS_H_

#include <cstdio>
#include <functional>
#include <string>

#include "tests/bench/report.h"

namespace cellbatch {

class Findings {
 public:
  explicit Findings(std::FILE* to) : to_(to) {}
  void Text(const std::string& text);
  void Fact(const std::string& name, const std::string& value);
  void Figure(const std::string& name, double value, const std::string& unit,
              const Quartiles* quartiles = nullptr);

 private:
  std::FILE* to_;
};

// Whether the work said true. A child that dies is told in the report's text, and is false.
bool RunInChild(Report& report, const std::function<bool(Findings&)>& work);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_FINDINGS_H_
