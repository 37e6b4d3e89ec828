#include "tests/cuda_emulator/access_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace cellbatch::emulator {
namespace {

constexpr unsigned kAllBytes = (1u << kGranuleBytes) - 1;

bool Reads(int kind) { return kind != kWrite && kind != kAtomicStore; }
bool Writes(int kind) { return kind != kRead && kind != kAtomicLoad; }
bool Atomic(int kind) { return kind >= kAtomicUpdate; }

std::string_view Verb(int kind) {
  constexpr std::array<std::string_view, 5> kVerbs = {"reads", "writes", "updates atomically",
                                                      "reads atomically", "writes atomically"};
  return kVerbs[static_cast<size_t>(kind)];
}

// Those of its bytes that an access of [from, from + bytes) touches.
unsigned BytesOf(uintptr_t granule, uintptr_t from, size_t bytes) {
  if (from <= granule && from + bytes >= granule + kGranuleBytes) return kAllBytes;
  const uintptr_t begin = std::max(from, granule) - granule;
  const uintptr_t end = std::min(from + bytes, granule + kGranuleBytes) - granule;
  return (1u << end) - (1u << begin);
}

}  // namespace

void AccessChecker::LaunchBegins(const KernelObject&, const KernelFunction& function,
                                 const Grid& grid) {
  kernel_ = function.name;
  launch_ = ++serials_;
  launch_before_ = std::exchange(last_launch_[streams_.stream()], ++launches_);
  order_.LaunchBegins(grid.threads, function.cluster_y);
  atomics_.clear();
  shared_bytes_ = grid.shared_bytes;
  const size_t granules = size_t{function.cluster_y} * kMostSharedBytes / kGranuleBytes;
  if (shared_.size() < granules) shared_.resize(granules);
}

void AccessChecker::BlocksBegin(const RunningThread& first) {
  block_ = ++serials_;
  shared_from_ = first.shared_from;
  barriers_.clear();
  order_.BlocksBegin({first.block_x, first.block_y});
}

void AccessChecker::BarrierBegins(const RunningThread& thread, const void* barrier) {
  Accessed(thread, barrier, sizeof(uint64_t), kWrite);
  barriers_.push_back(reinterpret_cast<uintptr_t>(barrier));
}

// How they were begun nobody needs to be told any more.
void AccessChecker::ClusterBarrier() {
  for (const uintptr_t barrier : barriers_) {
    if (!SharedByAny(barrier)) continue;  // told
    for (uintptr_t at = barrier; at < barrier + sizeof(uint64_t); at += kGranuleBytes) {
      Granule(at, kAllBytes)->write = {};
    }
  }
}

// Null: it is not for kernels to touch. What it says of other launches, or blocks, is forgotten.
inline ShadowGranule* AccessChecker::Granule(uintptr_t address, unsigned bytes) {
  if (SharedByAny(address)) {
    ShadowGranule& granule = shared_[(address - shared_from_) / kGranuleBytes];
    if (granule.serial != block_) granule = {.serial = block_, .allowed = kAllBytes};
    return &granule;
  }
  ShadowGranule* const granule = memory_.At(address);
  if (granule == nullptr || (granule->allowed & bytes) != bytes) return nullptr;
  if (granule->serial != launch_) granule->Renew(launch_);
  return granule;
}

