// What the scheduler keeps with a request: one block of memory, made on the thread that submits
// (Submit), written by the manager alone until Take, freed with the request.
//
// Opaque to everyone but the scheduler's own files (request_block.h has the layout). Movable, like
// the request it belongs to.
#ifndef CELLBATCH_SCHEDULER_RUN_STATE_H_
#define CELLBATCH_SCHEDULER_RUN_STATE_H_

#include <cstddef>
#include <memory>
#include <new>

namespace cellbatch {

struct RequestBlock;
inline constexpr std::size_t kBlockAlignment = 64;  // a cache line

class RunState {
 public:
  RequestBlock* block() const { return block_.get(); }
  // Takes a trivially destructible block made by ::operator new(size, align_val_t(kBlockAlignment)).
  void Adopt(RequestBlock* block) { block_.reset(block); }

 private:
  struct Free {
    void operator()(RequestBlock* block) const {
      ::operator delete(static_cast<void*>(block), std::align_val_t(kBlockAlignment));
    }
  };
  std::unique_ptr<RequestBlock, Free> block_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RUN_STATE_H_
