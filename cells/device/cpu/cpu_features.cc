#include "cells/device/cpu/cpu_features.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace cellbatch {
namespace {

#if defined(__x86_64__)

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf Query(uint32_t leaf, uint32_t subleaf = 0) {
  Leaf r;
  if (leaf > __get_cpuid_max(leaf & 0x80000000u, nullptr)) return r;
  __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
  return r;
}

bool Bit(uint32_t word, int bit) { return (word >> bit) & 1u; }

// The register sets that the operating system saves, as XCR0 bits.
uint64_t SavedRegisters(const Leaf& leaf1) {
  if (!Bit(leaf1.ecx, 27)) return 0;  // OSXSAVE
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

std::string BrandString() {
  char text[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    const Leaf r = Query(0x80000002u + i);
    const uint32_t words[4] = {r.eax, r.ebx, r.ecx, r.edx};
    std::memcpy(text + 16 * i, words, 16);
  }
  std::string brand(text);
  brand.erase(0, brand.find_first_not_of(' '));
  brand.erase(brand.find_last_not_of(' ') + 1);
  return brand;
}

// Deterministic cache parameters: leaf 4 on Intel, 0x8000001D on AMD, the same format in both.
void ReadCaches(uint32_t leaf, CpuFeatures* f) {
  for (uint32_t i = 0; i < 8; ++i) {
    const Leaf r = Query(leaf, i);
    const uint32_t type = r.eax & 31u;  // 1 data, 2 instruction, 3 unified
    if (type == 0) return;
    if (type == 2) continue;
    const int64_t ways = (r.ebx >> 22) + 1, partitions = ((r.ebx >> 12) & 0x3ffu) + 1;
    const int64_t line = (r.ebx & 0xfffu) + 1, sets = static_cast<int64_t>(r.ecx) + 1;
    const int64_t bytes = ways * partitions * line * sets;
    switch ((r.eax >> 5) & 7u) {
      case 1:
        f->l1d_bytes = bytes;
        break;
      case 2:
        f->l2_bytes = bytes;
        break;
      case 3:
        f->l3_bytes = bytes;
        break;
      default:
        break;
    }
  }
}

#endif

std::string Size(int64_t bytes) {
  const int64_t kib = bytes / 1024;
  return kib % 1024 == 0 && kib >= 4096 ? std::to_string(kib / 1024) + " MiB"
                                        : std::to_string(kib) + " KiB";
}

}  // namespace

CpuFeatures DetectCpuFeatures() {
  CpuFeatures f;
#if defined(__x86_64__)
  const Leaf one = Query(1), seven = Query(7), seven_one = Query(7, 1);
  const uint64_t saved = SavedRegisters(one);
  const bool ymm = (saved & 0x6) == 0x6;            // XMM, YMM
  const bool zmm = ymm && (saved & 0xe0) == 0xe0;   // opmask, upper halves, ZMM16-31
  const bool tiles = (saved & 0x60000) == 0x60000;  // TILECFG, TILEDATA
  f.avx2_fma = ymm && Bit(one.ecx, 12) && Bit(seven.ebx, 5);
  f.avx512 = zmm && f.avx2_fma && Bit(seven.ebx, 16) && Bit(seven.ebx, 17) && Bit(seven.ebx, 30) &&
             Bit(seven.ebx, 31);
  f.avx512_bf16 = f.avx512 && Bit(seven_one.eax, 5);
  f.amx_bf16 = f.avx512 && tiles && Bit(seven.edx, 22) && Bit(seven.edx, 24);
  f.brand = BrandString();
  ReadCaches(4, &f);
  if (f.l1d_bytes == 0) ReadCaches(0x8000001Du, &f);
#else
  f.brand = "not x86-64";
#endif
  return f;
}

std::string CpuFeatures::ToString() const {
  std::string text = brand + ":";
  if (avx2_fma) text += " avx2";
  if (avx512) text += " avx512";
  if (avx512_bf16) text += " avx512_bf16";
  if (amx_bf16) text += " amx_bf16";
  if (!avx2_fma) text += " no vector extension we use";
  text += ", L1 " + Size(l1d_bytes) + ", L2 " + Size(l2_bytes) + ", L3 " + Size(l3_bytes);
  return text;
}

}  // namespace cellbatch
