// Encoder-decoder models for tests, written as model folders: one of random weights, whose words nobody
// can foretell, and the counter, whose answer everybody can.
//
//   counter   the last word of SOURCE is n: the decoder says n, n - 1, .. 1 and then the end of the sequence. It knows
//             no length: the encoder leaves n in its state, one unit hot, and the decoder's weights are a shift.
//   random    lstm layers, bridge and decoder of weights from a seed
#ifndef CELLBATCH_TESTS_SEQ2SEQ_TRANSLATORS_H_
#define CELLBATCH_TESTS_SEQ2SEQ_TRANSLATORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cellbatch {

struct Model;

struct CounterModel {
  std::string name = "counter";
  int32_t largest = 100;           // words of SOURCE: 0 .. largest
  int32_t max_decode_steps = 100;  // above: cut
};

// Adds the model's folder to a repository. Both end the test program where that fails.
void AddCounterModel(const std::string& repository, const CounterModel& model);

struct RandomTranslator {
  std::string name = "translator";
  int32_t layers = 1;  // 1 or 2
  int32_t hidden = 20, width = 12;
  int32_t source_words = 30, target_words = 40;
  int32_t end_of_sequence = 0, first_word = 1;
  int32_t max_decode_steps = 40;
  uint64_t seed = 1;
};
void AddRandomTranslator(const std::string& repository, const RandomTranslator& model);

// The equations of a translator, in double, one word after the other, straight from the weights that
// AddRandomTranslator wrote.
class TranslatorReference {
 public:
  TranslatorReference(const RandomTranslator& model, const std::vector<int32_t>& source);
  // The vocabulary's scores, given the word said before (at first: the model's first word).
  std::vector<double> Scores(int32_t word);

 private:
  struct State {
    std::vector<double> h, c;
  };
  void Step(const std::string& layer, const std::vector<double>& x, State& state) const;
  std::vector<double> Row(const std::string& table, int32_t row) const;

  const RandomTranslator model_;
  std::map<std::string, std::vector<float>> weights_;
  std::vector<State> states_;
};

// The newest version in the folder, as the server would load it.
std::shared_ptr<const Model> LoadTranslator(const std::string& repository, const std::string& name,
                                            int32_t id = 1);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_SEQ2SEQ_TRANSLATORS_H_
