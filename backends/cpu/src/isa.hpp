// Instruction sets that kernels are built for, and which of them this processor has.
#pragma once

#include <cstdint>
#include <string>

namespace quern::cpu {

/// In ascending order of speed; each includes the ones before it. avx2 means AVX2 + FMA + F16C; avx512 means F, BW, DQ and VL.
enum class Isa : std::uint8_t { baseline = 0, avx2 = 1, avx512 = 2 };

/// "portable", "avx2" or "avx512".
const char* isa_name(Isa isa) noexcept;

struct Processor {
  Isa best = Isa::baseline;
  bool vnni = false;  // AVX-512 VNNI, with best == avx512
  bool bf16 = false;  // AVX-512 BF16, with vnni
  bool fast_bf16 = false;  // and twice as fast as products of f32, not half as fast
  std::string name;          // "Intel(R) Xeon(R) ..."; "x86-64 processor" where CPUID gives none
  std::string architecture;  // "x86-64 avx2 fma f16c avx512 vnni"
};

/// Asks CPUID, and XCR0 for what the operating system saves.
Processor detect_processor();

}  // namespace quern::cpu
