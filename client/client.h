// The client library: a server's answers as plain values. No gRPC header is needed to use it.
//
//   auto client = Client::Connect({.url = "localhost:8001"});
//   auto result = (*client)->Infer({.model = "sentiment", .inputs = {Int32Tensor("TOKENS", {3},
//                                                                    {17, 4, 250})}});
//   const auto logits = result->Find("OUTPUT")->AsFloats();
//   for (float logit : *logits) …
//
// Every method may be called from any thread. Errors carry the server's code and text unchanged;
// UNAVAILABLE where there is no server, DEADLINE_EXCEEDED where CallOptions::timeout passed.

#ifndef CELLBATCH_CLIENT_CLIENT_H_
#define CELLBATCH_CLIENT_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/security.h"
#include "client/tensor.h"
#include "client/typed.h"

namespace cellbatch {

struct ClientOptions {
  std::string url = "localhost:8001";               // host:port, or unix:PATH
  std::chrono::milliseconds connect_timeout{5000};  // beyond: Connect says UNAVAILABLE
  Security security = {};
};

struct CallOptions {
  std::chrono::nanoseconds timeout{0};  // 0: none. The server stops working on what has expired
};

using Parameter = std::variant<bool, int64_t, std::string, double>;

struct InferInput {
  std::string model = {};
  std::string version = {};  // empty: the one the server serves
  std::string id = {};       // echoed
  std::vector<Tensor> inputs = {};
  std::vector<std::string> outputs = {};  // empty: OUTPUT alone
  std::map<std::string, Parameter> parameters = {};
};

struct InferResult {
  std::string model;
  std::string version;
  std::string id;
  std::vector<Tensor> outputs;

  // Null where the answer has no such tensor.
  const Tensor* Find(std::string_view name) const;
};

// What a server says of itself.
struct ServerHealth {
  bool live = false;
  bool ready = false;
  std::string serving;  // the health protocol's word: SERVING, NOT_SERVING, …
};

struct ServerMetadata {
  std::string name;
  std::string version;
  std::vector<std::string> extensions;
};

struct TensorMetadata {
  std::string name;
  std::string datatype;
  std::vector<int64_t> shape;  // -1: differs from request to request
};

struct ModelMetadata {
  std::string name;
  std::vector<std::string> versions;
  std::string platform;
  std::vector<TensorMetadata> inputs;
  std::vector<TensorMetadata> outputs;
};

struct ModelConfiguration {
  std::string name;
  std::string platform;
  int64_t max_batch_size = 0;
  std::map<std::string, std::string> parameters;
  std::string json;  // the whole configuration
};

// How often, and how long in sum.
struct CountedTime {
  uint64_t count = 0;
  uint64_t ns = 0;
};

struct ModelCounts {
  std::string name;
  std::string version;
  uint64_t inferences = 0;
  uint64_t executions = 0;
  uint64_t last_inference_ms = 0;  // since 1970
  CountedTime success, fail, queue, compute_input, compute_infer, compute_output;
  struct Batch {
    uint64_t size = 0;
    CountedTime compute;
  };
  std::vector<Batch> batches;
};

struct IndexedModel {
  std::string name;
  std::string version;
  std::string state;
  std::string reason;
};

// Exact order statistics, as the server took them from every request of the window.
struct PhaseTimes {
  std::string phase;  // "request", "queue", "compute"
  uint64_t count = 0;
  uint64_t mean_ns = 0, p50_ns = 0, p90_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0;
};

struct ModelTimes {
  std::string name;
  std::string version;
  std::vector<PhaseTimes> phases;
  uint64_t failed = 0;
  double covered_seconds = 0;
};

// A call in flight. Copies name the same call; dropping them all does not end it.
class Call {
 public:
  Call() = default;

  // Ends the call with CANCELLED if it is still under way. Late is harmless. Any thread.
  void Cancel() const;

 private:
  friend class Client;
  struct State;
  explicit Call(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class Client {
 public:
  // Waits until the server takes connections.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(ClientOptions options);

  // Waits until every callback has returned: cancel what should not be waited for. Never on a
  // thread of a callback.
  ~Client();

  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  absl::StatusOr<InferResult> Infer(const InferInput& input, CallOptions options = {});

  using InferCallback = std::function<void(absl::StatusOr<InferResult>)>;
  // Returns at once; `done` is called exactly once, on a thread of gRPC, and should be brief.
  Call InferAsync(const InferInput& input, CallOptions options, InferCallback done);

  // Our own typed service (client/typed.h); UNIMPLEMENTED from servers that are not Cellbatch.
  absl::StatusOr<InferManyResult> InferMany(const InferManyInput& input, CallOptions options = {});
  // Returns when the stream has ended; `on_word` is called on this thread. CANCELLED where it had enough.
  absl::StatusOr<DecodeResult> Decode(const DecodeInput& input, CallOptions options,
                                      const WordCallback& on_word);
  // Returns at once; both are called on a thread of gRPC, `done` once and last.
  using DecodeCallback = std::function<void(absl::StatusOr<DecodeResult>)>;
  Call DecodeAsync(const DecodeInput& input, CallOptions options, WordCallback on_word,
                   DecodeCallback done);

  absl::StatusOr<ServerHealth> Health(CallOptions options = {});
  absl::StatusOr<bool> ModelReady(const std::string& model, const std::string& version = "",
                                  CallOptions options = {});
  absl::StatusOr<ServerMetadata> Server(CallOptions options = {});
  absl::StatusOr<ModelMetadata> Metadata(const std::string& model, const std::string& version = "",
                                         CallOptions options = {});
  absl::StatusOr<ModelConfiguration> Config(const std::string& model,
                                            const std::string& version = "",
                                            CallOptions options = {});
  // An empty model: all of them; an empty version: all that answer.
  absl::StatusOr<std::vector<ModelCounts>> Statistics(const std::string& model = "",
                                                      const std::string& version = "",
                                                      CallOptions options = {});
  absl::StatusOr<std::vector<IndexedModel>> RepositoryIndex(bool only_ready = false,
                                                            CallOptions options = {});
  // A window of 0: all that the server remembers.
  absl::StatusOr<std::vector<ModelTimes>> Latency(const std::string& model,
                                                  const std::string& version, double window_seconds,
                                                  CallOptions options = {});

 private:
  struct Connection;
  explicit Client(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_CLIENT_H_
