// The fields of a message as they lie on the wire, read without parsing it: what looks at bytes before
// anything is allocated for them (message_scanner.h). No recursion, no allocation; any thread.
#ifndef CELLBATCH_SERVER_WIRE_WIRE_FIELDS_H_
#define CELLBATCH_SERVER_WIRE_WIRE_FIELDS_H_

#include <bit>
#include <cstddef>
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
  std::string_view body;   // of kLength
  std::string_view whole;  // tag and all; of a group with what is in it
  int64_t fields = 1;      // this one, and of a group those in it
};

// Walks the top-level fields of one message, and is as strict as protobuf's own parser. A group, which no message of
// ours has, is one field.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  // False at the end, or when the bytes are no message.
  bool Next(Field& field) {
    if (rest_.empty()) return false;
    const char* const begin = rest_.data();
    if (!ReadOne(field) || field.kind == kEnd || (field.kind == kGroup && !SkipGroup(field))) {
      malformed_ = true;
      return false;
    }
    field.whole = {begin, static_cast<size_t>(rest_.data() - begin)};
    return true;
  }
  bool malformed() const { return malformed_; }

 private:
  // What follows the start of `group` up to its end, and groups in it.
  bool SkipGroup(Field& group) {
    uint32_t open[kMaxGroupDepth] = {group.number};
    for (int depth = 1; depth > 0;) {
      Field field;
      if (rest_.empty() || !ReadOne(field)) return false;
      if (field.kind == kEnd) {
        if (field.number != open[--depth]) return false;
        continue;
      }
      ++group.fields;
      if (field.kind != kGroup) continue;
      if (depth == kMaxGroupDepth) return false;
      open[depth++] = field.number;
    }
    return true;
  }

  // At most `most` bytes; bits beyond 64 are dropped.
  bool ReadVarint(int most, uint64_t& value) {
    value = 0;
    for (int i = 0; i < most && !rest_.empty(); ++i) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << (7 * i);
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
    constexpr int kLongestTag = 5, kLongestVarint = 10;
    uint64_t value = 0;
    if (!ReadVarint(kLongestTag, value)) return false;
    const auto tag = static_cast<uint32_t>(value);
    if ((tag >> 3) == 0) return false;
    field = Field();
    field.number = tag >> 3;
    field.kind = tag & 7;
    switch (field.kind) {
      case kVarint:
        return ReadVarint(kLongestVarint, value);
      case kFixed64:
        return Skip(8);
      case kFixed32:
        return Skip(4);
      case kGroup:
      case kEnd:
        return true;
      case kLength:
        if (!ReadVarint(kLongestTag, value) || value > rest_.size()) return false;
        field.body = rest_.substr(0, value);
        return Skip(value);
      default:
        return false;
    }
  }

  std::string_view rest_;
  bool malformed_ = false;
};

// How many values a packed list of varints holds; -1: it is none.
inline int64_t VarintsIn(std::string_view packed) {
  constexpr int kLongest = 10;
  int64_t count = 0;
  int length = 0;
  for (const char byte : packed) {
    if (++length > kLongest) return -1;
    if (static_cast<uint8_t>(byte) >= 0x80) continue;
    length = 0;
    ++count;
  }
  return length == 0 ? count : -1;
}

inline void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

inline size_t VarintBytes(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

// A text, bytes or a message of that number, which is below 16: its tag is one byte.
inline void AppendLength(int number, size_t length, std::string& out) {
  out.push_back(static_cast<char>(number << 3 | kLength));
  AppendVarint(length, out);
}
// A text that proto3 leaves out where it is empty; and what it takes.
inline void AppendText(int number, std::string_view text, std::string& out) {
  if (text.empty()) return;
  AppendLength(number, text.size(), out);
  out.append(text);
}
inline size_t TextBytes(std::string_view text) {
  return text.empty() ? 0 : 1 + VarintBytes(text.size()) + text.size();
}

// An element of a BYTES tensor: its length in front, 4 bytes.
inline void AppendFramed(std::string_view text, std::string& out) {
  const auto length = static_cast<uint32_t>(text.size());
  out.append(reinterpret_cast<const char*>(&length), sizeof(length));
  out.append(text);
}

}  // namespace cellbatch::wire

#endif  // CELLBATCH_SERVER_WIRE_WIRE_FIELDS_H_
