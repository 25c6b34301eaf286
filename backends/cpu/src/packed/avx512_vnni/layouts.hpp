// What the files of this folder give to set.cpp: a layout a format.
#pragma once

#include "../packed.hpp"

namespace quern::cpu::avx512_vnni::packed {

void quantise(Activations kind, const float* x, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* out) noexcept;

PackedLayout f32_layout() noexcept;
PackedLayout f16_layout() noexcept;
PackedLayout bf16_layout() noexcept;
PackedLayout bf16_dot_layout() noexcept;    // AVX-512 BF16
PackedLayout f8_128_dot_layout() noexcept;  // AVX-512 BF16
#define QUERN_CPU_LAYOUT(FORMAT, format, with) PackedLayout format##_layout() noexcept;
QUERN_CPU_PACKED_FORMATS(QUERN_CPU_LAYOUT, )
QUERN_CPU_CODED_FORMATS(QUERN_CPU_LAYOUT, )
#undef QUERN_CPU_LAYOUT

}  // namespace quern::cpu::avx512_vnni::packed
