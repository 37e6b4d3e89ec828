// Which memory there is on emulated GPUs: what CUDA calls have allocated, by address. The driver asks it before it copies, who
// checks accesses of kernels asks it of each.
//
//   ..guard [ start .. start + bytes ) guard..   [ start .. start + bytes )   ..
//           GPU 0                                 host, any GPU may reach it
//
// Any thread. A look-up takes the time of a search in a tree, and a lock that readers share; who looks often keeps what it found
// for as long as `version` stays the same. Memory itself is not owned here.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_MEMORY_REGISTRY_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_MEMORY_REGISTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

namespace cellbatch::emulator {

enum class MemoryKind : uint8_t { kDevice, kHost };

struct MemoryBlock {
  uintptr_t start = 0;
  size_t bytes = 0;
  MemoryKind kind = MemoryKind::kDevice;
  int gpu = 0;  // kDevice: whose memory it is; kHost: whose context allocated it
  int64_t number =
      0;  // counted from 1, of all that were ever added: tells blocks at the same address apart

  bool Holds(uintptr_t at, size_t size) const {
    return at >= start && at - start <= bytes && size <= bytes - (at - start);
  }
};

class MemoryRegistry {
 public:
  // REQUIRES: it overlaps no other. Its number is given here, and returned.
  int64_t Add(MemoryBlock block);
  // Nothing: no block starts there.
  std::optional<MemoryBlock> Remove(uintptr_t start);

  // The block that holds all of [at, at + bytes); nothing: there is none.
  std::optional<MemoryBlock> Holding(uintptr_t at, size_t bytes) const;
  // The block that starts there.
  std::optional<MemoryBlock> StartingAt(uintptr_t start) const;
  // All of them, by address.
  std::vector<MemoryBlock> Blocks() const;

  // What was allocated and not freed, on a GPU; -1: in host memory, by all GPUs.
  int64_t LiveBytes(int gpu) const;

  // Another one after each Add and Remove.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // For findings: "64 bytes at 0x7f0012, 16 behind the start of 4096 bytes of GPU 0".
  std::string Describe(uintptr_t at, size_t bytes) const;

 private:
  const MemoryBlock* Before(uintptr_t at) const;  // the last that does not start behind `at`

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, MemoryBlock> blocks_;
  int64_t added_ = 0;
  std::atomic<uint64_t> version_ = 0;
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_MEMORY_REGISTRY_H_
