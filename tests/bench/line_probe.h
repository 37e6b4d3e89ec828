// What one cache line costs here that nobody saw coming: dependent loads from random lines of so much memory, on huge
// pages where the system has them, as the scheduler's blocks are. What a scheduler takes for a node, divided by this,
// carries over from one machine to the next; nanoseconds do not.
#ifndef CELLBATCH_TESTS_BENCH_LINE_PROBE_H_
#define CELLBATCH_TESTS_BENCH_LINE_PROBE_H_

#include <cstddef>
#include <cstdint>

namespace cellbatch {

class LineProbe {
 public:
  // `bytes` of memory, every line of it on one random cycle. Takes a second a GB.
  explicit LineProbe(int64_t bytes);
  ~LineProbe();
  LineProbe(const LineProbe&) = delete;
  LineProbe& operator=(const LineProbe&) = delete;

  // CPU time of one load, of a run of `loads` that each need the one before; goes on where the last run ended.
  double NsPerLoad(int64_t loads);

 private:
  struct alignas(64) Line {
    uint32_t next;
  };
  size_t lines_;
  size_t mapped_bytes_;
  void* mapped_;
  Line* memory_;
  uint32_t at_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_LINE_PROBE_H_
