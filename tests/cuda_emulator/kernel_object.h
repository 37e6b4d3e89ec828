// CUDA source compiled for this CPU, as NVRTC compiles it for a GPU: the system's g++ makes a shared object of it, behind a
// prelude that gives CUDA's words a meaning (prelude.txt), and beside a shim through which everything that a kernel does to
// memory, and every barrier, calls the emulator (shim.txt).
//
//   source --(prelude.txt, -fsanitize=thread)--> kernel.o --+
//                                   shim.txt ----> shim.o --+--> HASH.so, kept in the cache folder --> dlopen
//
// Where nobody looks, the same without -fsanitize=thread: faster, and the bits that kernels leave are the same.
//
// Kernels are what the source declares `extern "C" __global__ void NAME(..)`. Denormals are for who runs them to flush.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_KERNEL_OBJECT_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_KERNEL_OBJECT_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cellbatch::emulator {

// As in shim.txt, by member.
struct KernelHooks {
  void (*sync_block)() = nullptr;
  void (*sync_warp)(unsigned lanes) = nullptr;
  unsigned long long (*shuffle)(unsigned lanes, unsigned long long value, int from) = nullptr;
  void (*fence)() = nullptr;
  void (*access)(const void* at, size_t bytes, int kind) = nullptr;
  void (*copy_async)(void* to, size_t room, const void* from, size_t bytes) = nullptr;
  void (*close_group)() = nullptr;
  void (*wait_for_groups)(int all_but) = nullptr;
  void (*gather)(const void* mine, void* all, size_t bytes) = nullptr;
  void (*wait_for_grids)() = nullptr;
  void (*init_barrier)(unsigned long long* barrier, int arrivals) = nullptr;
  void (*arrive)(unsigned long long* barrier) = nullptr;
  void (*arrive_when_copied)(unsigned long long* barrier) = nullptr;
  void (*wait_for_arrivals)(unsigned long long* barrier, unsigned parity) = nullptr;
  void (*sync_cluster)() = nullptr;
  int (*block_of_cluster)() = nullptr;
  void (*arrive_at)(unsigned long long* barrier, int block) = nullptr;
  void (*arrive_and_expect)(unsigned long long* barrier, int bytes) = nullptr;
  void (*bulk_copy)(void* to, const void* from, int bytes, unsigned long long* barrier,
                    unsigned blocks) = nullptr;
};
struct KernelIndex {
  unsigned x = 0, y = 0, z = 0;
};

struct KernelFunction {
  std::string name;
  std::vector<size_t> argument_bytes;
  void (*launch)(void** arguments) = nullptr;  // one thread of it
  unsigned cluster_y = 1;                      // blocks of a cluster: __cluster_dims__(1, 2, 1)
};

// Whether kernels tell of their accesses.
enum class Watched : bool { kNo, kYes };

class KernelObject {
 public:
  // Seconds, unless the same source was compiled into the folder before. Several processes may share the folder. Loaded until
  // the process ends. INVALID_ARGUMENT: the compiler's words; NOT_FOUND: there is no compiler, or no folder.
  static absl::StatusOr<std::shared_ptr<const KernelObject>> Compile(
      const std::string& source, const std::string& cache_folder, Watched watched = Watched::kYes);

  // Itself, or the same source the other way: compiled when first asked for. As long-lived. Any thread.
  absl::StatusOr<const KernelObject*> As(Watched watched) const;
  Watched watched() const { return watched_; }

  const KernelFunction* Find(const std::string& name) const;  // null: there is none

  // Of the calling thread. 0 threadIdx, 1 blockIdx, 2 blockDim, 3 gridDim.
  KernelIndex* index(int which) const { return index_(which); }
  // Likewise: where the shared memory lies of the block whose thread runs.
  void** shared_place() const { return shared_place_(); }
  void set_hooks(const KernelHooks* hooks) const { set_hooks_(hooks); }

 private:
  KernelObject() = default;
  absl::Status Open(const std::string& file, const std::vector<std::string>& names);

  std::string source_, cache_folder_;
  Watched watched_ = Watched::kYes;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const KernelObject> other_;  // the other way
  std::map<std::string, KernelFunction> functions_;
  KernelIndex* (*index_)(int which) = nullptr;
  void** (*shared_place_)() = nullptr;
  void (*set_hooks_)(const KernelHooks* hooks) = nullptr;
};

// The kernels that a source declares, in its order; what stands in comments is none.
std::vector<std::string> KernelNames(const std::string& source);

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_KERNEL_OBJECT_H_
