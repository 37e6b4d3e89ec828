// What the CPU under us can do, asked once by CPUID and XGETBV.
//
// For: choosing a kernel variant at run time (cells/kernels/cpu) and saying in reports which one
// ran. A feature counts only if the operating system also saves its registers (XCR0): a CPU with
// AVX-512 under a kernel without it must take the AVX2 path. Never decided by model name: guests
// lie about it. Threads: pure values, any thread. Cost: a few CPUID instructions, about 0.1 ms in a
// virtual machine.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_CPU_FEATURES_H_
#define CELLBATCH_CELLS_DEVICE_CPU_CPU_FEATURES_H_

#include <cstdint>
#include <string>

namespace cellbatch {

struct CpuFeatures {
  std::string brand;      // "AMD EPYC", as the CPU (or its hypervisor) calls itself
  bool avx2_fma = false;  // AVX2 and FMA3
  bool avx512 = false;    // F, BW, VL and DQ together
  bool avx512_bf16 = false;
  bool amx_bf16 = false;  // CPUID and XCR0 only: the permission of arch_prctl is not asked here
  int64_t l1d_bytes = 0;  // of one core; 0 = unknown
  int64_t l2_bytes = 0;   // of one core; 0 = unknown
  int64_t l3_bytes = 0;   // shared; 0 = unknown
  std::string ToString() const;  // "AMD EPYC: avx2 avx512, L1 32 KiB, L2 1024 KiB, L3 32 MiB"
};

// Asks the CPU. On anything but x86-64 every feature is false and the portable kernels run.
CpuFeatures DetectCpuFeatures();

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_CPU_FEATURES_H_
