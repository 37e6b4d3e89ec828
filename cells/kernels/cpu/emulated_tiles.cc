#include "cells/kernels/cpu/emulated_tiles.h"

#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/kernel_variants.h"
#include "cells/kernels/cpu/plain_tiles.h"
#include "cells/kernels/cpu/tiled_inl.h"
#include "cells/kernels/cpu/vec_portable.h"

namespace cellbatch::kernels {
namespace {

int skipped_sums = 0;
int64_t skipped_at = 0, met = 0;

struct SkipsOne {
  static bool Skips(int sums) { return sums == skipped_sums && met++ == skipped_at; }
};

template <class Broken>
constexpr CpuKernels Table(const char* name) {
  return MakeTileKernels<Vec, PortableTiling, PlainTiles<Broken>>(name);
}
constexpr CpuKernels kEmulated = Table<NotBroken>("emulated_tiles");
constexpr CpuKernels kSkipping = Table<SkipsOne>("skipping_tiles");

}  // namespace

const CpuKernels& EmulatedTiles() {
  static const CpuKernels table = WithBf16Of<kPortableKernels, kEmulated>();
  return table;
}

std::vector<const CpuKernels*> RunnableAndEmulated() {
  std::vector<const CpuKernels*> tables = RunnableKernels(DetectCpuFeatures());
  tables.push_back(&EmulatedTiles());
  return tables;
}

const CpuKernels& TilesThatSkip(int sums, int64_t at) {
  static const CpuKernels table = WithBf16Of<kPortableKernels, kSkipping>();
  skipped_sums = sums;
  skipped_at = at;
  met = 0;
  return table;
}

int64_t TilesMet() { return met; }

}  // namespace cellbatch::kernels
