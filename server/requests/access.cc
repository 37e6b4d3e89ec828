#include "server/requests/access.h"

#include <algorithm>

#include "fmt/format.h"
#include "server/requests/client_text.h"

namespace cellbatch {

namespace {

constexpr double kNsASecond = 1e9;

AccessOutcome OutcomeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return AccessOutcome::kOk;
    case absl::StatusCode::kPermissionDenied:
      return AccessOutcome::kDenied;
    case absl::StatusCode::kResourceExhausted:
      return AccessOutcome::kLimited;
    default:
      return AccessOutcome::kFailed;
  }
}

}  // namespace

const char* Name(AccessOutcome outcome) {
  constexpr const char* kNames[kNumAccessOutcomes] = {"ok", "denied", "limited", "failed"};
  return kNames[static_cast<size_t>(outcome)];
}

bool Access::Covers(std::string_view model) const {
  return rights_.models.empty() || std::ranges::find(rights_.models, model) != rights_.models.end();
}

absl::Status Access::MayAsk(std::string_view model) const {
  if (Covers(model)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      model.empty()
          ? fmt::format("token {} may not ask of all models, only of those that --tokens names",
                        name())
          : fmt::format("token {} may not ask of model {} (models of --tokens)", name(),
                        Quoted(model)));
}

absl::Status Access::MayControl() const {
  if (rights_.may_control) return absl::OkStatus();
  return absl::PermissionDeniedError(fmt::format(
      "token {} may not change what is served or logged (may_control of --tokens)", name()));
}

// Whoever comes pays with the time until the next may come: a second's worth may come at once.
absl::Status Access::TakeRequests(int64_t requests, int64_t now_ns,
                                  std::optional<int32_t>& pushback_ms) const {
  if (rights_.requests_per_second <= 0) return absl::OkStatus();
  const auto price = static_cast<int64_t>(static_cast<double>(requests) * kNsASecond /
                                          rights_.requests_per_second);
  int64_t free_at = use_.free_at_ns.load(std::memory_order_relaxed);
  while (true) {
    const int64_t begins = std::max(free_at, now_ns - static_cast<int64_t>(kNsASecond));
    if (begins > now_ns) {
      pushback_ms = static_cast<int32_t>(
          std::min<int64_t>((begins - now_ns) / 1'000'000 + 1, int64_t{1} << 30));
      return absl::ResourceExhaustedError(
          fmt::format("token {} may make {} requests a second (requests_per_second of --tokens)",
                      name(), rights_.requests_per_second));
    }
    if (use_.free_at_ns.compare_exchange_weak(free_at, begins + price, std::memory_order_relaxed)) {
      return absl::OkStatus();
    }
  }
}

void Access::Count(const absl::Status& status) const {
  use_.ended[static_cast<size_t>(OutcomeFor(status))].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace cellbatch
