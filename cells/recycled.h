// Memory of objects that are made and freed thousands of times a second, often by different threads: one of a kilobyte or more
// misses the caches of glibc's malloc, and costs it some 500 instructions and a lock. Here, a pop and a push.
//
//   struct Request : Recycled<Request> { ... };        new and delete as ever
//
// Of each type kMost freed ones wait to be made again; more go back to the heap, so that nothing is kept of what a
// flood needed. Any thread; lock-free. Under sanitizers all of them come from the heap, and go back there: one watches what is
// freed, another takes it for a race that Boost's stack looks at a node while it is taken (and then does not use what it saw).
#ifndef CELLBATCH_CELLS_RECYCLED_H_
#define CELLBATCH_CELLS_RECYCLED_H_

#include <cstddef>
#include <new>

#include "boost/lockfree/policies.hpp"
#include "boost/lockfree/stack.hpp"

namespace cellbatch {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kRecycles = false;
#else
inline constexpr bool kRecycles = true;
#endif

// T: the type itself. One that derives from it is not recycled.
template <typename T, size_t kMost = 256>
class Recycled {
 public:
  static void* operator new(size_t bytes) {
    if constexpr (kRecycles) {
      if (void* memory = nullptr; bytes == sizeof(T) && Freed().pop(memory)) return memory;
    }
    return ::operator new(bytes);
  }
  static void operator delete(void* memory, size_t bytes) noexcept {
    if constexpr (kRecycles) {
      if (bytes == sizeof(T) && Freed().bounded_push(memory)) return;
    }
    ::operator delete(memory, bytes);
  }

 private:
  static auto& Freed() {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    using Stack = boost::lockfree::stack<void*, boost::lockfree::capacity<kMost>>;
    static auto* const freed = new Stack;  // outlives every object
    return *freed;
  }
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_RECYCLED_H_
