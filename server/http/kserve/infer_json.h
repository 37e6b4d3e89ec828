// The body of an inference over HTTP (KServe v2's JSON, with the binary tensors that Triton added),
// and plain values. Pure functions; any thread. nlohmann-json reads the text token by token (no
// tree is built of it), and every count is bounded while it is read; recursion there is none.
//
//   {"id": .., "parameters": {..}, "inputs": [{"name", "shape", "datatype", "parameters", "data"}], "outputs": [..]}
//   and behind it, where Inference-Header-Content-Length says that the JSON ends, the bytes of every input that has
//   "binary_data_size" instead of "data", in their order
#ifndef CELLBATCH_SERVER_HTTP_KSERVE_INFER_JSON_H_
#define CELLBATCH_SERVER_HTTP_KSERVE_INFER_JSON_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "server/requests/plain_request.h"
#include "server/wire/refusal_counts.h"
#include "server/wire/wire_limits.h"

namespace cellbatch {

class InferJson {
 public:
  // Once. `body` stays as long as this. INVALID_ARGUMENT: what is wrong, and of which tensor.
  // Numbers keep their value: whole ones up to 64 bits, FP32 rounded once from what is written.
  // Beyond a bound: the bound, both values and its flag; counted in `counts`, if there are any.
  absl::Status Parse(std::string_view body, size_t header_bytes, const WireLimits& limits,
                     RefusalCounts* counts = nullptr);

  // The most that Parse keeps of so much JSON, and the JSON: values are what stands between commas,
  // and a tensor's bytes grow by doubling. One pass over the bytes.
  static int64_t MostBytes(std::string_view json);

  // After Parse. Views what lies here and in the body.
  void Spell(PlainRequest& request) const;
  const std::string& id() const { return id_; }
  // Whether that output is to be answered behind the JSON rather than in it.
  bool WantsBinary(std::string_view output) const;

 private:
  friend class InferReader;
  struct Tensor {
    std::string name, datatype;
    absl::InlinedVector<int64_t, 4> shape;
    std::string_view unsupported;
    std::optional<int64_t> binary_bytes;
    bool has_data = false;
    bool early = false;  // "data" stood before "datatype": read again once it is known
    int64_t values = 0;
    std::string data;  // as contents
    absl::Span<const std::byte> contents;
  };
  struct Output {
    std::string name;
    std::string_view unsupported;
    std::optional<bool> binary;
  };
  using Value = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string>;
  struct Parameter {
    std::string key;
    Value value;
  };

  absl::Status TakeBinary(std::string_view binary);

  std::string id_;
  std::vector<Tensor> inputs_;
  std::vector<Output> outputs_;
  std::vector<Parameter> parameters_;
  bool binary_outputs_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_KSERVE_INFER_JSON_H_
