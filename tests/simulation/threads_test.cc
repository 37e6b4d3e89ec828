// The scheduler with its real threads, rings and doorbells on simulated devices: many submitters,
// cancels, stops, models that come and go. Made for the thread sanitizer; the rows that devices
// share are plain memory, so a task that runs too early is a race it sees, too.
#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/device/sim/sim_device.h"
#include "gtest/gtest.h"
#include "scheduler/offline/world/virtual_clock.h"
#include "scheduler/policy/make_rules.h"
#include "scheduler/record/memory_recorder.h"
#include "scheduler/record/schedule_replay.h"
#include "scheduler/scheduler.h"
#include "tests/simulation/generator.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/sim_world.h"

namespace cellbatch::sim {
namespace {

struct Sent {
  std::shared_ptr<const Model> model;
  Plan plan;
  std::vector<int32_t> inputs;
  Evaluation evaluation;
  std::unique_ptr<Request> request;  // until it is submitted
  std::atomic<uint64_t> id = 0;      // slot and generation, once it is
  std::atomic<bool> notified = false;
  std::atomic<int> answers = 0;
  int words_of = -1;  // the tensor that returns the words it streams; -1: it does not stream
  int32_t words = 0;  // told of
};

uint64_t Pack(RequestId id) { return (uint64_t{id.slot} << 32) | id.generation; }
RequestId Unpack(uint64_t id) {
  return {static_cast<uint32_t>(id >> 32), static_cast<uint32_t>(id)};
}

struct Counts {
  int ok = 0, cancelled = 0, unavailable = 0, lost = 0, wrong = 0, news = 0, pieces = 0;
};

class ThreadsTest : public ::testing::Test {
 protected:
  // Two devices on one memory; the second breaks after so many tasks, if any.
  void Start(int64_t second_fails_after = -1) {
    DeviceSet set;
    auto memory = std::make_unique<SimMemory>();
    memory_ = memory.get();
    set.memories.push_back(std::move(memory));
    for (int d = 0; d < 2; ++d) {
      SimDeviceOptions o;
      o.name = d == 0 ? "sim:0" : "sim:1";
      o.task_memory_bytes = size_t{16} << 20;
      o.seed = static_cast<uint64_t>(d) + 1;
      o.refusal_chance = 0.1;
      o.fails_after_tasks = d == 0 ? -1 : second_fails_after;
      set.devices.push_back(std::make_unique<SimDevice>(o, *memory_, clock_.time()));
    }
    SchedulerOptions o;
    o.max_tasks_in_flight = 2;
    o.max_requests = 256;
    o.row_budget_bytes = 64 << 10;
    o.batch_limit = 8;
    o.num_outboxes = 2;
    o.calibrate = false;
    o.stealing = Stealing::kAlways;
    o.recorder = &recorder_;
    auto made = Scheduler::Create(o, std::move(set), clock_);
    Check(made.ok(), made.status().ToString());
    scheduler_ = *std::move(made);
  }

  std::shared_ptr<const Model> AddModel(int id) {
    auto model = MakeModel(ModelId(id), Limits{.min_batch = 1, .max_batch = 8});
    const absl::Status added = scheduler_->AddModel(model, nullptr);
    EXPECT_TRUE(added.ok()) << added;
    return model;
  }

  // `n` requests, sealed, with what must come of them.
  void Prepare(const std::shared_ptr<const Model>& model, int n, uint64_t seed) {
    Generator generator(seed);
    const std::vector<int32_t> most = scheduler_->MaxRowsPerRequest(model->id);
    for (size_t end = sent_.size() + static_cast<size_t>(n); sent_.size() < end;) {
      Plan plan = generator.Any();
      if (sent_.size() % 3 == 0) generator.Cut(plan);
      auto sent = std::make_unique<Sent>();
      const size_t tag = sent_.size();
      sent->inputs = MakeInputs(plan, *model, static_cast<int32_t>(tag) + 1);
      sent->evaluation = Evaluate(plan, *model, sent->inputs, WordBelow16);
      sent->request = std::make_unique<Request>();
      sent->request->tag = tag;
      sent->request->model = model;
      sent->request->outbox = OutboxId(static_cast<int64_t>(tag % 2));
      sent->request->graph = Build(plan, *model, sent->inputs);
      Stream(plan, *sent);
      const absl::Status sealed = sent->request->graph.Seal(*model, 2);
      ASSERT_TRUE(sealed.ok()) << sealed;
      bool fits = !HasTwins(sent->evaluation);
      for (size_t t = 0; t < most.size(); ++t) {
        fits = fits && sent->request->graph.row_counts()[t] <= most[t];
      }
      sent->model = model;
      sent->plan = std::move(plan);
      if (fits) sent_.push_back(std::move(sent));
    }
  }

