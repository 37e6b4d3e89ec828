#include "server/grpc/frame_watch.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cellbatch {

namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum Type : uint8_t { kData = 0, kHeaders = 1, kRstStream = 3, kSettings = 4, kContinuation = 9 };
enum Flag : uint8_t { kEndStream = 1, kAck = 1 };

// A block comes in frames as large as may be, but for the last. gRPC bounds the metadata of each frame, not of a block, so
// that many small ones are a way around it.
constexpr int64_t kLargestFrame = 16 << 10, kSpareFrames = 4;
// A piece of a message keeps the buffer that it was read into, with what came before it there, and a slice of its own.
constexpr int64_t kReadBuffer = 64 << 10, kSlice = 64;
// What is reset within this time was not wanted; an honest client waits for longer before it gives up, now and then.
constexpr int64_t kYoungNs = 100'000'000;
// Of the rate, where all connections together are ahead of theirs: who has a part in it is hung up on.
constexpr int64_t kPartNs = RateBound::kAtOnceNs / 10;

}  // namespace

int64_t RateBound::Add(int64_t now_ns) {
  int64_t before = paid_until_ns_.load(std::memory_order_relaxed);
  int64_t after = 0;
  do {
    after = std::max(before, now_ns) + each_ns_;
  } while (!paid_until_ns_.compare_exchange_weak(before, after, std::memory_order_relaxed));
  return after - now_ns;
}

std::optional<FrameHeader> FrameBoundaries::TakeHeader(std::string_view& bytes) {
  const char* at = bytes.data();
  if (have_ == 0 && bytes.size() >= kHeaderBytes) {
    bytes.remove_prefix(kHeaderBytes);
  } else {
    const size_t more = std::min(kHeaderBytes - have_, bytes.size());
    std::memcpy(header_.data() + have_, at, more);
    bytes.remove_prefix(more);
    have_ += more;
    if (have_ < kHeaderBytes) return std::nullopt;
    have_ = 0;
    at = header_.data();
  }
  const auto byte = [at](int i) { return uint32_t{static_cast<unsigned char>(at[i])}; };
  FrameHeader header;
  header.length = byte(0) << 16 | byte(1) << 8 | byte(2);
  header.type = static_cast<uint8_t>(byte(3));
  header.flags = static_cast<uint8_t>(byte(4));
  header.stream = (byte(5) & 0x7f) << 24 | byte(6) << 16 | byte(7) << 8 | byte(8);
  left_ = header.length;
  return header;
}

std::string_view FrameBoundaries::TakePayload(std::string_view& bytes) {
  const std::string_view payload = bytes.substr(0, left_);
  bytes.remove_prefix(payload.size());
  left_ -= static_cast<uint32_t>(payload.size());
  return payload;
}

FrameWatch::FrameWatch(const FrameBounds& bounds, RateBound& resets_of_all)
    : bounds_(bounds), resets_of_all_(resets_of_all), resets_(bounds.max_resets_per_second) {}

FrameFault FrameWatch::Take(std::string_view bytes, int64_t now_ns) {
  now_ns_ = now_ns;
  if (preface_ < kPreface.size()) TakePreface(bytes);
  while (!bytes.empty() && !passed_over_) {
    if (frames_.in_payload()) {
      const std::string_view payload = frames_.TakePayload(bytes);
      if (frame_.type == kData) TakeData(payload);
    } else {
      const auto header = frames_.TakeHeader(bytes);
      if (!header) break;
      const FrameFault fault = Begin(*header);
      if (fault != FrameFault::kNone) return fault;
    }
    if (!frames_.in_payload()) EndFrame();
  }
  return FrameFault::kNone;
}

void FrameWatch::TakePreface(std::string_view& bytes) {
  const std::string_view came = bytes.substr(0, kPreface.size() - preface_);
  passed_over_ = passed_over_ || came != kPreface.substr(preface_, came.size());
  preface_ += came.size();
  bytes.remove_prefix(came.size());
}

FrameFault FrameWatch::Begin(const FrameHeader& frame) {
  frame_ = frame;
  aside_ += kSlice + frame.length;  // its header, and more than that
  switch (frame.type) {
    case kData:
      BeginData();
      return FrameFault::kNone;
    case kHeaders:
      return BeginHeaders();
    case kContinuation:
      block_bytes_ += frame.length;
      ++block_frames_;
      if (frame.stream != 0 && frame.stream == last_stream_ && frame.stream == newest_.id &&
          !newest_.brought) {
        Keep(newest_, frame.length);
      }
      return CheckHeaderBlock();
    case kRstStream:
      return Reset();
    case kSettings:
      acknowledged_ = acknowledged_ || (greeted_ && (frame.flags & kAck) != 0);
      return FrameFault::kNone;
    default:
      return FrameFault::kNone;
  }
}

FrameFault FrameWatch::BeginHeaders() {
  block_bytes_ = frame_.length;
  block_frames_ = 1;
  const FrameFault fault = CheckHeaderBlock();
  if (fault != FrameFault::kNone) return fault;
  if (frame_.stream % 2 == 1 && frame_.stream > last_stream_) return OpenStream();
  // Of a stream that is not open gRPC reads them in vain, and keeps up with nobody who sends nothing else.
  return Find(frame_.stream) == nullptr ? CountReset() : FrameFault::kNone;
}