// Once for each granule, launch, and way of touching it. Atomics are left alone: those of two streams are no race. A finding for
// each operation is enough. True: what this launch writes races
// with a write of another stream, and nobody was told.
bool AccessChecker::WatchStreams(Access& access, uintptr_t address, ShadowGranule& granule,
                                 bool writes) {
  if (granule.serial != launch_) return false;  // shared memory
  if (writes ? granule.was_written : granule.was_read) return granule.races_with_stream;
  (writes ? granule.was_written : granule.was_read) = true;
  std::string_view met;
  if (writes) granule.races_with_stream = defers_ && streams_.Unordered(granule.writer);
  if (!granule.races_with_stream && streams_.Unordered(granule.writer)) met = "wrote";
  if (writes && std::any_of(granule.readers.begin(), granule.readers.end(),
                            [&](uint32_t reader) { return streams_.Unordered(reader); })) {
    met = "read";
  }
  if (const auto* range = streams_.Meets(address, address + kGranuleBytes, writes)) {
    met = range->writes ? "wrote" : "read";
  }
  if (!met.empty() && !told_of_streams_) {
    told_of_streams_ = true;
    Find(access, "race of streams",
         fmt::format("{} {} bytes at {}, which an operation of another stream {}, and neither "
                     "waited for the other",
                     Verb(access.kind), access.bytes, Name(address), met));
  }
  const uint32_t now = streams_.now();
  if (writes) {
    granule.writer = now;
    granule.readers = {};
  } else if (granule.readers[0] != now) {
    if (!streams_.SameStream(granule.readers[0])) granule.readers[1] = granule.readers[0];
    granule.readers[0] = now;
  }
  return granule.races_with_stream;
}

void AccessChecker::BeginsOperation(const StreamPlace& place) {
  streams_.Begins(place);
  told_of_streams_ = false;
}

void AccessChecker::Copies(std::string_view what, const void* at, size_t bytes, bool writes) {
  const auto from = reinterpret_cast<uintptr_t>(at), to = from + bytes;
  if (!writes && !memory_.IsWritten(at, bytes)) {
    findings_.push_back(
        fmt::format("{}: not written: reads {} bytes at {}", what, bytes, Name(from)));
    memory_.Wrote(at, bytes);  // once
  }
  bool contested = false;
  if (defers_ && !writes) {
    memory_.Each(from, bytes,
                 [&](uintptr_t, const ShadowGranule& granule) { contested |= granule.contested; });
  }
  if (contested) {
    findings_.push_back(fmt::format(
        "{}: race: reads {} bytes at {}, of which two wrote the same: nothing orders them", what,
        bytes, Name(from)));
    memory_.Wrote(at, bytes);  // once
  }
  if (streams_.met_others() && !told_of_streams_) {
    bool met = streams_.Meets(from, to, writes) != nullptr;
    memory_.Each(from, bytes, [&](uintptr_t, const ShadowGranule& granule) {
      met |= streams_.Unordered(granule.writer);
      for (const uint32_t reader : granule.readers) met |= writes && streams_.Unordered(reader);
    });
    if (met) {
      findings_.push_back(
          fmt::format("{}: race of streams: {} {} bytes at {}, which an operation of another "
                      "stream touched, and neither waited for the other",
                      what, Verb(writes ? kWrite : kRead), bytes, Name(from)));
    }
    told_of_streams_ = met;
  }
  streams_.Touches(from, to, writes);
  if (writes) memory_.Wrote(at, bytes);
}

inline void AccessChecker::Touch(Access& access, uintptr_t address, ShadowGranule& granule,
                                 unsigned bytes) {
  const unsigned thread = access.thread.slot;
  const bool writes = access.kind == kWrite;
  const auto unknown = [&](AccessStamp other) {
    return other.any() && (other.bytes() & bytes) != 0 && !order_.Knows(thread, other);
  };
  bool contested = false;
  if (unknown(granule.write)) {
    contested = defers_ && writes && granule.serial == launch_;
    if (!contested) Race(access, address, granule.write, "wrote");
  }
  if (granule.atomics) {
    const auto& stamps = atomics_[address].stamps;
    uint64_t known = 0;  // the last atomic that has read here and of which the thread knows
    for (const AccessStamp other : stamps) {
      if (other.any() && other.read() && order_.Knows(thread, other)) {
        known = std::max(known, other.time());
      }
    }
    for (const AccessStamp other : stamps) {
      if ((writes || other.wrote()) && other.time() > known && unknown(other)) {
        Race(access, address, other, "accessed atomically");
      }
    }
  }
  if (streams_.watched()) contested |= WatchStreams(access, address, granule, writes);
  const AccessStamp stamp(order_.now(), thread, bytes, !writes, writes);
  if (!writes) {
    if (granule.contested) TellOfWrites(access, address, granule);
    return Remember(granule.reads, stamp, order_.block_start());
  }
  for (const AccessStamp other : granule.reads) {
    if (unknown(other)) Race(access, address, other, "read");
  }
  if (granule.of_host && writes_host_) writes_host_(address);
  if (contested) {
    granule.contested = true;
  } else if (bytes == kAllBytes) {
    granule.contested = false;
  }
  granule.write = stamp;
  granule.kernel = launches_;
  granule.written |= static_cast<uint8_t>(bytes);
  if (bytes == kAllBytes) granule.reads = {};  // whoever knows the write knows them
}