  // Requests with a stopping chain that returns its words stream, if they come at once.
  static void Stream(const Plan& plan, Sent& sent) {
    if (!plan.cuts.empty()) return;
    const auto chain = std::find_if(plan.subgraphs.begin(), plan.subgraphs.end(),
                                    [](const PlannedSubgraph& s) { return s.stop.column.valid(); });
    const SubgraphId id(chain - plan.subgraphs.begin());
    const auto words = std::find_if(plan.returns.begin(), plan.returns.end(),
                                    [&](const PlannedReturn& r) { return r.from == id; });
    if (chain == plan.subgraphs.end() || words == plan.returns.end()) return;
    sent.request->stream = true;
    sent.words_of = static_cast<int>(words - plan.returns.begin());
  }

  // News of words: more than before, and all of them there while the manager writes the next.
  void Hear(const Delivery& delivery, Counts& counts) {
    Sent& s = *sent_[delivery.request->tag];
    ++counts.news;
    if (s.answers != 0 || s.words_of < 0 || delivery.words <= s.words) {
      ++counts.wrong;
      ADD_FAILURE() << "request " << delivery.request->tag << " is told of with " << delivery.words
                    << " words after " << s.words << ", " << s.answers << " answers";
      return;
    }
    s.words = delivery.words;
    const size_t tensor = static_cast<size_t>(s.words_of);
    const std::vector<std::byte>& right = s.evaluation.answer[tensor];
    if (!std::equal(right.begin(), right.begin() + 4 * delivery.words,
                    delivery.request->graph.tensors()[tensor].bytes.begin())) {
      ++counts.wrong;
    }
  }

  // A piece is done: the next one, or that was all.
  void Extend(Request& request, Counts& counts) {
    Sent& s = *sent_[request.tag];
    ++counts.pieces;
    const int piece = request.graph.pieces();
    if (s.answers != 0) ++counts.wrong;
    absl::Status status;
    if (piece < s.plan.num_pieces()) {
      BuildPiece(s.plan, *s.model, s.inputs, piece, request.graph);
      status = request.graph.Seal(*s.model, 2);
    }
    if (!status.ok()) ++counts.wrong;
    scheduler_->Extended(request, std::move(status));
  }

  // Submits every third request from `part`, and cancels some of anybody's. False once refused for
  // good (`may_refuse`: the scheduler is being stopped).
  void SubmitPart(size_t part, uint64_t seed, const std::atomic<bool>& stopping) {
    std::mt19937_64 random(seed);
    for (size_t i = part; i < sent_.size(); i += 3) {
      Sent& s = *sent_[i];
      while (!stopping) {
        if (const auto id = scheduler_->Submit(s.request)) {
          s.id.store(Pack(*id));
          ++submitted_;
          break;
        }
        std::this_thread::yield();
      }
      if (stopping) return;
      if (random() % 8 != 0) continue;
      Sent& other = *sent_[random() % (i + 1)];
      const uint64_t id = other.id.load();
      if (id == 0) continue;
      other.notified = true;
      scheduler_->Notify(Unpack(id), News::kCancelled);
    }
  }

  void Judge(const Request& r, Counts& counts) {
    Sent& s = *sent_[r.tag];
    if (s.answers.fetch_add(1) != 0) ++counts.wrong;
    if (r.status.ok()) {
      ++counts.ok;
      for (size_t t = 0; t < s.evaluation.answer.size(); ++t) {
        const absl::Span<const std::byte> bytes = r.graph.tensors()[t].bytes;
        const std::vector<std::byte>& right = s.evaluation.answer[t];
        if (!std::equal(bytes.begin(), bytes.end(), right.begin(), right.end())) ++counts.wrong;
      }
    } else if (absl::IsCancelled(r.status)) {
      ++counts.cancelled;
      if (!s.notified) ++counts.wrong;
    } else if (absl::IsUnavailable(r.status)) {
      ++counts.unavailable;
    } else if (absl::IsInternal(r.status)) {
      ++counts.lost;
    } else {
      ++counts.wrong;
    }
  }

