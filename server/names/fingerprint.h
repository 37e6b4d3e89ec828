// Sixteen hex digits of what somebody names, the same in every process and on every machine: FNV-1a. It tells apart what
// changed; it keeps nobody out who wants to be mistaken for another. Plain value.
#ifndef CELLBATCH_SERVER_NAMES_FINGERPRINT_H_
#define CELLBATCH_SERVER_NAMES_FINGERPRINT_H_

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cellbatch {

class Fingerprint {
 public:
  void Add(std::string_view text) {
    for (const char c : text) Mix(static_cast<unsigned char>(c));
    Mix(0);  // "ab" "c" is not "a" "bc"
  }
  void Add(int64_t n) { Add(fmt::format("{}", n)); }
  std::string Hex() const { return fmt::format("{:016x}", hash_); }

 private:
  void Mix(uint64_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3; }
  uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_NAMES_FINGERPRINT_H_
