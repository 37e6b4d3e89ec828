#include "cells/kernels/cpu/plain_pairs_inl.h"

namespace cellbatch::kernels {

CpuKernels PlainAvx2Pairs() { return PlainPairs<Avx2Tiling>("plain_avx2_pairs"); }

}  // namespace cellbatch::kernels
