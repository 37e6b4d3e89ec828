// Memory for what is streamed through a core or touched everywhere: weights, row tables, request blocks. From a huge page on it
// comes from the system, in huge pages where there are any (on small ones a stream costs a page walk every 64 lines, and
// hardware prefetchers stop at each page's end), and goes back to it at once: malloc would keep an unloaded model's
// weights, and lay the next ones on the small pages that it kept. What is smaller is ordinary memory.
//
// Any thread. At load time only: a few system calls, and page after page comes into being when it is first touched.
#ifndef CELLBATCH_CELLS_LARGE_MEMORY_H_
#define CELLBATCH_CELLS_LARGE_MEMORY_H_

#include <cstddef>

namespace cellbatch {

inline constexpr size_t kHugePage = size_t{2} << 20;
inline constexpr size_t kLargeMemoryAlignment = 128;  // at least: a pair of cache lines

// Whether the system is to refuse more than it could ever give (its overcommit rules), or gives addresses and has its say
// when they are touched: for a room that is made large and mostly stays empty.
enum class Backing { kCounted, kAddresses };

// Zeroed; from a huge page on, at the beginning of one. Null: there is no such room.
void* NewLargeMemory(size_t bytes, Backing backing);
// Of the same size. Null: nothing.
void DeleteLargeMemory(void* memory, size_t bytes);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_LARGE_MEMORY_H_
