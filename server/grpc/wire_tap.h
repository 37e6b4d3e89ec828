// Sees every byte that gRPC reads from a connection before gRPC does, on the thread that reads it, and without a copy; and ends
// the connection where it is too much (frame_watch.h). gRPC has no place for that: so this program has a recvmsg, a sendmsg and a
// close of its own, which are found before the system's whenever libgrpc.so calls them (symbol interposition, as with LD_PRELOAD).
//
//   accept --Enrol--> table of descriptors <--- recvmsg(2), sendmsg(2), close(2) of libgrpc.so
//                                                   |  a descriptor that is not enrolled: the system's, at once
//                                                   v
//                                  WireTap: FrameWatch over what came and what was sent
//
// A round of reading ends after 128 KiB, though more be there: gRPC 1.51 would read on for as long as bytes keep coming, on a thread
// that others wait for, makes buffers for as much as it read in the last round, and aborts once that is more than 2 GiB. Nor does
// one recvmsg take more than the round has left: all calls in what was read are answered before anybody else is looked at. Where
// many connections are amid a message, all of them together take 2 MiB in turn, each at least 16 KiB: beside 200 of them who waits
// behind all the others would wait for 25 MiB else, and for the pages that they are put on, which a machine may have to find first.
//
// One thread at a time reads from a connection and one sends, as gRPC does; anybody may look and cut. A read costs some
// tens of nanoseconds more. It links in by itself wherever grpc_listener does; InForce says whether libgrpc.so finds it.
#ifndef CELLBATCH_SERVER_GRPC_WIRE_TAP_H_
#define CELLBATCH_SERVER_GRPC_WIRE_TAP_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "server/grpc/connection_guard.h"
#include "server/grpc/frame_watch.h"

namespace cellbatch {

// Of all connections of a port together.
struct WireTotals {
  explicit WireTotals(const FrameBounds& frame_bounds)
      : bounds(frame_bounds), resets(kConnectionsWorth * frame_bounds.max_resets_per_second) {}
  // All together may reset as much as so many.
  static constexpr int64_t kConnectionsWorth = 8;

  const FrameBounds bounds;
  RateBound resets;
  std::atomic<int64_t> streams = 0, bytes = 0;  // Unwhole
  std::atomic<int64_t> amid = 0;                // connections with bytes of such a message
  // How often all that were there were told to open no further streams, each with what it is sent next.
  std::atomic<int> goodbyes = 0;
};

class WireTap {
 public:
  // From now on, until it is closed. Null: its number is beyond what the table has.
  static std::shared_ptr<WireTap> Enrol(int connection, std::shared_ptr<WireTotals> totals);
  // Whether libgrpc.so calls ours.
  static bool InForce();
  // CLOCK_MONOTONIC, to some milliseconds.
  static int64_t NowNs();

  explicit WireTap(std::shared_ptr<WireTotals> totals);
  ~WireTap();

  // Why it is cut, if it is; `seen`: what was met, of what the bound counts.
  std::optional<GrpcCut> cut() const;
  int64_t seen() const { return seen_.load(std::memory_order_relaxed); }
  // From now on reads fail.
  void Cut(GrpcCut reason);

  // Whether a call ever came, or its headers.
  bool called() const { return called_.load(std::memory_order_relaxed); }
  int64_t unwhole_streams() const { return streams_.load(std::memory_order_relaxed); }
  int64_t unwhole_bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // When the oldest of its messages that are not whole began (FrameWatch::kNever).
  int64_t OldestBegun() const;

  // What the functions of the system call. `close` itself is the caller's.
  static WireTap* Of(int descriptor);
  static std::shared_ptr<WireTap> Leave(int descriptor);
  ssize_t Receive(int descriptor, msghdr* message, int flags);
  ssize_t Send(int descriptor, const msghdr* message, int flags);

 private:
  static constexpr int kNotCut = -1;
  static constexpr int64_t kLeastARound = 16 << 10, kMostARound = 128 << 10, kOfAll = 2 << 20;
  // gRPC takes nothing to read for the end of a round only where it has read nothing just before.
  static constexpr int kEndsARound = 2;
  // Bytes that a round may bring now.
  int64_t Round() const;
  bool EndRound(int descriptor, int64_t round);
  static bool WakePair(int descriptor);
  // With room for so much; the message is as it was afterwards.
  static ssize_t ReceiveSome(int descriptor, msghdr* message, int flags, size_t room);
  // HTTP/2's GOAWAY that names no stream, where a frame may stand. False: a part of it is left, which goes before anything else.
  bool SayGoodbye(int descriptor, int goodbyes);
  FrameFault Take(const msghdr& message, size_t bytes);
  void Sent(const msghdr& message, size_t bytes);
  void Publish();

  const std::shared_ptr<WireTotals> totals_;
  std::shared_ptr<WireTap> self_;  // while it is in the table
  bool pair_ = false;              // its descriptor's other end is this process's, too
  std::atomic<int> cut_ = kNotCut;
  std::atomic<int64_t> seen_ = 0;
  std::atomic<bool> called_ = false;
  std::atomic<int64_t> open_ = 0, streams_ = 0, bytes_ = 0;  // as last published

  mutable std::mutex mutex_;  // of what came
  FrameWatch watch_;
  // Of the thread that reads: in this round.
  int64_t round_bytes_ = 0;
  int ends_ = 0;  // to be said of it
  // Of the thread that sends.
  bool greeted_ = false;
  FrameBoundaries sent_;
  // A block of them goes on, or our settings have not gone out: no frame may stand here.
  bool amid_headers_ = true;
  int goodbyes_;              // that this connection heard, or was not there for
  size_t goodbye_bytes_ = 0;  // of one that is on its way
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_WIRE_TAP_H_
