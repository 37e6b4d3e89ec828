// A thread of a kernel as a fibre: what it waits for, and what it has started to copy. GridRunner's own.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_GRID_FIBRE_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_GRID_FIBRE_H_

#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/barrier_word.h"
#include "tests/cuda_emulator/grid_runner.h"

namespace cellbatch::emulator {

enum class State : uint8_t {
  kReady,
  kAtBlockBarrier,
  kAtClusterBarrier,
  kAtWarpBarrier,
  kAtArrivals,
  kDone
};

struct AsyncCopy {
  void* to;
  size_t room;
  const void* from;
  size_t bytes;
};

// A fibre's stack, and where it lies: on a multiple of its size, by which a kernel knows its own (shim.txt). Each begins at another
// distance from there, or all would compete for the same lines of the CPU's caches.
struct NotedStack {
  boost::context::stack_context allocate() {
    boost::context::stack_context stack;
    void* const memory = std::aligned_alloc(kStackBytes, kStackBytes);
    if (memory == nullptr) throw std::bad_alloc();
    *from = reinterpret_cast<uintptr_t>(memory);
    *to = *from + kStackBytes;
    stack.size = kStackBytes - slot * kApart % (kStackBytes / 4);
    stack.sp = reinterpret_cast<void*>(*from + stack.size);
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) {
    std::free(static_cast<char*>(stack.sp) - stack.size);
  }

  static constexpr size_t kStackBytes = size_t{128} << 10, kApart = 704;
  size_t slot;
  uintptr_t* from;
  uintptr_t* to;
};

// One thread of a block, and of the next block, and of the next launch.
class GridRunner::Fibre {
 public:
  Fibre(GridRunner& runner, size_t slot)
      : inside_(std::allocator_arg, NotedStack{.slot = slot, .from = &stack_from, .to = &stack_to},
                [this, &runner](boost::context::fiber&& outside) {
                  outside_ = std::move(outside);
                  while (!ending_) {
                    runner.function_->launch(const_cast<void**>(runner.arguments_));
                    state = State::kDone;
                    GiveWay();
                  }
                  return std::move(outside_);
                }) {}
  // REQUIRES: it is done, or never began.
  ~Fibre() {
    ending_ = true;
    if (outside_) inside_ = std::move(inside_).resume();
  }
  void Resume() { inside_ = std::move(inside_).resume(); }
  void GiveWay() { outside_ = std::move(outside_).resume(); }
  // Another thread begins on it.
  void Begin() {
    state = State::kReady;
    waited = false;
    copies.clear();
    groups.clear();
    arrivals.clear();
  }

  uintptr_t stack_from = 0, stack_to = 0;
  State state = State::kReady;
  bool waited = false;    // for the launch before
  unsigned lanes = 0;     // that kAtWarpBarrier waits for
  bool shuffles = false;  // and waits for values, not for memory
  // What kAtArrivals waits for.
  bool Arrived() const { return BarrierWord::Of(*barrier).parity != parity; }
  BarrierWord::Bits* barrier = nullptr;
  unsigned parity = 0;
  // Started and not made; how many of them there were when each group was closed.
  std::vector<AsyncCopy> copies;
  std::vector<size_t> groups;
  // Of how many of them it arrives where, when they are made.
  std::deque<std::pair<size_t, BarrierWord::Bits*>> arrivals;

 private:
  bool ending_ = false;
  boost::context::fiber outside_, inside_;  // who resumed it; itself
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_GRID_FIBRE_H_
