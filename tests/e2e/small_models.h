// A model repository for end-to-end tests, made in the test's own folder: weights from a seed, saved
// as PyTorch would, turned into a model folder by what cellbatch-convert runs.
#ifndef CELLBATCH_TESTS_E2E_SMALL_MODELS_H_
#define CELLBATCH_TESTS_E2E_SMALL_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch {

// A one-layer recurrent network, over tokens (vocabulary > 0) or over vectors of `width`.
struct SmallModel {
  std::string name;
  int hidden = 8;
  int width = 4;  // of X, or of a word's vector
  int vocabulary = 0;
  bool gru = false;
};

// A new, empty folder below the test's own.
std::string NewRepository();
// Adds a model of random weights. Ends the test program where that fails.
void AddModel(const std::string& repository, const SmallModel& model);

// The last hidden state of a one-layer LSTM over tokens, in double, straight from the weights that
// AddModel gave it (PyTorch's gate order): the definition of right for these tests.
std::vector<double> LstmReference(const SmallModel& model, const std::vector<int32_t>& tokens);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_SMALL_MODELS_H_
