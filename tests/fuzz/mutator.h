// Damages valid inputs the way files and messages get damaged: the engine of the fuzz tests that
// run as ordinary tests (seeded, so a failure can be repeated). One thread; free functions in a
// class that carries its random state.
#ifndef CELLBATCH_TESTS_FUZZ_MUTATOR_H_
#define CELLBATCH_TESTS_FUZZ_MUTATOR_H_

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cellbatch {

class Mutator {
 public:
  // `tokens`: pieces of the input's language, pasted in now and then, so that damage reaches the
  // deeper checks.
  Mutator(uint64_t seed, std::vector<std::string> tokens)
      : random_(seed), tokens_(std::move(tokens)) {}

  // One to four changes to `valid`.
  std::string Mutate(std::string_view valid) {
    std::string bytes(valid);
    for (uint64_t i = 0, n = 1 + Below(4); i < n; ++i) Change(bytes);
    return bytes;
  }

  uint64_t Below(uint64_t n) { return std::uniform_int_distribution<uint64_t>(0, n - 1)(random_); }

 private:
  void Change(std::string& bytes) {
    const size_t at = Below(bytes.size() + 1);
    const size_t length = Below(Below(8) == 0 ? bytes.size() + 1 : 9);
    switch (Below(7)) {
      case 0:  // one bit
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(8)));
        return;
      case 1:  // one byte
        if (at < bytes.size()) bytes[at] = static_cast<char>(Below(256));
        return;
      case 2:
        bytes.erase(at, length);
        return;
      case 3:  // a piece said twice
        bytes.insert(at, bytes.substr(Below(bytes.size() + 1), length));
        return;
      case 4:
        bytes.resize(at);
        return;
      case 5:  // another digit
        for (size_t i = at; i < bytes.size(); ++i) {
          if (bytes[i] >= '0' && bytes[i] <= '9') {
            bytes[i] = static_cast<char>('0' + Below(10));
            return;
          }
        }
        return;
      default:
        if (!tokens_.empty()) bytes.replace(at, Below(6), tokens_[Below(tokens_.size())]);
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> tokens_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FUZZ_MUTATOR_H_
