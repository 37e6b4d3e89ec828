// An LSTM encoder and decoder in double, straight from their equations (reference/algorithms.md
// section 8):
//
//   encoder   x' = tanh(W_i x + b_i), then an LSTM; its last state starts the decoder
//   decoder   x = E[word before], an LSTM, y = W_out h + b_out; the word is the largest y's
//
// Greedy words are compared along the words that were given: after two words that are equally good but
// for rounding, sequences part for good. So every word is judged, none is skipped. Nothing of the
// product is used. Plain functions; one thread.
#ifndef CELLBATCH_TESTS_ZOO_REFERENCE_TRANSLATION_H_
#define CELLBATCH_TESTS_ZOO_REFERENCE_TRANSLATION_H_

#include <cstdint>
#include <vector>

#include "tests/zoo/reference_math.h"
#include "tests/zoo/weights.h"

namespace cellbatch::zoo {

inline constexpr int32_t kFirstWord = 2;

// y of each step, of cells encoder, embedding "source", and decoder, embedding "target": step 0 reads
// kFirstWord, step t word t - 1 of `words`.
std::vector<Vec> DecoderReference(const WeightSet& weights, const std::vector<int32_t>& source,
                                  const std::vector<int32_t>& words);

// The right word at each step: the given one, where its y is the largest within what design.md
// (Numbers) allows y to be off; else the largest's.
std::vector<int32_t> RightWords(const std::vector<Vec>& y, const std::vector<int32_t>& words);

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_REFERENCE_TRANSLATION_H_
