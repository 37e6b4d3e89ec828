// Frames of HTTP/2 as bytes, whatever they say.
#ifndef CELLBATCH_TESTS_TESTING_HTTP2_FRAMES_H_
#define CELLBATCH_TESTS_TESTING_HTTP2_FRAMES_H_

#include <cstdint>
#include <string>

namespace cellbatch::http2 {

inline constexpr const char* kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum Type : char {
  kData = 0,
  kHeaders = 1,
  kRstStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9
};
enum Flags : char { kNone = 0, kAck = 1, kEndStream = 1, kEndHeaders = 4 };
inline constexpr uint16_t kInitialWindowSize = 4;  // the setting

inline std::string BigEndian(uint32_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
    text += static_cast<char>(value >> shift);
  return text;
}

inline uint32_t NumberOf(const std::string& big_endian) {
  uint32_t value = 0;
  for (const char byte : big_endian) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

// A header without indexing and without Huffman codes.
inline std::string Header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}
inline std::string Frame(char type, char flags, uint32_t stream, const std::string& body) {
  return BigEndian(static_cast<uint32_t>(body.size()), 3) + type + flags + BigEndian(stream, 4) +
         body;
}
inline std::string Setting(uint16_t setting, uint32_t value) {
  return Frame(kSettings, kNone, 0, BigEndian(setting, 2) + BigEndian(value, 4));
}
// What a client says first.
inline std::string Greeting() { return kPreface + Frame(kSettings, kNone, 0, ""); }
// Of a message of so many bytes: that it is not compressed, and its length.
inline std::string HeadOfMessage(uint32_t bytes) {
  return std::string(1, '\0') + BigEndian(bytes, 4);
}
inline std::string Message(const std::string& body, char compressed = 0) {
  return compressed + BigEndian(static_cast<uint32_t>(body.size()), 4) + body;
}

}  // namespace cellbatch::http2

#endif  // CELLBATCH_TESTS_TESTING_HTTP2_FRAMES_H_
