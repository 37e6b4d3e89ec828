// A collector of traces in this process: takes what OTLP over HTTP brings, on a free port of the loopback interface.
#ifndef CELLBATCH_TESTS_E2E_TRACE_COLLECTOR_H_
#define CELLBATCH_TESTS_E2E_TRACE_COLLECTOR_H_

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proto/otlp.pb.h"

namespace cellbatch {

class TraceCollector {
 public:
  TraceCollector();
  ~TraceCollector();
  TraceCollector(const TraceCollector&) = delete;
  TraceCollector& operator=(const TraceCollector&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1/traces"; }
  // What it answers from now on: 200 takes.
  void Answer(int status) { status_ = status; }
  // Waits until so many spans of that trace (32 digits; empty: of all) are there; in the order in which they came.
  std::vector<otlp::Span> WaitForSpans(size_t count, const std::string& trace = "");
  // Waits until so many requests have come, taken or not.
  void WaitForRequests(int count);
  // The request that brought the last of them: its head, and who sent them.
  std::string head() const;
  otlp::Resource resource() const;

 private:
  void Serve();
  void ServeOne(int socket);

  int listening_ = -1;
  int port_ = 0;
  std::atomic<int> status_ = 200;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<otlp::Span> spans_;
  int requests_ = 0;
  std::string head_;
  otlp::Resource resource_;
  std::thread thread_;
};

// Lower-case hexadecimal digits of an id.
std::string DigitsOf(const std::string& id);
// Null: it has none of that name.
const otlp::AnyValue* AttributeOf(const otlp::Span& span, const std::string& name);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_TRACE_COLLECTOR_H_
