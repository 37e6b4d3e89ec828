#include "tests/fault/attacks/strangers.h"

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "proto/cellbatch.pb.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/attacks/half_sender.h"
#include "tests/fault/grpc_caller.h"
#include "tests/fault/http2_by_hand.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

const SmallModel kWide = {.name = "wide", .hidden = 1024, .width = 4, .vocabulary = 10};
constexpr const char* kTypedInfer = "/cellbatch.v1.Cellbatch/Infer";
constexpr const char* kServerLive = "/inference.GRPCInferenceService/ServerLive";
constexpr std::chrono::minutes kPatience{1};

using Connections = std::vector<std::unique_ptr<TcpConnection>>;

std::string WideWindow() {
  return http2::Frame(http2::kWindowUpdate, http2::kNone, 0, http2::BigEndian(1 << 30, 4));
}

// Statuses of calls, from many threads.
class Heard {
 public:
  void Add(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    ++codes_[static_cast<int>(status.error_code())];
  }
  std::string text() const {
    std::string text;
    for (const auto& [code, times] : codes_) {
      text += fmt::format("{}{} x status {}", text.empty() ? "" : ", ", times, code);
    }
    return text;
  }

 private:
  std::mutex mutex_;
  std::map<int, int> codes_;
};

// What `make` makes of 0, 1, 2 .., in pieces of `at_once`.
template <typename Make>
uint32_t SendEach(const TcpConnection& peer, uint32_t count, uint32_t at_once, const Make& make) {
  std::string many;
  uint32_t sent = 0;
  for (uint32_t i = 0; i < count; ++i) {
    many += make(i);
    if ((i + 1) % at_once != 0 && i + 1 != count) continue;
    if (!peer.Send(many)) break;
    sent = i + 1;
    many.clear();
  }
  return sent;
}

// The same call from four clients at once.
void FourAtOnce(const StrangerTarget& target, const std::string& method, const std::string& message,
                bool gzip, Heard& heard) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      GrpcCaller caller(target.grpc);
      heard.Add(caller
                    .Raw(method, {message},
                         [gzip](grpc::ClientContext& context) {
                           context.set_deadline(std::chrono::system_clock::now() + kPatience);
                           if (gzip) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
                         })
                    .status);
    });
  }
  for (std::thread& client : clients) client.join();
}

StrangerLeft UnknownFields(const StrangerTarget& target) {
  constexpr size_t kBytes = 64 << 20,
                   kFewer = 100;  // with its head no longer than a message may be
  std::string fields;
  fields.reserve(kBytes);
  while (fields.size() < kBytes - kFewer) fields += std::string("\x7a\x00", 2);
  Heard heard;
  for (const char* method : {kInferMethod, kTypedInfer, kServerLive}) {
    FourAtOnce(target, method, fields, false, heard);
    FourAtOnce(target, method, fields, true, heard);
  }
  return {heard.text(), nullptr};
}

