// CPUID leaves 1, 7 and the brand string, and XCR0: a feature counts only where the system saves its registers. AMX is in
// amx_permission.cpp: its registers have to be asked for.
#include "isa.hpp"

#include <cpuid.h>

#include <cstring>

namespace quern::cpu {
namespace {

std::uint64_t saved_registers() noexcept {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

std::string brand() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000000u, &a, &b, &c, &d) == 0 || a < 0x80000004u) return "x86-64 processor";
  char text[49] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    __get_cpuid(0x80000002u + leaf, &a, &b, &c, &d);
    const unsigned words[4] = {a, b, c, d};
    std::memcpy(text + leaf * 16, words, 16);
  }
  std::string name = text;
  while (!name.empty() && name.back() == ' ') name.pop_back();
  while (!name.empty() && name.front() == ' ') name.erase(name.begin());
  return name.empty() ? "x86-64 processor" : name;
}

}  // namespace

const char* isa_name(Isa isa) noexcept {
  switch (isa) {
    case Isa::amx: return "amx";
    case Isa::avx512: return "avx512";
    case Isa::avx2: return "avx2";
    case Isa::baseline: break;
  }
  return "portable";
}

Processor detect_processor() {
  Processor p;
  p.name = brand();
  p.architecture = "x86-64";
  p.no_amx = "amx was not asked for: force_kernel names a slower family";
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return p;
  const bool osxsave = (c >> 27) & 1u, avx = (c >> 28) & 1u, fma = (c >> 12) & 1u, f16c = (c >> 29) & 1u;
  if (!osxsave || !avx) return p;
  const std::uint64_t saved = saved_registers();
  if ((saved & 0x6u) != 0x6u) return p;
  unsigned b7 = 0, c7 = 0;
  if (__get_cpuid_count(7, 0, &a, &b7, &c7, &d) == 0) return p;
  const bool avx2 = (b7 >> 5) & 1u;
  if (avx2) p.architecture += " avx2";
  if (fma) p.architecture += " fma";
  if (f16c) p.architecture += " f16c";
  if (!(avx2 && fma && f16c)) return p;
  p.best = Isa::avx2;
  const bool f = (b7 >> 16) & 1u, dq = (b7 >> 17) & 1u, bw = (b7 >> 30) & 1u, vl = (b7 >> 31) & 1u;
  if (!(f && dq && bw && vl) || (saved & 0xe6u) != 0xe6u) return p;
  p.best = Isa::avx512;
  p.architecture += " avx512";
  p.vnni = ((c7 >> 11) & 1u) != 0;
  if (p.vnni) p.architecture += " vnni";
  unsigned a71 = 0, b71 = 0, c71 = 0, d71 = 0;
  if (__get_cpuid_count(7, 1, &a71, &b71, &c71, &d71) != 0 && ((a71 >> 5) & 1u)) {
    p.architecture += " bf16";
    p.bf16 = p.vnni;
    p.fast_bf16 =
        p.bf16 &&
        __builtin_cpu_is("amd");  // vdpbf16ps takes one clock on Zen 4, two on Emerald Rapids, where two fused multiplications take one
  }
  return p;
}

}  // namespace quern::cpu
