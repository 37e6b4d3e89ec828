// What the driver asks the heap for is its own affair, as a real one's is: tests that count what a thread of theirs allocates
// (tests/testing/allocation_count.h) replace the global operator new, and would count this as well.
#include <cstddef>
#include <cstdlib>
#include <new>

void* operator new(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto to = static_cast<size_t>(alignment);
  void* const memory = std::aligned_alloc(to, (bytes + to - 1) / to * to);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
