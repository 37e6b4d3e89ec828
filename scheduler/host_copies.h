// What the tasks of one request copy from and to, where devices do not reach the request's own tensors:
// blocks of host memory that they do reach (Memory::host_blocks).
//
//   Submit, Extended   the submitter's thread: inputs are copied into a block, copies out get a block like the answer
//   (tasks)            devices and the manager know of nothing else; words are written into that block, too
//   Take               the taker's thread: what is told of is brought into the request's tensors; blocks go back
//
// Devices that reach all host memory (CPUs) have none of this: their tasks copy where the tensors are.
// Of one request; by its submitter until it is the manager's, by its taker from then on.
#ifndef CELLBATCH_SCHEDULER_HOST_COPIES_H_
#define CELLBATCH_SCHEDULER_HOST_COPIES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "cells/device/memory.h"

namespace cellbatch {

struct Request;
struct RequestBlock;

class HostCopies {
 public:
  bool any() const { return blocks_ != nullptr; }
  // Before the manager has the piece that `block` was built of: its copies name blocks from here on.
  // RESOURCE_EXHAUSTED: there are none left. O(bytes).
  absl::Status Stage(const Request& request, RequestBlock& block, HostBlocks& blocks);
  // What the piece returned goes into the tensors: of a piece that is done, everything (up to stops);
  // of one that runs, the first `words` of its first stopping chain.
  void Bring(const Request& request, const RequestBlock& block) const;
  void BringWords(const Request& request, const RequestBlock& block, int32_t words) const;
  // No task names them any more.
  void Free();

 private:
  absl::Status StageInputs(const Request& request, RequestBlock& block);
  void FreeInputs();

  HostBlocks* blocks_ = nullptr;
  std::byte* inputs_ = nullptr;  // of the latest piece
  int64_t inputs_bytes_ = 0;
  std::byte* answer_ = nullptr;  // laid out as the graph's tensors
  int64_t answer_bytes_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_HOST_COPIES_H_
