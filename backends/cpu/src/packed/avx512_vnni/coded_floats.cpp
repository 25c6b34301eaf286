// F8_128, NF4_64 and FP4_64: codes that stand for floats. See coded.hpp.
#include "coded_f8.hpp"
#include "floats.hpp"
#include "layouts.hpp"

namespace quern::cpu::avx512_vnni::packed {
namespace {

/// A line is 8 k: a word a row, k 0 in its lowest four bits.
template <quern_dtype Dtype, const float* values>
struct Table : Coded {
  static constexpr quern_dtype dtype = Dtype;
  static constexpr int group = 64, line_k = 8;
  static constexpr float factor = 1.0f;
  using Single = Table;
  using Faults = NoFaults;
  using Line = __m512i;
  QUERN_VNNI_INLINE Line line(const Byte* p) { return load(p); }
  template <int J>
  QUERN_VNNI_INLINE __m512 value(const Line& l) {
    return _mm512_permutexvar_ps(J == 0 ? l : _mm512_srli_epi32(l, 4 * J), _mm512_loadu_ps(values));
  }
  QUERN_VNNI_INLINE __m512 whole(const Byte*, int, __m512 value) { return value; }
  static void put(const Byte* codes, int at, std::int64_t row, Byte* line) noexcept {
    const Nibbles nibbles(codes, at);
    std::uint32_t word = 0;
    for (int j = 0; j < 8; ++j) word |= nibbles[j] << 4 * j;
    __builtin_memcpy(line + 4 * row, &word, 4);
  }
};

}  // namespace

PackedLayout f8_128_layout() noexcept { return Floats<F8>::layout("f8_128.16x4.v1"); }
PackedLayout nf4_64_layout() noexcept { return Floats<Table<QUERN_NF4_64, quern_nf4_values>>::layout("nf4_64.16x8.v1"); }
PackedLayout fp4_64_layout() noexcept { return Floats<Table<QUERN_FP4_64, quern_fp4_values>>::layout("fp4_64.16x8.v1"); }

}  // namespace quern::cpu::avx512_vnni::packed
