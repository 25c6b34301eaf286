// Where the blocks of 32 k of a panel lie, for formats with a scale for each: one stream, in the order in which it is read.
//
// A record is the codes of one block, or of two where one block's scales are not a whole vector, or of as many as share a scale, then their
// scales. With a plane of codes
// and a plane of scales, a panel is two streams, and the longer has gaps: Zen 4 then fetches neither ahead by itself, and the kernels
// read 10 to 14 GB/s a thread of 26, whatever they prefetch. In one stream they read all 26.
#pragma once

#include "vectors.hpp"

namespace quern::cpu::avx2::packed {
namespace {

/// CodeBytes: of a block, a multiple of 32. ScaleBytes: of a block, 16 or 32, or of `Sharing` blocks, 32.
template <int CodeBytes, int ScaleBytes, int Sharing = 1>
struct Records {
  static constexpr int together = Sharing > 1 ? Sharing : 32 / ScaleBytes, bytes = together * CodeBytes + 32;
  static constexpr int lines = (CodeBytes + ScaleBytes + 63) / 64;  // that a block touches

  static std::int64_t panel_bytes(std::int64_t k) noexcept { return round_up((k / 32 + together - 1) / together * bytes, 64); }

  template <class B>  // Byte or const Byte
  QUERN_AVX2_INLINE static B* codes(B* panel, std::int64_t block) {
    const auto b = static_cast<std::uint64_t>(block);
    return panel + b / together * bytes + b % together * CodeBytes;
  }
  template <class B>
  QUERN_AVX2_INLINE static B* scales(B* panel, std::int64_t block) {
    const auto b = static_cast<std::uint64_t>(block);
    return panel + b / together * bytes + together * CodeBytes + (Sharing > 1 ? 0 : b % together * ScaleBytes);
  }
  /// Zeros where no block of k lies: half of a last record, and what rounds the panel up.
  static void clear_unused(Byte* panel, std::int64_t k) noexcept {
    const std::int64_t blocks = k / 32, whole = blocks / together * bytes;
    __builtin_memset(panel + whole, 0, static_cast<std::size_t>(panel_bytes(k) - whole));
  }
};

}  // namespace
}  // namespace quern::cpu::avx2::packed
