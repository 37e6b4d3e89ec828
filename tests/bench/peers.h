// Matrix-product libraries of others, found at run time and never needed to build: OpenBLAS and every oneDNN there is.
//
// A peer multiplies [b][K] by fixed weights [K][N] into [b][N], floats, rows packed, one thread. Libraries are loaded
// with dlopen: the system's (libopenblas.so.0, libdnnl.so.3, libdnnl.so.2), and files that the caller names (a newer
// oneDNN unpacked from a Python wheel, say; its dependencies are looked for beside it). Nothing found is no error: the
// list is shorter. One thread; weights are borrowed until the next Prepare.
#ifndef CELLBATCH_TESTS_BENCH_PEERS_H_
#define CELLBATCH_TESTS_BENCH_PEERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cellbatch {

class ProductPeer {
 public:
  virtual ~ProductPeer() = default;
  const std::string& name() const { return name_; }  // "oneDNN 3.2.0 matmul", with its version
  // Packs weights [k][n] in whatever way the library likes for batches of b. False: it cannot.
  virtual bool Prepare(int b, int k, int n, const float* weights) = 0;
  virtual void Multiply(const float* x, float* y) = 0;

 protected:
  explicit ProductPeer(std::string name) : name_(std::move(name)) {}

 private:
  std::string name_;
};

// `files`: shared objects to try besides the system's. Libraries see one CPU if the thread is pinned to one before.
std::vector<std::unique_ptr<ProductPeer>> FindPeers(const std::vector<std::string>& files);

// A shared object, its dependencies taken from its own folder where the system has none; null if it cannot be loaded.
void* LoadLibrary(const std::string& file);

std::unique_ptr<ProductPeer> OpenBlasPeer(void* library);
// Both primitives that can do it, of the C API of major version 2 or 3.
std::vector<std::unique_ptr<ProductPeer>> OneDnnPeers(void* library);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_PEERS_H_
