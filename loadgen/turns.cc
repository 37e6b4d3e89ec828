#include "loadgen/turns.h"

#include <algorithm>

namespace cellbatch {

namespace {

// Whole permutations, many of them, as what is walked again begins its streams anew; and more streams than are under way.
size_t RoundOf(const Workload& workload, int in_flight) {
  return 64 * std::max(workload.size(), static_cast<size_t>(in_flight));
}

}  // namespace

Turns::Turns(const Workload& workload, int in_flight, uint64_t seed)
    : workload_(workload), order_(workload.Order(RoundOf(workload, in_flight), seed)) {}

uint64_t Turns::First() {
  const std::lock_guard lock(mutex_);
  return Next();
}

uint64_t Turns::After(uint64_t answered) {
  const std::lock_guard lock(mutex_);
  const std::optional<Stream> stream = StreamOf(answered);
  if (!stream) return Next();
  const auto found = under_way_.find(*stream);
  std::deque<uint64_t>& behind = found->second;
  if (behind.empty()) {
    under_way_.erase(found);
    return Next();
  }
  const uint64_t turn = behind.front();
  behind.pop_front();
  return turn;
}

uint64_t Turns::Next() {
  for (;;) {
    const uint64_t turn = next_++;
    const std::optional<Stream> stream = StreamOf(turn);
    if (!stream) return turn;
    const auto [at, free] = under_way_.try_emplace(*stream);
    if (free) return turn;
    at->second.push_back(turn);
  }
}

std::optional<Turns::Stream> Turns::StreamOf(uint64_t turn) const {
  const Pick pick = PickOf(turn);
  const std::optional<uint32_t> stream = workload_.parts()[pick.part].requests->stream(pick.entry);
  if (!stream) return std::nullopt;
  return Stream(pick.part, *stream);
}

}  // namespace cellbatch
