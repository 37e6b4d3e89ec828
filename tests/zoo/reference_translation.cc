#include "tests/zoo/reference_translation.h"

#include <algorithm>
#include <cmath>

#include "tests/zoo/reference_chain.h"

namespace cellbatch::zoo {

std::vector<Vec> DecoderReference(const WeightSet& weights, const std::vector<int32_t>& source,
                                  const std::vector<int32_t>& words) {
  const Mat source_table = weights.M("source"), target_table = weights.M("target");
  const Mat W_i = weights.M("encoder.W_i"), W_out = weights.M("decoder.W_out");
  const Vec b_i = weights.V("encoder.b_i"), b_out = weights.V("decoder.b_out");
  const LstmEquations encoder(weights, "encoder"), decoder(weights, "decoder");
  LstmState state = encoder.Zero();
  for (const int32_t token : source) {
    state = encoder.Step(Tanh(W_i * Row(source_table, token) + b_i), state);
  }
  std::vector<Vec> y;
  int32_t before = kFirstWord;
  for (const int32_t word : words) {
    state = decoder.Step(Row(target_table, before), state);
    y.push_back(W_out * state.h + b_out);
    before = word;
  }
  return y;
}

std::vector<int32_t> RightWords(const std::vector<Vec>& y, const std::vector<int32_t>& words) {
  std::vector<int32_t> right;
  for (size_t t = 0; t < y.size(); ++t) {
    const double most = y[t][ArgMax(y[t])];
    // Both may be off by the bound.
    const double tolerance = 2e-5 * std::max(1.0, std::abs(most));
    const auto given = static_cast<size_t>(words[t]);
    const bool as_good = given < y[t].size() && y[t][given] >= most - tolerance;
    right.push_back(as_good ? words[t] : static_cast<int32_t>(ArgMax(y[t])));
  }
  return right;
}

}  // namespace cellbatch::zoo
