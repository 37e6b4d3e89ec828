#include "tests/bench/siege_honest.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <utility>

#include "fmt/format.h"
#include "proto/cellbatch.grpc.pb.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/attacks/many_calls.h"
#include "tests/fault/grpc_caller.h"
#include "tests/fault/served_models.h"
#include "tests/seq2seq/translators.h"

namespace cellbatch {
namespace {

constexpr int kLengths[] = {1, 5, 24, 100, 330};
constexpr int32_t kLargestCount = 60;
constexpr std::chrono::seconds kPatience{60};  // an answer that takes longer is lost
constexpr std::chrono::milliseconds kBeforeAnotherTry{20};
constexpr int kCrowdSteps = 2000;
constexpr const char* kClosing = "the server is shutting down";

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "siege: %s\n", what.c_str());
  std::exit(1);
}

std::vector<int32_t> Tokens(size_t which) {
  std::vector<int32_t> tokens(static_cast<size_t>(kLengths[which]));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>((7 * i + which) % 100);
  return tokens;
}

Heard OfStatus(const grpc::Status& status, std::string bytes) {
  if (status.ok()) return {Heard::How::kAnswer, std::move(bytes)};
  const std::string said =
      fmt::format("{}: {}", static_cast<int>(status.error_code()), status.error_message());
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) return {Heard::How::kFull, said};
  if (status.error_message() == kClosing) return {Heard::How::kClosing, said};
  return {Heard::How::kFailed, said};
}

// Attackers come from the same address: who is honest says who it is, as a proxy would.
constexpr const char* kTenant = "x-cellbatch-tenant";

void Patient(grpc::ClientContext& context) {
  context.AddMetadata(kTenant, "honest");
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
}

Heard AskModelInfer(GrpcCaller& caller, size_t which) {
  inference::ModelInferResponse answer;
  const grpc::Status status = caller.Infer(Words(Tokens(which)), answer, Patient);
  return OfStatus(status, answer.raw_output_contents_size() == 1 ? answer.raw_output_contents(0)
                                                                 : std::string());
}

// Two inputs in one message: this one and the next.
Heard AskTyped(v1::Cellbatch::Stub& stub, size_t which) {
  v1::InferRequest request;
  request.set_model_name(kWords.name);
  for (const size_t one : {which, (which + 1) % std::size(kLengths)}) {
    v1::Sequence& sequence = *request.add_inputs()->mutable_sequence();
    for (const int32_t token : Tokens(one)) sequence.add_tokens(token);
  }
  grpc::ClientContext context;
  Patient(context);
  v1::InferResponse response;
  const grpc::Status status = stub.Infer(&context, request, &response);
  std::string bytes;
  for (const v1::Answer& answer : response.answers()) {
    for (const v1::Output& output : answer.outputs()) {
      bytes.append(reinterpret_cast<const char*>(output.floats().data()),
                   sizeof(float) * static_cast<size_t>(output.floats_size()));
    }
  }
  return OfStatus(status, std::move(bytes));
}

// The counter says n, n - 1, .. 1.
Heard AskDecode(v1::Cellbatch::Stub& stub, size_t which) {
  const int32_t from = kLargestCount - static_cast<int32_t>(which);
  v1::DecodeRequest request;
  request.set_model_name("counter");
  request.mutable_source()->add_tokens(7);
  request.mutable_source()->add_tokens(from);
  grpc::ClientContext context;
  Patient(context);
  const auto words = stub.Decode(&context, request);
  v1::DecodeResponse said;
  std::string bytes;
  while (words->Read(&said)) {
    bytes += said.has_word() ? fmt::format("{} ", said.word().id())
                             : fmt::format("of {}", said.end().length());
  }
  return OfStatus(words->Finish(), std::move(bytes));
}

std::string CountDown(size_t which) {
  const int32_t from = kLargestCount - static_cast<int32_t>(which);
  std::string words;
  for (int32_t word = from; word > 0; --word) words += fmt::format("{} ", word);
  return words + fmt::format("of {}", from);
}

