// Preloaded into a server under test: what it reads of its control group it reads below the folder that GROUP_FILES names.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

// What C++ streams open files by.
extern "C" FILE* fopen64(const char* path, const char* mode) {
  using Open = FILE* (*)(const char*, const char*);
  static const auto open = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "fopen64"));
  static const char* const folder = std::getenv("GROUP_FILES");
  const std::string_view name = path;
  const bool of_group = name == "/proc/self/cgroup" || name == "/proc/self/mountinfo" ||
                        name.starts_with("/sys/fs/cgroup/");
  return open(of_group && folder != nullptr ? (std::string(folder) + path).c_str() : path, mode);
}
