#include "tests/fault/attacks/attacks.h"

#include <algorithm>
#include <utility>

#include "tests/e2e/tcp_connection.h"
#include "tests/fault/attacks/many_calls.h"
#include "tests/fault/grpc_caller.h"
#include "tests/fault/http2_by_hand.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

using Bout = std::unique_ptr<AttackBout>;
using Random = std::mt19937_64;

constexpr const char* kTypedInfer = "/cellbatch.v1.Cellbatch/Infer";
constexpr const char* kServerLive = "/inference.GRPCInferenceService/ServerLive";

// Attacks that are over as soon as they are made.
Bout Over(int attacks) { return std::make_unique<AttackBout>(attacks); }

void Patient(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kAttackPatience);
}

std::string Bytes(Random& random, size_t most) {
  std::string bytes(1 + random() % most, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::string Greeting(uint32_t window = 65535) {
  return http2::kPreface + http2::Setting(http2::kInitialWindowSize, window);
}

std::vector<int32_t> Tokens(int steps) {
  std::vector<int32_t> tokens(static_cast<size_t>(steps));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i % 100);
  return tokens;
}

// Connections that stay, and what each sends of what it has, a byte at a time.
class Connections : public AttackBout {
 public:
  void Add(const std::string& address, const std::string& at_once, std::string later = "",
           int attacks = 1) {
    auto connection = std::make_unique<TcpConnection>(address);
    if (!connection->connected() || !connection->Send(at_once)) return;
    attacks_ += attacks;
    open_.push_back({std::move(connection), std::move(later)});
  }
  void CountOneMore() { ++attacks_; }
  void Trickle() override {
    for (Open& open : open_) {
      if (open.sent < open.later.size()) open.connection->Send(open.later.substr(open.sent++, 1));
    }
  }

 private:
  struct Open {
    std::unique_ptr<TcpConnection> connection;
    std::string later;
    size_t sent = 0;
  };
  std::vector<Open> open_;
};

constexpr int kMalformed = 16;
Bout Malformed(const AttackTarget& target, Random& random) {
  GrpcCaller caller(target.grpc);
  const std::string good = Words(Tokens(50)).SerializeAsString();
  for (int i = 0; i < kMalformed / 4; ++i) {
    caller.RawInfer(Bytes(random, 4096), Patient);
    caller.RawInfer(good.substr(0, random() % good.size()), Patient);
    caller.Raw(kTypedInfer, {Bytes(random, 4096)}, Patient);
    std::string damaged = good;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    caller.RawInfer(damaged, Patient);
  }
  return Over(kMalformed);
}

constexpr int kGarbled = 8;
Bout Garbled(const AttackTarget& target, Random& random) {
  auto bout = std::make_unique<Connections>();
  for (int i = 0; i < kGarbled / 4; ++i) {
    bout->Add(target.grpc, Bytes(random, 2000));
    bout->Add(target.grpc, Greeting() + Bytes(random, 2000));
    bout->Add(target.http, Bytes(random, 2000) + "\r\n\r\n");
    bout->Add(target.http,
              "POST /v2/models/words/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n" +
                  Bytes(random, 9));
  }
  return bout;
}

constexpr int kSlowSenders = 8;
Bout Slow(const AttackTarget& target, Random&) {
  auto bout = std::make_unique<Connections>();
  const std::string frames = Greeting() + http2::Infer(1, Words(Tokens(500)).SerializeAsString());
  const size_t at_once = Greeting().size() + http2::InferHeaders(1).size();
  for (int i = 0; i < kSlowSenders / 4; ++i) {
    bout->Add(target.grpc, frames.substr(0, at_once), frames.substr(at_once));
    bout->Add(target.grpc, "", frames);
    bout->Add(target.http, "GET /v2/health/live HTTP/1.1\r\n", "Host: a-host-with-a-long-name\r\n");
    bout->Add(target.http,
              "POST /v2/models/words/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n",
              R"({"inputs":[{"name":"TOKENS","shape":[1],"datatype":"INT32","data":[1]}]})");
  }
  return bout;
}

constexpr int kHuge = 3;
Bout Huge(const AttackTarget& target, Random&) {
  GrpcCaller caller(target.grpc);
  const auto most = static_cast<size_t>(target.most_message_bytes);
  caller.RawInfer(std::string(most + 1, '\0'), Patient);
  // As large as one may be, and each of its bytes a word: more steps than may be queued.
  caller.RawInfer(Words(Tokens(static_cast<int>(most / 4 - 100))).SerializeAsString(), Patient);
  Connections().Add(target.http,
                    "POST /v2/models/words/infer HTTP/1.1\r\nHost: a\r\nContent-Length: "
                    "99999999999\r\n\r\n{");
  return Over(kHuge);
}

constexpr int kCancelled = 100;
Bout Cancelled(const AttackTarget& target, Random&) {
  GrpcCaller caller(target.grpc);
  ManyCalls calls(caller, kCancelled, Words(Tokens(3000)));
  calls.Cancel();
  calls.Ended();
  return Over(kCancelled);
}

constexpr int kFlood = 1000;
Bout Flood(const AttackTarget& target, Random&) {
  GrpcCaller caller(target.grpc);
  ManyCalls calls(caller, kFlood, Words(Tokens(50)));
  calls.Ended();
  return Over(kFlood);
}

constexpr int kUnread = 4;
Bout Unread(const AttackTarget& target, Random&) {
  auto bout = std::make_unique<Connections>();
  inference::ModelInferRequest request = Words(Tokens(2500));
  request.add_outputs()->set_name("ALL_HIDDEN");
  const std::string body = request.SerializeAsString();
  std::string all = Greeting(/*window=*/0);
  for (uint32_t i = 0; i < kUnread; ++i) all += http2::Infer(1 + 2 * i, body);
  bout->Add(target.grpc, all, "", kUnread);
  return bout;
}

constexpr int kUnreadPages = 100;
Bout UnreadHttp(const AttackTarget& target, Random&) {
  auto bout = std::make_unique<Connections>();
  std::string pages;
  for (int i = 0; i < kUnreadPages; ++i) pages += "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
  bout->Add(target.http, pages, "", kUnreadPages);
  return bout;
}

// 7a 00: a field of bytes that no message has, empty, over and over.
std::string UnknownFields(size_t bytes) {
  std::string fields;
  while (fields.size() < bytes) fields += std::string("\x7a\x00", 2);
  return fields;
}

constexpr int kUnknownSent = 6;
Bout Unknown(const AttackTarget& target, Random&) {
  GrpcCaller caller(target.grpc);
  const std::string fields = UnknownFields(4 << 20);
  const auto gzip = [](grpc::ClientContext& context) {
    Patient(context);
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  };
  for (const char* method : {kInferMethod, kTypedInfer, kServerLive}) {
    caller.Raw(method, {fields}, Patient);
    caller.Raw(method, {fields}, gzip);
  }
  return Over(kUnknownSent);
}

constexpr int kHalf = 4;
Bout HalfSent(const AttackTarget& target, Random&) {
  auto bout = std::make_unique<Connections>();
  // What fits into the window that nobody has to be given.
  const std::string part(15'000, 'x');
  const std::string announced =
      std::string(1, '\0') + http2::BigEndian(static_cast<uint32_t>(target.most_message_bytes), 4);
  std::string half =
      Greeting() + http2::InferHeaders(1) + http2::Frame(http2::kData, http2::kNone, 1, announced);
  for (int i = 0; i < 4; ++i) half += http2::Frame(http2::kData, http2::kNone, 1, part);
  for (int i = 0; i < kHalf; ++i) bout->Add(target.grpc, half);
  return bout;
}

constexpr int kReset = 500;
Bout OpenAndReset(const AttackTarget& target, Random&) {
  auto bout = std::make_unique<Connections>();
  const std::string request = Words({1, 2, 3}).SerializeAsString();
  std::string all = Greeting();
  for (uint32_t i = 0; i < kReset; ++i) {
    const uint32_t stream = 1 + 2 * i;
    all += http2::Infer(stream, request) +
           http2::Frame(http2::kRstStream, http2::kNone, stream, http2::BigEndian(8, 4));
  }
  bout->Add(target.grpc, all, "", kReset);
  return bout;
}

constexpr int kStreams = 200;
Bout Streams(const AttackTarget& target, Random&) {
  auto bout = std::make_unique<Connections>();
  std::string all = Greeting();
  for (uint32_t i = 0; i < kStreams; ++i) all += http2::InferHeaders(1 + 2 * i);
  bout->Add(target.grpc, all, "", kStreams);
  return bout;
}

Bout Metadata(const AttackTarget& target, Random&) {
  auto bout = std::make_unique<Connections>();
  constexpr char kContinuation = 9;
  std::string block;
  for (int i = 0; i < 50; ++i) {
    block += http2::Header("x-" + std::to_string(i), std::string(100, 'x'));
  }
  std::string endless = http2::InferHeaders(1);
  endless[4] = http2::kNone;  // its flags: no END_HEADERS
  endless = Greeting() + endless;
  for (int i = 0; i < 200; ++i) endless += http2::Frame(kContinuation, http2::kNone, 1, block);
  bout->Add(target.grpc, endless);
  GrpcCaller(target.grpc).RawInfer("", [](grpc::ClientContext& context) {
    Patient(context);
    context.AddMetadata("x", std::string(70'000, 'x'));
  });
  bout->CountOneMore();
  return bout;
}

constexpr int kReflections = 64;
Bout Reflections(const AttackTarget& target, Random&) {
  auto bout = std::make_unique<Connections>();
  const std::string headers =
      http2::Header(":method", "POST") + http2::Header(":scheme", "http") +
      http2::Header(":path", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo") +
      http2::Header(":authority", "x") + http2::Header("te", "trailers") +
      http2::Header("content-type", "application/grpc");
  std::string all = Greeting();
  for (uint32_t i = 0; i < kReflections; ++i) {
    all += http2::Frame(http2::kHeaders, http2::kEndHeaders, 1 + 2 * i, headers);
  }
  bout->Add(target.grpc, all, "", kReflections);
  return bout;
}

constexpr int kIdle = 20;
Bout Idle(const AttackTarget& target, Random&) {
  auto bout = std::make_unique<Connections>();
  for (int i = 0; i < kIdle / 2; ++i) {
    bout->Add(target.grpc, Greeting());
    bout->Add(target.http, "");
  }
  return bout;
}

}  // namespace

const std::vector<AttackKind>& AttackKinds() {
  static const std::vector<AttackKind> kinds = {
      {"malformed", "messages cut off, damaged, random", 4, 0, Malformed},
      {"garbled", "connections that speak no protocol", 2, 1, Garbled},
      {"slow", "senders of a byte at a time, gRPC and HTTP", 2, 15, Slow},
      {"huge", "messages as large as may be, and larger", 0.2, 0, Huge},
      {"cancelled", "calls of 3,000 steps, begun and cancelled", 1, 0, Cancelled},
      {"flood", "calls at once", 1, 0, Flood},
      {"unread", "answers of 240 KB that nobody reads", 2, 5, Unread},
      {"unread_http", "pages that nobody reads", 0.5, 5, UnreadHttp},
      {"unknown", "4 MiB of unknown fields, plain and by gzip", 0.5, 0, Unknown},
      {"half_sent", "messages announced, 60 KB of each sent", 2, 10, HalfSent},
      {"reset", "requests opened and reset", 2, 0, OpenAndReset},
      {"streams", "streams that bring nothing", 1, 5, Streams},
      {"reflection", "streams of reflection that ask nothing", 0.5, 5, Reflections},
      {"metadata", "headers without an end, or of 70 KB", 1, 2, Metadata},
      {"idle", "connections that say nothing", 1, 10, Idle},
  };
  return kinds;
}

}  // namespace cellbatch
