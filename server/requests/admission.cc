#include "server/requests/admission.h"

#include <algorithm>
#include <string>

#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr int32_t kNeverFits = -1;
constexpr int64_t kLookEveryNs = 100'000'000;

// A request is admitted in steps, and each asks for some of it: adding nothing costs as much as adding something.
void AddTo(std::atomic<int64_t>& sum, int64_t more) {
  if (more != 0) sum.fetch_add(more, std::memory_order_relaxed);
}

Refusal Beyond(Rejection reason, const char* what, const char* flag, int64_t in_flight,
               int64_t asked, int64_t limit, int32_t pushback_ms) {
  std::string text =
      asked > limit
          ? fmt::format("the request needs {} {}, and {} limits all requests together to {}", asked,
                        what, flag, limit)
          : fmt::format("the server is full: {} {} in flight, {} asked for, {} is {}", in_flight,
                        what, asked, flag, limit);
  return {reason, asked > limit ? kNeverFits : pushback_ms,
          absl::ResourceExhaustedError(std::move(text))};
}

}  // namespace

absl::Status ShuttingDown() { return absl::UnavailableError("the server is shutting down"); }

const char* Name(Rejection reason) {
  switch (reason) {
    case Rejection::kRequests:
      return "requests";
    case Rejection::kCells:
      return "cells";
    case Rejection::kBytes:
      return "bytes";
    case Rejection::kRows:
      return "rows";
    case Rejection::kDraining:
      return "draining";
    case Rejection::kLoading:
      return "loading";
    case Rejection::kScheduler:
      return "scheduler";
    case Rejection::kDeadline:
      return "deadline";
    case Rejection::kClientShare:
      return "client_share";
    case Rejection::kModelShare:
      return "model_share";
    case Rejection::kTokenLimit:
      return "token_limit";
    case Rejection::kTokenRate:
      return "token_rate";
    case Rejection::kSequences:
      return "sequences";
  }
  return "unknown";
}

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  if (this != &other) {
    Release();
    from_ = std::exchange(other.from_, nullptr);
    demand_ = std::exchange(other.demand_, Demand{0, 0, 0});
    of_ = other.of_;
  }
  return *this;
}

void Ticket::Join(Ticket other) {
  if (from_ == nullptr) {
    *this = std::move(other);
    return;
  }
  demand_.requests += other.demand_.requests;
  demand_.cells += other.demand_.cells;
  demand_.bytes += other.demand_.bytes;
  other.from_ = nullptr;
}

void Ticket::Keep(const Demand& demand) {
  if (from_ == nullptr) return;
  const Demand more = {demand.requests - demand_.requests, demand.cells - demand_.cells,
                       demand.bytes - demand_.bytes};
  from_->finished_.fetch_add(-more.requests, std::memory_order_relaxed);
  from_->Add(more, 1, of_);
  demand_ = demand;
}

void Ticket::Release() {
  if (Admission* from = std::exchange(from_, nullptr)) {
    from->finished_.fetch_add(demand_.requests, std::memory_order_relaxed);
    from->Add(std::exchange(demand_, Demand{0, 0, 0}), -1, of_);
  }
}

Demand Party::InFlight() const {
  return {requests_.load(std::memory_order_relaxed), cells_.load(std::memory_order_relaxed),
          bytes_.load(std::memory_order_relaxed)};
}

void Party::SetLimits(const PartyLimits& limits) {
  most_requests_.store(limits.most.requests, std::memory_order_relaxed);
  most_cells_.store(limits.most.cells, std::memory_order_relaxed);
  most_bytes_.store(limits.most.bytes, std::memory_order_relaxed);
  share_percent_.store(limits.share_percent, std::memory_order_relaxed);
}

void Party::Add(const Demand& demand, int64_t sign) {
  AddTo(cells_, sign * demand.cells);
  AddTo(bytes_, sign * demand.bytes);
  AddTo(requests_, sign * demand.requests);
}

void Admission::Add(const Demand& demand, int64_t sign, Parties of) {
  if (of.client != nullptr) of.client->Add(demand, sign);
  if (of.model != nullptr) of.model->Add(demand, sign);
  AddTo(cells_, sign * demand.cells);
  AddTo(bytes_, sign * demand.bytes);
  // Last, and ordered: who sees zero sees all done.
  if (demand.requests != 0) requests_.fetch_add(sign * demand.requests);
}

bool Admission::Admit(const Demand& demand, int64_t now_ns, Ticket& ticket, Refusal& refusal,
                      Parties of) {
  // What can never fit is not counted, not even while it is refused: others would find the server full of it.
  const bool comes_in = demand.requests > 0;  // else it is more of one that is in
  if (!(comes_in && closed()) && !WithinLimits({0, 0, 0}, demand, now_ns, refusal)) return false;
  // Counted first, closed looked at second; Close and its waiter do it the other way round: either
  // this request sees the door closed, or the waiter sees this request.
  Add(demand, 1, of);
  const Demand now = InFlight();
  const Demand before = {now.requests - demand.requests, now.cells - demand.cells,
                         now.bytes - demand.bytes};
  if (comes_in && closed()) {
    refusal = {Rejection::kDraining, 0, ShuttingDown()};
  } else if (WithinLimits(before, demand, now_ns, refusal) &&
             (of.client == nullptr ||
              (WithinOwn(*of.client, demand, now_ns, refusal) &&
               WithinShare(*of.client, demand, Rejection::kClientShare, now_ns, refusal))) &&
             (of.model == nullptr ||
              WithinShare(*of.model, demand, Rejection::kModelShare, now_ns, refusal))) {
    ticket = Ticket(this, demand, of);
    return true;
  }
  Add(demand, -1, of);
  return false;
}

