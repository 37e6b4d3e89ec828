// Gives memory that was freed back to the system: glibc keeps most of it for who comes next (a gibibyte and more after a
// flood), and a container is killed for what its processes keep.
//
// A thread of its own, which looks every two seconds: a file of /proc, and a count over malloc's free lists. (Not only where the
// process has grown since it last gave back: what was in use then may be free now.) Giving back holds malloc's locks one after the other, so it is done when much has gathered; threads that allocate
// nothing (the scheduler's) do not notice.
#ifndef CELLBATCH_SERVER_MEMORY_KEEPER_H_
#define CELLBATCH_SERVER_MEMORY_KEEPER_H_

#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <thread>

namespace cellbatch {

// When to give back. Bytes.
class KeptMemory {
 public:
  static constexpr int64_t kMuch = 32 << 20;
  // Resident and not in use: stacks and the like, which stay, and what was freed.
  bool Due(int64_t resident, int64_t in_use);
  void GaveBack(int64_t resident, int64_t in_use);

 private:
  // Before it was first asked back nobody knows how much may stay.
  int64_t least_kept_ = std::numeric_limits<int64_t>::min() / 2;
};

class MemoryKeeper {
 public:
  MemoryKeeper();
  ~MemoryKeeper();

 private:
  void Run();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_MEMORY_KEEPER_H_
