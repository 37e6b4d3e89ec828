// Libraries of others, found at run time and never needed to build: OpenBLAS and every oneDNN there is.
//
//   ProductPeer   multiplies [b][K] by fixed weights [K][N] into [b][N]; our gates follow
//   LstmPeer      one step of an LSTM, gates and all: a primitive of oneDNN's own
//
// Rows of floats, packed, one thread; a peer in bf16 converts them, and computes with weights and states in bf16. Libraries are loaded with dlopen: the system's (libopenblas.so.0, libdnnl.so.3,
// libdnnl.so.2), and files that the caller names (a newer oneDNN out of a Python wheel: newest_onednn.py; dependencies
// are looked for beside it). Nothing found is no error: the list is shorter. Weights are packed once, in Prepare, in
// whatever way the library likes, on huge pages like our own. One thread.
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
  // Packs weights [k][n] for batches of b; they are borrowed until the next Prepare. False: it cannot.
  virtual bool Prepare(int b, int k, int n, const float* weights) = 0;
  virtual void Multiply(const float* x, float* y) = 0;

 protected:
  explicit ProductPeer(std::string name) : name_(std::move(name)) {}

 private:
  std::string name_;
};

// What one step reads and writes, [b][h] each.
struct LstmState {
  const float *x, *h, *c;
  float *next_h, *next_c;
};

class LstmPeer {
 public:
  virtual ~LstmPeer() = default;
  const std::string& name() const { return name_; }
  // Weights as [h][4][h]: input, gate (i f g o), output; no biases. `state` is where every step will find its rows.
  virtual bool Prepare(int b, int h, const float* input, const float* recurrent,
                       const LstmState& state) = 0;
  virtual void Step() = 0;

 protected:
  explicit LstmPeer(std::string name) : name_(std::move(name)) {}

 private:
  std::string name_;
};

struct Peers {
  std::vector<std::unique_ptr<ProductPeer>> products;
  std::vector<std::unique_ptr<LstmPeer>> lstms;
  std::vector<std::unique_ptr<ProductPeer>> bf16_products;
  std::vector<std::unique_ptr<LstmPeer>> bf16_lstms;
  std::vector<std::string> missing;  // files that were named and could not be used, each with why
};

// `files`: shared objects to try besides the system's; a library found twice is one peer. Libraries see one CPU if the
// thread is pinned to one before.
Peers FindPeers(const std::vector<std::string>& files);

std::unique_ptr<ProductPeer> OpenBlasPeer(void* library);
// Its three primitives that can do it, of the C API of major version 2 or 3. False: this is no oneDNN, or one without
// an engine for CPUs.
bool AddOneDnnPeers(void* library, Peers* peers);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_PEERS_H_