// What the launch before does not write, as far as one can know: by then those before that one have ended, as it has waited for them
// before this one could begin.
bool AccessChecker::NotOfTheLaunchBefore(uintptr_t from, uintptr_t to) {
  for (uintptr_t g = from / kGranuleBytes * kGranuleBytes; g < to; g += kGranuleBytes) {
    const ShadowGranule* const granule = Granule(g, BytesOf(g, from, to - from));
    if (granule != nullptr && granule->kernel == launch_before_ && launch_before_ != 0) {
      return false;
    }
  }
  return true;
}

void AccessChecker::Accessed(const RunningThread& thread, const void* at, size_t bytes, int kind) {
  const auto from = reinterpret_cast<uintptr_t>(at), to = from + bytes;
  // Most accesses are a whole granule of shared memory, and right.
  if (bytes == kGranuleBytes && from % kGranuleBytes == 0 && !Atomic(kind) &&
      from - thread.shared_from < shared_bytes_) {
    ShadowGranule& granule = *Granule(from, kAllBytes);
    if (!granule.copying && (kind == kWrite || granule.written == kAllBytes)) {
      Access access = {thread, from, bytes, kind};
      return Touch(access, from, granule, kAllBytes);
    }
  }
  if (from >= thread.stack_from && to <= thread.stack_to) return;
  Access access = {thread, from, bytes, kind};
  if (thread.early && !Shared(thread, from, bytes) &&
      !(kind == kRead && NotOfTheLaunchBefore(from, to))) {
    return Find(access, "too early",
                fmt::format("{} {} bytes at {}, and has not waited for the launch before",
                            Verb(kind), bytes, Name(from)));
  }
  if ((from & (std::min<size_t>(bytes, 8) - 1)) != 0 && !Aligned(access)) return;
  for (uintptr_t g = from / kGranuleBytes * kGranuleBytes; g < to; g += kGranuleBytes) {
    const unsigned mask = BytesOf(g, from, bytes);
    const bool of_another = SharedByAny(g) && g - thread.shared_from >= shared_bytes_;
    ShadowGranule* const granule = of_another ? nullptr : Granule(g, mask);
    if (granule == nullptr) {
      const std::string place = Name(std::max(g, from));
      return Find(access, "out of bounds",
                  fmt::format("{} {} bytes at {}", Verb(kind), bytes, place));
    }
    if (granule->copying) {
      Find(access, "copy under way",
           fmt::format("{} {} bytes at {}, to which thread {} has started to copy", Verb(kind),
                       bytes, Name(g), order_.ThreadOf(granule->write)));
    } else if (Reads(kind) && (granule->written & mask) != mask) {
      Find(access, "not written", fmt::format("{} {} bytes at {}", Verb(kind), bytes, Name(g)));
      granule->written |= static_cast<uint8_t>(mask);
    }
    if (Atomic(kind)) {
      TouchAtomically(access, g, *granule, mask);
    } else {
      Touch(access, g, *granule, mask);
    }
  }
}

