// What is sent: random tokens or vectors of the wanted lengths, in the form a model reads. All bytes
// are made before a run; a request is two views of them.
//
//   one header for each length:   model, tensor, shape      "TOKENS INT32 [24]"
//   one long random strip:        …|17|4|250|9|…            a request reads `length` steps of it,
//                                    ^ from a place of its own
//
// Immutable after Create; any thread.

#ifndef CELLBATCH_LOADGEN_WORKLOAD_H_
#define CELLBATCH_LOADGEN_WORKLOAD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/async_caller.h"
#include "client/client.h"

namespace cellbatch {

class Workload {
 public:
  // `lengths`, not empty: what EqualIssueOrder's indices stand for. FAILED_PRECONDITION where the
  // model reads neither TOKENS [T] with a known vocabulary_size nor X [T, D].
  static absl::StatusOr<std::unique_ptr<Workload>> Create(const ModelMetadata& metadata,
                                                          const ModelConfiguration& config,
                                                          const std::string& version,
                                                          std::vector<int32_t> lengths,
                                                          uint64_t seed);

  uint32_t size() const { return static_cast<uint32_t>(lengths_.size()); }
  int32_t length(uint32_t entry) const { return lengths_[entry]; }

  // The entry's request with contents number `turn`. Allocates nothing.
  PreparedRequest Request(uint32_t entry, uint64_t turn) const;

  const std::string& model() const { return model_; }
  // For people: what is sent, and what was changed to fit the model.
  const std::string& description() const { return description_; }

 private:
  Workload() = default;

  std::string model_;
  std::string description_;
  std::vector<int32_t> lengths_;
  std::map<int32_t, std::string> headers_;
  std::vector<const std::string*> header_of_;  // by entry
  std::string strip_;
  size_t step_bytes_ = 0;
  size_t places_ = 0;  // where a request may begin
};

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_WORKLOAD_H_