  // Takes until `until` says that nothing more can come.
  template <typename Until>
  Counts TakeAll(int outbox, Until until) {
    Counts counts;
    std::array<Delivery, 8> some;
    for (;;) {
      const bool last = until();
      const int n = scheduler_->Take(OutboxId(outbox), absl::MakeSpan(some));
      for (int i = 0; i < n; ++i) {
        const Delivery& delivery = some[static_cast<size_t>(i)];
        if (delivery.kind == Delivery::Kind::kWords) {
          Hear(delivery, counts);
          continue;
        }
        if (delivery.kind == Delivery::Kind::kPiece) {
          Extend(*delivery.request, counts);
          continue;
        }
        ++taken_;
        Judge(*delivery.done, counts);
      }
      if (n == 0 && last) return counts;
      if (n == 0) scheduler_->WaitForFinished(OutboxId(outbox), absl::Milliseconds(5));
    }
  }

  void ExpectNoViolations() {
    EXPECT_EQ(memory_->violations().count(), 0);
    for (const std::string& v : memory_->violations().first()) ADD_FAILURE() << v;
  }

  // Whatever the threads did: the manager, given what it saw, does the same again.
  void ExpectTheSameScheduleAgain() {
    const auto report = ReplaySchedule(recorder_.run(), {}, clock_);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->difference, "");
    EXPECT_EQ(report->ends_early, "");
    EXPECT_EQ(report->recorded_hash, report->replayed_hash);
    EXPECT_EQ(report->answers.size(), submitted_);
  }