// Whether so much more fits beside what is there.
bool Admission::WithinLimits(const Demand& before, const Demand& demand, int64_t now_ns,
                             Refusal& refusal) {
  const auto beyond = [&](Rejection reason, const char* what, const char* flag, int64_t has,
                          int64_t asked, int64_t limit) {
    if (has + asked <= limit) return false;
    refusal = Beyond(reason, what, flag, has, asked, limit, PushbackMs(now_ns));
    return true;
  };
  return !beyond(Rejection::kRequests, "requests", "--max-queued-requests", before.requests,
                 demand.requests, limits_.max_requests) &&
         !beyond(Rejection::kCells, "cells", "--max-queued-cells", before.cells, demand.cells,
                 limits_.max_cells) &&
         !beyond(Rejection::kBytes, "bytes", "--max-queued-bytes", before.bytes, demand.bytes,
                 limits_.max_bytes);
}

bool Admission::Enter(Ticket& ticket, Party& model, int64_t now_ns, Refusal& refusal) {
  model.Add(ticket.demand_, 1);
  if (!WithinShare(model, ticket.demand_, Rejection::kModelShare, now_ns, refusal)) {
    model.Add(ticket.demand_, -1);
    return false;
  }
  ticket.of_.model = &model;
  return true;
}

// `demand` is counted already.
bool Admission::WithinOwn(const Party& party, const Demand& demand, int64_t now_ns,
                          Refusal& refusal) {
  const auto beyond = [&](const char* what, const std::atomic<int64_t>& limit, int64_t has,
                          int64_t asked) {
    const int64_t most = limit.load(std::memory_order_relaxed);
    if (most == 0 || asked <= 0 || has <= most) return false;
    refusal = {Rejection::kTokenLimit, asked > most ? kNeverFits : PushbackMs(now_ns),
               absl::ResourceExhaustedError(fmt::format(
                   "token {} has {} {} in flight, {} asked for, its max_{} is {} (--tokens)",
                   party.name_, has - asked, what, asked, what, most))};
    return true;
  };
  const Demand has = party.InFlight();
  return !beyond("requests", party.most_requests_, has.requests, demand.requests) &&
         !beyond("cells", party.most_cells_, has.cells, demand.cells) &&
         !beyond("bytes", party.most_bytes_, has.bytes, demand.bytes);
}

// `demand` is counted already. What the party had before it is held against what was free then: so whoever has nothing
// is never refused here.
bool Admission::WithinShare(const Party& party, const Demand& demand, Rejection reason,
                            int64_t now_ns, Refusal& refusal) {
  const bool client = reason == Rejection::kClientShare;
  const int64_t own = party.share_percent_.load(std::memory_order_relaxed);
  const int64_t percent = own > 0  ? own
                          : client ? limits_.client_share_percent
                                   : limits_.model_share_percent;
  if (percent >= 100) return true;
  const double of_free = static_cast<double>(percent) / static_cast<double>(100 - percent);
  const Demand has = party.InFlight(), all = InFlight();
  const auto beyond = [&](const char* what, const char* flag, int64_t party_has, int64_t in_flight,
                          int64_t asked, int64_t limit) {
    const int64_t before = party_has - asked, free = limit - (in_flight - asked);
    if (asked <= 0 || before <= 0) return false;
    if (static_cast<double>(before) < of_free * static_cast<double>(free)) return false;
    refusal = {reason, PushbackMs(now_ns),
               absl::ResourceExhaustedError(fmt::format(
                   "this {} has {} {} in flight, which is its share while others have {}: {} is "
                   "{}, --{}-share-percent {}",
                   client ? "client" : "model", before, what, in_flight - party_has, flag, limit,
                   client ? "client" : "model", percent))};
    return true;
  };
  return !beyond("requests", "--max-queued-requests", has.requests, all.requests, demand.requests,
                 limits_.max_requests) &&
         !beyond("cells", "--max-queued-cells", has.cells, all.cells, demand.cells,
                 limits_.max_cells) &&
         !beyond("bytes", "--max-queued-bytes", has.bytes, all.bytes, demand.bytes,
                 limits_.max_bytes);
}

Demand Admission::InFlight() const {
  return {requests_.load(), cells_.load(std::memory_order_relaxed),
          bytes_.load(std::memory_order_relaxed)};
}

// About the time in which a tenth of what is in flight will have left, at the speed lately seen.
int32_t Admission::PushbackMs(int64_t now_ns) {
  int64_t since = looked_at_ns_.load(std::memory_order_relaxed);
  if (now_ns - since > kLookEveryNs &&
      looked_at_ns_.compare_exchange_strong(since, now_ns, std::memory_order_relaxed)) {
    const int64_t finished = finished_.load(std::memory_order_relaxed);
    const int64_t before = finished_then_.exchange(finished, std::memory_order_relaxed);
    const double seconds = static_cast<double>(now_ns - since) * 1e-9;
    per_second_.store(static_cast<int64_t>(static_cast<double>(finished - before) / seconds),
                      std::memory_order_relaxed);
  }
  const int64_t per_second = std::max<int64_t>(1, per_second_.load(std::memory_order_relaxed));
  return Spread(requests_.load(std::memory_order_relaxed) * 100 / per_second);
}

}  // namespace cellbatch
