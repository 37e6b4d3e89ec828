// Damaged connections of HTTP/2 in pieces of any size, through the watch that sees them as they come and through a slow reader of
// the whole, byte by byte: the same fault in the same frame, and of everything before it the same streams and bytes.
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "server/grpc/frame_watch.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"
#include "tests/testing/http2_frames.h"

namespace cellbatch {
namespace {

constexpr FrameBounds kBounds{.max_streams = 12,
                              .max_header_block_bytes = 600,
                              .max_resets_per_second = 4,
                              .max_message_bytes = 300};

// All that came, from its beginning; time stands still.
class SlowReader {
 public:
  explicit SlowReader(const std::string& bytes) {
    const std::string preface = http2::kPreface;
    if (bytes.substr(0, preface.size()) != preface.substr(0, bytes.size())) return;
    for (size_t at = preface.size(); at + 9 <= bytes.size() && fault == FrameFault::kNone;) {
      const size_t length = Number(bytes, at, 3);
      const std::string body = bytes.substr(at + 9, length);
      OneFrame(static_cast<uint8_t>(bytes[at + 3]), static_cast<uint8_t>(bytes[at + 4]),
               Number(bytes, at + 5, 4) & 0x7fffffff, length, body);
      at += 9 + length;
    }
  }

  FrameFault fault = FrameFault::kNone;
  int64_t opened = 0;
  Unwhole Sum() const {
    Unwhole sum;
    for (const auto& [id, stream] : open) {
      sum.streams += stream.messages == 0 ? 1 : 0;
      sum.bytes += stream.kept;
    }
    return sum;
  }
  struct Stream {
    std::string message;  // that has begun
    int messages = 0;
    bool refused = false;
    int64_t kept = 0;
  };
  std::map<uint32_t, Stream> open;

 private:
  static uint32_t Number(const std::string& bytes, size_t at, size_t count) {
    uint32_t number = 0;
    for (size_t i = at; i < at + count; ++i)
      number = number << 8 | static_cast<unsigned char>(bytes[i]);
    return number;
  }
  void OneFrame(uint8_t type, uint8_t flags, uint32_t id, size_t length, const std::string& body) {
    aside_ += 64 + static_cast<int64_t>(length);
    const bool whole = body.size() == length;
    if (type == http2::kSettings && (flags & http2::kAck) != 0) acknowledged_ = true;
    if (type == http2::kHeaders) block_ = frames_ = 0;
    if (type == http2::kHeaders || type == http2::kContinuation) {
      block_ += static_cast<int64_t>(length);
      ++frames_;
      const auto last = open.empty() ? open.end() : std::prev(open.end());
      if (type == http2::kContinuation && last != open.end() && last->first == id &&
          id == newest_ && last->second.messages == 0) {
        last->second.kept += static_cast<int64_t>(length);
      }
      if (block_ > kBounds.max_header_block_bytes || frames_ > 4 + block_ / 16384) {
        fault = FrameFault::kHeaderBlock;
        return;
      }
    }
    const bool ends = (flags & http2::kEndStream) != 0;
    if (type == http2::kHeaders && id % 2 == 1 && id > newest_) {
      newest_ = id;
      if (++opened > kBounds.max_streams && !acknowledged_) {
        fault = FrameFault::kStreams;
        return;
      }
      if (!ends) {
        if (static_cast<int64_t>(open.size()) >= kBounds.max_streams) open.erase(open.begin());
        open[id].kept = static_cast<int64_t>(length);
      }
    } else if (type == http2::kHeaders && !open.contains(id) && ++resets_ > 8) {
      fault = FrameFault::kResets;
      return;
    }
    if (type == http2::kRstStream && id > 0 && id <= newest_ && ++resets_ > 8) {
      fault = FrameFault::kResets;
      return;
    }
    if (type == http2::kData && open.contains(id)) OneData(flags, length, body, open[id]);
    if (!whole) return;
    if (type == http2::kRstStream || (type == http2::kHeaders && ends) ||
        (type == http2::kData && flags != 0)) {
      open.erase(id);
    }
  }
  void OneData(uint8_t flags, size_t length, const std::string& body, Stream& stream) {
    if (stream.refused) return;
    if (length > 0 && (flags & ~http2::kEndStream) == 0) {
      aside_ -= static_cast<int64_t>(length);
      stream.kept += std::min<int64_t>(aside_, 64 << 10);
      aside_ = 0;
    }
    for (const char byte : body) {
      if (stream.refused) return;
      stream.message += byte;
      ++stream.kept;
      if (stream.message.size() < 5) continue;
      const size_t announced = Number(stream.message, 1, 4);
      stream.refused = announced > static_cast<size_t>(kBounds.max_message_bytes);
      if (!stream.refused && stream.message.size() < 5 + announced) continue;
      stream.message.clear();
      stream.kept = 0;
      ++stream.messages;
    }
  }