  VirtualClock clock_;
  MemoryRecorder recorder_;
  SimMemory* memory_ = nullptr;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<Sent>> sent_;
  std::atomic<size_t> submitted_ = 0, taken_ = 0;
};

TEST_F(ThreadsTest, EveryRequestOfManySubmittersIsAnsweredOnceAndRight) {
  Start();
  Prepare(AddModel(1), 3000, 11);
  const std::atomic<bool> stopping = false;
  std::vector<std::thread> threads;
  std::array<Counts, 2> counts;
  for (size_t part = 0; part < 3; ++part) {
    threads.emplace_back([&, part] { SubmitPart(part, part + 100, stopping); });
  }
  for (int outbox = 0; outbox < 2; ++outbox) {
    threads.emplace_back([&, outbox] {
      counts[static_cast<size_t>(outbox)] = TakeAll(outbox, [&] { return taken_ == sent_.size(); });
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counts[0].wrong + counts[1].wrong, 0);
  EXPECT_EQ(counts[0].unavailable + counts[1].unavailable, 0);
  EXPECT_EQ(counts[0].lost + counts[1].lost, 0);
  EXPECT_GT(counts[0].ok, 500);
  EXPECT_GT(counts[1].ok, 500);
  EXPECT_GT(counts[0].news + counts[1].news, 0);  // how many is a matter of how soon takers look
  EXPECT_GT(counts[0].pieces + counts[1].pieces, 1000);
  for (const auto& s : sent_) EXPECT_EQ(s->answers, 1);
  scheduler_->Stop();
  ExpectNoViolations();
  ExpectTheSameScheduleAgain();
}

TEST_F(ThreadsTest, StopAnswersWhatIsLeft) {
  Start();
  Prepare(AddModel(1), 3000, 12);
  std::atomic<bool> stopping = false, stopped = false;
  std::vector<std::thread> threads;
  std::array<Counts, 2> counts;
  for (size_t part = 0; part < 3; ++part) {
    threads.emplace_back([&, part] { SubmitPart(part, part + 200, stopping); });
  }
  for (int outbox = 0; outbox < 2; ++outbox) {
    threads.emplace_back([&, outbox] {
      counts[static_cast<size_t>(outbox)] = TakeAll(outbox, [&] { return stopped.load(); });
    });
  }
  while (taken_ < 1000) std::this_thread::yield();
  stopping = true;
  for (size_t part = 0; part < 3; ++part) threads[part].join();
  scheduler_->Stop();
  stopped = true;
  threads[3].join();
  threads[4].join();
  EXPECT_EQ(taken_, submitted_);
  EXPECT_EQ(counts[0].wrong + counts[1].wrong, 0);
  for (const auto& s : sent_) EXPECT_EQ(s->answers, s->id == 0 ? 0 : 1);
  ExpectNoViolations();
  ExpectTheSameScheduleAgain();
}

TEST_F(ThreadsTest, ModelsComeAndGoBesideTraffic) {
  Start();
  Prepare(AddModel(1), 2000, 13);
  const std::atomic<bool> stopping = false;
  std::vector<std::thread> threads;
  std::array<Counts, 2> counts;
  for (size_t part = 0; part < 3; ++part) {
    threads.emplace_back([&, part] { SubmitPart(part, part + 300, stopping); });
  }
  for (int outbox = 0; outbox < 2; ++outbox) {
    threads.emplace_back([&, outbox] {
      counts[static_cast<size_t>(outbox)] = TakeAll(outbox, [&] { return taken_ == sent_.size(); });
    });
  }
  for (int id = 2; id < 12; ++id) {
    AddModel(id);
    const absl::Status removed = scheduler_->RemoveModel(ModelId(id));
    EXPECT_TRUE(removed.ok()) << removed;
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counts[0].wrong + counts[1].wrong, 0);
  scheduler_->Stop();
  ExpectNoViolations();
  ExpectTheSameScheduleAgain();
}

TEST_F(ThreadsTest, PoliciesAreTakenOverBesideTraffic) {
  Start();
  const std::shared_ptr<const Model> model = AddModel(1);
  Prepare(model, 2000, 15);
  const std::atomic<bool> stopping = false;
  std::vector<std::thread> threads;
  std::array<Counts, 2> counts;
  for (size_t part = 0; part < 3; ++part) {
    threads.emplace_back([&, part] { SubmitPart(part, part + 500, stopping); });
  }
  for (int outbox = 0; outbox < 2; ++outbox) {
    threads.emplace_back([&, outbox] {
      counts[static_cast<size_t>(outbox)] = TakeAll(outbox, [&] { return taken_ == sent_.size(); });
    });
  }
  constexpr int kTakeovers = 20;
  for (int i = 0; i < kTakeovers; ++i) {
    PolicySpec spec;
    spec.kind = i % 2 == 0 ? PolicyKind::kRandom : PolicyKind::kCellular;
    spec.seed = static_cast<uint64_t>(i);
    auto rules = MakeRules(spec, {}, model->types.size());
    ASSERT_TRUE(rules.ok()) << rules.status();
    const absl::Status taken = scheduler_->SetPolicy(model->id, *std::move(rules));
    EXPECT_TRUE(taken.ok()) << taken;
    EXPECT_EQ(scheduler_->stats().Lanes().front().policies_taken, i + 1);
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counts[0].wrong + counts[1].wrong, 0);
  for (const auto& s : sent_) EXPECT_EQ(s->answers, 1);
  scheduler_->Stop();
  ExpectNoViolations();
  ExpectTheSameScheduleAgain();
}

TEST_F(ThreadsTest, ADeviceThatBreaksTakesItsRequestsAndNoOthers) {
  Start(200);
  Prepare(AddModel(1), 2000, 14);
  const std::atomic<bool> stopping = false;
  std::vector<std::thread> threads;
  std::array<Counts, 2> counts;
  for (size_t part = 0; part < 3; ++part) {
    threads.emplace_back([&, part] { SubmitPart(part, part + 400, stopping); });
  }
  for (int outbox = 0; outbox < 2; ++outbox) {
    threads.emplace_back([&, outbox] {
      counts[static_cast<size_t>(outbox)] = TakeAll(outbox, [&] { return taken_ == sent_.size(); });
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counts[0].wrong + counts[1].wrong, 0);
  EXPECT_GT(counts[0].lost + counts[1].lost, 0);
  EXPECT_GT(counts[0].ok + counts[1].ok, 1000);
  EXPECT_FALSE(scheduler_->DeviceHealth().ok());
  EXPECT_TRUE(scheduler_->any_device_left());
  for (const auto& s : sent_) EXPECT_EQ(s->answers, 1);
  scheduler_->Stop();
  ExpectNoViolations();
  ExpectTheSameScheduleAgain();
}

}  // namespace
}  // namespace cellbatch::sim
