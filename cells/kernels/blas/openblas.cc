#include "cells/kernels/blas/openblas.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace cellbatch::kernels {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";
constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;

}  // namespace

absl::StatusOr<OpenBlas> OpenBlas::Load() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::UnavailableError(dlerror());
  std::optional<OpenBlas> blas = In(library);
  if (blas.has_value()) return *std::move(blas);
  return absl::UnavailableError(fmt::format("{} is no OpenBLAS with a C interface", kLibrary));
}

std::optional<OpenBlas> OpenBlas::In(void* shared_object) {
  OpenBlas blas;
  blas.sgemm_ = reinterpret_cast<Sgemm*>(dlsym(shared_object, "cblas_sgemm"));
  blas.sgemv_ = reinterpret_cast<Sgemv*>(dlsym(shared_object, "cblas_sgemv"));
  auto* const config = reinterpret_cast<char* (*)()>(dlsym(shared_object, "openblas_get_config"));
  auto* const core = reinterpret_cast<char* (*)()>(dlsym(shared_object, "openblas_get_corename"));
  auto* const threads =
      reinterpret_cast<void (*)(int)>(dlsym(shared_object, "openblas_set_num_threads"));
  if (blas.sgemm_ == nullptr || blas.sgemv_ == nullptr || config == nullptr) return std::nullopt;
  if (threads != nullptr) threads(1);
  const std::string full = config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
  const size_t second_space = full.find(' ', full.find(' ') + 1);
  blas.name_ =
      full.substr(0, second_space) + (core != nullptr ? std::string(" ") + core() : std::string());
  return blas;
}

void OpenBlas::Multiply(const MatMulArgs& a, bool by_rows) const {
  const auto w_stride = static_cast<int>(a.w_stride), x_stride = static_cast<int>(a.x_stride);
  if (a.rows == 1) {
    sgemv_(kRowMajor, by_rows ? kNoTranspose : kTranspose, by_rows ? a.cols : a.depth,
           by_rows ? a.depth : a.cols, 1.0f, a.w, w_stride, a.x, 1, 0.0f, a.y, 1);
  } else {
    sgemm_(kRowMajor, kNoTranspose, by_rows ? kTranspose : kNoTranspose, a.rows, a.cols, a.depth,
           1.0f, a.x, x_stride, a.w, w_stride, 0.0f, a.y, a.cols);
  }
}

}  // namespace cellbatch::kernels
