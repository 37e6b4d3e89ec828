// kernel_abi.h and the templates, as text: what every generated source begins with.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_TEXTS_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_TEXTS_H_

namespace cellbatch {

extern const char* const kKernelTexts;
extern const char* const kTaskKernels;  // task_copies.cuh, task_kernels.cuh

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_TEXTS_H_