  bool acknowledged_ = false;
  uint32_t newest_ = 0;
  int64_t aside_ = 0, block_ = 0, frames_ = 0, resets_ = 0;
};

// A connection as a client might make it, some of its messages not whole.
std::string Session(Mutator& mutator) {
  std::string all = http2::Greeting();
  uint32_t newest = 0;
  for (uint64_t i = 0, n = mutator.Below(60); i < n; ++i) {
    const uint32_t any = newest == 0 ? 1 : static_cast<uint32_t>(1 + 2 * mutator.Below(newest));
    const std::string body(mutator.Below(120), 'x');
    const std::string message = http2::Message(body);
    switch (mutator.Below(9)) {
      case 0:
      case 1:
      case 2:
        newest = newest == 0 ? 1 : newest + 2;
        all += http2::Frame(http2::kHeaders, mutator.Below(9) == 0 ? 5 : 4, newest, body);
        break;
      case 3:
        all += http2::Frame(http2::kData, static_cast<char>(mutator.Below(2)), any, message);
        break;
      case 4:
        all += http2::Frame(http2::kData, http2::kNone, any,
                            message.substr(0, mutator.Below(message.size() + 1)));
        break;
      case 5:
        all += http2::Frame(http2::kContinuation, http2::kNone, newest, body);
        break;
      case 6:
        all += http2::Frame(http2::kRstStream, http2::kNone, any, "code");
        break;
      case 7:
        all += http2::Frame(http2::kPing, http2::kAck, 0, body);
        break;
      default:
        all += http2::Frame(http2::kSettings, mutator.Below(4) == 0 ? http2::kAck : http2::kNone, 0,
                            "");
    }
  }
  return all;
}

TEST(FrameWatchFuzzTest, InPiecesItSeesWhatASlowReaderSeesOfTheWhole) {
  const uint64_t seed = 20261123;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {std::string("\0\0\0", 3), std::string("\0\0\5\0\1\0\0\0\1", 9),
                         std::string("\0\0\4\3\0\0\0\0\1", 9), "\x09", "\x01"});
  int64_t faults = 0, unwhole = 0, whole = 0;
  FuzzBudget budget(5000);
  while (budget.Next()) {
    const std::string session = Session(mutator);
    const std::string bytes = mutator.Below(3) == 0 ? session : mutator.Mutate(session);
    const SlowReader expected(bytes);
    RateBound resets_of_all(1'000'000);
    FrameWatch watch(kBounds, resets_of_all);
    watch.Greeted();
    FrameFault fault = FrameFault::kNone;
    constexpr int64_t kNow = 1'000'000'000;
    for (size_t at = 0; at < bytes.size() && fault == FrameFault::kNone;) {
      const size_t piece = 1 + mutator.Below(mutator.Below(2) == 0 ? 4 : 400);
      fault = watch.Take(std::string_view(bytes).substr(at, piece), kNow);
      at += piece;
    }
    ASSERT_EQ(fault, expected.fault) << testing::PrintToString(bytes);
    faults += fault == FrameFault::kNone ? 0 : 1;
    if (fault != FrameFault::kNone) continue;
    ASSERT_EQ(watch.opened(), expected.opened) << testing::PrintToString(bytes);
    ASSERT_EQ(watch.open(), static_cast<int64_t>(expected.open.size()));
    ASSERT_EQ(watch.unwhole().streams, expected.Sum().streams) << testing::PrintToString(bytes);
    ASSERT_EQ(watch.unwhole().bytes, expected.Sum().bytes) << testing::PrintToString(bytes);
    (watch.unwhole() == Unwhole() ? whole : unwhole) += 1;
  }
  // Sessions of all kinds: a fault in all, or in none, would test nothing.
  EXPECT_GT(faults, budget.cases() / 50);
  EXPECT_GT(unwhole, budget.cases() / 5);
  EXPECT_GT(whole, budget.cases() / 50);
}

}  // namespace
}  // namespace cellbatch
