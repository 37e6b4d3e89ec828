#include "server/wire/inflate.h"

#include <zlib.h>

#include <algorithm>

#include "cells/check.h"
#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr int kWindowBits = 15,
              kOfGzip = 16;  // zlib's largest window, and its flag for gzip's header
constexpr size_t kFirstRoom = 16 << 10;

class Inflater {
 public:
  explicit Inflater(Packing packing) {
    Check(inflateInit2(&stream_, packing == Packing::kGzip ? kWindowBits | kOfGzip : kWindowBits) ==
              Z_OK,
          "zlib has no memory");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  void Take(std::string_view piece) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
  }
  bool taken() const { return stream_.avail_in == 0; }
  // Into the end of `out`, which has `size` bytes so far. False: it is damaged.
  bool Make(std::string& out, size_t& size) {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + size);
    stream_.avail_out = static_cast<uInt>(out.size() - size);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    size = out.size() - stream_.avail_out;
    ended_ = result == Z_STREAM_END;
    return ended_ || result == Z_OK || result == Z_BUF_ERROR;
  }
  bool ended() const { return ended_; }

 private:
  z_stream stream_ = {};
  bool ended_ = false;
};

absl::Status Damaged() { return absl::InvalidArgumentError("the compressed message is damaged"); }

}  // namespace

absl::Status Inflate(absl::Span<const std::string_view> pieces, Packing packing, int64_t most,
                     std::string& out) {
  Inflater inflater(packing);
  const auto limit = static_cast<size_t>(most) + 1;  // one too many is enough to know
  size_t size = 0;
  out.clear();
  for (const std::string_view piece : pieces) {
    inflater.Take(piece);
    while (!inflater.taken() || size == out.size()) {
      if (inflater.ended()) break;
      if (size == limit) break;
      if (size == out.size()) out.resize(std::min(limit, std::max(kFirstRoom, size * 2)));
      if (!inflater.Make(out, size)) return Damaged();
    }
    if (size == limit) {
      return absl::ResourceExhaustedError(
          fmt::format("the compressed message becomes more than {} bytes", most));
    }
    if (inflater.ended() && !inflater.taken()) return Damaged();
  }
  if (!inflater.ended()) return Damaged();
  out.resize(size);
  return absl::OkStatus();
}

}  // namespace cellbatch
