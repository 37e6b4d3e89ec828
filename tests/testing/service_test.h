// The suite of a service: it stands between a fake transport and a fake scheduler, on a clock that is set;
// answers are sent by StepResponder. The derived suite owns the service, made with path_.
#ifndef CELLBATCH_TESTS_TESTING_SERVICE_TEST_H_
#define CELLBATCH_TESTS_TESTING_SERVICE_TEST_H_

#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/requests/responder.h"
#include "tests/testing/fake_scheduler.h"
#include "tests/testing/fake_transport.h"
#include "tests/testing/test_model.h"

namespace cellbatch {

class SetClock final : public Clock {
 public:
  int64_t NowNs() const override { return now.load(); }
  std::atomic<int64_t> now = 1'000'000'000;
};

class ServiceTest : public ::testing::Test {
 protected:
  explicit ServiceTest(const AdmissionLimits& limits = {}, int64_t max_answer_bytes = 1 << 20)
      : admission_(limits),
        stats_(RequestPath::Shards(2, 1)),
        path_(
            {.transport_threads = 2,
             .responders = 1,
             .latency_samples = 1024,
             .max_answer_bytes = max_answer_bytes,
             .sequences = &sequences_},
            [this](std::string_view name, std::string_view version) { return Find(name, version); },
            scheduler_, admission_, stats_, clock_) {}

  // Model "tiny", version 1.
  virtual absl::StatusOr<std::shared_ptr<const Model>> Find(std::string_view name,
                                                            std::string_view version) {
    if (name != "tiny") return absl::NotFoundError("unknown model");
    if (!version.empty() && version != "1") return absl::NotFoundError("unknown version");
    return model_;
  }
  FakeCall& Start(CallSink& sink, std::string bytes, int64_t deadline_ns = kNoDeadline) {
    FakeCall& call = calls_.emplace_back(std::move(bytes), clock_.now - 1000, deadline_ns);
    call.StartOn(sink);
    return call;
  }
  // Calls of one of the transport's threads.
  using ThreadsCalls = std::deque<FakeCall>;
  // So many calls from each of two threads at once, for the thread sanitizer. `one(random, thread, calls)` adds one to the
  // thread's own, starts it, and may cancel it.
  template <typename One>
  std::vector<ThreadsCalls> CallFromThreads(int calls_each, const One& one) {
    std::vector<ThreadsCalls> calls(2);
    std::vector<std::thread> clients;
    for (int t = 0; t < 2; ++t) {
      clients.emplace_back([&, t] {
        std::mt19937 random(static_cast<unsigned>(t));
        for (int i = 0; i < calls_each; ++i) {
          one(random, t, calls[static_cast<size_t>(t)]);
          clock_.now += 1000;
        }
      });
    }
    for (std::thread& client : clients) client.join();
    return calls;
  }
  void StepResponder() {
    while (Responder::Step(scheduler_, path_, 0) > 0) {
    }
  }
  int64_t Count(RequestOutcome outcome, const ModelStats& stats) {
    return stats.Read().outcomes[static_cast<size_t>(outcome)];
  }
  int64_t Count(RequestOutcome outcome, const Model& model) {
    return Count(outcome, stats_.Of(model));
  }
  int64_t Count(RequestOutcome outcome) { return Count(outcome, *model_); }
  void ExpectNothingInFlight() {
    EXPECT_EQ(admission_.InFlight().requests, 0);
    EXPECT_EQ(admission_.InFlight().cells, 0);
    EXPECT_EQ(admission_.InFlight().bytes, 0);
  }

  SetClock clock_;
  std::shared_ptr<const Model> model_ = TinyModel();
  FakeScheduler scheduler_;
  Admission admission_;
  StatsRegistry stats_;
  SequenceTable sequences_{{.sequences = 3, .bytes = 1 << 20, .idle_ns = 1'000'000'000}};
  RequestPath path_;
  std::deque<FakeCall> calls_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_TESTING_SERVICE_TEST_H_
