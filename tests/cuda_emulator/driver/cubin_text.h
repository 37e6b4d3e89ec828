// What the emulated NVRTC gives as a cubin and the emulated driver loads: a line that says what it is, and the source itself. Both
// compile it (kernel_object.h), the second of them out of the cache.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_CUBIN_TEXT_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_CUBIN_TEXT_H_

#include <cstdlib>
#include <string>

namespace cellbatch::emulator {

inline constexpr char kCubinMagic[] = "cellbatch emulated cubin 1\n";

// Not the folder that a test's own GridRunner compiles into: an object that two copies of the emulator in one process open must
// not be the same one, as its hooks are one copy's.
inline std::string CubinCacheFolder() {
  const char* const chosen = std::getenv("CELLBATCH_EMULATOR_CACHE");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  const char* const of_test = std::getenv("TEST_TMPDIR");
  if (of_test != nullptr && *of_test != '\0') return std::string(of_test) + "/emulated-driver";
  return "/tmp/cellbatch-emulator";
}

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_CUBIN_TEXT_H_
