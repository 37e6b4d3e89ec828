// Which connections a server of HTTP has, what each waits for, and who goes when there is no room: the rules, without
// a socket. One thread, the server's loop; counts may be read by any.
//
//   idle        between two requests: nothing is owed to it
//   unfinished  its client is at it: sending a head or a body, reading a reply. Oldest first in the line
//   answering   we are at it: never cut
//
// Whoever comes when all places are taken takes the place of the one that has been idle longest, else of the oldest
// unfinished one: a client that takes its time loses to one that has just come, so a probe is never refused because
// others hang. There is always one to cut, because only some of the places may be answering (MayAnswer).
#ifndef CELLBATCH_SERVER_HTTP_CONNECTION_TABLE_H_
#define CELLBATCH_SERVER_HTTP_CONNECTION_TABLE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

namespace cellbatch {

enum class HttpStage : uint8_t { kIdle, kHead, kBody, kAnswer, kReply };

// Why a connection was cut by us: the `reason` label of cellbatch_http_cut_total.
enum class HttpCut : uint8_t { kHead, kBody, kUnread, kIdle, kConnections, kBytes, kDescriptors };
inline constexpr int kNumHttpCuts = 7;
const char* Name(HttpCut reason);

// What any thread may read.
struct HttpCounts {
  std::atomic<int64_t> connections = 0;
  std::atomic<int64_t> held_bytes = 0;
  std::array<std::atomic<int64_t>, kNumHttpCuts> cut = {};
};

class ConnectionTable {
 public:
  // One connection's entry. Its owner derives from it.
  class Entry {
   public:
    virtual ~Entry() = default;
    // Ends it now; it takes itself out of the table.
    virtual void Cut(HttpCut reason) = 0;
    HttpStage stage() const { return stage_; }

   private:
    friend class ConnectionTable;
    HttpStage stage_ = HttpStage::kHead;
    int64_t held_ = 0;
    std::list<std::shared_ptr<Entry>>::iterator place_;
  };

  // `max_held_bytes`: of bodies on their way in and replies on their way out, all together.
  ConnectionTable(int64_t max_connections, int64_t max_held_bytes, HttpCounts& counts);

  // A new one, in stage kHead. Cuts another where there is no room; false: there is none to cut.
  bool Add(std::shared_ptr<Entry> entry);
  void Remove(Entry& entry);
  // To the end of the line of that stage, unless head, body and reply follow each other.
  void Move(Entry& entry, HttpStage stage);
  // How many bytes it holds from now on. Beyond the bound the oldest unfinished ones that hold any are cut; the one
  // itself only if it still sends its body (a reply was computed: throwing it away helps nobody).
  void Hold(Entry& entry, int64_t bytes);
  // Cuts that one, and counts why.
  void Cut(Entry& entry, HttpCut reason);
  // Cuts the one that would go first, but not `spared`. False: there is none.
  bool CutOne(HttpCut reason, const Entry* spared = nullptr);
  // Whether one more request may be answered that is not a probe: a sixteenth of the places is kept from them.
  bool MayAnswer() const { return count(HttpStage::kAnswer) < max_connections_ - reserved_; }

  int64_t size() const { return counts_.connections.load(std::memory_order_relaxed); }
  int64_t count(HttpStage stage) const { return stages_[static_cast<size_t>(stage)]; }
  // Calls it with each, of which it may end any.
  void ForEach(const std::function<void(Entry&)>& call) const;

 private:
  using Line = std::list<std::shared_ptr<Entry>>;
  Line& LineOf(HttpStage stage);
  void AddHeld(Entry& entry, int64_t bytes);

  const int64_t max_connections_, max_held_bytes_, reserved_;
  HttpCounts& counts_;
  Line idle_, unfinished_, answering_;
  std::array<int64_t, 5> stages_ = {};
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_CONNECTION_TABLE_H_
