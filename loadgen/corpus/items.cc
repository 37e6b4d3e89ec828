#include "loadgen/corpus/items.h"

namespace cellbatch::corpus {

int32_t WordId(const std::string& word, int32_t size) {
  uint64_t hash = 14695981039346656037ull;
  for (const unsigned char byte : word) {
    hash = (hash ^ byte) * 1099511628211ull;
  }
  return static_cast<int32_t>((hash ^ hash >> 32) % static_cast<uint64_t>(size));
}

}  // namespace cellbatch::corpus
