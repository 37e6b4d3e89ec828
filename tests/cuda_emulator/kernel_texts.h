// The texts that go with every kernel source: prelude.txt, shim.txt.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_KERNEL_TEXTS_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_KERNEL_TEXTS_H_

namespace cellbatch::emulator {

extern const char* const kPrelude;
extern const char* const kShim;

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_KERNEL_TEXTS_H_