StrangerLeft ManyParts(const StrangerTarget& target) {
  v1::InferRequest inputs;
  inputs.set_model_name(kWords.name);
  for (int i = 0; i < 4096; ++i) inputs.add_inputs()->mutable_sequence()->add_tokens(i % 100);
  for (int i = 0; i < 25'000; ++i) (*inputs.mutable_parameters())[fmt::format("p{:05}", i)] = i;
  v1::InferRequest names;
  names.set_model_name(kWords.name);
  for (int i = 0; i < 4096; ++i) names.add_inputs()->mutable_sequence()->add_tokens(i % 100);
  for (int i = 0; i < 200'000; ++i) names.add_outputs(fmt::format("o{:06}", i));
  Heard heard;
  for (const v1::InferRequest& request : {inputs, names}) {
    FourAtOnce(target, kTypedInfer, request.SerializeAsString(), false, heard);
  }
  return {heard.text(), nullptr};
}

StrangerLeft Lengths(const StrangerTarget& target) {
  constexpr int kSequences = 240'000;
  inference::ModelInferRequest request =
      Words(std::vector<int32_t>(kSequences, 1), kWide.name);  // a gigabyte of states
  SetTensor(request, "LENGTHS", "INT32", {kSequences}, std::vector<int32_t>(kSequences, 1));
  request.add_outputs()->set_name("ALL_HIDDEN");
  Heard heard;
  FourAtOnce(target, kInferMethod, request.SerializeAsString(), false, heard);
  return {heard.text(), nullptr};
}

StrangerLeft Unread(const StrangerTarget& target) {
  constexpr int kConnections = 4, kCalls = 100;
  inference::ModelInferRequest request = Words(std::vector<int32_t>(1536, 1), kWide.name);
  request.add_outputs()->set_name("ALL_HIDDEN");
  const std::string body = request.SerializeAsString();
  auto connections = std::make_shared<Connections>();
  for (int c = 0; c < kConnections; ++c) {
    connections->push_back(std::make_unique<TcpConnection>(target.grpc, target.from));
    std::string all = http2::kPreface + http2::Setting(http2::kInitialWindowSize, 0);
    for (uint32_t i = 0; i < kCalls; ++i) all += http2::Infer(1 + 2 * i, body);
    connections->back()->Send(all);
  }
  return {"answers of 6 MiB, none read", connections};
}

// Sends the same until it is hung up on.
int64_t SendOver(const TcpConnection& connection, const std::string& part, int64_t most) {
  int64_t sent = 0;
  while (sent < most && connection.Send(part)) sent += static_cast<int64_t>(part.size());
  return sent;
}

StrangerLeft Heads(const StrangerTarget& target) {
  constexpr int64_t kMost = 512 << 20;
  std::string headers, empty;
  for (int i = 0; i < 50; ++i) {
    headers += http2::Header("x-" + std::to_string(i), std::string(100, 'x'));
  }
  for (int i = 0; i < 5000; ++i) empty += http2::Header("", "");
  auto connections = std::make_shared<Connections>();
  std::string heard;
  for (const std::string& block : {headers, empty}) {
    connections->push_back(std::make_unique<TcpConnection>(target.grpc, target.from));
    const TcpConnection& peer = *connections->back();
    peer.Send(http2::Greeting() + http2::InferHeaders(1, {}, http2::kNone));
    const int64_t sent =
        SendOver(peer, http2::Frame(http2::kContinuation, http2::kNone, 1, block), kMost);
    heard += fmt::format("hung up on after {} KiB, ", sent >> 10);
  }
  Heard long_one;
  GrpcCaller caller(target.grpc);
  long_one.Add(caller
                   .RawInfer("",
                             [](grpc::ClientContext& context) {
                               for (int i = 0; i < 10; ++i) {
                                 context.AddMetadata(fmt::format("x{}", i), std::string(7000, 'x'));
                               }
                             })
                   .status);
  return {heard + "70 KB of metadata: " + long_one.text(), connections};
}

StrangerLeft OpenStreams(const StrangerTarget& target) {
  auto peer = std::make_shared<TcpConnection>(target.grpc, target.from);
  peer->Send(http2::Greeting());
  return {fmt::format("{} sent", OpenMany(*peer, 200'000)), peer};
}

StrangerLeft Resets(const StrangerTarget& target) {
  constexpr int kConnections = 4;
  constexpr uint32_t kEach = 25'000;
  auto connections = std::make_shared<Connections>();
  std::vector<std::thread> threads;
  std::atomic<uint32_t> all = 0;
  for (int c = 0; c < kConnections; ++c) {
    connections->push_back(std::make_unique<TcpConnection>(target.grpc, target.from));
    threads.emplace_back([&, &peer = *connections->back()] {
      peer.Send(http2::Greeting());
      all += OpenAndResetMany(peer, kEach);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {fmt::format("{} sent", all.load()), connections};
}

// Ordinary calls, as fast as they can be sent, all answers taken.
StrangerLeft Flood(const StrangerTarget& target) {
  constexpr int kConnections = 4;
  constexpr uint32_t kEach = 25'000, kAtOnce = 100;
  const std::string request = Words(std::vector<int32_t>(50, 1)).SerializeAsString();
  std::vector<std::thread> threads;
  std::atomic<int> ended = 0;
  for (int c = 0; c < kConnections; ++c) {
    threads.emplace_back([&] {
      TcpConnection peer(target.grpc, target.from);
      peer.Send(http2::Greeting() + WideWindow());
      std::thread sends([&] {
        SendEach(peer, kEach, kAtOnce, [&request](uint32_t i) {
          return http2::Infer(2 * i + 1, request, {{"x-cellbatch-tenant", "flood"}});
        });
      });
      http2::FrameReader frames(peer);
      for (uint32_t seen = 0; seen < kEach;) {
        const auto frame = frames.Next();
        if (!frame.has_value()) break;
        if (frame->type == http2::kSettings && frame->flags == http2::kNone) {
          peer.Send(http2::Frame(http2::kSettings, http2::kAck, 0, ""));
        }
        const bool ends = frame->stream != 0 && ((frame->flags & http2::kEndStream) != 0 ||
                                                 frame->type == http2::kRstStream);
        seen += ends ? 1 : 0;
        ended += ends ? 1 : 0;
      }
      sends.join();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {fmt::format("{} calls ended", ended.load()), nullptr};
}

StrangerLeft HalfSent(const StrangerTarget& target) {
  constexpr int kClients = 200;
  auto senders = std::make_shared<std::vector<std::unique_ptr<HalfSender>>>();
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    senders->push_back(std::make_unique<HalfSender>(target.grpc, target.from));
    threads.emplace_back([&sender = *senders->back()] { sender.Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  return {"all sent but the ends, or hung up on", senders};
}

StrangerLeft Reflections(const StrangerTarget& target) {
  auto peer = std::make_shared<TcpConnection>(target.grpc, target.from);
  std::string all = http2::Greeting();
  for (uint32_t i = 0; i < 64; ++i) {
    all += http2::CallHeaders(1 + 2 * i,
                              "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  }
  peer->Send(all);
  return {"64 open", peer};
}

StrangerLeft Idle(const StrangerTarget& target) {
  auto connections = std::make_shared<Connections>();
  int there = 0;
  for (int i = 0; i < 700; ++i) {
    connections->push_back(std::make_unique<TcpConnection>(target.grpc, target.from));
    there +=
        connections->back()->connected() && connections->back()->Send(http2::Greeting()) ? 1 : 0;
  }
  return {fmt::format("{} connected", there), connections};
}

StrangerLeft SlowHttp(const StrangerTarget& target) {
  auto connections = std::make_shared<Connections>();
  for (int i = 0; i < 1000; ++i) {
    connections->push_back(std::make_unique<TcpConnection>(target.http, target.from));
    connections->back()->Send("GET /v2/health/live HTTP/1.1\r\nHos");
  }
  return {"1,000 half heads", connections};
}

}  // namespace

uint32_t OpenMany(const TcpConnection& peer, uint32_t streams) {
  return SendEach(peer, streams, /*at_once=*/500,
                  [](uint32_t i) { return http2::InferHeaders(2 * i + 1); });
}

uint32_t OpenAndResetMany(const TcpConnection& peer, uint32_t calls) {
  const std::string request = Words({1, 2, 3}).SerializeAsString();
  return SendEach(peer, calls, /*at_once=*/50, [&request](uint32_t i) {
    const uint32_t stream = 2 * i + 1;
    return http2::Infer(stream, request) +
           http2::Frame(http2::kRstStream, http2::kNone, stream, http2::BigEndian(8, 4));
  });
}

void AddStrangersModel(const std::string& repository) { AddModel(repository, kWide); }

const std::vector<StrangerAttack>& StrangerAttacks() {
  static const std::vector<StrangerAttack> attacks = {
      {"unknown_fields",
       "64 MiB of 7a 00 as ModelInfer, Infer, ServerLive; plain and by gzip; 4 at once",
       {},
       0,
       UnknownFields},
      {"many_parts",
       "4,096 inputs x 25,000 parameters, and x 200,000 output names; 4 at once",
       {},
       0,
       ManyParts},
      {"lengths", "240,000 LENGTHS with ALL_HIDDEN, h = 1,024; 4 at once", {}, 0, Lengths},
      {"unread", "400 calls whose answers of 6 MiB nobody reads", {}, 0, Unread},
      {"heads",
       "CONTINUATION without end, of headers and of empty ones; 70 KB of metadata",
       {},
       0,
       Heads},
      {"streams", "200,000 open streams on a connection", {}, 0, OpenStreams},
      {"resets", "100,000 requests opened and reset, 4 connections", {}, 0, Resets},
      {"half_sent", "200 messages of 64 MiB but for their last bytes", {}, 0, HalfSent},
      {"flood",
       "100,000 requests at once, 4 connections",
       {"--max-queued-requests=1000"},
       0,
       Flood},
      {"reflection", "64 idle streams of reflection", {}, 0, Reflections},
      {"idle", "700 idle connections, 512 files allowed", {}, 512, Idle},
      {"slow_http", "1,000 slow clients of HTTP", {}, 0, SlowHttp},
  };
  return attacks;
}

}  // namespace cellbatch
