// The kernels that begin and end every task, on random tasks: what is copied, when the signal shows, and what wraps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cells/check.h"
#include "cells/device/batched_task.h"
#include "cells/kernels/cuda/cell_source.h"
#include "cells/kernels/cuda/kernel_abi.h"
#include "tests/cuda_emulator/access_checker.h"
#include "tests/cuda_emulator/grid_runner.h"
#include "tests/cuda_emulator/kernel_object.h"

namespace cellbatch {
namespace {

using cuda_abi::CopiedColumn;
using cuda_abi::CopyInItem;
using cuda_abi::CopyOutItem;
using cuda_abi::TaskSlot;
using emulator::KernelObject;

// What kernels read where the scheduler wrote it lies as they take it to lie; rows and ids are 32 bits there, too.
template <typename Theirs, typename Ours>
constexpr bool kAlike = sizeof(Theirs) == sizeof(Ours) && alignof(Theirs) == alignof(Ours);
static_assert(kAlike<CopyInItem, CopyIn> &&
              offsetof(CopyInItem, source) == offsetof(CopyIn, source) &&
              offsetof(CopyInItem, table) == offsetof(CopyIn, table) &&
              offsetof(CopyInItem, first) == offsetof(CopyIn, first) &&
              offsetof(CopyInItem, rows) == offsetof(CopyIn, rows));
static_assert(kAlike<CopyOutItem, CopyOut> &&
              offsetof(CopyOutItem, dest) == offsetof(CopyOut, dest) &&
              offsetof(CopyOutItem, column) == offsetof(CopyOut, column) &&
              offsetof(CopyOutItem, row) == offsetof(CopyOut, row));
static_assert(kAlike<cuda_abi::InputList, InputRows> && kAlike<int, Row> && kAlike<int, TableId> &&
              offsetof(cuda_abi::InputList, offsets) == offsetof(InputRows, offsets));
static_assert(cuda_abi::kMostInputs == kMaxInputs);

constexpr int kRows = 40, kWidth = 5, kRing = 4,
              kColumns = 2;  // column 1 is of int32, and mirrored
constexpr unsigned kBlocks = 3;

// Checks every access, and knows the moment of the signal.
class SignalWatch final : public emulator::AccessChecker {
 public:
  SignalWatch(const void* signal, std::function<void()> at_signal)
      : signal_(signal), at_signal_(std::move(at_signal)) {}
  void Accessed(const emulator::RunningThread& thread, const void* at, size_t bytes,
                int kind) override {
    AccessChecker::Accessed(thread, at, bytes, kind);
    if (at == signal_ && kind != 0) at_signal_();
  }

 private:
  const void* const signal_;
  const std::function<void()> at_signal_;
};

// One random task, and what must come of it.
struct Task {
  std::vector<int> rows, offsets, sum_rows, out;
  std::vector<float> source, dest, expected;
  std::vector<CopyInItem> in;
  std::vector<CopyOutItem> out_items;
};

// One queue, on memory of its own.
class Queue {
 public:
  Queue(uint64_t seed, int lists, const std::function<std::string(std::string)>& rewrite)
      : random_(seed), runner_(seed), lists_(static_cast<size_t>(lists)) {
    const std::string source = rewrite ? rewrite(TaskKernelSource()) : TaskKernelSource();
    auto object = KernelObject::Compile(source, ::testing::TempDir());
    Check(object.ok(), object.status().ToString());
    object_ = *std::move(object);
    for (auto& column : data_) column.assign(kRows * kWidth, 0.0f);
    mirror_.assign(kRows * kWidth, 0);
    columns_[0] = {data_[0].data(), kWidth, kWidth, nullptr};
    columns_[1] = {data_[1].data(), kWidth, kWidth, mirror_.data()};
    state_.ring_slots = kRing;
    state_.ring = ring_;
    state_.stamps = stamps_;
    state_.host_signal = &shown_;
    state_.lists = lists_.data();
    state_.list_ints = lists;
    state_.signal = shown_ = 0xfffffffeu;  // wraps at once
  }