Heard AskHttp(const std::string& address, size_t which) {
  const std::string body =
      fmt::format(R"({{"inputs":[{{"name":"TOKENS","shape":[{}],"datatype":"INT32","data":[{}]}}],)"
                  R"("outputs":[{{"name":"OUTPUT","parameters":{{"binary_data":true}}}}]}})",
                  kLengths[which], fmt::join(Tokens(which), ","));
  TcpConnection connection(address);
  if (!connection.connected()) return {Heard::How::kFailed, "cannot connect"};
  connection.Send(fmt::format(
      "POST /v2/models/{}/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{}: honest\r\n"
      "Content-Length: {}\r\n\r\n{}",
      kWords.name, kTenant, body.size(), body));
  const std::string reply = connection.ReceiveUntil("");
  const size_t numbers = sizeof(float) * static_cast<size_t>(kWords.hidden);
  if (reply.starts_with("HTTP/1.1 200 ") && reply.size() > numbers) {
    return {Heard::How::kAnswer, reply.substr(reply.size() - numbers)};
  }
  if (reply.starts_with("HTTP/1.1 429 ")) return {Heard::How::kFull, reply};
  if (reply.find(kClosing) != reply.npos) return {Heard::How::kClosing, reply};
  return {Heard::How::kFailed, reply.empty() ? "hung up" : reply};
}

// Whether the server is there and ready, as probes ask it: nobody may be refused that for now.
Heard AskProbes(GrpcCaller& caller, const std::string& http) {
  grpc::ClientContext context;
  Patient(context);
  inference::ServerReadyResponse answer;
  const grpc::Status status = caller.stub().ServerReady(&context, {}, &answer);
  if (!status.ok()) return {Heard::How::kFailed, "ServerReady: " + status.error_message()};
  const std::string live = HttpGet(http, "/v2/health/live");
  if (live != kLiveAnswer) return {Heard::How::kFailed, "live: " + live};
  if (!answer.ready()) return {Heard::How::kClosing, "not ready"};
  return {Heard::How::kAnswer, "live and ready"};
}

// The reference of the models' own tests, in double.
void CheckWords(const std::string& bytes, size_t which) {
  const std::vector<double> expected = LstmReference(kWords, Tokens(which));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  bool right = values.size() == expected.size();
  for (size_t i = 0; right && i < values.size(); ++i) {
    right = std::abs(static_cast<double>(values[i]) - expected[i]) <= 1e-5;
  }
  if (!right) Die("an answer before the siege is not that of the equations");
}

void KeepLargest(std::atomic<int64_t>& largest, int64_t value) {
  int64_t before = largest;
  while (before < value && !largest.compare_exchange_weak(before, value)) {
  }
}

}  // namespace

void Honest::AddModels(const std::string& repository) {
  AddModel(repository, kWords);
  AddModel(repository, kSlow);
  AddCounterModel(repository, {.largest = kLargestCount, .max_decode_steps = kLargestCount});
}

Honest::Honest(const std::string& grpc, const std::string& http) {
  const auto caller = std::make_shared<GrpcCaller>(grpc);
  const std::shared_ptr<v1::Cellbatch::Stub> typed =
      v1::Cellbatch::NewStub(GrpcCaller(grpc).channel());
  const std::shared_ptr<v1::Cellbatch::Stub> decode =
      v1::Cellbatch::NewStub(GrpcCaller(grpc).channel());
  AddWay("ModelInfer", [caller](size_t which) { return AskModelInfer(*caller, which); });
  AddWay("Infer", [typed](size_t which) { return AskTyped(*typed, which); });
  AddWay("Decode", [decode](size_t which) { return AskDecode(*decode, which); });
  AddWay("HTTP", [http](size_t which) { return AskHttp(http, which); });
  AddWay("probes", [caller = std::make_shared<GrpcCaller>(grpc), http](size_t) {
    return AskProbes(*caller, http);
  });
  for (size_t i = 0; i < std::size(kLengths); ++i) {
    const std::string& words = ways_[0]->right[i];
    CheckWords(words, i);
    if (ways_[1]->right[i] != words + ways_[0]->right[(i + 1) % std::size(kLengths)] ||
        ways_[3]->right[i] != words) {
      Die("ModelInfer, Infer and HTTP have different bits");
    }
    if (ways_[2]->right[i] != CountDown(i)) Die("the counter counts " + ways_[2]->right[i]);
  }
}

