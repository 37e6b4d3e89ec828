// Header blocks that no library would write (HPACK, RFC 7541; CVE-2023-1428 and its kind), each on a connection of its own:
// the server is there afterwards, and the next good request is right. What it says to them is its own business: it is waited
// for, so that each has been read.
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/fault_test.h"
#include "tests/fault/http2_by_hand.h"

namespace cellbatch {
namespace {

using http2::Header;

// Of any bytes, zeros too.
template <size_t kSize>
std::string Raw(const char (&bytes)[kSize]) {
  return std::string(bytes, kSize - 1);
}

// The headers of a call, but for those of that name.
std::string CallWithout(const std::string& name) {
  std::string block;
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{":method", "POST"},
                                                        {":scheme", "http"},
                                                        {":path", kInferMethod},
                                                        {":authority", "x"},
                                                        {"te", "trailers"},
                                                        {"content-type", "application/grpc"}}) {
    if (key != name) block += Header(key, value);
  }
  return block;
}
std::string CallWith(const std::string& name, const std::string& value) {
  return CallWithout(name) + Header(name, value);
}

// Integers, indices, strings and sizes of tables that cannot be, by themselves and behind a whole call.
std::vector<std::string> BrokenCodes() {
  return {
      Raw("\x80"),                                              // index 0
      Raw("\xfe"),                                              // of no entry
      Raw("\xff\x00"),                                          //
      Raw("\xff\xff\xff\xff\x0f"),                              // 2^32 and more
      Raw("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),  // an integer without an end
      Raw("\xff\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),  // the same, of zeros
      Raw("\xff"),                                              // cut off
      Raw("\x3f"),                                              // a size of the table: cut off,
      Raw("\x3f\xff\xff\xff\xff\x0f"),                          // too large,
      Raw("\x20\x3f\xe1\x1f\x20"),                              // three times
      Raw("\x40"),                                              // a literal: cut off,
      Raw("\x40\x00"),                                          // without a name or a value,
      Raw("\x40\x00\x00"),                                      // with empty ones,
      Raw("\x00\x00\x00"),                                      //
      Raw("\x10\x00\x00"),                                      //
      Raw("\x00\x7f\xff\xff\xff\xff\x0f"),                      // a name of 4 GiB,
      Raw("\x00\x05"
          "ab"),  // that is not all there,
      Raw("\x00\x01"
          "a\x7f\xff\xff\xff\xff\x0f"),  // a value likewise,
      Raw("\x00\x01"
          "a\x05"
          "ab"),  //
      Raw("\x7f\xff\xff\xff\xff\x0f\x01"
          "a"),                             // the name of no entry,
      Raw("\x00\x84\xff\xff\xff\xff\x00"),  // Huffman's end of string,
      Raw("\x00\x81\xff\x00"),              // padding of eight bits,
      Raw("\x00\x81\x00\x81\x00"),          // padding of zeros,
      Raw("\x00\xff\xff\xff\xff\xff\x0f"),  // of 4 GiB
      Raw("\x1f\xff\xff\xff\xff\x0f"),      // a name never indexed, of no entry
      Raw("\x82\x82\x82\x82"),              // four methods
  };
}

// Whole blocks that say what no call may.
std::vector<std::string> OddCalls() {
  std::vector<std::string> blocks;
  for (const char* name : {":method", ":scheme", ":path", ":authority", "te", "content-type"}) {
    blocks.push_back(CallWithout(name));
    blocks.push_back(CallWith(name, ""));
    blocks.push_back(CallWith(name, "x"));
    blocks.push_back(CallWithout("") + Header(name, "again"));
  }
  for (const char* time : {"", "1", "S", "-1S", "1x", "99999999999999999999H", "0n", "1 S"}) {
    blocks.push_back(CallWith("grpc-timeout", time));
  }
  for (const char* name : {"grpc-encoding", "grpc-accept-encoding", "grpc-status", "grpc-message",
                           "grpc-tags-bin", "grpc-trace-bin", "lb-token", "lb-cost-bin", "x-bin",
                           "user-agent", ":unknown", ":status", "host", "connection"}) {
    blocks.push_back(CallWith(name, "\x01\xff,=;%zz"));
    blocks.push_back(CallWith(name, "A"));  // no base64
  }
  blocks.push_back(CallWith("UPPER", "x"));
  blocks.push_back(CallWith("sp ace", "x"));
  blocks.push_back(CallWith("x", Raw("a\0b\r\nc")));
  blocks.push_back(CallWithout("") + Header(":path", "/late"));
  blocks.push_back("");
  return blocks;
}

class HeaderBlocksTest : public FaultTest {
 protected:
  static void SetUpTestSuite() { Serve(FaultRepository(), {"--devices=cpu:0"}); }

  // A call of these headers and no message; then a ping, which is answered once they were read, or not at all.
  static void SendAndWait(const std::string& block) {
    TcpConnection peer(server_->grpc());
    ASSERT_TRUE(peer.connected()) << "nobody is there";
    peer.Send(http2::Greeting() +
              http2::Frame(http2::kHeaders, http2::kEndHeaders | http2::kEndStream, 1, block) +
              http2::Frame(http2::kPing, http2::kNone, 0, "12345678"));
    http2::FrameReader frames(peer);
    for (auto frame = frames.Next(); frame.has_value(); frame = frames.Next()) {
      if (frame->type == http2::kPing && frame->flags == http2::kAck) return;
    }
    EXPECT_TRUE(peer.closed()) << "it was silent";
  }
};

TEST_F(HeaderBlocksTest, CodesThatCannotBeAreSurvived) {
  for (const std::string& code : BrokenCodes()) {
    SendAndWait(code);
    SendAndWait(CallWithout("") + code);
  }
}

TEST_F(HeaderBlocksTest, CallsThatNobodyMakesAreSurvived) {
  for (const std::string& block : OddCalls()) SendAndWait(block);
}

TEST_F(HeaderBlocksTest, DamagedBlocksAreSurvived) {
  constexpr int kBlocks = 1000;
  std::mt19937 random(1);
  const std::string good = CallWith("grpc-timeout", "1S") + Header("x-bin", "AAAA");
  for (int i = 0; i < kBlocks; ++i) {
    std::string block = good;
    for (uint32_t damages = 1 + random() % 4; damages > 0; --damages) {
      block[random() % block.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) block.resize(random() % block.size());
    SendAndWait(block);
  }
}

}  // namespace
}  // namespace cellbatch
