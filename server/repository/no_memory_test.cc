#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>

#include "cells/weights/safetensors.h"
#include "server/convert/import_torch.h"
#include "server/repository/check_repository.h"
#include "server/repository/model_repository.h"
#include "tests/testing/loading_scheduler.h"

namespace {

// Weights are larger, and nothing else is; while it is set the heap has no room for such.
constexpr size_t kLarge = 1 << 18;
std::atomic<bool> g_full = false;

void* AllocateIfThereIsRoom(size_t bytes) {
  return g_full && bytes >= kLarge ? nullptr : std::malloc(bytes);
}

void* Allocate(size_t bytes) {
  void* const memory = AllocateIfThereIsRoom(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
// (Sanitizers have their own of these, whose memory is not free's.)
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return AllocateIfThereIsRoom(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return AllocateIfThereIsRoom(bytes);
}
// (Inlined, GCC warns of a mismatch under the thread sanitizer.)
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace cellbatch {
namespace {

// As where a limit keeps the process from mapping more (ulimit -v), or the system gives no more than it has.
TEST(NoMemoryTest, ALoadThatFindsNoMemoryFailsAndWhatServesGoesOn) {
  const std::string root = testing::TempDir() + "/no_memory";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root);
  const std::vector<float> w(3 * 160 * 160, 0.01f);
  ASSERT_GE(w.size() * sizeof(float), kLarge);
  const std::string from = root + "-gru.safetensors";
  ASSERT_TRUE(
      WriteSafetensors(from, {{"weight_ih_l0", {480, 160}, w}, {"weight_hh_l0", {480, 160}, w}})
          .ok());
  ASSERT_TRUE(ImportTorch({.from = from, .repository = root, .name = "a", .hints = {}}).ok());
  LoadingScheduler scheduler;
  ModelRepository repository(root, LoaderLimits(), scheduler);
  ASSERT_TRUE(repository.LoadAll().ok());

  g_full = true;
  const absl::Status loaded = repository.Load("a");
  const auto checked = CheckRepository(root, LoaderLimits());
  g_full = false;
  const std::string why = "there is no memory left for version 1";
  EXPECT_EQ(loaded, absl::ResourceExhaustedError("model \"a\": " + why));
  EXPECT_TRUE(repository.Find("a", "").ok());
  EXPECT_EQ(repository.Index()[0].reason, why);
  EXPECT_THAT((*checked)[0].problems, testing::ElementsAre(why));
  EXPECT_TRUE(repository.Load("a").ok()) << "as soon as there is";
  EXPECT_EQ(repository.Index()[0].reason, "");
}

}  // namespace
}  // namespace cellbatch
