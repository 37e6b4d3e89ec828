#include "server/grpc/connection_guard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"

namespace cellbatch {

const char* Name(GrpcCut reason) {
  constexpr const char* kNames[kNumGrpcCuts] = {"connections",    "descriptors", "streams",
                                                "header_block",   "resets",      "unfinished_bytes",
                                                "message_timeout"};
  return kNames[static_cast<size_t>(reason)];
}

void ConnectionGuard::Add(std::shared_ptr<Entry> entry, int64_t most) {
  while (size() >= most && CutOne(GrpcCut::kConnections)) {
  }
  Entry& added = *entry;
  added.place_ = line_.insert(line_.end(), std::move(entry));
  ++counts_.connections;
  const std::lock_guard lock(mutex_);
  accounts_.insert_or_assign(added.peer_, added.account_);
}

void ConnectionGuard::Remove(Entry& entry) {
  --counts_.connections;
  {
    const std::lock_guard lock(mutex_);
    const auto account = accounts_.find(entry.peer_);
    // The same peer may have come again from the same port.
    if (account != accounts_.end() && account->second == entry.account_) accounts_.erase(account);
  }
  line_.erase(entry.place_);  // which may have been the last to hold it
}

void ConnectionGuard::Moved(Entry& entry) { line_.splice(line_.end(), line_, entry.place_); }

void ConnectionGuard::Cut(Entry& entry, GrpcCut reason) {
  const std::shared_ptr<Entry> kept = *entry.place_;  // until it has ended
  ++counts_.cut[static_cast<size_t>(reason)];
  Remove(entry);
  kept->Cut(reason);
}

void ConnectionGuard::ForEach(const std::function<void(Entry&)>& use) const {
  for (const std::shared_ptr<Entry>& entry : line_) use(*entry);
}

bool ConnectionGuard::CutOne(GrpcCut reason, const Entry* spared) {
  const auto idle = [](const Entry& e) {
    return e.account_->calls_.load(std::memory_order_relaxed) == 0;
  };
  const auto first = [&](const auto& of) {
    return std::ranges::find_if(
        line_, [&](const std::shared_ptr<Entry>& e) { return e.get() != spared && of(*e); });
  };
  // A crowd that connects at once is younger than a client between two calls, and must not take its place.
  auto victim = first([&](const Entry& e) { return idle(e) && !e.EverCalled(); });
  if (victim == line_.end()) victim = first(idle);
  if (victim == line_.end()) victim = first([](const Entry&) { return true; });
  if (victim == line_.end()) return false;
  Cut(**victim, reason);
  return true;
}

std::shared_ptr<ConnectionGuard::Account> ConnectionGuard::Find(std::string_view peer) const {
  const std::lock_guard lock(mutex_);
  const auto account = accounts_.find(absl::string_view(peer.data(), peer.size()));
  return account == accounts_.end() ? nullptr : account->second;
}

}  // namespace cellbatch
