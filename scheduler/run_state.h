// What the scheduler keeps with a request: its block, made on the thread that submits (Submit), written
// by the manager alone until Take; what of it does not fit the slot's own memory is freed with the
// request. A request that grows has a second one, for the records of its latest piece, made on the thread
// that extends it (Extended) while the manager has nothing to do with them.
//
// Opaque to everyone but the scheduler's own files (request_block.h has the layout). Movable, like
// the request it belongs to.
#ifndef CELLBATCH_SCHEDULER_RUN_STATE_H_
#define CELLBATCH_SCHEDULER_RUN_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "scheduler/block_pool.h"
#include "scheduler/host_copies.h"

namespace cellbatch {

struct RequestBlock;

class RunState {
 public:
  // The request's own, wherever it lies.
  RequestBlock* block() const { return block_; }
  // Of memory that the block takes beyond its slot's own.
  std::size_t bytes() const {
    std::size_t bytes = 0;
    for (const Memory* memory : {&owned_, &piece_before_, &piece_}) {
      if (*memory != nullptr) bytes += memory->get_deleter().bytes;
    }
    return bytes;
  }
  // How many pieces of the graph were given to the manager.
  int32_t pieces() const { return pieces_; }
  // memory: of `bytes`, of NewBlock, where the block or a part of it lies; null: all of it lies elsewhere.
  // Nothing in it needs a destructor.
  void Adopt(RequestBlock* block, std::byte* memory, std::size_t bytes) {
    block_ = block;
    owned_ = {memory, Free{bytes}};
    pieces_ = 1;
  }
  // The piece before it stays: who is cancelled between the two is answered with what that one left.
  void AdoptPiece(std::byte* memory, std::size_t bytes) {
    piece_before_ = std::exchange(piece_, Memory(memory, Free{bytes}));
    ++pieces_;
    told_ = 0;
  }
  // Where devices do not reach the request's tensors.
  HostCopies& host_copies() { return host_copies_; }
  // The taker's: so many words of the piece are told of. False: no more than before.
  bool IsNew(int32_t words) { return std::exchange(told_, words) < words; }

 private:
  struct Free {
    std::size_t bytes = 0;
    void operator()(std::byte* memory) const { DeleteBlock(memory, bytes); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  RequestBlock* block_ = nullptr;
  HostCopies host_copies_;
  int32_t pieces_ = 0;
  int32_t told_ = 0;
  Memory owned_{nullptr, Free{}}, piece_before_{nullptr, Free{}}, piece_{nullptr, Free{}};
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RUN_STATE_H_
