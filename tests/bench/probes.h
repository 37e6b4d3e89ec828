// Ceilings of the machine under a benchmark, probed in the same run: what one core multiplies, what it reads.
// One thread, thread CPU time, the best of several short runs (a ceiling is what nobody disturbed).
#ifndef CELLBATCH_TESTS_BENCH_PROBES_H_
#define CELLBATCH_TESTS_BENCH_PROBES_H_

#include <cstdint>
#include <string>

namespace cellbatch {

// CPU time of this thread.
int64_t ThreadCpuNs();

// Fused multiply-adds in registers, in flops (two each) a second, with the widest registers that `instruction_set`
// ("avx512", "avx2", "portable") may use.
double ProbeFmaPeak(const std::string& instruction_set);

// Reading `bytes` of memory over and over, huge pages asked for: bytes a second.
class StreamProbe {
 public:
  explicit StreamProbe(int64_t bytes);
  ~StreamProbe();
  StreamProbe(const StreamProbe&) = delete;
  StreamProbe& operator=(const StreamProbe&) = delete;
  // One pass; seconds of CPU time.
  double Pass();
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_;
  char* memory_;
  volatile float sink_ = 0.0f;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_PROBES_H_
