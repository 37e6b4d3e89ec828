// The fields of a message as they lie on the wire, read without parsing it: what looks at bytes before
// anything is allocated for them (wire_scan.h, typed_scan.h). No recursion, no allocation; any thread.
#ifndef CELLBATCH_SERVER_WIRE_WIRE_FIELDS_H_
#define CELLBATCH_SERVER_WIRE_WIRE_FIELDS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace cellbatch::wire {

inline constexpr int kMaxGroupDepth = 64;

enum WireKind : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kGroup = 3,
  kEnd = 4,
  kFixed32 = 5
};

struct Field {
  uint32_t number = 0;
  uint32_t kind = 0;
  std::string_view body;  // of kLength
};

// Walks the top-level fields of one message; groups, which nobody uses, are skipped whole.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  // False at the end, or when the bytes are no message.
  bool Next(Field& field) {
    int depth = 0;
    while (!rest_.empty()) {
      if (!ReadOne(field)) return Fail();
      if (field.kind == kGroup) {
        if (++depth > kMaxGroupDepth) return Fail();
      } else if (field.kind == kEnd) {
        if (--depth < 0) return Fail();
      } else if (depth == 0) {
        return true;
      }
    }
    return depth == 0 ? false : Fail();
  }
  bool malformed() const { return malformed_; }

 private:
  bool Fail() {
    malformed_ = true;
    return false;
  }

  bool ReadVarint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 70 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= shift < 64 ? uint64_t{byte & 0x7fu} << shift : 0;
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool Skip(uint64_t bytes) {
    if (bytes > rest_.size()) return false;
    rest_.remove_prefix(bytes);
    return true;
  }

  bool ReadOne(Field& field) {
    uint64_t tag = 0, value = 0;
    if (!ReadVarint(tag) || tag > UINT32_MAX || (tag >> 3) == 0) return false;
    field = {static_cast<uint32_t>(tag >> 3), static_cast<uint32_t>(tag & 7), {}};
    switch (field.kind) {
      case kVarint:
        return ReadVarint(value);
      case kFixed64:
        return Skip(8);
      case kFixed32:
        return Skip(4);
      case kGroup:
      case kEnd:
        return true;
      case kLength:
        if (!ReadVarint(value) || value > rest_.size()) return false;
        field.body = rest_.substr(0, value);
        return Skip(value);
      default:
        return false;
    }
  }

  std::string_view rest_;
  bool malformed_ = false;
};

// How many values a packed list of varints holds.
inline int64_t VarintsIn(std::string_view packed) {
  int64_t count = 0;
  for (const char byte : packed) count += static_cast<uint8_t>(byte) < 0x80;
  return count;
}

inline void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// An element of a BYTES tensor: its length in front, 4 bytes.
inline void AppendFramed(std::string_view text, std::string& out) {
  const auto length = static_cast<uint32_t>(text.size());
  out.append(reinterpret_cast<const char*>(&length), sizeof(length));
  out.append(text);
}

}  // namespace cellbatch::wire

#endif  // CELLBATCH_SERVER_WIRE_WIRE_FIELDS_H_