void AccessChecker::TouchAtomically(Access& access, uintptr_t address, ShadowGranule& granule,
                                    unsigned bytes) {
  const unsigned thread = access.thread.slot;
  const bool writes = Writes(access.kind);
  AtomicPlace& place = atomics_[address];
  if (place.serial != granule.serial) place = {.serial = granule.serial};
  granule.atomics = true;
  const auto unknown = [&](AccessStamp other) {
    return other.any() && (other.bytes() & bytes) != 0 && !order_.Knows(thread, other);
  };
  if (unknown(granule.write)) Race(access, address, granule.write, "wrote");
  if (writes) {
    for (const AccessStamp other : granule.reads) {
      if (unknown(other)) Race(access, address, other, "read");
    }
    if (granule.of_host && writes_host_) writes_host_(address);
    granule.written |= static_cast<uint8_t>(bytes);
    granule.kernel = launches_;
  }
  const bool reads = Reads(access.kind);
  order_.Tick();  // no two atomics at one time
  Remember(place.stamps, AccessStamp(order_.now(), thread, bytes, reads, writes),
           order_.block_start());
  if (reads) order_.Take(thread, place.left);
  if (writes) order_.Leave(thread, place.left);
}

void AccessChecker::CopyStarts(const RunningThread& thread, const void* to, size_t room,
                               const void* from, size_t bytes) {
  order_.Tick();  // so that whoever writes later is seen to
  Access source = {thread, reinterpret_cast<uintptr_t>(from), bytes, kRead};
  Access access = {thread, reinterpret_cast<uintptr_t>(to), room, kWrite};
  if (!Shared(thread, access.from, room)) {
    return Find(access, "out of bounds",
                fmt::format("starts to copy {} bytes to {}, beyond the launch's shared memory",
                            bytes, Name(access.from)));
  }
  if (access.from % room != 0 || source.from % room != 0) {
    return Find(access, "misaligned",
                fmt::format("starts to copy {} bytes from {} to {}", bytes, Name(source.from),
                            Name(access.from)));
  }
  if (bytes > 0) AccessedInPieces(thread, from, bytes);
  Accessed(thread, to, room, kWrite);  // as far as others see, it may be made at once
  for (size_t i = 0; i < room; i += kGranuleBytes) {
    Granule(access.from + i, kAllBytes)->copying = true;
  }
}

void AccessChecker::CopyEnds(const RunningThread& thread, const void* to, size_t room,
                             const void* from, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(to), source = reinterpret_cast<uintptr_t>(from);
  if (!Shared(thread, at, room) || at % room != 0 || source % room != 0) return;  // told
  Access access = {thread, source, bytes, kRead};
  for (size_t i = 0; i < room; i += kGranuleBytes) {
    ShadowGranule& granule = *Granule(at + i, kAllBytes);
    const uint64_t start = granule.write.time();
    granule.copying = false;
    if (i >= bytes) continue;
    const ShadowGranule* const read = Granule(source + i, kAllBytes);
    if (read == nullptr || !read->write.any() || read->write.time() < start) continue;
    Find(access, "copy under way",
         fmt::format("waits for its copy of {}, which thread {} has written since it was started",
                     Name(source + i), order_.ThreadOf(read->write)));
  }
  if (bytes > 0) AccessedInPieces(thread, from, bytes);
  Accessed(thread, to, room, kWrite);
}

void AccessChecker::BulkStarts(const RunningThread& thread, const void* to, const void* from,
                               size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(to);
  Access access = {thread, at, bytes, kWrite};
  if (!Shared(thread, at, bytes)) {
    return Find(access, "out of bounds",
                fmt::format("starts to copy {} bytes to {}, beyond the launch's shared memory",
                            bytes, Name(at)));
  }
  constexpr size_t kPiece = 16;
  for (size_t i = 0; i < bytes; i += kPiece) {
    CopyStarts(thread, static_cast<const char*>(to) + i, kPiece, static_cast<const char*>(from) + i,
               kPiece);
  }
}

