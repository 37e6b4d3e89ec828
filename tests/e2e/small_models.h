// A model repository for end-to-end tests, made in the test's own folder by the tools that users
// have: make_model draws weights from a seed, cellbatch-convert makes the model folder.
#ifndef CELLBATCH_TESTS_E2E_SMALL_MODELS_H_
#define CELLBATCH_TESTS_E2E_SMALL_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch {

// `made`: arguments of make_model, such as {"--cell", "lstm", "--hidden", "8", "--vocab", "100"}.
// Ends the test program where a tool fails. Returns the .safetensors file.
std::string AddModel(const std::string& repository, const std::string& name,
                     std::vector<std::string> made);

// A new folder below the test's own.
std::string NewRepository();

// The last hidden state of a one-layer LSTM over tokens, in double, straight from the file's
// weights (PyTorch's names and gate order). The definition of right for these tests.
std::vector<double> LstmReference(const std::string& safetensors,
                                  const std::vector<int32_t>& tokens);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_SMALL_MODELS_H_
