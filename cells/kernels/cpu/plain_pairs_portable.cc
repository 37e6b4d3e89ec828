#include "cells/kernels/cpu/plain_pairs_inl.h"

namespace cellbatch::kernels {

CpuKernels PlainPortablePairs() { return PlainPairs<PortableTiling>("plain_portable_pairs"); }

}  // namespace cellbatch::kernels
