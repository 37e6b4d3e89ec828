#include "tests/cuda_emulator/launch_order.h"

#include <algorithm>
#include <utility>

namespace cellbatch::emulator {

bool KnownPast::Knows(size_t block, AccessStamp of) const {
  const auto found =
      std::lower_bound(blocks_.begin(), blocks_.end(), block,
                       [](const OfBlock& b, size_t number) { return b.block < number; });
  if (found == blocks_.end() || found->block != block) return false;
  if (of.time() < found->before) return true;
  const auto thread = std::lower_bound(found->threads.begin(), found->threads.end(),
                                       std::pair(of.thread(), uint64_t{0}));
  return thread != found->threads.end() && thread->first == of.thread() &&
         of.time() < thread->second;
}

KnownPast::OfBlock& KnownPast::Of(size_t block) {
  const auto at =
      std::lower_bound(blocks_.begin(), blocks_.end(), block,
                       [](const OfBlock& b, size_t number) { return b.block < number; });
  if (at != blocks_.end() && at->block == block) return *at;
  return *blocks_.insert(at, OfBlock{block, 0, {}});
}

void KnownPast::Learn(OfBlock& of, unsigned thread, uint64_t before) {
  const auto at =
      std::lower_bound(of.threads.begin(), of.threads.end(), std::pair(thread, uint64_t{0}));
  if (at == of.threads.end() || at->first != thread) {
    of.threads.insert(at, {thread, before});
  } else {
    at->second = std::max(at->second, before);
  }
}

void KnownPast::LearnBlock(size_t block, uint64_t before) {
  uint64_t& known = Of(block).before;
  known = std::max(known, before);
}

void KnownPast::LearnThread(size_t block, unsigned thread, uint64_t before) {
  Learn(Of(block), thread, before);
}

void KnownPast::Join(const KnownPast& other) {
  for (const OfBlock& known : other.blocks_) {
    OfBlock& mine = Of(known.block);
    mine.before = std::max(mine.before, known.before);
    for (const auto& [thread, before] : known.threads) Learn(mine, thread, before);
  }
}

void LaunchOrder::LaunchBegins(unsigned threads, unsigned blocks) {
  starts_.clear();
  threads_of_block_ = threads;
  blocks_of_cluster_ = blocks;
  slots_ = threads * blocks;
  block_of_.fill(kNoBlock);
  for (unsigned slot = 0; slot < slots_; ++slot) {
    block_of_[slot] = static_cast<uint8_t>(slot / threads);
  }
}

void LaunchOrder::BlocksBegin(Place place) {
  block_start_ = ++now_;
  starts_.emplace_back(now_, place);
  for (unsigned b = 0; b < blocks_of_cluster_; ++b) blocks_[b] = {now_, {}, {}};
  for (const unsigned t : touched_) threads_[t] = {};
  touched_.clear();
  copies_.clear();
  if (arrivals_.empty()) return;
  arrivals_.clear();
  for (Times& seen : seen_) seen.clear();
}

void LaunchOrder::BlockBarrier(unsigned block) {
  OfBlock& all = blocks_[block];
  all.barrier = ++now_;
  std::vector<unsigned> still;
  for (const unsigned t : touched_) {
    OfThread& thread = threads_[t];
    if (block_of_[t] == block) {
      all.published.Join(thread.published);
      all.acquired.Join(thread.acquired);
      thread.published = thread.acquired = {};
      // What it took by atomics stays its own, and nothing before its fence.
      thread.touched = !thread.taken.empty();
    }
    if (thread.touched) still.push_back(t);
  }
  touched_ = std::move(still);
  if (!arrivals_.empty()) JoinSeenOfBlock(block);
}

// What was not done by the block itself: by others of the cluster, and by copies.
void LaunchOrder::JoinSeenOfBlock(unsigned block) {
  Times all;
  const unsigned first = block * threads_of_block_, end = first + threads_of_block_;
  for (unsigned t = first; t < end; ++t) Join(all, seen_[t]);
  for (unsigned t = first; t < end; ++t) seen_[t] = all;
}

void LaunchOrder::WarpBarrier(unsigned first, unsigned lanes) {
  ++now_;
  std::array<uint64_t, kWarp> joined = {};
  KnownPast published, acquired;
  bool touched = false;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    const auto& known = lanes_[first + lane];
    for (unsigned l = 0; l < kWarp; ++l) joined[l] = std::max(joined[l], known[l]);
    const OfThread& thread = threads_[first + lane];
    if (!thread.touched) continue;
    touched = true;
    published.Join(thread.published);
    acquired.Join(thread.acquired);
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) != 0) joined[lane] = now_;
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    lanes_[first + lane] = joined;
    if (!touched) continue;
    OfThread& thread = Touch(first + lane);
    thread.published = published;
    thread.acquired = acquired;
  }
  if (!arrivals_.empty()) JoinSeen(first, lanes);
}

