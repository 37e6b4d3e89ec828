// What is known of memory that kernels may touch, by granules of 4 bytes. For AccessChecker.
//
//   Allow(p, 400, true)      a range, with its number: it may be touched, and has been written
//   At(p + 8)                its granule; null outside of every range
//
// Ranges are as large as they like: pages of shadow (4 KiB each, 64 KiB of shadow) are made when somebody first asks for one.
// One thread at a time. At costs a few ns; the others a map, and the pages that there are.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_SHADOW_MEMORY_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_SHADOW_MEMORY_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "tests/cuda_emulator/launch_order.h"

namespace cellbatch::emulator {

inline constexpr uintptr_t kGranuleBytes = 4;

// Bits of `allowed` and `written` are bytes. Stamps are those of `serial`: of a launch, or of a block for shared memory. A line of the
// CPU's cache, and no parts of two: to read it is most of what an access costs.
struct alignas(64) ShadowGranule {
  AccessStamp write = {};                 // the last one
  std::array<AccessStamp, 4> reads = {};  // since then (Remember)
  uint32_t serial = 0;
  uint8_t allowed = 0, written = 0;
  bool atomics : 1 = false;  // there were some
  bool copying : 1 = false;  // cp.async has been started to it
  // What was done with it in this launch, as far as other streams are concerned.
  bool was_read : 1 = false, was_written : 1 = false;
  bool races_with_stream : 1 = false;  // what was written, and nobody was told
  bool of_host : 1 = false;
  bool contested : 1 = false;  // the last two that wrote raced, and nobody was told
  // Operations of streams (stream_order.h): the last that wrote, and since then the last that read and one of another stream.
  uint32_t writer = 0;
  std::array<uint32_t, 2> readers = {};
  uint32_t kernel = 0;  // the last launch that wrote it, counted from 1

  // As another launch finds it.
  void Renew(uint32_t launch) {
    write = {};
    reads = {};
    serial = launch;
    atomics = copying = was_read = was_written = races_with_stream = false;
  }
};

static_assert(sizeof(ShadowGranule) == 64);

// Adds to some of those who touched a granule, so that whoever does not know them all does not know one of those kept: the
// latest, another thread of its warp, one of another warp, one of an earlier block.
inline void Remember(std::array<AccessStamp, 4>& stamps, AccessStamp latest, uint64_t block_start) {
  if (stamps[0] == latest) return;
  const AccessStamp before = std::exchange(stamps[0], latest);
  if (!before.any()) return;
  if (before.time() < block_start) {
    stamps[3] = before;
  } else if (before.thread() == latest.thread()) {
    stamps[0].Join(before.bytes());
  } else if (before.thread() / kWarp == latest.thread() / kWarp) {
    stamps[1] = before;
  } else {
    stamps[2] = before;
  }
}

class ShadowMemory {
 public:
  // Allows a range, or the same once more, from then on to the longer end. Not written is what was not allowed before.
  // `of_host`: so it says in its granules. REQUIRES: it overlaps no other.
  void Allow(const void* from, size_t bytes, bool written, bool of_host = false);
  // The range that begins there, once; nothing if there is none.
  void Forget(const void* from);
  void Clear();
  void Wrote(const void* from, size_t bytes);
  // Whether every byte of it has been written, by the host or by kernels.
  bool IsWritten(const void* from, size_t bytes) const;
  // What is known of [from, from + bytes), where anything is. `use`: of an address and its granule.
  template <typename Use>
  void Each(uintptr_t from, size_t bytes, const Use& use) const {
    OnPages(from, from + bytes, [&](const Page& shadow, uintptr_t page) {
      const uintptr_t first = page * kPageBytes;
      const uintptr_t end = std::min(from + bytes, first + kPageBytes);
      uintptr_t at = std::max(from, first) / kGranuleBytes * kGranuleBytes;
      for (; at < end; at += kGranuleBytes) use(at, shadow[(at - first) / kGranuleBytes]);
    });
  }

  // REQUIRES: a multiple of kGranuleBytes.
  ShadowGranule* At(uintptr_t address) {
    const uintptr_t page = address / kPageBytes;
    Recent& recent = recent_[page % recent_.size()];
    if (recent.page != page || recent.shadow == nullptr) recent = {page, Find(page)};
    if (recent.shadow == nullptr) return nullptr;
    ShadowGranule& granule = (*recent.shadow)[address % kPageBytes / kGranuleBytes];
    return granule.allowed == 0 ? nullptr : &granule;
  }
  // "allocation N + offset".
  std::string Name(uintptr_t address) const;

 private:
  static constexpr uintptr_t kPageBytes = 4096;
  using Page = std::array<ShadowGranule, kPageBytes / kGranuleBytes>;
  struct Recent {
    uintptr_t page = 0;
    Page* shadow = nullptr;
  };
  struct Range {
    uintptr_t to = 0;
    int number = 0;
    int times = 0;  // allowed
    bool of_host = false;
  };

  Page* Find(uintptr_t page);
  // On those pages that there are.
  template <typename Change>
  void OnPages(uintptr_t from, uintptr_t to, const Change& change) const {
    if (from == to) return;
    const uintptr_t first = from / kPageBytes, last = (to - 1) / kPageBytes;
    if (last - first < pages_.size()) {
      for (uintptr_t page = first; page <= last; ++page) {
        if (const auto found = pages_.find(page); found != pages_.end()) {
          change(*found->second, page);
        }
      }
      return;
    }
    for (const auto& [page, shadow] : pages_) {
      if (page >= first && page <= last) change(*shadow, page);
    }
  }
  bool IsWrittenByHost(uintptr_t from, uintptr_t to) const;
  void Allowed(Page& shadow, uintptr_t page, uintptr_t from, const Range& range) const;
  static void Mark(Page& shadow, uintptr_t page, uintptr_t from, uintptr_t to, bool allowed,
                   bool written);

  std::map<uintptr_t, Range> ranges_;       // by where they begin
  std::map<uintptr_t, uintptr_t> written_;  // from, to: by the host; apart from one another
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  std::array<Recent, 256> recent_ = {};
  int numbers_ = 0;
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_SHADOW_MEMORY_H_
