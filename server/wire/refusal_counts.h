// Messages that were refused for what they contain, by the bound that they met. Any thread; one addition a refusal.
#ifndef CELLBATCH_SERVER_WIRE_REFUSAL_COUNTS_H_
#define CELLBATCH_SERVER_WIRE_REFUSAL_COUNTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cellbatch {

enum class Refused : uint8_t {
  kMalformed,
  kField,  // too often: inputs, outputs, parameters, dimensions
  kMessages,
  kTexts,
  kNumbers,
  kUnknownFields,
  kUnknownBytes,
  kInflatedBytes,
  kQueryBytes,
  kStreams,
  kMetadata,
  kSlowCalls,  // as many wait for the slow lane as may
  kSlowBytes,
};
inline constexpr size_t kNumRefused = 13;

// The `reason` label of cellbatch_messages_refused_total.
constexpr const char* Name(Refused reason) {
  constexpr const char* kNames[kNumRefused] = {
      "malformed",      "fields",        "messages",       "texts",       "numbers",
      "unknown_fields", "unknown_bytes", "inflated_bytes", "query_bytes", "streams",
      "metadata",       "slow_calls",    "slow_bytes"};
  return kNames[static_cast<size_t>(reason)];
}

class RefusalCounts {
 public:
  void Add(Refused reason) {
    counts_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }
  int64_t Of(Refused reason) const {
    return counts_[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<int64_t>, kNumRefused> counts_ = {};
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_WIRE_REFUSAL_COUNTS_H_
