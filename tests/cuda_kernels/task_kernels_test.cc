// The kernels that begin and end every task, on random tasks, one or several a launch: what is copied, when the signal shows, and
// what wraps.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
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

#include "cells/bf16.h"
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
              offsetof(CopyInItem, rows) == offsetof(CopyIn, rows) &&
              offsetof(CopyInItem, column) == offsetof(CopyIn, column));
static_assert(kAlike<CopyOutItem, CopyOut> &&
              offsetof(CopyOutItem, dest) == offsetof(CopyOut, dest) &&
              offsetof(CopyOutItem, column) == offsetof(CopyOut, column) &&
              offsetof(CopyOutItem, row) == offsetof(CopyOut, row));
static_assert(kAlike<cuda_abi::InputList, InputRows> && kAlike<int, Row> && kAlike<int, TableId> &&
              offsetof(cuda_abi::InputList, offsets) == offsetof(InputRows, offsets));
static_assert(cuda_abi::kMostInputs == kMaxInputs && cuda_abi::kMostTableColumns == kMaxColumns);

// Column 0 is wide, and repeated as bf16; column 1 is of int32, and mirrored. Rows up to kFirstIn are computed, those from there on
// copied in: column 0 as one long copy, column 1 as many short ones.
// Each task of a launch has rows of its own.
// The table is the second; there is nothing of the first.
constexpr int kTable = 1, kRing = 7, kColumns = 2, kFirstIn = 36, kLongCopy = 20, kMostCopies = 250;
constexpr int kTaskRows = kFirstIn + kMostCopies + 1, kMostTasks = cuda_abi::kMostTasks;
constexpr int kRows = kTaskRows * kMostTasks;
constexpr int kWidths[kColumns] = {132, 5}, kStrides[kColumns] = {136, 5};
constexpr int kDest = kWidths[0] + 1;  // so that some are on a multiple of 16 bytes
constexpr unsigned kBlocks = 3;
constexpr const char* kOtherLists = "lists of another task";

