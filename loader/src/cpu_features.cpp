// CPUID together with XCR0: an instruction set whose registers the system does not save traps although CPUID
// has it.
#include "cpu_features.hpp"

#include "quern/quern_abi.h"

#include <iterator>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace quern::loader {
namespace {

struct Feature {
  std::uint64_t bit;
  const char* name;
};

constexpr Feature features[] = {
    {QUERN_CPU_AVX2, "avx2"},
    {QUERN_CPU_FMA, "fma"},
    {QUERN_CPU_F16C, "f16c"},
    {QUERN_CPU_AVX512, "avx512 (f, bw, dq, vl)"},
    {QUERN_CPU_AVX512_VNNI, "avx512 vnni"},
    {QUERN_CPU_AVX512_BF16, "avx512 bf16"},
    {QUERN_CPU_AMX, "amx"},
};

#if defined(__x86_64__)
std::uint64_t xcr0() {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}
#endif

}  // namespace

std::uint64_t usable_cpu_features() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(1, 0, &a, &b, &c, &d)) return 0;
  const bool osxsave = c >> 27 & 1;
  if (!osxsave) return 0;
  const std::uint64_t saved = xcr0();
  const bool ymm = (saved & 0x6) == 0x6;    // SSE and AVX state
  const bool zmm = (saved & 0xe6) == 0xe6;  // and opmask, upper halves, upper registers
  const bool tiles = (saved & 0x60000) == 0x60000;
  const bool avx = c >> 28 & 1, fma = c >> 12 & 1, f16c = c >> 29 & 1;

  unsigned a7 = 0, b7 = 0, c7 = 0, d7 = 0, a71 = 0, b71 = 0, c71 = 0, d71 = 0;
  if (__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7) && a7 >= 1) __get_cpuid_count(7, 1, &a71, &b71, &c71, &d71);
  const bool avx512 = (b7 >> 16 & 1) && (b7 >> 30 & 1) && (b7 >> 17 & 1) && (b7 >> 31 & 1);

  std::uint64_t usable = 0;
  if (ymm && avx && (b7 >> 5 & 1)) usable |= QUERN_CPU_AVX2;
  if (ymm && avx && fma) usable |= QUERN_CPU_FMA;
  if (ymm && avx && f16c) usable |= QUERN_CPU_F16C;
  if (zmm && avx512) usable |= QUERN_CPU_AVX512;
  if (zmm && avx512 && (c7 >> 11 & 1)) usable |= QUERN_CPU_AVX512_VNNI;
  if (zmm && avx512 && (a71 >> 5 & 1)) usable |= QUERN_CPU_AVX512_BF16;
  if (tiles && (d7 >> 24 & 1)) usable |= QUERN_CPU_AMX;
  return usable;
#else
  return 0;
#endif
}

std::string feature_names(std::uint64_t wanted) {
  std::string text;
  const auto add = [&text](const std::string& name) { text += (text.empty() ? "" : ", ") + name; };
  for (const Feature& feature : features)
    if (wanted & feature.bit) add(feature.name);
  for (int bit = static_cast<int>(std::size(features)); bit < 64; ++bit)
    if (wanted >> bit & 1) add("bit " + std::to_string(bit));
  return text;
}

}  // namespace quern::loader
