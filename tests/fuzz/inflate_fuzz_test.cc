// Compressed messages of every kind that zlib makes, damaged or not, in pieces of any size and under bounds of any height: what
// becomes of each is what zlib makes of the whole at once, in a buffer that holds it all; and never more than the bound and one.
#include <zlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/wire/inflate.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

// More than any damage makes of what is packed here.
constexpr size_t kRoom = 4 << 20;

int WindowOf(Packing packing) { return packing == Packing::kGzip ? 15 + 16 : 15; }

// Noise, words and runs: now and then a long one, which packs to a thousandth.
std::string Text(Mutator& mutator) {
  std::string text;
  for (uint64_t i = 0, n = mutator.Below(6); i < n; ++i) {
    const uint64_t length = mutator.Below(mutator.Below(24) == 0 ? 120'000 : 400);
    switch (mutator.Below(3)) {
      case 0:
        for (uint64_t k = 0; k < length; ++k) text += static_cast<char>(mutator.Below(256));
        break;
      case 1:
        for (uint64_t k = 0; k < length; ++k) text += "to be or not "[mutator.Below(13)];
        break;
      default:
        text += std::string(length, static_cast<char>(mutator.Below(256)));
    }
  }
  return text;
}

std::string Packed(const std::string& text, Packing packing, Mutator& mutator) {
  z_stream stream = {};
  const int level = static_cast<int>(mutator.Below(10));
  const int memory = 1 + static_cast<int>(mutator.Below(9));
  const int strategy = static_cast<int>(mutator.Below(5));  // Z_DEFAULT_STRATEGY to Z_FIXED
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, WindowOf(packing), memory, strategy), Z_OK);
  std::string name = "a name", comment = "a comment", extra = "more";
  gz_header header = {};
  if (packing == Packing::kGzip && mutator.Below(2) == 0) {
    header.name = reinterpret_cast<Bytef*>(name.data());
    header.comment = reinterpret_cast<Bytef*>(comment.data());
    header.extra = reinterpret_cast<Bytef*>(extra.data());
    header.extra_len = static_cast<uInt>(extra.size());
    header.hcrc = static_cast<int>(mutator.Below(2));
    EXPECT_EQ(deflateSetHeader(&stream, &header), Z_OK);
  }
  std::string packed(deflateBound(&stream, text.size()) + 1024, '\0');
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(mutator.Below(text.size() + 1));
  const auto rest = static_cast<uInt>(text.size()) - stream.avail_in;
  deflate(&stream, mutator.Below(2) == 0 ? Z_NO_FLUSH : Z_FULL_FLUSH);
  stream.avail_in += rest;
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

struct Whole {
  std::string text;  // as far as it can be read
  bool ended = false;
  size_t left = 0;  // bytes behind the end
};

Whole AtOnce(const std::string& packed, Packing packing) {
  static std::string room(kRoom, '\0');
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, WindowOf(packing)), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(room.data());
  stream.avail_out = static_cast<uInt>(room.size());
  Whole whole;
  whole.ended = inflate(&stream, Z_FINISH) == Z_STREAM_END;
  whole.text = room.substr(0, stream.total_out);
  whole.left = stream.avail_in;
  inflateEnd(&stream);
  EXPECT_LT(whole.text.size(), kRoom) << "the reference's buffer is too small";
  return whole;
}

std::vector<std::string_view> Pieces(std::string_view packed, Mutator& mutator) {
  std::vector<std::string_view> pieces;
  while (!packed.empty()) {
    const size_t most = mutator.Below(3) == 0 ? 8 : packed.size() + 1;
    const std::string_view piece = packed.substr(0, mutator.Below(most + 1));
    packed.remove_prefix(piece.size());
    pieces.push_back(piece);
  }
  return pieces;
}

TEST(InflateFuzzTest, WhatComesInPiecesIsWhatZlibMakesOfTheWholeAndNoMoreThanAllowed) {
  const uint64_t seed = 20261129;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {std::string("\x1f\x8b\x08\0", 4), "\x1f\x8b\x08\x1f", "\x78\x9c",
                         std::string("\x03\0", 2), std::string("\0\0\xff\xff", 4), "\xff\xff"});
  int64_t accepted = 0, damaged = 0, too_much = 0;
  FuzzBudget budget(2000);
  while (budget.Next()) {
    const Packing packing = mutator.Below(2) == 0 ? Packing::kGzip : Packing::kDeflate;
    const std::string text = Text(mutator);
    const std::string valid = Packed(text, packing, mutator);
    const bool whole = mutator.Below(2) == 0;
    const std::string packed = whole ? valid : mutator.Mutate(valid);
    const Whole expected = AtOnce(packed, packing);
    if (whole) {
      ASSERT_EQ(expected.text, text);
    }
    // Mostly just above or just below what it becomes.
    const uint64_t near = expected.text.size() + mutator.Below(5);
    const uint64_t most =
        mutator.Below(4) == 0 ? mutator.Below(near + 20'000) : near - std::min<uint64_t>(near, 2);
    std::string out(mutator.Below(2) == 0 ? 0 : mutator.Below(40'000), 'x');  // of a message before
    const absl::Status status =
        Inflate(Pieces(packed, mutator), packing, static_cast<int64_t>(most), out);
    const bool fits = expected.text.size() <= most;
    if (status.ok()) {
      ++accepted;
      ASSERT_TRUE(expected.ended && expected.left == 0 && fits) << most;
      ASSERT_EQ(out, expected.text);
      continue;
    }
    ASSERT_FALSE(expected.ended && expected.left == 0 && fits) << status;
    ASSERT_LE(out.size(), std::max<size_t>(most + 1, 40'000));
    ASSERT_LE(out.capacity(), 2 * std::max<size_t>(most + 1, 40'000));
    if (status.code() == absl::StatusCode::kResourceExhausted) {
      ++too_much;
      ASSERT_FALSE(fits) << status;
      ASSERT_EQ(std::string(status.message()),
                "the compressed message becomes more than " + std::to_string(most) + " bytes");
      continue;
    }
    ++damaged;
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    ASSERT_TRUE(fits || (expected.text.size() == most + 1 && !expected.ended)) << most;
  }
  EXPECT_GT(accepted, budget.cases() / 10);
  EXPECT_GT(damaged, budget.cases() / 10);
  EXPECT_GT(too_much, budget.cases() / 10);
}

}  // namespace
}  // namespace cellbatch
