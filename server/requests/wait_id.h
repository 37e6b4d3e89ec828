// Names a piece of a sequence while it waits for its turn (sequences.h), and never another one after that.
#ifndef CELLBATCH_SERVER_REQUESTS_WAIT_ID_H_
#define CELLBATCH_SERVER_REQUESTS_WAIT_ID_H_

#include <cstdint>

namespace cellbatch {

struct WaitId {
  uint64_t value = 0;  // 0: none
  friend bool operator==(const WaitId&, const WaitId&) = default;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_WAIT_ID_H_
