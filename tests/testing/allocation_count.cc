#include "tests/testing/allocation_count.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace cellbatch::testing {
namespace {

thread_local int64_t allocations = 0;

}  // namespace

int64_t AllocationsOfThisThread() { return allocations; }

static void* Allocate(size_t bytes, size_t alignment) {
  ++allocations;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const p = alignment <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes)
                                                         : std::aligned_alloc(alignment, rounded);
  if (p == nullptr) std::abort();
  return p;
}

}  // namespace cellbatch::testing

void* operator new(size_t bytes) { return cellbatch::testing::Allocate(bytes, 1); }
void* operator new[](size_t bytes) { return cellbatch::testing::Allocate(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t a) {
  return cellbatch::testing::Allocate(bytes, static_cast<size_t>(a));
}
void* operator new[](size_t bytes, std::align_val_t a) {
  return cellbatch::testing::Allocate(bytes, static_cast<size_t>(a));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return cellbatch::testing::Allocate(bytes, 1);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return cellbatch::testing::Allocate(bytes, 1);
}
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }
