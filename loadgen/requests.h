// The requests of one model, ready to be sent: all bytes are made before a run, a request is two views of them.
//
//   StripRequests      sequences of random tokens or vectors, one tensor each
//     one header for each length:   model, tensor, shape      "TOKENS INT32 [24]"
//     one long random strip:        …|17|4|250|9|…            a request reads `length` steps of it,
//                                      ^ from a place of its own
//   MessageRequests    anything else: a message for each item, or for `many` of them
//   StreamRequests     pieces of sequences whose state the server keeps
//     one header for each stream:   "sequence_id loadgen-5f3a-17", with or without sequence_start and sequence_end
//     one message for each piece:   the rest; parts of a message may come in any order
//
// Immutable once made; any thread.

#ifndef CELLBATCH_LOADGEN_REQUESTS_H_
#define CELLBATCH_LOADGEN_REQUESTS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
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

  // Which entries `count` requests are, one after the other: whole permutations (equal issue), unless said otherwise.
  virtual std::vector<uint32_t> Order(size_t count, uint64_t seed) const;
  // How many one who sends as answers come should have in flight: of streams a piece each, or pieces of one overtake each
  // other on the way.
  virtual uint32_t most_at_once() const { return std::numeric_limits<uint32_t>::max(); }
  // Which stream the entry is a piece of: below most_at_once.
  virtual std::optional<uint32_t> stream(uint32_t /*entry*/) const { return std::nullopt; }
  // At least one.
  uint32_t size() const { return static_cast<uint32_t>(lengths_.size()); }
  // How much the entry asks for: steps, nodes, or characters and words; of all its inputs.
  virtual int32_t length(uint32_t entry) const { return lengths_[entry]; }
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

// entry.streams sequences at a time, each in a lane of its own and in its own order: the lanes take turns, and one whose
// sequence has ended takes another. So that lanes do not begin in step, the first sequence of each begins somewhere in its
// middle. What a run leaves open the next one begins anew, as lanes keep their ids; the server forgets it when it is idle.
//
//   lane 0   a1      a2      c1      c2   ..        entry = (lane, whether it begins here, piece)
//   lane 1      b2      b3      d1
class StreamRequests final : public RequestSet {
 public:
  // The list is not empty and begins with the first piece of a sequence. `name` begins every sequence's id.
  static absl::StatusOr<std::unique_ptr<RequestSet>> Create(const ModelNeeds& needs,
                                                            const MixEntry& entry,
                                                            const ContentsList& list,
                                                            const std::string& name);

  std::vector<uint32_t> Order(size_t count, uint64_t seed) const override;
  uint32_t most_at_once() const override { return lanes_; }
  std::optional<uint32_t> stream(uint32_t entry) const override { return LaneOf(entry); }
  int32_t length(uint32_t entry) const override { return lengths_[entry % size()]; }
  PreparedRequest Request(uint32_t entry, uint64_t turn) const override;

 private:
  StreamRequests() = default;
  uint32_t LaneOf(uint32_t entry) const { return entry / size() / 2; }
  bool IsFirst(uint32_t piece) const { return !goes_on_[piece]; }
  bool IsLast(uint32_t piece) const { return piece + 1 == size() || IsFirst(piece + 1); }

  uint32_t lanes_ = 0;
  std::vector<std::string> messages_;  // by piece
  std::vector<bool> goes_on_;          // by piece
  std::vector<uint32_t> firsts_;       // by sequence: its first piece
  std::vector<std::string>
      headers_;  // by lane, then whether the sequence starts and whether it ends
};

// Whichever fits. `metadata` and `config` are the server's words on entry.model.
absl::StatusOr<std::unique_ptr<RequestSet>> MakeRequests(const ModelMetadata& metadata,
                                                         const ModelConfiguration& config,
                                                         const MixEntry& entry, uint64_t seed);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_REQUESTS_H_
