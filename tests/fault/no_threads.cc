// Preloaded into a server under test: while the file that NO_THREADS_FILE names is there, no thread can be started, as where
// others of the same user or control group have used up what the system allows.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) noexcept {
  static const auto kCreate =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  const char* const file = std::getenv("NO_THREADS_FILE");
  if (file != nullptr && access(file, F_OK) == 0) return EAGAIN;
  return kCreate(thread, attributes, run, argument);
}
