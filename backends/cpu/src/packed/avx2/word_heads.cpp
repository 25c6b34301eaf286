// Formats of quantised directories whose blocks begin with a word: codes of four and eight bits, which may stand for numbers of a table.
#include "blocks32.hpp"
#include "layouts.hpp"

#include "quern/quern_formats.h"

namespace quern::cpu::avx2::packed {
namespace {

struct Q4Z32 {
  static constexpr quern_dtype dtype = QUERN_Q4_Z32;
  static constexpr const char* key = "q4_z32.8x4.v1";
  static constexpr int bits = 4;
  using Head = WordHead<32, true>;
};
struct Q4Z64 {
  static constexpr quern_dtype dtype = QUERN_Q4_Z64;
  static constexpr const char* key = "q4_z64.8x4.v1";
  static constexpr int bits = 4;
  using Head = WordHead<64, true>;
};
struct Q4Z128 {
  static constexpr quern_dtype dtype = QUERN_Q4_Z128;
  static constexpr const char* key = "q4_z128.8x4.v1";
  static constexpr int bits = 4;
  using Head = WordHead<128, true>;
};
struct Q8Z32 {
  static constexpr quern_dtype dtype = QUERN_Q8_Z32;
  static constexpr const char* key = "q8_z32.8x4.v1";
  static constexpr int bits = 8;
  using Head = WordHead<32, true>;
};
struct Q8Z128 {
  static constexpr quern_dtype dtype = QUERN_Q8_Z128;
  static constexpr const char* key = "q8_z128.8x4.v1";
  static constexpr int bits = 8;
  using Head = WordHead<128, true>;
};
struct Q8128 {
  static constexpr quern_dtype dtype = QUERN_Q8_128;
  static constexpr const char* key = "q8_128.8x4.v1";
  static constexpr int bits = 8;
  using Head = WordHead<128, false>;
};
struct Nf4 {
  static constexpr quern_dtype dtype = QUERN_NF4_64;
  static constexpr const char* key = "nf4_64.8x4.v1";
  static constexpr int bits = 4;
  using Head = WordHead<64, false>;
  using Levels = LevelTable<quern_nf4_values, 4096>;
};
/// Its numbers are whole 192nds.
struct Fp4 {
  static constexpr quern_dtype dtype = QUERN_FP4_64;
  static constexpr const char* key = "fp4_64.8x4.v1";
  static constexpr int bits = 4;
  using Head = WordHead<64, false>;
  using Levels = LevelTable<quern_fp4_values, 21 * 192>;
};

}  // namespace

PackedLayout q4_z32_layout() noexcept { return Engine32<Q4Z32>::layout(); }
PackedLayout q4_z64_layout() noexcept { return Engine32<Q4Z64>::layout(); }
PackedLayout q4_z128_layout() noexcept { return Engine32<Q4Z128>::layout(); }
PackedLayout q8_z32_layout() noexcept { return Engine32<Q8Z32>::layout(); }
PackedLayout q8_z128_layout() noexcept { return Engine32<Q8Z128>::layout(); }
PackedLayout q8_128_layout() noexcept { return Engine32<Q8128>::layout(); }
PackedLayout nf4_64_layout() noexcept { return Engine32<Nf4>::layout(); }
PackedLayout fp4_64_layout() noexcept { return Engine32<Fp4>::layout(); }

}  // namespace quern::cpu::avx2::packed
