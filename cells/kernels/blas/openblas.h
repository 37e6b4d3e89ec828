// Products by a vendor's library, OpenBLAS as Debian ships it: what systems without kernels of their own run, and what ours
// are compared with. The batched executor (cells/batched) multiplies with it; nothing that serves does.
//
// Found at run time and declared here as far as it is needed: nothing links it, and no header has to be installed. One
// thread. Bits depend on the number of rows (other kernels for one row, for few and for many), so no request may see them.
// A plain value; the library stays loaded.
#ifndef CELLBATCH_CELLS_KERNELS_BLAS_OPENBLAS_H_
#define CELLBATCH_CELLS_KERNELS_BLAS_OPENBLAS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cells/kernels/cpu/kernel_table.h"

namespace cellbatch::kernels {

class OpenBlas {
 public:
  // The system's; UNAVAILABLE with what the loader says.
  static absl::StatusOr<OpenBlas> Load();
  // Of a shared object that is open: none, if it is another library.
  static std::optional<OpenBlas> In(void* shared_object);

  const std::string& name() const { return name_; }  // "OpenBLAS 0.3.21 SkylakeX"

  // As CpuKernels' products of the same names. REQUIRES: strides of at least a row.
  void ByRows(const MatMulArgs& args) const { Multiply(args, true); }
  void ByColumns(const MatMulArgs& args) const { Multiply(args, false); }

 private:
  using Sgemm = void(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                     const float* a, int lda, const float* b, int ldb, float beta, float* c,
                     int ldc);
  using Sgemv = void(int order, int transpose, int m, int n, float alpha, const float* a, int lda,
                     const float* x, int incx, float beta, float* y, int incy);

  OpenBlas() = default;
  void Multiply(const MatMulArgs& args, bool by_rows) const;

  std::string name_;
  Sgemm* sgemm_ = nullptr;
  Sgemv* sgemv_ = nullptr;
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_BLAS_OPENBLAS_H_
