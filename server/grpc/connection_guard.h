// Which connections the gRPC port has, what each costs, and who goes when there is no room: the rules, without a socket.
// gRPC 1.51 bounds neither the number of its connections nor what one may cost before a call comes of it.
//
// The listener's thread (grpc_listener.h) adds, looks and cuts. Threads that receive calls say through an Account
// what came of a connection: a lock and a look into a table a call, and two additions to atomics. Counts may be read by any.
#ifndef CELLBATCH_SERVER_GRPC_CONNECTION_GUARD_H_
#define CELLBATCH_SERVER_GRPC_CONNECTION_GUARD_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "server/requests/answer_outlet.h"

namespace cellbatch {

// Why a connection was cut by us: the `reason` label of cellbatch_grpc_cut_total.
enum class GrpcCut : uint8_t {
  kConnections,      // to make room for another one,
  kDescriptors,      // or for a file
  kStreams,          // what came over it was too much: streams,
  kHeaderBlock,      // a header block,
  kResets,           // streams opened and reset,
  kUnfinishedBytes,  // messages half sent, of all connections together,
  kMessageTimeout    // or one for too long
};
inline constexpr int kNumGrpcCuts = 7;
const char* Name(GrpcCut reason);

// What any thread may read.
struct GrpcCounts {
  std::atomic<int64_t> connections = 0;
  std::array<std::atomic<int64_t>, kNumGrpcCuts> cut = {};
};

class ConnectionGuard {
 public:
  // What calls that came over one connection say of it, and where their answers leave. Any thread. Outlives the
  // connection as long as a call does.
  class Account : public AnswerOutlet {
   public:
    void CallCame() { calls_.fetch_add(1, std::memory_order_relaxed); }
    void CallEnded() { calls_.fetch_sub(1, std::memory_order_relaxed); }

    // Set before it is added: who is behind a connection that was accepted for us, and what the certificate that it
    // brought names. Empty: its peer itself, and none.
    std::string address, certificate;

   private:
    friend class ConnectionGuard;
    std::atomic<int64_t> calls_ = 0;  // with us, not ended
  };

  // One connection's entry. Its owner derives from it.
  class Entry {
   public:
    // `peer`: as gRPC spells it ("ipv4:10.0.0.7:43210"), which is how calls find it.
    explicit Entry(std::string peer, std::shared_ptr<Account> account = std::make_shared<Account>())
        : peer_(std::move(peer)), account_(std::move(account)) {}
    virtual ~Entry() = default;
    // Hangs up now. It is out of the table.
    virtual void Cut(GrpcCut reason) = 0;
    // Whether a call ever came over it, even one that has not reached us yet.
    virtual bool EverCalled() const { return false; }
    const std::string& peer() const { return peer_; }
    // Who is behind it.
    const std::string& address() const {
      return account_->address.empty() ? peer_ : account_->address;
    }

   private:
    friend class ConnectionGuard;
    const std::string peer_;
    const std::shared_ptr<Account> account_;
    std::list<std::shared_ptr<Entry>>::iterator place_;
  };

  explicit ConnectionGuard(GrpcCounts& counts) : counts_(counts) {}

  // A new one, the youngest. While there are `most` or more, the one that would go first goes.
  void Add(std::shared_ptr<Entry> entry, int64_t most);
  void Remove(Entry& entry);
  // Bytes came over it: it is the youngest again.
  void Moved(Entry& entry);
  // Cuts the one over which nothing has come for longest: of those that never called if there are any, else of those without a
  // call under way, else of all; never `spared`. False: there is none.
  bool CutOne(GrpcCut reason, const Entry* spared = nullptr);
  void Cut(Entry& entry, GrpcCut reason);
  void ForEach(const std::function<void(Entry&)>& use) const;

  int64_t size() const { return counts_.connections.load(std::memory_order_relaxed); }

  // The account of a call's peer; null where the connection is gone again. Any thread.
  std::shared_ptr<Account> Find(std::string_view peer) const;

 private:
  GrpcCounts& counts_;
  std::list<std::shared_ptr<Entry>> line_;  // nothing came for longest: first
  mutable std::mutex mutex_;                // of what follows
  absl::flat_hash_map<std::string, std::shared_ptr<Account>> accounts_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_CONNECTION_GUARD_H_
