#include "server/wire/inflate.h"

#include <zlib.h>

#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

std::string Packed(const std::string& text, Packing packing) {
  std::string packed(compressBound(text.size()) + 32, '\0');
  z_stream stream = {};
  const int window = packing == Packing::kGzip ? 15 + 16 : 15;
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

absl::StatusCode CodeOf(const std::string& packed, Packing packing, int64_t most = 1 << 20) {
  std::string out;
  return Inflate({packed}, packing, most, out).code();
}

std::string Text() {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * i % 1013);
  return text;
}

TEST(InflateTest, WhatWasPackedComesBackInHoweverManyPiecesItLies) {
  for (const std::string& text : {std::string(), std::string("a"), Text()}) {
    for (const Packing packing : {Packing::kGzip, Packing::kDeflate}) {
      const std::string packed = Packed(text, packing);
      for (const size_t size : {size_t{1}, size_t{7}, size_t{5000}, packed.size()}) {
        std::vector<std::string_view> pieces;
        for (size_t at = 0; at < packed.size(); at += size) {
          pieces.push_back(std::string_view(packed).substr(at, size));
          pieces.emplace_back();  // an empty one changes nothing
        }
        std::string out;
        ASSERT_TRUE(Inflate(pieces, packing, 1 << 20, out).ok());
        ASSERT_EQ(out, text);
      }
    }
  }
}

TEST(InflateTest, NoMoreIsMadeThanWasAllowed) {
  const std::string text = Text();
  const auto size = static_cast<int64_t>(text.size());
  const std::string packed = Packed(text, Packing::kGzip);
  EXPECT_EQ(CodeOf(packed, Packing::kGzip, size), absl::StatusCode::kOk);
  std::string out;
  const absl::Status status = Inflate({packed}, Packing::kGzip, size - 1, out);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(status.message()),
            "the compressed message becomes more than " + std::to_string(size - 1) + " bytes");
  EXPECT_EQ(out.size(), text.size()) << "one too many is known by";
}

TEST(InflateTest, WhatIsCutOffDamagedFollowedByMoreOrPackedOtherwiseIsRefused) {
  const std::string packed = Packed(Text(), Packing::kGzip);
  for (const size_t left :
       {size_t{0}, size_t{1}, size_t{10}, packed.size() / 2, packed.size() - 1}) {
    EXPECT_EQ(CodeOf(packed.substr(0, left), Packing::kGzip), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(CodeOf(packed + "x", Packing::kGzip), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(packed, Packing::kDeflate), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(Text(), Packing::kGzip), absl::StatusCode::kInvalidArgument);
  std::string damaged = packed;
  damaged[packed.size() - 6] = static_cast<char>(damaged[packed.size() - 6] ^ 1);  // its checksum
  EXPECT_EQ(CodeOf(damaged, Packing::kGzip), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cellbatch
