// Who may call: the tokens of --tokens that are in force, which may be replaced while the server runs.
//
//   file --Look: did a byte change?--> parses, whole --> in force, for calls from now on
//                                   \-> else: what was in force stays, and the log says why, once for each change
//
// What a token has in flight, and its counts, go by its name and outlast its entry. A token is compared by its hash, in
// the same time wherever they differ, and stands nowhere: not in a log, an error or a metric.
#ifndef CELLBATCH_SERVER_TOKENS_TOKEN_TABLE_H_
#define CELLBATCH_SERVER_TOKENS_TOKEN_TABLE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/requests/access.h"
#include "server/tokens/token_file.h"

namespace cellbatch {

// Why a call was not let in: the `reason` label of cellbatch_unauthenticated_total.
enum class Unauthenticated : uint8_t { kMissing, kMalformed, kUnknown };
inline constexpr size_t kNumUnauthenticated = 3;
const char* Name(Unauthenticated reason);

class TokenTable final : public AccessTable {
 public:
  // Names that have been in force since the start, of tokens that are gone, too: a file with more is not taken.
  static constexpr size_t kMostNames = 4 * size_t{kMostTokens};

  // INVALID_ARGUMENT, NOT_FOUND: "--tokens FILE: what is wrong".
  static absl::StatusOr<std::unique_ptr<TokenTable>> Open(const std::string& file);

  // Takes the file again, if it changed and can be used. One thread at a time.
  void Look();

  // A hash, and a lock for a look into a table.
  absl::StatusOr<std::shared_ptr<const Access>> Find(std::string_view authorization) const override;

  // Of every token that is in force or has been: a lock.
  void ForEach(const std::function<void(const AccessUse&)>& use) const;
  int64_t unauthenticated(Unauthenticated reason) const {
    return refused_[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
  }
  int64_t taken() const { return taken_.load(); }  // files that changed while the server ran
  int64_t files_refused() const {
    return files_refused_.load();
  }  // likewise, but could not be used

 private:
  struct SameHash {
    bool operator()(const TokenHash& a, const TokenHash& b) const;
  };
  using ByHash =
      absl::flat_hash_map<TokenHash, std::shared_ptr<const Access>,
                          absl::container_internal::hash_default_hash<TokenHash>, SameHash>;

  explicit TokenTable(std::string file) : file_(std::move(file)) {}
  absl::Status Take(std::string_view text);
  absl::Status Refuse(Unauthenticated reason, const char* why) const;

  const std::string file_;
  std::string seen_;  // the file's text at the last look, used or not
  std::string told_;  // why not, as it was last said
  mutable std::mutex mutex_;
  std::shared_ptr<const ByHash> tokens_;                    // under it
  std::map<std::string, std::unique_ptr<AccessUse>> uses_;  // under it; none is ever gone
  std::map<std::string, double> rates_;                     // of each, as it was last taken
  mutable std::array<std::atomic<int64_t>, kNumUnauthenticated> refused_ = {};
  std::atomic<int64_t> taken_ = 0, files_refused_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TOKENS_TOKEN_TABLE_H_