  // Three launches, as a graph would make them again and again. Returns what was wrong.
  std::vector<std::string> Run(bool end_signals) {
    ++task_;
    Task& task = tasks_.emplace_back(MakeTask());
    const int place = (task_ - 1) % kRing;
    Slot(task, ring_[place]);
    const unsigned before = shown_;
    std::vector<std::string> wrong;
    SignalWatch watch(&shown_, [&] {
      if (task.dest != task.expected) wrong.push_back("the signal shows before what is copied out");
      if (Mirrored(task) != "") wrong.push_back("the signal shows before the mirror");
    });
    runner_.set_observer(&watch);
    Allow(task, watch);
    Launch("cellbatch_begin", {&state_pointer_, &columns_pointer_}, kBlocks);
    const std::string read = AsStepsRead(task);
    if (!read.empty()) wrong.push_back(read);
    Compute(task);
    int columns = kColumns, signals = end_signals ? 1 : 0;
    Launch("cellbatch_end", {&state_pointer_, &columns_pointer_, &columns, &signals}, kBlocks);
    if (!end_signals && shown_ != before) wrong.push_back("a signal that nobody was to show");
    if (!end_signals) Launch("cellbatch_signal", {&state_pointer_}, 1);
    if (shown_ != before + 1) wrong.push_back("the signal is not the next number");
    if (task.dest != task.expected) wrong.push_back("copied out");
    if (Mirrored(task) != "") wrong.push_back(Mirrored(task));
    if (stamps_[place].start_ns == 0 || stamps_[place].end_ns < stamps_[place].start_ns) {
      wrong.push_back("stamps");
    }
    stamps_[place] = {};
    const std::vector<std::string>& findings = runner_.findings();
    wrong.insert(wrong.end(), findings.begin(), findings.end());
    wrong.insert(wrong.end(), watch.findings().begin(), watch.findings().end());
    return wrong;
  }

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  Task MakeTask() {
    Task task;
    const int nodes = Pick(1, 12);
    for (int n = 0; n < nodes; ++n) {
      task.rows.push_back(Pick(0, kRows - 1));
      task.out.push_back(n * 3 + 1);
      task.offsets.push_back(static_cast<int>(task.sum_rows.size()));
      for (int k = Pick(0, 3); k > 0; --k) task.sum_rows.push_back(Pick(0, kRows - 1));
    }
    task.offsets.push_back(static_cast<int>(task.sum_rows.size()));
    task.source.resize(4 * kWidth);
    for (float& f : task.source) f = static_cast<float>(Pick(1, 1000));
    const auto* const bytes = reinterpret_cast<const unsigned char*>(task.source.data());
    task.in = {{bytes, 1, 36, 4}, {bytes, -1, -7, 0}};  // the second is blanked
    task.dest.assign(static_cast<size_t>(nodes) * kWidth, -1.0f);
    return task;
  }

  void Slot(Task& task, TaskSlot& slot) {
    const int nodes = static_cast<int>(task.rows.size());
    for (int n = 0; n < nodes; ++n) {
      auto* const to = reinterpret_cast<unsigned char*>(task.dest.data() + n * kWidth);
      const bool blanked = n == 1;
      task.out_items.push_back(
          {blanked ? nullptr : to, n % kColumns, task.out[static_cast<size_t>(n)]});
      for (int i = 0; i < kWidth; ++i) {
        task.expected.push_back(blanked ? -1.0f
                                        : Value(n % kColumns, task.out[static_cast<size_t>(n)], i));
      }
    }
    slot = {nodes,
            2,
            2,
            nodes,
            {{task.rows.data(), nullptr}, {task.sum_rows.data(), task.offsets.data()}},
            task.out.data(),
            task.in.data(),
            task.out_items.data()};
  }

