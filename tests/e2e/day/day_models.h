// The models of a day of operators: fifty token LSTMs of four versions each, no two of the same weights, so that an answer's
// bits say which version of which model gave it. The bits that are right are what a server of all two hundred says that
// nobody changes meanwhile; and that those are right says LSTM in double (small_models.h).
//
// Building takes seconds. Folders change in one step, as a server may look at any moment. One thread for each model; what is
// said of answers: any.
#ifndef CELLBATCH_TESTS_E2E_DAY_DAY_MODELS_H_
#define CELLBATCH_TESTS_E2E_DAY_DAY_MODELS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch {

inline constexpr int kDayModels = 50, kDayVersions = 4, kDayQuestions = 3;

// "m07".
std::string DayName(int model);
// What models are asked.
const std::vector<int32_t>& DayTokens(int question);

class DayModels {
 public:
  // Each model's folder has its version 1.
  DayModels();

  const std::string& repository() const { return repository_; }
  // Of the answer of that version (from 1) to that question.
  const std::string& Bits(int model, int version, int question) const {
    return bits_[static_cast<size_t>(model)][static_cast<size_t>(version)]
                [static_cast<size_t>(question)];
  }

  // The model has these versions and no others.
  void SetVersions(int model, const std::vector<int>& versions) const;
  // Nonsense, of several kinds: each makes a load fail. SetVersions and RestoreConfig put it right again.
  static constexpr int kDamages = 4;
  void Damage(int model, int version, int kind) const;
  void RestoreConfig(int model) const;
  // The whole folder leaves the repository, and comes back.
  void TakeAway(int model) const;
  void BringBack(int model) const;

 private:
  void Build();
  void Learn();
  std::string Folder(int model) const { return repository_ + "/" + DayName(model); }
  // Beside the repository.
  std::string Aside(int model) const { return repository_ + "-aside-" + DayName(model); }

  const std::string repository_, all_;  // `all_`: every version of every model
  std::array<std::string, kDayModels> configs_;
  std::array<std::array<std::array<std::string, kDayQuestions>, kDayVersions + 1>, kDayModels>
      bits_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_E2E_DAY_DAY_MODELS_H_