void LaunchOrder::JoinSeen(unsigned first, unsigned lanes) {
  Times all;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) != 0) Join(all, seen_[first + lane]);
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) != 0) seen_[first + lane] = all;
  }
}

void LaunchOrder::Fence(unsigned thread) {
  OfThread& mine = Touch(thread);
  mine.acquired.Join(mine.taken);
  mine.taken = {};
  ++now_;
  const OfBlock& all = blocks_[block_of_[thread]];
  const size_t block = NameOf(starts_.size() - 1, block_of_[thread]);
  mine.published.Join(all.acquired);
  mine.published.Join(mine.acquired);
  mine.published.LearnBlock(block, all.barrier);
  mine.published.LearnThread(block, thread, now_);
  const unsigned first = thread / kWarp * kWarp;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const uint64_t known = lanes_[thread][lane];
    if (known > all.barrier) mine.published.LearnThread(block, first + lane, known);
  }
}

void LaunchOrder::Join(Times& times, const Times& other) {
  if (times.size() < other.size()) times.resize(other.size());
  for (size_t t = 0; t < other.size(); ++t) times[t] = std::max(times[t], other[t]);
}

void LaunchOrder::Arrives(unsigned thread, const void* barrier, bool last) {
  ++now_;
  OfArrivals& of = arrivals_[barrier];
  Join(of.arriving, seen_[thread]);
  const unsigned first = thread / kWarp * kWarp;
  if (of.arriving.size() < first + kWarp) of.arriving.resize(first + kWarp);
  for (unsigned lane = 0; lane < kWarp && thread < slots_; ++lane) {
    uint64_t& known = of.arriving[first + lane];
    known = std::max(known, lanes_[thread][lane]);
  }
  of.arriving[thread] = now_;
  if (last) of.done = std::exchange(of.arriving, {});
}

void LaunchOrder::Waited(unsigned thread, const void* barrier) {
  Join(seen_[thread], arrivals_[barrier].done);
}

unsigned LaunchOrder::SlotOfCopies(const void* barrier) {
  const auto next = static_cast<unsigned>(slots_ + copies_.size() % kMostCopySlots);
  return copies_.emplace(barrier, next).first->second;
}

void LaunchOrder::Take(unsigned thread, const KnownPast& left) {
  if (!left.empty()) Touch(thread).taken.Join(left);
}

void LaunchOrder::Leave(unsigned thread, KnownPast& left) {
  left.Join(blocks_[block_of_[thread]].published);
  if (threads_[thread].touched) left.Join(threads_[thread].published);
}

bool LaunchOrder::KnowsByFence(unsigned thread, AccessStamp of) const {
  const KnownPast& mine = threads_[thread].acquired;
  const KnownPast& all = blocks_[block_of_[thread]].acquired;
  if ((all.empty() && mine.empty()) || IsCopy(of)) return false;
  const size_t block = NameOf(ClusterOf(of), block_of_[of.thread()]);
  return all.Knows(block, of) || mine.Knows(block, of);
}

LaunchOrder::Place LaunchOrder::PlaceOf(AccessStamp stamp) const {
  Place place = starts_[ClusterOf(stamp)].second;
  place.block_y += block_of_[stamp.thread()];
  return place;
}

size_t LaunchOrder::ClusterOf(AccessStamp stamp) const {
  const auto behind = std::upper_bound(
      starts_.begin(), starts_.end(), stamp.time(),
      [](uint64_t time, const std::pair<uint64_t, Place>& start) { return time < start.first; });
  return static_cast<size_t>(behind - starts_.begin()) - 1;
}

LaunchOrder::OfThread& LaunchOrder::Touch(unsigned thread) {
  OfThread& of = threads_[thread];
  if (!of.touched) touched_.push_back(thread);
  of.touched = true;
  return of;
}

}  // namespace cellbatch::emulator
