#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "tests/bench/probes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cellbatch {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kLine = 64;
constexpr int kLinesAtOnce = 4;  // of each stream, before the next one's turn
constexpr int kTrials = 4;       // of each reader, before the fastest are kept
constexpr size_t kKept = 3;

// What a reader reads is a multiple of this: as many streams, and lines of each at once, as any has.
constexpr int64_t kGrain = 8 * kLinesAtOnce * kLine;

// Readers read all of `memory`, as kStreams equal parts side by side, and ask for the line kAhead lines ahead (0: they
// leave that to the machine). Each is compiled for the instructions it loads with.
using Read = void (*)(const char* memory, int64_t bytes);

template <int kStreams, int kAhead>
struct TouchingLines {
  static void Run(const char* memory, int64_t bytes) {
    int64_t sum[kLinesAtOnce] = {};
    const int64_t part = bytes / kStreams;
    for (int64_t at = 0; at < part; at += kLinesAtOnce * kLine) {
      for (int s = 0; s < kStreams; ++s) {
        const char* const from = memory + s * part + at;
#pragma GCC unroll 8
        for (int i = 0; i < kLinesAtOnce; ++i) {
          if (kAhead > 0) __builtin_prefetch(from + (i + kAhead) * kLine);
          int64_t first;
          std::memcpy(&first, from + i * kLine, sizeof(first));
          sum[i] ^= first;
        }
      }
    }
    for (int64_t s : sum) __asm__ volatile("" : : "r"(s));
  }
};

#if defined(__x86_64__)

template <int kStreams, int kAhead>
struct Loading32Bytes {
  __attribute__((target("avx2"))) static void Run(const char* memory, int64_t bytes) {
    __m256i sum[2 * kLinesAtOnce];
    for (__m256i& s : sum) s = _mm256_setzero_si256();
    const int64_t part = bytes / kStreams;
    for (int64_t at = 0; at < part; at += kLinesAtOnce * kLine) {
      for (int s = 0; s < kStreams; ++s) {
        const char* const from = memory + s * part + at;
#pragma GCC unroll 8
        for (int i = 0; i < kLinesAtOnce; ++i) {
          if (kAhead > 0) __builtin_prefetch(from + (i + kAhead) * kLine);
          const auto* const line = reinterpret_cast<const __m256i*>(from + i * kLine);
          sum[2 * i] = _mm256_xor_si256(sum[2 * i], _mm256_load_si256(line));
          sum[2 * i + 1] = _mm256_xor_si256(sum[2 * i + 1], _mm256_load_si256(line + 1));
        }
      }
    }
    for (__m256i& s : sum) __asm__ volatile("" : : "x"(s));
  }
};

template <int kStreams, int kAhead>
struct Loading64Bytes {
  __attribute__((target("avx512f"))) static void Run(const char* memory, int64_t bytes) {
    __m512i sum[kLinesAtOnce];
    for (__m512i& s : sum) s = _mm512_setzero_si512();
    const int64_t part = bytes / kStreams;
    for (int64_t at = 0; at < part; at += kLinesAtOnce * kLine) {
      for (int s = 0; s < kStreams; ++s) {
        const char* const from = memory + s * part + at;
#pragma GCC unroll 8
        for (int i = 0; i < kLinesAtOnce; ++i) {
          if (kAhead > 0) __builtin_prefetch(from + (i + kAhead) * kLine);
          sum[i] = _mm512_xor_si512(sum[i], _mm512_load_si512(from + i * kLine));
        }
      }
    }
    for (__m512i& s : sum) __asm__ volatile("" : : "v"(s));
  }
};

#endif

struct Reader {
  Read read;
  const char* loads;
  int streams, ahead;

  std::string ToString() const {
    return std::string(loads) + ", " + std::to_string(streams) +
           (streams == 1 ? " stream, " : " streams, ") +
           (ahead == 0 ? "nothing prefetched" : std::to_string(ahead) + " lines prefetched");
  }
};

