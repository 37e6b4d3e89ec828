// nmt
#include <fmt/format.h>

#include <algorithm>

#include "tests/zoo/reference_translation.h"
#include "tests/zoo/workload_parts.h"

namespace cellbatch::zoo {
namespace {

// The words of an answer, as many as were asked for; what is no word at all is taken for word 0, and
// found wrong where it stands.
std::vector<int32_t> GivenWords(const Answer& got, size_t steps, size_t vocabulary) {
  std::vector<int32_t> words(steps, 0);
  const auto output = got.find("OUTPUT");
  if (output == got.end()) return words;
  for (size_t t = 0; t < std::min(steps, output->second.size()); ++t) {
    const double word = output->second[t];
    if (word >= 0 && word < static_cast<double>(vocabulary)) words[t] = static_cast<int32_t>(word);
  }
  return words;
}

std::string Config() {
  return CellType("encoder", "nmt_encoder_lstm", {{"x", "embed"}},
                  {"W_i", "b_i", "W", "U", "b", "embed/table=source"}) +
         CellType("bridge", "bridge_lstm", {}, {},
                  fmt::format("  sizes {{ key: \"BOS\" value: {} }}\n", kFirstWord)) +
         CellType("decoder", "decoder_lstm", {},
                  {"table=target", "W", "U", "b", "W_out", "b_out"}) +
         R"(encoder_decoder {
  layers { forward: "encoder" }
  bridge: "bridge"
  decoder: "decoder"
  end_of_sequence: 1
  max_decode_steps: 200
}
)";
}

}  // namespace

// A random decoder says the end of the sequence at once or never: requests ask for the target's length.
Workload Translate(const Sizes& sizes, size_t items) {
  Workload made;
  const int64_t h = sizes.hidden, e = sizes.embedding;
  WeightSet& weights = made.model.weights;
  weights.AddTable("source", sizes.vocabulary, e);
  weights.AddTable("target", sizes.vocabulary, e);
  weights.AddMatrix("encoder.W_i", e, e);
  weights.AddBias("encoder.b_i", e);
  AddRecurrent(weights, "encoder", 4, e, h);
  // Large, or the decoder says the same few words whatever it has read.
  constexpr double kGain = 6;
  weights.AddMatrix("decoder.W", 4 * h, e, kGain);
  weights.AddMatrix("decoder.U", 4 * h, h, kGain);
  weights.AddBias("decoder.b", 4 * h);
  weights.AddMatrix("decoder.W_out", sizes.vocabulary, h, 4);
  weights.AddBias("decoder.b_out", sizes.vocabulary);
  made.model.config = Config();
  const Data<Translation> data = EuroparlPairs();
  made.source = data.source;
  std::vector<std::vector<int32_t>> sources;
  for (const Translation& pair :
       Some(data.items, items, [](const Translation& p) { return p.target.size(); })) {
    sources.push_back(WordIds(pair.source, sizes.vocabulary));
    const auto steps = static_cast<int64_t>(pair.target.size());
    made.requests.push_back(
        {{IntsTensor("SOURCE", sources.back())}, {"OUTPUT", "LENGTH"}, {{"decode_steps", steps}}});
  }
  made.paper_outputs = {"OUTPUT"};
  made.reference = [weights, sources, requests = made.requests](size_t i, const Answer& got) {
    const auto steps = static_cast<size_t>(requests[i].parameters.at("decode_steps"));
    const std::vector<int32_t> words = GivenWords(got, steps, weights.M("target").rows);
    const std::vector<int32_t> right =
        RightWords(DecoderReference(weights, sources[i], words), words);
    return Answer{{"OUTPUT", {right.begin(), right.end()}},
                  {"LENGTH", {static_cast<double>(steps)}}};
  };
  return made;
}

}  // namespace cellbatch::zoo