  // What kernels of this task may touch. Of what kernels alone write nothing is written yet, whatever the task before left.
  void Allow(const Task& task, emulator::AccessChecker& checker) {
    const auto allow = [&](const auto& list, bool written) {
      checker.Allow(std::data(list), std::size(list) * sizeof list[0], written);
    };
    for (const auto* list : {&task.rows, &task.offsets, &task.sum_rows, &task.out}) {
      allow(*list, true);
    }
    allow(task.source, true);
    allow(task.in, true);
    allow(task.out_items, true);
    allow(task.dest, false);
    allow(data_[0], true);
    allow(data_[1], true);
    allow(mirror_, false);
    allow(lists_, false);
    allow(columns_, true);
    allow(ring_, true);
    allow(stamps_, false);
    checker.Allow(&shown_, sizeof shown_, false);
    checker.Allow(&state_, sizeof state_, false);
    checker.Wrote(&state_, offsetof(cuda_abi::QueueState, now));
  }

  // What the steps of this task leave in a row.
  float Value(int column, int row, int i) const {
    return static_cast<float>(1 + column * 10'000 + row * 100 + i) +
           static_cast<float>(task_) * 100'000.0f;
  }
  void Compute(const Task& task) {
    for (const int row : task.out) {
      for (int c = 0; c < kColumns; ++c) {
        for (int i = 0; i < kWidth; ++i) {
          data_[c][static_cast<size_t>(row * kWidth + i)] = Value(c, row, i);
        }
      }
    }
  }

  std::string AsStepsRead(const Task& task) const {
    const cuda_abi::TaskNow& now = state_.now;
    const auto same = [](const int* at, const std::vector<int>& list) {
      return std::equal(list.begin(), list.end(), at);
    };
    if (now.num_nodes != static_cast<int>(task.rows.size())) return "nodes of another task";
    if (!same(now.inputs[0].rows, task.rows) || !same(now.inputs[1].rows, task.sum_rows) ||
        !same(now.inputs[1].offsets, task.offsets) || !same(now.output_rows, task.out)) {
      return "lists of another task";
    }
    for (size_t i = 0; i < task.source.size(); ++i) {
      if (data_[1][36 * kWidth + i] != task.source[i]) return "copied in";
      if (mirror_[36 * kWidth + i] != BitsOf(task.source[i]))
        return "the mirror of what is copied in";
    }
    return "";
  }
  std::string Mirrored(const Task& task) const {
    for (const int row : task.out) {
      for (int i = 0; i < kWidth; ++i) {
        if (mirror_[static_cast<size_t>(row * kWidth + i)] != BitsOf(Value(1, row, i)))
          return "the mirror";
      }
    }
    return "";
  }
  static int BitsOf(float f) {
    int bits;
    std::copy_n(reinterpret_cast<const char*>(&f), sizeof bits, reinterpret_cast<char*>(&bits));
    return bits;
  }

  void Launch(const char* name, std::vector<void*> arguments, unsigned blocks) {
    const emulator::KernelFunction* const function = object_->Find(name);
    Check(function != nullptr, name);
    const absl::Status ran =
        runner_.Run(*object_, *function, {blocks, 1, 128, 0}, arguments.data());
    Check(ran.ok(), ran.ToString());
  }

  int task_ = 0;            // which one, counted by the host
  std::deque<Task> tasks_;  // kept, for kernels that read those of another
  std::mt19937_64 random_;
  emulator::GridRunner runner_;
  std::shared_ptr<const KernelObject> object_;
  std::vector<float> data_[kColumns];
  std::vector<int> mirror_, lists_;
  CopiedColumn columns_[kColumns];
  TaskSlot ring_[kRing] = {};
  cuda_abi::TaskStamps stamps_[kRing] = {};
  unsigned shown_ = 0;
  cuda_abi::QueueState state_ = {};
  cuda_abi::QueueState* state_pointer_ = &state_;
  CopiedColumn* columns_pointer_ = columns_;
};

std::vector<std::string> Wrong(int lists,
                               const std::function<std::string(std::string)>& rewrite = {}) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (const bool end_signals : {false, true}) {
      Queue queue(seed, lists, rewrite);
      for (int task = 0; task < 20; ++task) {
        std::vector<std::string> wrong = queue.Run(end_signals);
        if (!wrong.empty()) return wrong;
      }
    }
  }
  return {};
}

TEST(TaskKernelsTest, TasksAreReadCopiedAndSignalledInOrder) {
  EXPECT_EQ(Wrong(200), std::vector<std::string>());
}

TEST(TaskKernelsTest, ListsForWhichThereIsNoRoomAreReadWhereTheyAre) {
  EXPECT_EQ(Wrong(0), std::vector<std::string>());
  EXPECT_EQ(Wrong(20), std::vector<std::string>());
}

// What is wrong once `from` is `to`.
std::vector<std::string> Planted(const std::string& from, const std::string& to) {
  return Wrong(200, [&](std::string text) {
    const size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return at == text.npos ? text : text.replace(at, from.size(), to);
  });
}

TEST(TaskKernelsTest, TheCheckerFindsPlantedBugsWhateverTheyLeave) {
  const auto found = [](const std::string& from, const std::string& to) {
    std::set<std::string> kinds;
    for (const std::string& wrong : Planted(from, to)) {
      const size_t kind = wrong.find(": ");
      if (kind == wrong.npos) continue;  // what it left
      kinds.insert(wrong.substr(0, wrong.find(',')) +
                   wrong.substr(kind, wrong.find(": ", kind + 2) - kind));
    }
    return kinds;
  };
  using Kinds = std::set<std::string>;
  EXPECT_EQ(found("queue", "queue"), Kinds()) << "no bug";
  EXPECT_EQ(found("  __threadfence_system();\n  __syncthreads();", "  __syncthreads();"),
            Kinds({"cellbatch_end: race"}))
      << "a ticket without the fence before it";
  EXPECT_EQ(found("  __threadfence_system();  // every block", "  // every block"),
            Kinds({"cellbatch_end: race"}))
      << "a ticket without the fence behind it";
  EXPECT_EQ(found("  __threadfence_system();\n  __syncthreads();", "  __threadfence_system();"),
            Kinds({"cellbatch_end: race"}))
      << "a ticket drawn while others of the block copy";
  EXPECT_EQ(found("if (first) queue->now.inputs", "queue->now.inputs"),
            Kinds({"cellbatch_begin: race"}))
      << "the same written by all";
  EXPECT_EQ(
      found("i < count; i += ThreadsOfGrid()) to[i]", "i <= count; i += ThreadsOfGrid()) to[i]"),
      Kinds({"cellbatch_begin: out of bounds", "cellbatch_begin: race"}))
      << "lists copied beyond their end";
  EXPECT_EQ(found("queue->now.num_nodes = slot.num_nodes;", ""),
            Kinds({"cellbatch_end: not written"}))
      << "what the begin kernel is to leave";
}

TEST(TaskKernelsTest, PlantedBugsAreNoticed) {
  const auto first = [](const std::vector<std::string>& wrong) {
    return wrong.empty() ? std::string() : wrong[0];
  };
  EXPECT_EQ(first(Planted("atomicAdd(&queue->blocks_done, 1u) != gridDim.x - 1",
                          "atomicAdd(&queue->blocks_done, 1u) != 0")),
            "the signal shows before what is copied out");
  EXPECT_EQ(first(Planted("queue->next += 1;", "")), "nodes of another task")
      << "a graph that is replayed on the task before";
  EXPECT_EQ(first(Planted("queue->blocks_done = 0;", "")), "the signal is not the next number");
  EXPECT_EQ(first(Planted("used += count;", "")), "lists of another task");
}

}  // namespace
}  // namespace cellbatch