int BitsOf(float f) { return std::bit_cast<int>(f); }

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
  int number = 0, first_row = 0;
  std::vector<int> rows, offsets, sum_rows, out;
  std::vector<float> sources[kColumns], dest, expected;
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
    for (int c = 0; c < kColumns; ++c) data_[c].assign(kRows * Stride(c), 0.0f);
    rounded_.assign(data_[0].size(), 0);
    mirror_.assign(data_[1].size(), 0);
    of_table_[0] = {data_[0].data(), kStrides[0], kWidths[0], nullptr, rounded_.data()};
    of_table_[1] = {data_[1].data(), kStrides[1], kWidths[1], mirror_.data(), nullptr};
    state_.ring_slots = kRing;
    state_.ring = ring_;
    state_.stamps = stamps_;
    state_.host_signal = &shown_;
    state_.lists = lists_.data();
    state_.list_ints = lists;
    state_.signal = shown_ = 0xfffffffeu;  // wraps at once
  }

  // Begin, what steps do, and end, of so many tasks, as a graph would make them again and again. Returns what was wrong.
  std::vector<std::string> Run(int tasks, bool end_signals) {
    std::vector<const Task*> now;
    for (int k = 0; k < tasks; ++k) {
      Task& task = tasks_.emplace_back(MakeTask(k));
      Slot(task, ring_[PlaceOf(task)]);
      now.push_back(&task);
    }
    const unsigned before = shown_;
    std::vector<std::string> wrong;
    SignalWatch watch(&shown_, [&] {
      for (const Task* task : now) {
        if (task->dest != task->expected) {
          wrong.push_back("the signal shows before what is copied out");
        }
        if (Mirrored(*task) != "") wrong.push_back("the signal shows before the mirror");
      }
    });
    runner_.set_observer(&watch);
    AllowQueue(watch);
    for (const Task* task : now) Allow(*task, watch);
    Launch("cellbatch_begin", {&state_pointer_, &tables_pointer_}, kBlocks, tasks);
    for (int k = 0; k < tasks; ++k) {
      const std::string read = AsStepsRead(*now[static_cast<size_t>(k)], state_.now[k]);
      if (!read.empty()) wrong.push_back(read);
    }
    // The end kernel would follow other lists anywhere.
    if (std::find(wrong.begin(), wrong.end(), kOtherLists) != wrong.end()) return wrong;
    for (int k = 0; k < tasks; ++k) Compute(*now[static_cast<size_t>(k)], k, watch);
    int columns = kColumns, signals = end_signals ? 1 : 0;
    Launch("cellbatch_end", {&state_pointer_, &of_table_, &columns, &signals}, kBlocks, tasks,
           true);
    if (!end_signals && shown_ != before) wrong.push_back("a signal that nobody was to show");
    if (!end_signals) Launch("cellbatch_signal", {&state_pointer_}, 1, 1);
    if (shown_ != before + static_cast<unsigned>(tasks)) {
      wrong.push_back("the signal is not the next number");
    }
    long long ended = 1;
    for (const Task* task : now) {
      if (task->dest != task->expected) wrong.push_back("copied out");
      if (Mirrored(*task) != "") wrong.push_back(Mirrored(*task));
      cuda_abi::TaskStamps& stamps = stamps_[PlaceOf(*task)];
      if (stamps.start_ns < ended || stamps.end_ns < stamps.start_ns) wrong.push_back("stamps");
      ended = stamps.end_ns;
      stamps = {};
    }
    const std::vector<std::string>& findings = runner_.findings();
    wrong.insert(wrong.end(), findings.begin(), findings.end());
    wrong.insert(wrong.end(), watch.findings().begin(), watch.findings().end());
    return wrong;
  }

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  static size_t Stride(int column) { return static_cast<size_t>(kStrides[column]); }

  static int PlaceOf(const Task& task) { return (task.number - 1) % kRing; }

  Task MakeTask(int in_launch) {
    Task task;
    task.number = static_cast<int>(tasks_.size()) + 1;
    task.first_row = in_launch * kTaskRows;
    const int nodes = Pick(3, 12);
    for (int n = 0; n < nodes; ++n) {
      task.rows.push_back(Pick(0, kRows - 1));
      task.out.push_back(task.first_row + n * 3 + 1);
      task.offsets.push_back(static_cast<int>(task.sum_rows.size()));
      for (int k = Pick(0, 3); k > 0; --k) task.sum_rows.push_back(Pick(0, kRows - 1));
    }
    task.offsets.push_back(static_cast<int>(task.sum_rows.size()));
    task.dest.assign(static_cast<size_t>(nodes) * kDest, -1.0f);
    AddCopiesIn(task);
    return task;
  }

  // Packed, or behind an element that nobody wants.
  void AddCopiesIn(Task& task) {
    const int before = Pick(0, 1);
    const int counts[kColumns] = {Pick(1, kLongCopy), Pick(0, 3) == 0 ? kMostCopies : Pick(0, 5)};
    for (int c = 0; c < kColumns; ++c) {
      task.sources[c].resize(static_cast<size_t>(before + counts[c] * kWidths[c]));
      for (float& f : task.sources[c]) f = static_cast<float>(Pick(1, 1000));
    }
    const auto bytes = [&](int c, int row) {
      return reinterpret_cast<const unsigned char*>(task.sources[c].data() + before +
                                                    row * kWidths[c]);
    };
    task.in = {{nullptr, -1, -7, 0, -1}};  // blanked
    const int first = task.first_row + kFirstIn;
    for (int r = 0; r < counts[1]; ++r) {
      task.in.push_back({bytes(1, r), kTable, first + r, 1, 1});
    }
    task.in.insert(task.in.begin() + Pick(0, static_cast<int>(task.in.size())),
                   {bytes(0, 0), kTable, first, counts[0], 0});
  }

  void Slot(Task& task, TaskSlot& slot) {
    const int nodes = static_cast<int>(task.rows.size());
    for (int n = 0; n < nodes; ++n) {
      auto* const to = reinterpret_cast<unsigned char*>(task.dest.data() + n * kDest);
      const bool blanked = n == 1;
      const int column = n % 3 == 0 ? 1 : 0, row = task.out[static_cast<size_t>(n)];
      task.out_items.push_back({blanked ? nullptr : to, column, row});
      for (int i = 0; i < kDest; ++i) {
        const bool copied = !blanked && i < kWidths[column];
        task.expected.push_back(copied ? Value(task, column, row, i) : -1.0f);
      }
    }
    slot = {nodes,
            2,
            static_cast<int>(task.in.size()),
            nodes,
            {{task.rows.data(), nullptr}, {task.sum_rows.data(), task.offsets.data()}},
            {nodes, static_cast<int>(task.sum_rows.size())},
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
    for (const auto& source : task.sources) allow(source, true);
    allow(task.in, true);
    allow(task.out_items, true);
    allow(task.dest, false);
  }
  void AllowQueue(emulator::AccessChecker& checker) {
    const auto allow = [&](const auto& list, bool written) {
      checker.Allow(std::data(list), std::size(list) * sizeof list[0], written);
    };
    allow(data_[0], true);
    allow(data_[1], true);
    allow(rounded_, false);
    allow(mirror_, false);
    allow(lists_, false);
    allow(tables_, true);
    allow(ring_, true);
    allow(stamps_, false);
    checker.Allow(&shown_, sizeof shown_, false);
    checker.Allow(&state_, sizeof state_, false);
    checker.Wrote(&state_, offsetof(cuda_abi::QueueState, now));
  }

  // What the steps of this task leave in a row.
  static float Value(const Task& task, int column, int row, int i) {
    return static_cast<float>(1 + column * 10'000 + (row - task.first_row) * 100 + i) +
           static_cast<float>(task.number) * 100'000.0f;
  }
  void Compute(const Task& task, int in_launch, emulator::AccessChecker& checker) {
    if (in_launch > 0) {
      state_.steps_ns[in_launch] = std::chrono::steady_clock::now().time_since_epoch().count();
      checker.Wrote(&state_.steps_ns[in_launch], sizeof state_.steps_ns[0]);
    }
    for (const int row : task.out) {
      for (int c = 0; c < kColumns; ++c) {
        for (int i = 0; i < kWidths[c]; ++i) {
          data_[c][static_cast<size_t>(row * kStrides[c] + i)] = Value(task, c, row, i);
        }
      }
    }
  }

  std::string AsStepsRead(const Task& task, const cuda_abi::TaskNow& now) const {
    const auto same = [](const int* at, const std::vector<int>& list) {
      return list.empty() || (at != nullptr && std::equal(list.begin(), list.end(), at));
    };
    if (now.num_nodes != static_cast<int>(task.rows.size())) return "nodes of another task";
    if (!same(now.inputs[0].rows, task.rows) || !same(now.inputs[1].rows, task.sum_rows) ||
        !same(now.inputs[1].offsets, task.offsets) || !same(now.output_rows, task.out)) {
      return kOtherLists;
    }
    for (const CopyInItem& copy : task.in) {
      const auto* const source = reinterpret_cast<const float*>(copy.source);
      for (int i = 0; copy.rows > 0 && i < copy.rows * kWidths[copy.column]; ++i) {
        const int row = copy.first + i / kWidths[copy.column], at = i % kWidths[copy.column];
        const size_t to = static_cast<size_t>(row) * Stride(copy.column) + static_cast<size_t>(at);
        if (data_[copy.column][to] != source[i]) return "copied in";
        if (copy.column == 0 && rounded_[to] != RoundedToBf16(source[i])) {
          return "what is copied in, as bf16";
        }
        if (copy.column == 1 && mirror_[to] != BitsOf(source[i])) {
          return "the mirror of what is copied in";
        }
      }
    }
    return "";
  }
  std::string Mirrored(const Task& task) const {
    for (const int row : task.out) {
      for (int i = 0; i < kWidths[1]; ++i) {
        if (mirror_[static_cast<size_t>(row * kWidths[1] + i)] != BitsOf(Value(task, 1, row, i)))
          return "the mirror";
      }
    }
    return "";
  }

  void Launch(const char* name, std::vector<void*> arguments, unsigned blocks, int tasks,
              bool early = false) {
    const emulator::KernelFunction* const function = object_->Find(name);
    Check(function != nullptr, name);
    const absl::Status ran =
        runner_.Run(*object_, *function,
                    {blocks, static_cast<unsigned>(tasks), cuda_abi::kTaskThreads,
                     cuda_abi::kBeginSharedBytes, early},
                    arguments.data());
    Check(ran.ok(), ran.ToString());
  }

  std::deque<Task> tasks_;  // kept, for kernels that read those of another
  std::mt19937_64 random_;
  emulator::GridRunner runner_;
  std::shared_ptr<const KernelObject> object_;
  std::vector<float> data_[kColumns];
  std::vector<uint16_t> rounded_;
  std::vector<int> mirror_, lists_;
  CopiedColumn tables_[(kTable + 1) * cuda_abi::kMostTableColumns] = {};
  TaskSlot ring_[kRing] = {};
  cuda_abi::TaskStamps stamps_[kRing] = {};
  unsigned shown_ = 0;
  cuda_abi::QueueState state_ = {};
  cuda_abi::QueueState* state_pointer_ = &state_;
  CopiedColumn *tables_pointer_ = tables_,
               *of_table_ = tables_ + kTable * cuda_abi::kMostTableColumns;
};

std::vector<std::string> Wrong(int lists,
                               const std::function<std::string(std::string)>& rewrite = {}) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (const bool end_signals : {true, false}) {
      Queue queue(seed, lists, rewrite);
      for (int launch = 0; launch < 20; ++launch) {
        const int tasks = launch < 4 ? 1 : 1 + launch % kMostTasks;
        std::vector<std::string> wrong = queue.Run(tasks, end_signals);
        if (!wrong.empty()) return wrong;
      }
    }
  }
  return {};
}

