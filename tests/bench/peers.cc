#include "tests/bench/peers.h"

#include <dlfcn.h>

#include <optional>
#include <set>
#include <utility>

#include "cells/kernels/blas/openblas.h"

namespace cellbatch {
namespace {

class OpenBlasProduct : public ProductPeer {
 public:
  explicit OpenBlasProduct(kernels::OpenBlas blas)
      : ProductPeer(blas.name()), blas_(std::move(blas)) {}

  bool Prepare(int b, int k, int n, const float* weights) override {
    product_ = {nullptr, k, weights, n, b, k, n, nullptr};
    return true;
  }
  void Multiply(const float* x, float* y) override {
    product_.x = x, product_.y = y;
    blas_.ByColumns(product_);
  }

 private:
  kernels::OpenBlas blas_;
  kernels::MatMulArgs product_;
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
  std::optional<kernels::OpenBlas> blas = kernels::OpenBlas::In(library);
  if (!blas.has_value()) return nullptr;
  return std::make_unique<OpenBlasProduct>(*std::move(blas));
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