void Honest::AddWay(const char* name, std::function<Heard(size_t)> ask) {
  auto way = std::make_unique<Way>(name, std::move(ask));
  for (size_t i = 0; i < std::size(kLengths); ++i) {
    const Heard heard = way->ask(i);
    if (heard.how != Heard::How::kAnswer) Die(std::string(name) + ": " + heard.bytes);
    way->right.push_back(heard.bytes);
  }
  ways_.push_back(std::move(way));
}

void Honest::Begin(std::chrono::milliseconds pause) {
  for (const auto& way : ways_) {
    threads_.emplace_back([this, &way = *way, pause] {
      for (size_t n = 0; !ending_; ++n) {
        Ask(way, n % std::size(kLengths));
        std::this_thread::sleep_for(pause);
      }
    });
  }
}

void Honest::End() {
  ending_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

// One request, until it has an answer or has lost.
void Honest::Ask(Way& way, size_t which) {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    const bool came_late = draining_;
    const Heard heard = way.ask(which);
    const auto took = std::chrono::steady_clock::now() - start;
    switch (heard.how) {
      case Heard::How::kAnswer:
        if (heard.bytes != way.right[which]) {
          Lose(way, "other bits");
        } else {
          ++way.counts.right;
          KeepLargest(way.counts.longest_ns, std::chrono::nanoseconds(took).count());
        }
        return;
      case Heard::How::kFull:
        ++way.counts.refused;
        if (draining_ || ending_) return;
        if (took > kPatience) return Lose(way, "refused for too long: " + heard.bytes);
        std::this_thread::sleep_for(kBeforeAnotherTry);
        break;
      case Heard::How::kClosing:
        if (!draining_) Lose(way, heard.bytes);
        return;
      case Heard::How::kFailed:
        // Nobody listens any more to who comes after the signal; who came before it was accepted, or told.
        if (!came_late) Lose(way, heard.bytes);
        return;
    }
  }
}

void Honest::Lose(Way& way, const std::string& why) {
  constexpr size_t kEnough = 4000;
  ++way.counts.lost;
  const std::lock_guard lock(mutex_);
  if (losses_.size() < kEnough) losses_ += fmt::format("{}: {}\n", way.name, why.substr(0, 300));
}

int64_t Honest::lost() const {
  int64_t lost = 0;
  for (const auto& way : ways_) lost += way->counts.lost;
  return lost;
}

std::string Honest::Losses() {
  const std::lock_guard lock(mutex_);
  return losses_;
}

struct HonestCrowd::Calls {
  explicit Calls(const std::string& address) : caller(address) {}
  inference::ModelInferRequest request = Words(std::vector<int32_t>(kCrowdSteps, 1), kSlow.name);
  GrpcCaller caller;
  std::string right;
  std::unique_ptr<ManyCalls> calls;
};

HonestCrowd::HonestCrowd(const std::string& grpc) : calls_(std::make_unique<Calls>(grpc)) {
  inference::ModelInferResponse answer;
  const grpc::Status status = calls_->caller.Infer(calls_->request, answer, Patient);
  if (!status.ok() || answer.raw_output_contents_size() != 1) Die(status.error_message());
  calls_->right = answer.raw_output_contents(0);
}

HonestCrowd::~HonestCrowd() = default;

void HonestCrowd::Begin(int calls) {
  calls_->calls = std::make_unique<ManyCalls>(calls_->caller, calls, calls_->request);
}

HonestCrowd::End HonestCrowd::Wait() {
  End end;
  for (const auto& call : calls_->calls->Ended()) {
    if (call->status.ok() && call->answer.raw_output_contents_size() == 1 &&
        call->answer.raw_output_contents(0) == calls_->right) {
      ++end.right;
    } else if (call->status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      ++end.refused;
    } else {
      ++end.lost;
      end.why = call->status.ok() ? "other bits" : call->status.error_message();
    }
  }
  return end;
}

void ForgetPeak(const ServerProcess& server) {
  std::ofstream("/proc/" + std::to_string(server.pid()) + "/clear_refs") << "5";
}

}  // namespace cellbatch
