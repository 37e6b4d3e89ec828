// What one caller may do, and what it does: an entry of --tokens, as long as calls made by it are under way. Calls that
// bring none where none is asked for have none (null), and may do everything.
//
// Any thread. A call costs a look at a short list of names, and an atomic or two.
#ifndef CELLBATCH_SERVER_REQUESTS_ACCESS_H_
#define CELLBATCH_SERVER_REQUESTS_ACCESS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/requests/admission.h"

namespace cellbatch {

// How a call ended, for its caller: the `outcome` label of cellbatch_token_calls_total.
enum class AccessOutcome : uint8_t { kOk, kDenied, kLimited, kFailed };
inline constexpr size_t kNumAccessOutcomes = 4;
const char* Name(AccessOutcome outcome);

// What stays of a caller when its entry changes: never gone, as tickets are kept longer than entries.
struct AccessUse {
  explicit AccessUse(std::string the_name) : name(std::move(the_name)), party(name) {}
  const std::string name;
  Party party;
  std::atomic<int64_t> free_at_ns = 0;  // when the next request may come: steady clock
  std::array<std::atomic<int64_t>, kNumAccessOutcomes> ended = {};
};

class Access {
 public:
  struct Rights {
    std::vector<std::string> models = {};  // none: every one
    double requests_per_second = 0;        // 0: no bound
    bool may_control = false;
  };
  Access(Rights rights, AccessUse& use) : rights_(std::move(rights)), use_(use) {}

  const std::string& name() const { return use_.name; }
  // What it has in flight, with bounds of its own.
  Party& party() const { return use_.party; }

  // Whether its entry names that model, or none. What is listed for it is what it covers.
  bool Covers(std::string_view model) const;
  // PERMISSION_DENIED: it may not ask of that model; of an empty name, not of all of them.
  absl::Status MayAsk(std::string_view model) const;
  // PERMISSION_DENIED: it may not change what is served or logged.
  absl::Status MayControl() const;
  // So many requests come. RESOURCE_EXHAUSTED: too soon after the ones before; `pushback_ms`: when they may.
  absl::Status TakeRequests(int64_t requests, int64_t now_ns,
                            std::optional<int32_t>& pushback_ms) const;
  // One of its calls has ended.
  void Count(const absl::Status& status) const;

 private:
  const Rights rights_;
  AccessUse& use_;
};

// Who may call at all.
class AccessTable {
 public:
  virtual ~AccessTable() = default;
  // `authorization`: what the call brings by that name, "Bearer TOKEN". UNAUTHENTICATED: no token, or none that is known.
  virtual absl::StatusOr<std::shared_ptr<const Access>> Find(
      std::string_view authorization) const = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_ACCESS_H_
