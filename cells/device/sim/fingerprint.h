// What a simulated row holds: 64 bits that say what made it. A node's fingerprint is a hash of its
// model, its cell type and the fingerprints that it read, in order; so two rows agree exactly when
// the whole history behind them does. Pure, any thread, a few ns.
#ifndef CELLBATCH_CELLS_DEVICE_SIM_FINGERPRINT_H_
#define CELLBATCH_CELLS_DEVICE_SIM_FINGERPRINT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "cells/ids.h"

namespace cellbatch {

using Fingerprint = uint64_t;
inline constexpr Fingerprint kZeroFingerprint = 0;  // of row 0

constexpr uint64_t MixBits(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0xD1B54A32D192ED03ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Of a row that a request brings.
inline Fingerprint FingerprintOfInput(absl::Span<const std::byte> row) {
  uint64_t h = row.size();
  for (size_t i = 0; i < row.size(); i += 4) {
    uint32_t word = 0;
    std::memcpy(&word, row.data() + i, row.size() - i < 4 ? row.size() - i : 4);
    h = MixBits(h, word);
  }
  return h;
}

// Of a node: start with model and type, add what each input read (a kSum input: each term, in link
// order), ask for the value.
class NodeFingerprint {
 public:
  NodeFingerprint(ModelId model, CellTypeId type)
      : hash_(MixBits(static_cast<uint64_t>(model.value()), static_cast<uint64_t>(type.value()))) {}
  void Read(InputId input, Fingerprint what) {
    hash_ = MixBits(hash_, MixBits(static_cast<uint64_t>(input.value()), what));
  }
  Fingerprint value() const { return hash_; }

 private:
  uint64_t hash_;
};

// Element `k` of a column of the row, as 32 bits. An int32 column shows it through the memory's
// word rule (see SimMemoryOptions), which decides where stopping chains stop.
constexpr uint32_t ElementOf(Fingerprint row, ColumnId column, int32_t k) {
  return static_cast<uint32_t>(
      MixBits(row, (static_cast<uint64_t>(column.value()) << 32) | static_cast<uint32_t>(k)));
}

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_SIM_FINGERPRINT_H_