FrameFault FrameWatch::CheckHeaderBlock() {
  seen_ = block_bytes_;
  const bool within = block_bytes_ <= bounds_.max_header_block_bytes &&
                      block_frames_ <= kSpareFrames + block_bytes_ / kLargestFrame;
  return within ? FrameFault::kNone : FrameFault::kHeaderBlock;
}

FrameFault FrameWatch::OpenStream() {
  NoteTime();
  last_stream_ = frame_.stream;
  seen_ = ++opened_;
  if (opened_ > bounds_.max_streams && !acknowledged_) return FrameFault::kStreams;
  if ((frame_.flags & kEndStream) != 0) return FrameFault::kNone;
  // gRPC has no more than that open: the oldest is a stream that it has forgotten.
  if (open() >= bounds_.max_streams && !others_.empty()) Ended(others_.begin()->first);
  if (newest_.id != 0) others_.emplace(newest_.id, newest_);
  newest_ = Open{.id = frame_.stream};
  ++unwhole_.streams;
  Keep(newest_, frame_.length);
  return FrameFault::kNone;
}

void FrameWatch::NoteTime() {
  if (now_ns_ - noted_ns_ < kYoungNs) return;
  not_young_ = now_ns_ - noted_ns_ < 2 * kYoungNs ? noted_ : last_stream_;
  noted_ = last_stream_;
  noted_ns_ = now_ns_;
}

FrameFault FrameWatch::Reset() {
  NoteTime();
  if (frame_.stream <= not_young_ || frame_.stream > last_stream_) return FrameFault::kNone;
  return CountReset();
}

FrameFault FrameWatch::CountReset() {
  const int64_t own = resets_.Add(now_ns_);
  const int64_t all = resets_of_all_.Add(now_ns_);
  seen_ = resets_.CountOf(own);
  const bool much = own > RateBound::kAtOnceNs || (all > RateBound::kAtOnceNs && own > kPartNs);
  return much ? FrameFault::kResets : FrameFault::kNone;
}

void FrameWatch::BeginData() {
  Open* stream = Find(frame_.stream);
  // Flags that gRPC does not know: it ends the stream.
  if (stream == nullptr || stream->refused || (frame_.flags & ~kEndStream) != 0) return;
  if (frame_.length == 0) return;
  aside_ -= frame_.length;
  Keep(*stream, std::min(std::exchange(aside_, 0), kReadBuffer));
}

void FrameWatch::TakeData(std::string_view bytes) {
  Open* stream = Find(frame_.stream);
  while (stream != nullptr && !stream->refused && !bytes.empty()) {
    const size_t before = bytes.size();
    if (stream->have < kPrefixBytes) {
      TakePrefix(*stream, bytes);
    } else {
      const size_t more = std::min<size_t>(stream->left, before);
      bytes.remove_prefix(more);
      stream->left -= static_cast<uint32_t>(more);
    }
    Keep(*stream, static_cast<int64_t>(before - bytes.size()));
    if (stream->have < kPrefixBytes) continue;
    stream->refused = stream->left > bounds_.max_message_bytes;
    if (stream->left == 0 || stream->refused) Brought(*stream);
  }
}

void FrameWatch::TakePrefix(Open& stream, std::string_view& bytes) const {
  if (stream.have == 0) stream.begun_ns = now_ns_;
  for (; stream.have < kPrefixBytes && !bytes.empty(); ++stream.have) {
    if (stream.have > 0) stream.left = stream.left << 8 | static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
  }
}

// One that is whole keeps nothing here: it is the call's.
void FrameWatch::Brought(Open& stream) {
  Keep(stream, -stream.bytes);
  stream.have = stream.left = 0;
  if (!stream.brought) --unwhole_.streams;
  stream.brought = true;
}

void FrameWatch::Keep(Open& stream, int64_t bytes) {
  stream.bytes += bytes;
  unwhole_.bytes += bytes;
}

void FrameWatch::EndFrame() {
  const bool ends = frame_.type == kRstStream ||
                    (frame_.type == kHeaders && (frame_.flags & kEndStream) != 0) ||
                    (frame_.type == kData && frame_.flags != 0);
  if (ends) Ended(frame_.stream);
}

void FrameWatch::Ended(uint32_t id) {
  Open* stream = Find(id);
  if (stream == nullptr) return;
  Brought(*stream);
  if (stream == &newest_) {
    newest_ = Open();
  } else {
    others_.erase(id);
  }
}

FrameWatch::Open* FrameWatch::Find(uint32_t stream) {
  if (newest_.id == stream) return stream == 0 ? nullptr : &newest_;
  if (others_.empty()) return nullptr;
  const auto other = others_.find(stream);
  return other == others_.end() ? nullptr : &other->second;
}

int64_t FrameWatch::OldestBegun() const {
  const auto begun = [](const Open& stream) { return stream.have > 0 ? stream.begun_ns : kNever; };
  int64_t oldest = begun(newest_);
  for (const auto& [id, stream] : others_) oldest = std::min(oldest, begun(stream));
  return oldest;
}

}  // namespace cellbatch
