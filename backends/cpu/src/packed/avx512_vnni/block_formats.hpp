// What distinguishes the block formats of a panel: for the kernels of this folder and for those of avx512_amx, which read the same panels.
#pragma once

#include "heads.hpp"

#include "quern/quern_dtypes.h"

namespace quern::cpu::avx512_vnni::packed {

/// Blocks of 32: codes stand for code - offset, or have minimums.
struct Q40Block {
  static constexpr quern_dtype dtype = QUERN_Q4_0;
  static constexpr int bits = 4, offset = 8;
  using Head = HalfHead<false>;
};
struct Q41Block {
  static constexpr quern_dtype dtype = QUERN_Q4_1;
  static constexpr int bits = 4, offset = 0;
  using Head = HalfHead<true>;
};
struct Q50Block {
  static constexpr quern_dtype dtype = QUERN_Q5_0;
  static constexpr int bits = 5, offset = 16;
  using Head = HalfHead<false>;
};
struct Q51Block {
  static constexpr quern_dtype dtype = QUERN_Q5_1;
  static constexpr int bits = 5, offset = 0;
  using Head = HalfHead<true>;
};
struct Q80Block {
  static constexpr quern_dtype dtype = QUERN_Q8_0;
  static constexpr int bits = 8, offset = 128;
  using Head = HalfHead<false>;
};

/// Blocks of `Group` with a zero point.
template <quern_dtype Dtype, int Bits, int Group>
struct ZeroBlock {
  static constexpr quern_dtype dtype = Dtype;
  static constexpr int bits = Bits, offset = 0;
  using Head = WordHead<Group, true>;
};
using Q4Z32Block = ZeroBlock<QUERN_Q4_Z32, 4, 32>;
using Q4Z64Block = ZeroBlock<QUERN_Q4_Z64, 4, 64>;
using Q4Z128Block = ZeroBlock<QUERN_Q4_Z128, 4, 128>;
using Q8Z32Block = ZeroBlock<QUERN_Q8_Z32, 8, 32>;
using Q8Z128Block = ZeroBlock<QUERN_Q8_Z128, 8, 128>;
/// Signed bytes with an f32.
struct Q8128Block {
  static constexpr quern_dtype dtype = QUERN_Q8_128;
  static constexpr int bits = 8, offset = 128;
  using Head = WordHead<128, false>;
};

/// Blocks of 256 with a scale for `scale_span`, and `small_word`: see Starts in sums.hpp.
struct Q4KBlock {
  static constexpr quern_dtype dtype = QUERN_Q4_K;
  static constexpr int bits = 4, scale_span = 32, offset = 0, d_at = 0, small_word = 0;
  static constexpr bool signed_scales = false, minimums = true;
};
struct Q5KBlock {
  static constexpr quern_dtype dtype = QUERN_Q5_K;
  static constexpr int bits = 5, scale_span = 32, offset = 0, d_at = 0, small_word = 1;
  static constexpr bool signed_scales = false, minimums = true;
};
struct Q6KBlock {
  static constexpr quern_dtype dtype = QUERN_Q6_K;
  static constexpr int bits = 6, scale_span = 16, offset = 32, d_at = 208, small_word = 2;
  static constexpr bool signed_scales = true, minimums = false;
};

}  // namespace quern::cpu::avx512_vnni::packed
