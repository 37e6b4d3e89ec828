#include "tests/cuda_emulator/shadow_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "cells/check.h"

namespace cellbatch::emulator {

void ShadowMemory::Mark(Page& shadow, uintptr_t page, uintptr_t from, uintptr_t to, bool allowed,
                        bool written) {
  const uintptr_t first = page * kPageBytes;
  from = std::max(from, first);
  to = std::min(to, first + kPageBytes);
  while (from < to) {
    const uintptr_t granule = from / kGranuleBytes * kGranuleBytes;
    const uintptr_t end = std::min(to, granule + kGranuleBytes);
    const auto bytes = static_cast<uint8_t>(((1u << (end - from)) - 1) << (from - granule));
    ShadowGranule& of = shadow[(granule - first) / kGranuleBytes];
    if (allowed) of.allowed |= bytes;
    if (written) {
      of.written |= bytes;
      of.contested = false;
    }
    from = end;
  }
}

// What a range is, on one page.
void ShadowMemory::Allowed(Page& shadow, uintptr_t page, uintptr_t from, const Range& range) const {
  Mark(shadow, page, from, range.to, true, false);
  if (!range.of_host) return;
  const uintptr_t first = page * kPageBytes, end = std::min(range.to, first + kPageBytes);
  for (uintptr_t at = std::max(from, first); at < end; at += kGranuleBytes) {
    shadow[(at - first) / kGranuleBytes].of_host = true;
  }
}

void ShadowMemory::Allow(const void* from, size_t bytes, bool written, bool of_host) {
  const auto at = reinterpret_cast<uintptr_t>(from);
  if (bytes == 0) return;
  const auto next = ranges_.upper_bound(at);
  Check(next == ranges_.end() || at + bytes <= next->first, "ranges do not overlap");
  Check(next == ranges_.begin() || std::prev(next)->first == at || std::prev(next)->second.to <= at,
        "ranges do not overlap");
  Range& range = ranges_[at];
  if (range.times++ == 0) range.number = numbers_++;
  range.to = std::max(range.to, at + bytes);
  range.of_host = of_host;
  OnPages(at, at + bytes, [&](Page& shadow, uintptr_t page) { Allowed(shadow, page, at, range); });
  if (written) Wrote(from, bytes);
}

void ShadowMemory::Wrote(const void* from, size_t bytes) {
  auto at = reinterpret_cast<uintptr_t>(from), to = at + bytes;
  if (bytes == 0) return;
  OnPages(at, to, [&](Page& shadow, uintptr_t page) { Mark(shadow, page, at, to, false, true); });
  auto touching = written_.upper_bound(at);
  if (touching != written_.begin() && std::prev(touching)->second >= at) --touching;
  while (touching != written_.end() && touching->first <= to) {
    at = std::min(at, touching->first);
    to = std::max(to, touching->second);
    touching = written_.erase(touching);
  }
  written_[at] = to;
}

bool ShadowMemory::IsWrittenByHost(uintptr_t from, uintptr_t to) const {
  const auto next = written_.upper_bound(from);
  return next != written_.begin() && std::prev(next)->second >= to;
}

bool ShadowMemory::IsWritten(const void* from, size_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(from), to = at + bytes;
  if (bytes == 0 || IsWrittenByHost(at, to)) return true;
  for (uintptr_t page = at / kPageBytes; page <= (to - 1) / kPageBytes; ++page) {
    const uintptr_t first = page * kPageBytes;
    const uintptr_t begin = std::max(at, first), end = std::min(to, first + kPageBytes);
    const auto found = pages_.find(page);
    if (found == pages_.end()) {
      if (!IsWrittenByHost(begin, end)) return false;
      continue;
    }
    for (uintptr_t b = begin; b < end; ++b) {
      const ShadowGranule& granule = (*found->second)[(b - first) / kGranuleBytes];
      if ((granule.written >> b % kGranuleBytes & 1) == 0) return false;
    }
  }
  return true;
}

void ShadowMemory::Forget(const void* from) {
  const auto at = reinterpret_cast<uintptr_t>(from);
  const auto found = ranges_.find(at);
  if (found == ranges_.end() || --found->second.times > 0) return;
  const uintptr_t to = found->second.to;
  ranges_.erase(found);
  auto touching = written_.upper_bound(at);
  if (touching != written_.begin() && std::prev(touching)->second > at) --touching;
  while (touching != written_.end() && touching->first < to) {
    const auto [begin, end] = *touching;
    touching = written_.erase(touching);
    if (begin < at) written_[begin] = at;
    if (end > to) written_[to] = end;
  }
  // Pages begin anew from what is left: no launch is in progress.
  const uintptr_t last = (to - 1) / kPageBytes;
  OnPages(at, to, [&](Page& shadow, uintptr_t page) {
    const uintptr_t first = page * kPageBytes;
    for (uintptr_t g = 0; g < shadow.size(); ++g) {
      const uintptr_t granule = first + g * kGranuleBytes;
      if (granule + kGranuleBytes <= at || granule >= to) continue;
      unsigned gone = 0;
      for (unsigned b = 0; b < kGranuleBytes; ++b) {
        if (granule + b >= at && granule + b < to) gone |= 1u << b;
      }
      shadow[g].allowed &= static_cast<uint8_t>(~gone);
      shadow[g].written &= static_cast<uint8_t>(~gone);
      shadow[g].of_host = shadow[g].contested = false;
      shadow[g].writer = 0;
      shadow[g].readers = {};
    }
  });
  for (uintptr_t page = at / kPageBytes; page <= last; page += 1) {
    const auto next = ranges_.lower_bound(page * kPageBytes);
    const bool begins = next != ranges_.end() && next->first < (page + 1) * kPageBytes;
    const bool reaches = next != ranges_.begin() && std::prev(next)->second.to > page * kPageBytes;
    if (!begins && !reaches) pages_.erase(page);
  }
  recent_ = {};
}

void ShadowMemory::Clear() {
  ranges_.clear();
  written_.clear();
  pages_.clear();
  recent_ = {};
}

ShadowMemory::Page* ShadowMemory::Find(uintptr_t page) {
  if (const auto found = pages_.find(page); found != pages_.end()) return found->second.get();
  const uintptr_t first = page * kPageBytes, end = first + kPageBytes;
  auto range = ranges_.upper_bound(first);
  if (range != ranges_.begin() && std::prev(range)->second.to > first) --range;
  if (range == ranges_.end() || range->first >= end) return nullptr;
  std::unique_ptr<Page>& shadow = pages_[page];
  shadow = std::make_unique<Page>();
  for (; range != ranges_.end() && range->first < end; ++range) {
    Allowed(*shadow, page, range->first, range->second);
  }
  auto written = written_.upper_bound(first);
  if (written != written_.begin() && std::prev(written)->second > first) --written;
  for (; written != written_.end() && written->first < end; ++written) {
    Mark(*shadow, page, written->first, written->second, false, true);
  }
  return shadow.get();
}

std::string ShadowMemory::Name(uintptr_t address) const {
  const auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return fmt::format("{:#x}, before every allocation", address);
  const auto& [from, range] = *std::prev(next);
  std::string name = fmt::format("allocation {} + {}", range.number, address - from);
  if (address >= range.to) name += fmt::format(", which ends at {}", range.to - from);
  return name;
}

}  // namespace cellbatch::emulator
