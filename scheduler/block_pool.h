// Memory for what of requests' blocks does not fit their slot's slab (trees, lattices: 5 to 50 kB), on huge
// pages where the system has them. A task touches a few lines of each of hundreds of blocks; on small pages
// every other one of them cost a walk through the page tables, and forming a task of lattice nodes a fifth
// more.
//
//   chunk of 2 MiB   | 16 K | 16 K | free | 16 K | ...        one size class each: 1 K, 1.5 K, 2 K, 3 K, .. 256 K
//   free lists       by class, newest first: still in the cache, and the oldest chunks stay untouched
//
// One for the process, for blocks live as long as whoever took their request likes. Memory that was needed at
// once stays. Any thread; a lock is held for a few instructions. Larger blocks come from operator new, and
// under the address sanitizer all of them do.
#ifndef CELLBATCH_SCHEDULER_BLOCK_POOL_H_
#define CELLBATCH_SCHEDULER_BLOCK_POOL_H_

#include <cstddef>

namespace cellbatch {

inline constexpr std::size_t kBlockAlignment = 128;  // two cache lines
inline constexpr std::size_t kLargestPooledBlock = 256 << 10;

void* NewBlock(std::size_t bytes);
void DeleteBlock(void* block, std::size_t bytes) noexcept;  // as many as it was made of

// For tests: the memory that NewBlock takes for so many bytes.
std::size_t PooledBytes(std::size_t bytes);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_BLOCK_POOL_H_
