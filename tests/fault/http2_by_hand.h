// HTTP/2 by hand: what no gRPC library would send, or would not stop answering. A connection of its own for each.
#ifndef CELLBATCH_TESTS_FAULT_HTTP2_BY_HAND_H_
#define CELLBATCH_TESTS_FAULT_HTTP2_BY_HAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/tcp_connection.h"
#include "tests/fault/grpc_caller.h"
#include "tests/testing/http2_frames.h"

namespace cellbatch::http2 {

// The headers of a call of a method on `stream`, and others beside them; kNone: CONTINUATION frames are to follow.
inline std::string CallHeaders(uint32_t stream, const std::string& method,
                               const std::vector<std::pair<std::string, std::string>>& more = {},
                               char flags = kEndHeaders) {
  std::string headers = Header(":method", "POST") + Header(":scheme", "http") +
                        Header(":path", method) + Header(":authority", "x") +
                        Header("te", "trailers") + Header("content-type", "application/grpc");
  for (const auto& [name, value] : more) headers += Header(name, value);
  return Frame(kHeaders, flags, stream, headers);
}
inline std::string InferHeaders(uint32_t stream,
                                const std::vector<std::pair<std::string, std::string>>& more = {},
                                char flags = kEndHeaders) {
  return CallHeaders(stream, kInferMethod, more, flags);
}
inline std::string Infer(uint32_t stream, const std::string& body,
                         const std::vector<std::pair<std::string, std::string>>& more = {}) {
  // In pieces no larger than any peer takes.
  constexpr size_t kLargestFrame = 16384;
  std::string all = InferHeaders(stream, more);
  const std::string message = Message(body);
  for (size_t at = 0; at < message.size(); at += kLargestFrame) {
    const bool last = message.size() - at <= kLargestFrame;
    all += Frame(kData, last ? kEndStream : kNone, stream, message.substr(at, kLargestFrame));
  }
  return all;
}

struct Received {
  char type = 0;
  char flags = 0;
  uint32_t stream = 0;
  std::string body;
};

// The peer's frames, one after the other.
class FrameReader {
 public:
  explicit FrameReader(TcpConnection& connection) : connection_(connection) {}
  // None: the peer has hung up, or was silent for a minute.
  std::optional<Received> Next() {
    constexpr size_t kHeader = 9;
    if (!Have(kHeader)) return std::nullopt;
    const auto byte = [this](size_t i) { return static_cast<unsigned char>(bytes_[i]); };
    const size_t size = size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2);
    Received frame;
    frame.type = bytes_[3];
    frame.flags = bytes_[4];
    for (size_t i = 5; i < kHeader; ++i) frame.stream = frame.stream << 8 | byte(i);
    if (!Have(kHeader + size)) return std::nullopt;
    frame.body = bytes_.substr(kHeader, size);
    bytes_.erase(0, kHeader + size);
    return frame;
  }

 private:
  bool Have(size_t size) {
    while (bytes_.size() < size) {
      const std::string more = connection_.Receive();
      if (more.empty()) return false;
      bytes_ += more;
    }
    return true;
  }
  TcpConnection& connection_;
  std::string bytes_;
};

}  // namespace cellbatch::http2

#endif  // CELLBATCH_TESTS_FAULT_HTTP2_BY_HAND_H_
