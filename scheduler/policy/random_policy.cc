#include "scheduler/policy/random_policy.h"

namespace cellbatch {
namespace {

constexpr std::string_view kReasons[] = {"random"};

// One round of SplitMix64.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace

absl::Span<const std::string_view> RandomPolicy::reasons() const { return kReasons; }

std::optional<Choice> RandomPolicy::Choose(Frontier frontier) const {
  uint64_t hash = seed_;
  uint64_t ready_types = 0;
  for (const TypeView& view : frontier) {
    hash = Mix(hash ^ static_cast<uint64_t>(view.ready));
    if (view.ready > 0) ++ready_types;
  }
  if (ready_types == 0) return std::nullopt;
  uint64_t skip = Mix(hash) % ready_types;
  for (const TypeView& view : frontier) {
    if (view.ready > 0 && skip-- == 0) return Choice{view.type};
  }
  return std::nullopt;
}

}  // namespace cellbatch
