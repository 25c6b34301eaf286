// Instruction sets that kernels are built for, and which of them this processor and its system have.
#pragma once

#include <cstdint>
#include <string>

namespace quern::cpu {

/// In ascending order of speed; each includes the ones before it. avx2 means AVX2 + FMA + F16C; avx512 means F, BW, DQ and VL; amx means
/// tiles of int8, and VNNI.
enum class Isa : std::uint8_t { baseline = 0, avx2 = 1, avx512 = 2, amx = 3 };

/// "portable", "avx2", "avx512" or "amx".
const char* isa_name(Isa isa) noexcept;

struct Processor {
  Isa best = Isa::baseline;
  bool vnni = false;         // AVX-512 VNNI, with best == avx512
  bool bf16 = false;         // AVX-512 BF16, with vnni
  bool fast_bf16 = false;    // and twice as fast as products of f32, not half as fast
  std::string no_amx;        // why best is less than amx; empty: it is not
  std::string name;          // "Intel(R) Xeon(R) ..."; "x86-64 processor" where CPUID gives none
  std::string architecture;  // "x86-64 avx2 fma f16c avx512 vnni"
};

/// Asks CPUID, and XCR0 for what the operating system saves. best is avx512 at most: AMX is there for a process that asks.
Processor detect_processor();

/// Why AMX cannot be had of this processor and its system, but for the permission; empty: it can.
std::string amx_missing(const Processor& processor);

/// Asks Linux for AMX's tiles, for this process and all its threads and children, if the processor has them; best is amx then. What this
/// changes besides: signal frames are some 8 KB larger on a thread that has tiles, and alternate signal stacks too small for them are refused.
void allow_amx(Processor& processor);

}  // namespace quern::cpu