TEST(TaskKernelsTest, TasksAreReadCopiedAndSignalledInOrder) {
  EXPECT_EQ(Wrong(200), std::vector<std::string>());
  EXPECT_EQ(Wrong(800), std::vector<std::string>());
}

TEST(TaskKernelsTest, ListsForWhichThereIsNoRoomAreReadWhereTheyAre) {
  EXPECT_EQ(Wrong(0), std::vector<std::string>());
  EXPECT_EQ(Wrong(20), std::vector<std::string>());
  EXPECT_EQ(Wrong(60), std::vector<std::string>());
}

// What is wrong once `from` is `to`.
std::vector<std::string> Planted(const std::string& from, const std::string& to) {
  return Wrong(800, [&](std::string text) {
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
  EXPECT_EQ(found("if (first) LeaveList", "LeaveList"), Kinds({"cellbatch_begin: race"}))
      << "the same written by all";
  EXPECT_EQ(found("slot.input_rows[l / 2 - 1];", "slot.input_rows[l / 2 - 1] + 1;"),
            Kinds({"cellbatch_begin: out of bounds"}))
      << "lists copied beyond their end";
  EXPECT_EQ(found("  GridDependencyWait();", ""),
            Kinds({"cellbatch_end: never waits", "cellbatch_end: too early"}))
      << "launched while the step before it runs, and does not wait";
  EXPECT_EQ(found("now.num_nodes = slot.num_nodes;", ""), Kinds({"cellbatch_end: not written"}))
      << "what the begin kernel is to leave";
}

TEST(TaskKernelsTest, PlantedBugsAreNoticed) {
  const auto first = [](const std::vector<std::string>& wrong) {
    return wrong.empty() ? std::string() : wrong[0];
  };
  EXPECT_EQ(first(Planted("atomicAdd(&queue->blocks_done, 1u) != gridDim.x * tasks - 1",
                          "atomicAdd(&queue->blocks_done, 1u) != 0")),
            "the signal shows before what is copied out");
  EXPECT_EQ(first(Planted("gridDim.x * tasks - 1", "gridDim.x - 1")),
            "the signal shows before what is copied out")
      << "of one of the tasks of a launch";
  EXPECT_EQ(first(Planted("queue->next = RingPlace(place, tasks, slots);", "")),
            "nodes of another task")
      << "a graph that is replayed on the task before";
  EXPECT_EQ(first(Planted("RingPlace(place, tasks, slots);", "RingPlace(place, 1, slots);")),
            "nodes of another task")
      << "one that is replayed on all but the first of the tasks before";
  EXPECT_EQ(first(Planted("queue->signal + tasks;", "queue->signal + 1;")),
            "the signal is not the next number");
  EXPECT_EQ(first(Planted("first + n - slots;", "0;")), "nodes of another task")
      << "a launch that comes round the ring";
  EXPECT_EQ(first(Planted("queue->lists + blockIdx.y * room_ints;", "queue->lists;")),
            "lists of another task");
  EXPECT_EQ(first(Planted("queue->blocks_done = 0;", "")), "the signal is not the next number");
  EXPECT_EQ(first(Planted("end += lists.ints[k];", "end = lists.ints[k];")),
            "lists of another task");
  EXPECT_EQ(first(Planted("if (in_row < quads_a_row) continue;", "continue;")), "copied in");
}

}  // namespace
}  // namespace cellbatch
