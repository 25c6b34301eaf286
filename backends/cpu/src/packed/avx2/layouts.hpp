// What the files of this folder give to set.cpp: a layout a format.
#pragma once

#include "../packed.hpp"

namespace quern::cpu::avx2::packed {

void quantise(Activations kind, const float* x, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* out) noexcept;

PackedLayout f32_layout() noexcept;
PackedLayout f16_layout() noexcept;
PackedLayout bf16_layout() noexcept;
#define QUERN_CPU_LAYOUT(FORMAT, format, with) PackedLayout format##_layout() noexcept;
QUERN_CPU_PACKED_FORMATS(QUERN_CPU_LAYOUT, )
QUERN_CPU_CODED_FORMATS(QUERN_CPU_LAYOUT, )
PackedLayout nf4_64_floats_layout() noexcept;  // where a product allows no int8 activations
PackedLayout fp4_64_floats_layout() noexcept;
#undef QUERN_CPU_LAYOUT

}  // namespace quern::cpu::avx2::packed
