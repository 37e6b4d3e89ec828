#include "tests/bench/peers.h"

#include <dlfcn.h>

#include <set>
#include <utility>

namespace cellbatch {
namespace {

// The C interface of BLAS, as far as it is needed.
using SgemmFunction = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                               float alpha, const float* a, int lda, const float* b, int ldb,
                               float beta, float* c, int ldc);
using SgemvFunction = void (*)(int order, int transpose, int m, int n, float alpha, const float* a,
                               int lda, const float* x, int incx, float beta, float* y, int incy);
constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;

class OpenBlas : public ProductPeer {
 public:
  OpenBlas(std::string name, SgemmFunction sgemm, SgemvFunction sgemv)
      : ProductPeer(std::move(name)), sgemm_(sgemm), sgemv_(sgemv) {}

  bool Prepare(int b, int k, int n, const float* weights) override {
    b_ = b, k_ = k, n_ = n, weights_ = weights;
    return true;
  }
  void Multiply(const float* x, float* y) override {
    if (b_ == 1) {
      sgemv_(kRowMajor, kTranspose, k_, n_, 1.0f, weights_, n_, x, 1, 0.0f, y, 1);
    } else {
      sgemm_(kRowMajor, kNoTranspose, kNoTranspose, b_, n_, k_, 1.0f, x, k_, weights_, n_, 0.0f, y,
             n_);
    }
  }

 private:
  SgemmFunction sgemm_;
  SgemvFunction sgemv_;
  int b_ = 0, k_ = 0, n_ = 0;
  const float* weights_ = nullptr;
};

// "libtbb.so.12: cannot open shared object file": what is missing, or nothing.
std::string MissingDependency(const std::string& error) {
  const size_t colon = error.find(": cannot open shared object file");
  return colon == std::string::npos ? "" : error.substr(0, colon);
}

// A shared object, its dependencies taken from its own folder where the system has none; null, and why, if it cannot
// be loaded.
void* LoadLibrary(const std::string& file, std::string* why) {
  const size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : file.substr(0, slash + 1);
  for (int attempt = 0; attempt < 32; ++attempt) {
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    *why = dlerror();
    const std::string missing = MissingDependency(*why);
    if (missing.empty() || missing == file || folder.empty()) return nullptr;
    if (LoadLibrary(folder + missing, why) == nullptr) return nullptr;
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<ProductPeer> OpenBlasPeer(void* library) {
  const auto sgemm = reinterpret_cast<SgemmFunction>(dlsym(library, "cblas_sgemm"));
  const auto sgemv = reinterpret_cast<SgemvFunction>(dlsym(library, "cblas_sgemv"));
  const auto config = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"));
  const auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"));
  const auto threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (sgemm == nullptr || sgemv == nullptr || config == nullptr) return nullptr;
  if (threads != nullptr) threads(1);
  std::string name = config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  const size_t second_space = name.find(' ', name.find(' ') + 1);
  name = name.substr(0, second_space) + (core != nullptr ? std::string(" ") + core() : "");
  return std::make_unique<OpenBlas>(name, sgemm, sgemv);
}

Peers FindPeers(const std::vector<std::string>& files) {
  Peers peers;
  std::set<void*> seen;
  const auto add = [&](const std::string& file) {
    std::string why;
    void* const library = LoadLibrary(file, &why);
    if (library == nullptr) return why;
    why.clear();
    if (!seen.insert(library).second) return why;
    if (auto blas = OpenBlasPeer(library)) {
      peers.products.push_back(std::move(blas));
    } else if (!AddOneDnnPeers(library, &peers)) {
      why = "neither OpenBLAS nor a oneDNN with an engine for CPUs";
    }
    return why;
  };
  for (const char* file : {"libopenblas.so.0", "libdnnl.so.3", "libdnnl.so.2"}) add(file);
  for (const std::string& file : files) {
    const std::string why = add(file);
    if (!why.empty()) peers.missing.push_back(file + ": " + why);
  }
  return peers;
}

}  // namespace cellbatch
