// A client that sends all of a message but its last bytes, as fast as the server lets it, and then stays. One thread.
#ifndef CELLBATCH_TESTS_FAULT_ATTACKS_HALF_SENDER_H_
#define CELLBATCH_TESTS_FAULT_ATTACKS_HALF_SENDER_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "tests/e2e/tcp_connection.h"
#include "tests/fault/http2_by_hand.h"

namespace cellbatch {

// The head of a message of 64 MiB and all but its last bytes, within the windows that the server opens.
class HalfSender {
 public:
  explicit HalfSender(const std::string& address, const std::string& from = "")
      : peer_(address, from), frames_(peer_) {
    peer_.Send(http2::Greeting() + http2::InferHeaders(1) +
               http2::Frame(http2::kData, http2::kNone, 1, http2::HeadOfMessage(kAnnounced)));
  }
  // Until all but a few bytes are sent, or the server hangs up.
  void Run() {
    while (left_ > 0) {
      const int64_t may = std::min({windows_[0], windows_[1], left_, int64_t{1} << 14});
      if (may > 0) {
        const std::string body(static_cast<size_t>(may), 'x');
        if (!peer_.Send(http2::Frame(http2::kData, http2::kNone, 1, body))) return;
        for (int64_t& window : windows_) window -= may;
        left_ -= may;
        continue;
      }
      const auto frame = frames_.Next();
      if (!frame) return;
      Obey(*frame);
    }
  }

 private:
  static constexpr uint32_t kAnnounced = 64 << 20;
  static constexpr int64_t kFirstWindow = 65535, kHead = 5;

  void Obey(const http2::Received& frame) {
    if (frame.type == http2::kWindowUpdate && frame.stream <= 1) {
      windows_[frame.stream] += http2::NumberOf(frame.body);
    }
    if (frame.type != http2::kSettings || frame.flags != http2::kNone) return;
    peer_.Send(http2::Frame(http2::kSettings, http2::kAck, 0, ""));
    constexpr size_t kName = 2, kSize = 6;
    for (size_t at = 0; at + kSize <= frame.body.size(); at += kSize) {
      if (http2::NumberOf(frame.body.substr(at, kName)) != http2::kInitialWindowSize) continue;
      const int64_t size = http2::NumberOf(frame.body.substr(at + kName, kSize - kName));
      windows_[1] += size - std::exchange(initial_window_, size);
    }
  }

  TcpConnection peer_;
  http2::FrameReader frames_;
  int64_t initial_window_ = kFirstWindow;
  int64_t windows_[2] = {kFirstWindow - kHead, kFirstWindow - kHead};  // of all, of the stream
  int64_t left_ = kAnnounced - kHead;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_FAULT_ATTACKS_HALF_SENDER_H_
