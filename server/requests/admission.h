// How much work the server holds at once: requests, cells and bytes admitted and not answered, over
// all models. Full is an answer, never a wait: RESOURCE_EXHAUSTED with a hint when to come back.
//
// No client and no model can have all of it. Each may take more while what it has already is less than
// share / (100 - share) of what is still free, so that with a share of 80 %:
//
//   one alone        has 80 %, 20 % are free: the next to come takes of that at once, and who has more than its share
//   k that want all  each has 4 / (1 + 4 k)   then gets nothing until it has less
//
// A model's share is the larger one, or its first client would leave nothing of it for another. Nothing is set aside for
// anybody, nobody has to be known before it comes, and what is free is anybody's. Clients are told apart by a hash; of two that
// share a number, each is the other's.
//
// Any thread; three atomic additions an admission, and three for its client and its model each.
#ifndef CELLBATCH_SERVER_REQUESTS_ADMISSION_H_
#define CELLBATCH_SERVER_REQUESTS_ADMISSION_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/requests/retry_hint.h"

namespace cellbatch {

struct Demand {
  int64_t requests = 1;
  int64_t cells = 0;
  int64_t bytes = 0;  // of the message, the rows and the answer
};

struct AdmissionLimits {
  int64_t max_requests = 100000;
  int64_t max_cells = 1000000;
  int64_t max_bytes = 4LL << 30;
  // Of each of them, at most so much for one client, or one model; 100: all.
  int64_t client_share_percent = 100;
  int64_t model_share_percent = 100;
  int64_t clients = 1;  // told apart
};

enum class Rejection : uint8_t {
  kRequests,
  kCells,
  kBytes,
  kRows,
  kDraining,
  kLoading,
  kScheduler,
  kDeadline,
  kClientShare,
  kModelShare,
  kTokenLimit,  // of its own entry of --tokens
  kTokenRate,
  kSequences
};
inline constexpr int kNumRejections = 13;
const char* Name(Rejection reason);  // the `reason` label of cellbatch_rejected_total
// What is told to whoever is not let in any more, or is still there at the end: UNAVAILABLE.
absl::Status ShuttingDown();

class Admission;

// Bounds of one client's own, whatever others have; 0: none.
struct PartyLimits {
  Demand most = {0, 0, 0};
  int64_t share_percent = 0;  // 0: as of all
};

// What one client, or one model, has in flight.
class Party {
 public:
  Party() = default;
  // `name`: what refusals call it.
  explicit Party(std::string name) : name_(std::move(name)) {}
  Demand InFlight() const;
  // From now on. Any thread.
  void SetLimits(const PartyLimits& limits);

 private:
  friend class Admission;
  void Add(const Demand& demand, int64_t sign);
  std::atomic<int64_t> requests_ = 0;
  std::atomic<int64_t> cells_ = 0;
  std::atomic<int64_t> bytes_ = 0;
  const std::string name_;
  std::atomic<int64_t> most_requests_ = 0, most_cells_ = 0, most_bytes_ = 0, share_percent_ = 0;
};
// Whose it is; null: nobody's. They outlive what is in flight.
struct Parties {
  Party* client = nullptr;
  Party* model = nullptr;
};

// Gives back what was admitted when it goes out of scope. Movable.
class Ticket {
 public:
  Ticket() = default;
  Ticket(Ticket&& other) noexcept
      : from_(std::exchange(other.from_, nullptr)),
        demand_(std::exchange(other.demand_, Demand{0, 0, 0})),
        of_(other.of_) {}
  Ticket& operator=(Ticket&& other) noexcept;
  ~Ticket() { Release(); }
  void Release();
  // Holds what `other` held, too. Both are of one Admission and of the same parties, or empty.
  void Join(Ticket other);
  // Holds this instead, whatever the limits say: for what is left of a request when it is done. Empty ones stay so.
  void Keep(const Demand& demand);
  const Demand& demand() const { return demand_; }  // nothing, once it is given back

 private:
  friend class Admission;
  Ticket(Admission* from, const Demand& demand, Parties of)
      : from_(from), demand_(demand), of_(of) {}
  Admission* from_ = nullptr;
  Demand demand_ = {0, 0, 0};
  Parties of_;
};

// Why not, and when to come back (milliseconds; -1: never, it can never fit).
struct Refusal {
  Rejection reason;
  int32_t pushback_ms;
  absl::Status status;
};

class Admission {
 public:
  explicit Admission(const AdmissionLimits& limits)
      : limits_(limits), clients_(static_cast<size_t>(limits.clients)) {}

  // True and a ticket, or false and the refusal. UNAVAILABLE once closed; RESOURCE_EXHAUSTED beyond
  // a limit or a share of it, naming it, what is in flight and what was asked. `now_ns`: steady clock.
  // What no limit would let in even alone is never counted. What might have fitted is, while it is refused: whoever asks
  // in that moment may be refused where the server is nearly full.
  bool Admit(const Demand& demand, int64_t now_ns, Ticket& ticket, Refusal& refusal,
             Parties of = {});
  // What a ticket holds is that model's, too, now that it is known. False: its share is used up.
  bool Enter(Ticket& ticket, Party& model, int64_t now_ns, Refusal& refusal);
  // Of who asks, by a hash of what names it.
  Party& ClientOf(uint64_t client) { return clients_[client % clients_.size()]; }

  // After Close no request is admitted, but what one that is in still needs is (a Demand of no requests): a piece of a sequence
  // may have waited. InFlight's requests only fall: at zero, all are answered.
  void Close() { closed_.store(true); }
  bool closed() const { return closed_.load(); }

  Demand InFlight() const;
  // A hint of about that many milliseconds.
  int32_t Spread(int64_t wait_ms) { return hint_.Spread(wait_ms); }
  const AdmissionLimits& limits() const { return limits_; }

 private:
  friend class Ticket;
  void Add(const Demand& demand, int64_t sign, Parties of = {});
  bool WithinLimits(const Demand& before, const Demand& demand, int64_t now_ns, Refusal& refusal);
  bool WithinShare(const Party& party, const Demand& demand, Rejection reason, int64_t now_ns,
                   Refusal& refusal);
  bool WithinOwn(const Party& party, const Demand& demand, int64_t now_ns, Refusal& refusal);
  int32_t PushbackMs(int64_t now_ns);

  const AdmissionLimits limits_;
  std::vector<Party> clients_;
  std::atomic<bool> closed_ = false;
  std::atomic<int64_t> requests_ = 0;
  std::atomic<int64_t> cells_ = 0;
  std::atomic<int64_t> bytes_ = 0;
  // How fast requests leave, for the hint: a count, and the count and time of an earlier look.
  std::atomic<int64_t> finished_ = 0;
  std::atomic<int64_t> looked_at_ns_ = 0;
  std::atomic<int64_t> finished_then_ = 0;
  std::atomic<int64_t> per_second_ = 0;
  RetryHint hint_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_ADMISSION_H_
