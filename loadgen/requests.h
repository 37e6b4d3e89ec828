// The requests of one model, ready to be sent: all bytes are made before a run, a request is two views of them.
//
//   StripRequests      sequences of random tokens or vectors, one tensor each
//     one header for each length:   model, tensor, shape      "TOKENS INT32 [24]"
//     one long random strip:        …|17|4|250|9|…            a request reads `length` steps of it,
//                                      ^ from a place of its own
//   MessageRequests    anything else: a message for each item, or for `many` of them
//
// Immutable once made; any thread.

#ifndef CELLBATCH_LOADGEN_REQUESTS_H_
#define CELLBATCH_LOADGEN_REQUESTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/async_caller.h"
#include "loadgen/contents.h"
#include "loadgen/mix.h"
#include "loadgen/needs.h"

namespace cellbatch {

// Those that every request of the entry carries: priority, timeout.
std::map<std::string, Parameter> KServeParameters(const MixEntry& entry);

class RequestSet {
 public:
  virtual ~RequestSet() = default;

  // At least one.
  uint32_t size() const { return static_cast<uint32_t>(lengths_.size()); }
  // How much the entry asks for: steps, nodes, or characters and words; of all its inputs.
  int32_t length(uint32_t entry) const { return lengths_[entry]; }
  // The entry's request with contents number `turn`. Allocates nothing.
  virtual PreparedRequest Request(uint32_t entry, uint64_t turn) const = 0;
  // For people: what is sent, and what was changed to fit the model.
  const std::string& description() const { return description_; }

 protected:
  std::vector<int32_t> lengths_;
  std::string description_;
};

class StripRequests final : public RequestSet {
 public:
  // For models that read TOKENS or X. `lengths` is not empty.
  static absl::StatusOr<std::unique_ptr<RequestSet>> Create(const ModelNeeds& needs,
                                                            const MixEntry& entry,
                                                            std::vector<int32_t> lengths,
                                                            uint64_t seed);

  PreparedRequest Request(uint32_t entry, uint64_t turn) const override;

 private:
  StripRequests() = default;

  std::map<int32_t, std::string> headers_;
  std::vector<const std::string*> header_of_;  // by entry
  std::string strip_;
  size_t step_bytes_ = 0;
  size_t places_ = 0;  // where a request may begin
};

class MessageRequests final : public RequestSet {
 public:
  // The list is not empty. FAILED_PRECONDITION, naming the field, where a call cannot say what the list holds.
  static absl::StatusOr<std::unique_ptr<RequestSet>> Create(const ModelNeeds& needs,
                                                            const MixEntry& entry,
                                                            const ContentsList& list,
                                                            uint64_t seed);

  PreparedRequest Request(uint32_t entry, uint64_t turn) const override;

 private:
  MessageRequests() = default;

  std::vector<std::string> messages_;
  PreparedCall call_ = PreparedCall::kModelInfer;
  uint32_t inputs_ = 1;  // of a message
};

// Whichever fits. `metadata` and `config` are the server's words on entry.model.
absl::StatusOr<std::unique_ptr<RequestSet>> MakeRequests(const ModelMetadata& metadata,
                                                         const ModelConfiguration& config,
                                                         const MixEntry& entry, uint64_t seed);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_REQUESTS_H_
