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
PackedLayout q4_0_layout() noexcept;
PackedLayout q4_1_layout() noexcept;
PackedLayout q5_0_layout() noexcept;
PackedLayout q5_1_layout() noexcept;
PackedLayout q8_0_layout() noexcept;
PackedLayout q4_z32_layout() noexcept;
PackedLayout q4_z64_layout() noexcept;
PackedLayout q4_z128_layout() noexcept;
PackedLayout q8_z32_layout() noexcept;
PackedLayout q8_z128_layout() noexcept;
PackedLayout q8_128_layout() noexcept;
PackedLayout f8_128_layout() noexcept;
PackedLayout nf4_64_layout() noexcept;
PackedLayout fp4_64_layout() noexcept;
PackedLayout q4_k_layout() noexcept;
PackedLayout q5_k_layout() noexcept;
PackedLayout q6_k_layout() noexcept;

}  // namespace quern::cpu::avx512_vnni::packed