// One way of loading, with every number of streams and every distance.
template <template <int, int> class Way>
void AddReaders(const char* loads, std::vector<Reader>* to) {
  const auto add = [&]<int kStreams>(std::integral_constant<int, kStreams>) {
    to->push_back({Way<kStreams, 0>::Run, loads, kStreams, 0});
    to->push_back({Way<kStreams, 16>::Run, loads, kStreams, 16});
    to->push_back({Way<kStreams, 64>::Run, loads, kStreams, 64});
    to->push_back({Way<kStreams, 256>::Run, loads, kStreams, 256});
  };
  add(std::integral_constant<int, 1>());
  add(std::integral_constant<int, 2>());
  add(std::integral_constant<int, 4>());
  add(std::integral_constant<int, 8>());
}

std::vector<Reader> Readers([[maybe_unused]] const std::string& instruction_set) {
  std::vector<Reader> readers;
  AddReaders<TouchingLines>("8 bytes of each line", &readers);
#if defined(__x86_64__)
  const bool avx512 = instruction_set.rfind("avx512", 0) == 0;
  if (avx512) AddReaders<Loading64Bytes>("loads of 64 bytes", &readers);
  if (avx512 || instruction_set == "avx2") {
    AddReaders<Loading32Bytes>("loads of 32 bytes", &readers);
  }
#endif
  return readers;
}

int64_t CpuNsOf(const Reader& reader, const char* memory, int64_t bytes) {
  const int64_t start = ThreadCpuNs();
  reader.read(memory, bytes);
  return ThreadCpuNs() - start;
}

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

}  // namespace

StreamProbe::StreamProbe(int64_t bytes, const std::string& instruction_set)
    : bytes_(bytes), read_((bytes + kGrain - 1) / kGrain * kGrain) {
  const auto mapped = static_cast<size_t>((bytes + kHugePage - 1) / kHugePage * kHugePage);
  memory_ = static_cast<char*>(std::aligned_alloc(kHugePage, mapped));
  if (memory_ == nullptr) std::abort();
  madvise(memory_, mapped, MADV_HUGEPAGE);
  std::memset(memory_, 1, mapped);
  const std::vector<Reader> readers = Readers(instruction_set);
  std::vector<std::pair<int64_t, size_t>> least;  // CPU time, reader
  for (size_t r = 0; r < readers.size(); ++r) least.emplace_back(INT64_MAX, r);
  for (int trial = 0; trial < kTrials; ++trial) {
    for (auto& [ns, r] : least) ns = std::min(ns, CpuNsOf(readers[r], memory_, read_));
  }
  std::sort(least.begin(), least.end());
  for (size_t i = 0; i < std::min(kKept, least.size()); ++i) {
    chosen_.push_back(readers[least[i].second].read);
  }
  best_ = readers[least[0].second].ToString();
}

StreamProbe::~StreamProbe() { std::free(memory_); }

double StreamProbe::Pass() {
  int64_t least = INT64_MAX;
  for (const Read read : chosen_) {
    const int64_t start = ThreadCpuNs();
    read(memory_, read_);
    least = std::min(least, ThreadCpuNs() - start);
  }
  return 1e-9 * static_cast<double>(least) * static_cast<double>(bytes_) /
         static_cast<double>(read_);
}

double ProbeSharedStream(int64_t bytes, const std::string& instruction_set,
                         const std::vector<int>& cpus) {
  constexpr std::chrono::milliseconds kWarm(20), kMeasured(60);
  const int64_t share = bytes / static_cast<int64_t>(cpus.size());
  std::atomic<int> phase{0};  // 1: everyone counts, 2: everyone stops
  std::atomic<int> ready{0};
  std::atomic<int64_t> passes{0};
  std::vector<std::thread> threads;
  for (const int cpu : cpus) {
    threads.emplace_back([&, cpu] {
      PinTo(cpu);
      StreamProbe stream(share, instruction_set);
      ready.fetch_add(1);
      int64_t mine = 0;
      for (int now = 0; (now = phase.load()) < 2;) {
        stream.PassOnce();
        if (now == 1) ++mine;
      }
      passes.fetch_add(mine);
    });
  }
  while (ready.load() < static_cast<int>(cpus.size())) std::this_thread::yield();
  std::this_thread::sleep_for(kWarm);
  const auto start = std::chrono::steady_clock::now();
  phase.store(1);
  std::this_thread::sleep_for(kMeasured);
  phase.store(2);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  for (std::thread& t : threads) t.join();
  return static_cast<double>(passes.load()) * static_cast<double>(share) / took.count();
}

}  // namespace cellbatch
