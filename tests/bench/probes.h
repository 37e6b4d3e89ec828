// Ceilings of the machine under a benchmark, probed in the same run: what one core multiplies, what it reads.
// CPU time of the process where one thread works and the others sleep; the best of several short runs (a ceiling is
// what nobody disturbed).
#ifndef CELLBATCH_TESTS_BENCH_PROBES_H_
#define CELLBATCH_TESTS_BENCH_PROBES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch {

// CPU time of this thread, and of all threads of the process: some libraries compute on a thread of their own.
int64_t ThreadCpuNs();
int64_t ProcessCpuNs();

// Fused multiply-adds in registers, in flops (two each) a second, with the widest registers that `instruction_set`
// ("avx512" or "avx512_bf16", "avx2", "portable") may use. The best of so many runs, a millisecond each at most.
double ProbeFmaPeak(const std::string& instruction_set, int runs = 20);

// Likewise of a tile as kernels have them, rows by registers of weights (6 x 4, 6 x 2 or 2 x 4), all of whose operands lie
// in L1.
double ProbeFedPeak(const std::string& instruction_set, int runs = 20);

// Multiply-adds of bf16 in tile registers (AMX), in flops a second: whole registers, four chains, nothing loaded. REQUIRES:
// this process may use them (a table of kernels that does, runs).
double ProbeTilePeak(int runs = 20);

// CPU that the process uses while it sleeps, in cores: what threads of libraries burn for nothing.
double IdleCores();

// Reading `bytes` of memory over and over, huge pages asked for. No way of reading is the fastest on every machine and
// at every size (a hardware prefetcher left alone, one that is helped, one stream or several, whole registers or a
// touch of every line), so there are many readers, and the ceiling is the best of them.
class StreamProbe {
 public:
  // Tries every reader that `instruction_set` can run; keeps the fastest few for Pass.
  StreamProbe(int64_t bytes, const std::string& instruction_set);
  ~StreamProbe();
  StreamProbe(const StreamProbe&) = delete;
  StreamProbe& operator=(const StreamProbe&) = delete;

  // One pass by each of the fastest readers; the least CPU time of one, in seconds for bytes().
  double Pass();
  // One pass by the fastest, untimed.
  void PassOnce() { chosen_.front()(memory_, read_); }
  int64_t bytes() const { return bytes_; }
  // "64-byte loads, 2 streams, prefetching 32 lines ahead": the fastest when they were tried.
  const std::string& best() const { return best_; }

 private:
  int64_t bytes_, read_;  // asked for, and what a pass reads
  char* memory_;
  std::vector<void (*)(const char* memory, int64_t bytes)> chosen_;  // fastest first
  std::string best_;
};

// Bytes a second read by all of `cpus` at once, each its own share of `bytes` over and over; wall time.
// (The readers are chosen while all of them try theirs.)
double ProbeSharedStream(int64_t bytes, const std::string& instruction_set,
                         const std::vector<int>& cpus);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_PROBES_H_