// Whoever waits at the barrier knows of the copy, and of nothing that the thread did that started it.
void AccessChecker::BulkEnds(const RunningThread& thread, const void* to, const void* from,
                             size_t bytes, const void* barrier, bool last) {
  constexpr size_t kPiece = 16;
  for (size_t i = 0; i < bytes; i += kPiece) {
    const void* const piece = static_cast<const char*>(to) + i;
    CopyEnds(thread, piece, kPiece, static_cast<const char*>(from) + i, kPiece);
  }
  CopyIsTold(thread, to, bytes, barrier);
  CopiesArrive(barrier, last);
}

// As the barrier's, not the thread's, who waits for it knows of it.
void AccessChecker::CopyIsTold(const RunningThread& thread, const void* to, size_t room,
                               const void* barrier) {
  const unsigned slot = order_.SlotOfCopies(barrier);
  order_.Tick();
  const auto at = reinterpret_cast<uintptr_t>(to);
  for (size_t i = 0; i < room && Shared(thread, at, room); i += kGranuleBytes) {
    Granule(at + i, kAllBytes)->write = AccessStamp(order_.now(), slot, kAllBytes, false, true);
  }
}

// By powers of two: what a copy reads need not be one.
void AccessChecker::AccessedInPieces(const RunningThread& thread, const void* from, size_t bytes) {
  const char* at = static_cast<const char*>(from);
  for (size_t left = bytes; left > 0;) {
    const size_t piece = std::bit_floor(left);
    Accessed(thread, at, piece, kRead);
    at += piece;
    left -= piece;
  }
}

// As a GPU wants what is read at once, and to 8 bytes at most: a struct of that alignment may be read 16 at once. REQUIRES: it is
// not, if it is of 2, 4, 8 or 16 bytes.
bool AccessChecker::Aligned(Access& access) {
  const size_t bytes = access.bytes;
  if (bytes > 16 || !std::has_single_bit(bytes)) return true;
  Find(access, "misaligned",
       fmt::format("{} {} bytes at {}", Verb(access.kind), bytes, Name(access.from)));
  return false;
}

void AccessChecker::TellOfWrites(Access& access, uintptr_t address, ShadowGranule& granule) {
  granule.contested = false;  // once
  Find(access, "race",
       fmt::format("{} {} bytes at {}, which two wrote: nothing orders them", Verb(access.kind),
                   access.bytes, Name(address)));
}

void AccessChecker::Race(Access& access, uintptr_t address, AccessStamp other,
                         std::string_view how) {
  if (access.told) return;
  std::string who = "a copy of which a barrier tells";
  if (!order_.IsCopy(other)) {
    const LaunchOrder::Place place = order_.PlaceOf(other);
    who = fmt::format("block ({}, {}), thread {}", place.block_x, place.block_y,
                      order_.ThreadOf(other));
  }
  Find(access, "race",
       fmt::format("{} {} bytes at {}, which {} {}: nothing orders them", Verb(access.kind),
                   access.bytes, Name(address), who, how));
}

void AccessChecker::Find(Access& access, std::string_view kind, std::string_view what) {
  if (access.told || findings_.size() == kMostFindings) return;
  access.told = true;
  const RunningThread& thread = access.thread;
  findings_.push_back(fmt::format("{}, block ({}, {}), thread {}: {}: {}", kernel_, thread.block_x,
                                  thread.block_y, thread.thread, kind, what));
}

std::string AccessChecker::Name(uintptr_t address) const {
  const uintptr_t offset = address - shared_from_;
  if (offset < kMostSharedBytes) return fmt::format("shared memory + {}", offset);
  if (offset < shared_.size() * kGranuleBytes) {
    return fmt::format("shared memory of block {} of a cluster + {}", offset / kMostSharedBytes,
                       offset % kMostSharedBytes);
  }
  return memory_.Name(address);
}

}  // namespace cellbatch::emulator
