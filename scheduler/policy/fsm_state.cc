#include "scheduler/policy/fsm_state.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "absl/strings/str_cat.h"

namespace cellbatch {
namespace {

constexpr int kDigitBits = 5, kDigitsInWord = 12, kPhaseAt = kDigitBits * kDigitsInWord;
constexpr int kFilledAt = 32;
constexpr uint64_t kDigit = (1ull << kDigitBits) - 1;
static_assert(StateEncoding::kMostTypes + 1 <= 2 * kDigitsInWord);
static_assert(StateEncoding::kMostTypes < static_cast<int>(kDigit));
static_assert(StateEncoding::kMostTypes <= kFilledAt);

void SetDigit(StateKey& key, int at, uint64_t type) {
  const int word = at < kDigitsInWord ? 0 : 1;
  key.words[word] |= (type + 1) << kDigitBits * (at - word * kDigitsInWord);
}

uint64_t DigitOf(const StateKey& key, int at) {
  const int word = at < kDigitsInWord ? 0 : 1;
  return key.words[word] >> kDigitBits * (at - word * kDigitsInWord) & kDigit;
}

uint64_t PhaseNow(int phases, Frontier frontier) {
  if (phases <= 1) return 0;
  int64_t total = 0, remaining = 0;
  for (const TypeView& view : frontier) {
    total += view.nodes.total;
    remaining += view.nodes.remaining;
  }
  if (total <= 0) return 0;
  const int64_t part = (total - remaining) * phases / total;
  return static_cast<uint64_t>(std::clamp<int64_t>(part, 0, phases - 1));
}

absl::Status NoState(const char* what, absl::Span<const CellTypeId> types) {
  std::string list;
  for (const CellTypeId type : types) absl::StrAppend(&list, " ", type.value());
  return absl::InvalidArgumentError(absl::StrCat(what, ": types", list));
}

// Bits of some of the state's types. `what`: which these are.
absl::Status SetBits(absl::Span<const CellTypeId> of, absl::Span<const CellTypeId> types, int first,
                     const char* what, StateKey& key) {
  for (size_t i = 0; i < of.size(); ++i) {
    if (std::count(types.begin(), types.end(), of[i]) == 0 || (i > 0 && !(of[i - 1] < of[i]))) {
      return NoState(what, of);
    }
    key.words[2] |= 1ull << (first + of[i].value());
  }
  return absl::OkStatus();
}

std::vector<CellTypeId> TypesOfBits(uint64_t bits) {
  std::vector<CellTypeId> types;
  for (; bits != 0; bits &= bits - 1) types.emplace_back(std::countr_zero(bits));
  return types;
}

}  // namespace

StateKey StateOf(const StateEncoding& encoding, Frontier frontier) {
  using Kind = StateEncoding::Kind;
  StateKey key;
  key.words[0] = PhaseNow(encoding.phases, frontier) << kPhaseAt;
  // More ready nodes first, then the lower id: one number that is smaller for who goes before.
  std::array<uint64_t, StateEncoding::kMostTypes> ready;
  int n = 0;
  uint64_t most = ~0ull;
  for (const TypeView& view : frontier) {
    if (view.ready <= 0) continue;
    const uint64_t type = static_cast<uint64_t>(view.type.value());
    const bool lowers = encoding.lowering && view.nodes.ready_tops == view.nodes.tops;
    const bool fills = encoding.fill > 0 && int64_t{view.ready} * encoding.fill >= view.max_batch;
    key.words[2] |= static_cast<uint64_t>(lowers) << type | static_cast<uint64_t>(fills)
                                                                << (type + kFilledAt);
    const uint64_t order = (~0ull - static_cast<uint64_t>(view.ready)) << 8 | type;
    most = std::min(most, order);
    int at = n++;
    if (encoding.kind == Kind::kSort) {
      for (; at > 0 && ready[static_cast<size_t>(at) - 1] > order; --at) {
        ready[static_cast<size_t>(at)] = ready[static_cast<size_t>(at) - 1];
      }
    }
    ready[static_cast<size_t>(at)] = order;
  }
  for (int i = 0; i < n; ++i) SetDigit(key, i, ready[static_cast<size_t>(i)] & 255);
  if (encoding.kind == Kind::kMax && n > 0) SetDigit(key, n, most & 255);
  return key;
}

absl::StatusOr<StateKey> MakeState(const StateEncoding& encoding,
                                   absl::Span<const CellTypeId> types, int phase,
                                   absl::Span<const CellTypeId> lowering,
                                   absl::Span<const CellTypeId> filled) {
  if (phase < 0 || phase >= encoding.phases) {
    return absl::InvalidArgumentError(
        absl::StrCat("phase ", phase, " of ", encoding.phases, " phases"));
  }
  const bool max = encoding.kind == StateEncoding::Kind::kMax;
  const size_t num_types = types.size() - (max && !types.empty() ? 1 : 0);
  if (num_types == 0) return NoState("a state has no types", types);
  if (num_types > StateEncoding::kMostTypes) return NoState("a state has too many types", types);
  const auto set = types.first(num_types);
  StateKey key;
  key.words[0] = static_cast<uint64_t>(phase) << kPhaseAt;
  for (size_t i = 0; i < types.size(); ++i) {
    if (!types[i].valid() || types[i].value() >= StateEncoding::kMostTypes) {
      return NoState("a state has a type beyond the largest id that has room", types);
    }
    SetDigit(key, static_cast<int>(i), static_cast<uint64_t>(types[i].value()));
  }
  for (size_t i = 0; i < num_types; ++i) {
    if (std::count(set.begin(), set.end(), set[i]) > 1) {
      return NoState("a state has a type twice", types);
    }
    const bool sorted = encoding.kind != StateEncoding::Kind::kSort;
    if (sorted && i > 0 && set[i] < set[i - 1]) {
      return NoState("the types of a state are not in order", types);
    }
  }
  if (max && std::count(set.begin(), set.end(), types.back()) == 0) {
    return NoState("the type with most nodes is none of the state's", types);
  }
  if (!lowering.empty() && !encoding.lowering) {
    return NoState("a state says what lowers the bound, and its encoding does not", lowering);
  }
  if (!filled.empty() && encoding.fill == 0) {
    return NoState("a state says what fills batches, and its encoding does not", filled);
  }
  absl::Status set_bits = SetBits(
      lowering, set, 0, "what lowers the bound is none of the state's types, or not in order", key);
  if (set_bits.ok()) {
    set_bits = SetBits(filled, set, kFilledAt,
                       "what fills batches is none of the state's types, or not in order", key);
  }
  if (!set_bits.ok()) return set_bits;
  return key;
}

std::vector<CellTypeId> LoweringOf(const StateKey& state) {
  return TypesOfBits(state.words[2] & ((1ull << kFilledAt) - 1));
}

std::vector<CellTypeId> FilledOf(const StateKey& state) {
  return TypesOfBits(state.words[2] >> kFilledAt);
}

std::vector<CellTypeId> TypesOf(const StateKey& state) {
  std::vector<CellTypeId> types;
  for (int i = 0; i < 2 * kDigitsInWord && DigitOf(state, i) != 0; ++i) {
    types.emplace_back(static_cast<int>(DigitOf(state, i)) - 1);
  }
  return types;
}

int PhaseOf(const StateKey& state) { return static_cast<int>(state.words[0] >> kPhaseAt); }

}  // namespace cellbatch
