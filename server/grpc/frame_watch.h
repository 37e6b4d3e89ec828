// What a peer's frames cost before a call comes of them. gRPC 1.51 reads header blocks of any length, opens streams without a
// bound until the peer has acknowledged its settings, forgets at once what was opened and reset, and keeps half a message for
// as long as the connection lasts. A FrameWatch reads the same bytes, as they come, and says when one of these is too much.
//
//   bytes of a connection, in any pieces --> preface, frames --> streams that the peer has not ended --> FrameFault, Unwhole
//                        bytes of ours   --> frames -----------> streams that we have ended
//
// Pure: no socket, no clock. What is no HTTP/2 is gRPC's business: it is passed over. Who calls sees to it that one thread does
// at a time. A frame costs some nanoseconds; memory: a stream that the peer has not ended.
#ifndef CELLBATCH_SERVER_GRPC_FRAME_WATCH_H_
#define CELLBATCH_SERVER_GRPC_FRAME_WATCH_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

namespace cellbatch {

struct FrameBounds {
  int64_t max_streams = 12288;                 // opened before our settings were acknowledged
  int64_t max_header_block_bytes = 128 << 10;  // of HEADERS and its CONTINUATIONs
  int64_t max_resets_per_second = 500;
  int64_t max_message_bytes = 64 << 20;  // gRPC refuses longer ones when it has seen their length
};

enum class FrameFault : uint8_t { kNone, kStreams, kHeaderBlock, kResets };

// So many a second, and two seconds' worth at once. Any thread.
class RateBound {
 public:
  explicit RateBound(int64_t per_second) : each_ns_(1'000'000'000 / per_second) {}
  // One more. How far the rate is ahead of what is allowed, in ns.
  int64_t Add(int64_t now_ns);
  static constexpr int64_t kAtOnceNs = 2'000'000'000;
  // So many are that.
  int64_t CountOf(int64_t ahead_ns) const { return ahead_ns / each_ns_; }

 private:
  const int64_t each_ns_;
  std::atomic<int64_t> paid_until_ns_ = 0;
};

struct FrameHeader {
  uint32_t length = 0;
  uint8_t type = 0, flags = 0;
  uint32_t stream = 0;
};

// Where frames begin in bytes that come in pieces.
class FrameBoundaries {
 public:
  // Takes the rest of a header from the front of `bytes`; none: it is not all there.
  std::optional<FrameHeader> TakeHeader(std::string_view& bytes);
  // Takes payload from the front, as far as it is there.
  std::string_view TakePayload(std::string_view& bytes);
  bool in_payload() const { return left_ > 0; }
  bool between() const { return left_ == 0 && have_ == 0; }

 private:
  static constexpr size_t kHeaderBytes = 9;
  std::array<char, kHeaderBytes> header_ = {};
  size_t have_ = 0;
  uint32_t left_ = 0;
};

// What streams that the peer has not ended have brought that is of no use yet.
struct Unwhole {
  int64_t streams = 0;  // without a whole message
  int64_t bytes = 0;    // that their headers, and messages begun and not whole, keep in memory
  bool operator==(const Unwhole&) const = default;
};

class FrameWatch {
 public:
  // `resets_of_all`: of all connections together; outlives it.
  FrameWatch(const FrameBounds& bounds, RateBound& resets_of_all);

  // What came. After a fault it is not called again, and seen() says what there was of what its bound counts.
  FrameFault Take(std::string_view bytes, int64_t now_ns);
  // We begin to send, with our settings: what acknowledges them before that acknowledges nothing. (gRPC takes it for what it says,
  // and opens streams without a bound.)
  void Greeted() { greeted_ = true; }
  // We have ended the stream.
  void Ended(uint32_t stream);

  int64_t seen() const { return seen_; }
  const Unwhole& unwhole() const { return unwhole_; }
  int64_t open() const { return static_cast<int64_t>(others_.size()) + (newest_.id != 0); }
  int64_t opened() const { return opened_; }
  // When the oldest of the messages that are not whole began.
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t OldestBegun() const;

 private:
  // Of a call's message: a byte that says whether it is compressed, four for its length.
  static constexpr uint32_t kPrefixBytes = 5;
  // A stream that the peer has not ended.
  struct Open {
    uint32_t id = 0;
    uint32_t have = 0;  // of the prefix of the message that comes; 0: none has begun
    uint32_t left = 0;  // of the message
    bool brought = false;
    bool refused = false;  // gRPC will not have its message
    int64_t bytes = 0;     // kept
    int64_t begun_ns = 0;
  };

  void TakePreface(std::string_view& bytes);
  FrameFault Begin(const FrameHeader& frame);
  FrameFault BeginHeaders();
  FrameFault OpenStream();
  FrameFault CheckHeaderBlock();
  void BeginData();
  FrameFault Reset();
  FrameFault CountReset();
  void TakeData(std::string_view bytes);
  void TakePrefix(Open& stream, std::string_view& bytes) const;
  void EndFrame();
  Open* Find(uint32_t stream);
  void Keep(Open& stream, int64_t bytes);
  void Brought(Open& stream);
  // Remembers, now and then, which streams are no longer young.
  void NoteTime();

  const FrameBounds bounds_;
  RateBound& resets_of_all_;
  RateBound resets_;

  bool passed_over_ = false;  // it is no HTTP/2
  size_t preface_ = 0;
  FrameBoundaries frames_;
  FrameHeader frame_;
  int64_t now_ns_ = 0;
  int64_t seen_ = 0;

  bool greeted_ = false, acknowledged_ = false;
  uint32_t last_stream_ = 0;
  int64_t opened_ = 0;
  int64_t block_bytes_ = 0, block_frames_ = 0;
  int64_t noted_ns_ = 0;
  uint32_t noted_ = 0, not_young_ = 0;  // streams: the newest then; the newest that is not young
  int64_t aside_ = 0;                   // bytes since those of the last message that was not whole

  // Most calls come whole in one piece: then the map is never touched.
  Open newest_;
  std::map<uint32_t, Open> others_;
  Unwhole unwhole_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_FRAME_WATCH_H_
