// Codes of 16 rows x 64 k in their own bit width: an even and an odd block of 32, `Codes<Bits>::bytes` together.
//
// A vector of 64 bytes holds 4 consecutive k of each row, byte 4 row + k % 4, as vpdpbusd reads it; 8 vectors a block. Both blocks
// share them: the low nibble is the even block's code, the high nibble the upper four bits of the odd one's, used where they lie.
// So the odd block's codes come out `odd_factor` times too large; its scale is divided by that, which is exact. Bits that
// do not fit a nibble are in planes behind, placed so that one shift (none for the first) and one mask bring them home:
//   5 bits   a plane byte serves 4 vectors: bit 4 of the even code and bit 0 of the odd one, for bits 4 and 3
//   6 bits   2 vectors: bits 5..4 of the even code and bits 1..0 of the odd one, for bits 5..4 and 3..2
// 8 bits are plain bytes, one block behind the other.
//
// Packing turns 16 rows around first (transpose.hpp): `put` takes 8 vectors of whole codes a block, as `load` would give them, all
// of the same 4 k, and has only to squeeze them.
#pragma once

#include "vectors.hpp"

namespace quern::cpu::avx512_vnni::packed {

template <int Bits>
struct Codes;

template <>
struct Codes<8> {
  static constexpr int bytes = 1024, odd_factor = 1;
  template <int Odd>
  QUERN_VNNI_INLINE __m512i load(const Byte* p, int j) {
    return packed::load(p + 512 * Odd + 64 * j);
  }
  QUERN_VNNI_INLINE void put(Byte* p, const __m512i (&even)[8], const __m512i (&odd)[8]) {
    QUERN_VNNI_UNROLL
    for (int j = 0; j < 8; ++j) {
      _mm512_store_si512(p + 64 * j, even[j]);
      _mm512_store_si512(p + 512 + 64 * j, odd[j]);
    }
  }
  static void get(const Byte* p, int row, Byte* even, Byte* odd) noexcept {
    for (int j = 0; j < 8; ++j) {
      __builtin_memcpy(even + 4 * j, p + 64 * j + 4 * row, 4);
      __builtin_memcpy(odd + 4 * j, p + 512 + 64 * j + 4 * row, 4);
    }
  }
};

/// Bits of each byte moved up (Shift > 0) or down, and masked.
template <int Shift>
QUERN_VNNI_INLINE __m512i moved_bits(__m512i v, int mask) {
  const __m512i moved = Shift >= 0 ? _mm512_slli_epi16(v, Shift >= 0 ? Shift : 0) : _mm512_srli_epi16(v, Shift < 0 ? -Shift : 0);
  return _mm512_and_si512(moved, set_bytes(mask));
}
/// What 4, 5 and 6 bits share: the even code's low nibble and the odd one's upper four bits.
template <int Bits>
QUERN_VNNI_INLINE void put_nibbles(Byte* p, const __m512i (&even)[8], const __m512i (&odd)[8]) {
  QUERN_VNNI_UNROLL
  for (int j = 0; j < 8; ++j) _mm512_store_si512(p + 64 * j, select(set_bytes(15), even[j], moved_bits<8 - Bits>(odd[j], 0xf0)));
}

template <>
struct Codes<4> {
  static constexpr int bytes = 512, odd_factor = 16;
  template <int Odd>
  QUERN_VNNI_INLINE __m512i load(const Byte* p, int j) {
    return _mm512_and_si512(packed::load(p + 64 * j), set_bytes(Odd ? 0xf0 : 0x0f));
  }
  QUERN_VNNI_INLINE void put(Byte* p, const __m512i (&even)[8], const __m512i (&odd)[8]) { put_nibbles<4>(p, even, odd); }
  static void get(const Byte* p, int row, Byte* even, Byte* odd) noexcept {
    for (int i = 0; i < 32; ++i) {
      const Byte both = p[64 * (i / 4) + 4 * row + i % 4];
      even[i] = both & 15;
      odd[i] = both >> 4;
    }
  }
};

template <>
struct Codes<5> {
  static constexpr int bytes = 640, odd_factor = 8;
  /// Where vector j's two bits are in a plane byte; they belong at 4 and 3.
  static constexpr int even_bit(int j) { return j % 4 == 0 ? 4 : j % 4 == 1 ? 6 : j % 4 == 2 ? 2 : 7; }
  static constexpr int odd_bit(int j) { return j % 4 == 0 ? 3 : j % 4 == 1 ? 5 : j % 4 == 2 ? 1 : 0; }
  template <int Odd>
  QUERN_VNNI_INLINE __m512i load(const Byte* p, int j) {
    __m512i fifth = packed::load(p + 512 + 64 * (j / 4));
    if (j % 4 == 1) fifth = _mm512_srli_epi16(fifth, 2);
    if (j % 4 == 2) fifth = _mm512_slli_epi16(fifth, 2);
    if (j % 4 == 3) fifth = Odd ? _mm512_slli_epi16(fifth, 3) : _mm512_srli_epi16(fifth, 3);
    fifth = _mm512_and_si512(fifth, set_bytes(Odd ? 0x08 : 0x10));
    const __m512i both = packed::load(p + 64 * j), high = set_bytes(0xf0);  // one mask for even and odd: registers are short
    return Odd ? select(high, both, fifth) : select(high, fifth, both);
  }
  template <int J>
  QUERN_VNNI_INLINE __m512i rest(__m512i even, __m512i odd) {
    return _mm512_or_si512(moved_bits<even_bit(J) - 4>(even, 1 << even_bit(J)), moved_bits<odd_bit(J)>(odd, 1 << odd_bit(J)));
  }
  QUERN_VNNI_INLINE void put(Byte* p, const __m512i (&even)[8], const __m512i (&odd)[8]) {
    put_nibbles<5>(p, even, odd);
    QUERN_VNNI_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int j = 4 * half;
      const __m512i plane = _mm512_or_si512(_mm512_or_si512(rest<0>(even[j], odd[j]), rest<1>(even[j + 1], odd[j + 1])),
                                            _mm512_or_si512(rest<2>(even[j + 2], odd[j + 2]), rest<3>(even[j + 3], odd[j + 3])));
      _mm512_store_si512(p + 512 + 64 * half, plane);
    }
  }
  static void get(const Byte* p, int row, Byte* even, Byte* odd) noexcept {
    for (int i = 0; i < 32; ++i) {
      const int j = i / 4, at = 4 * row + i % 4;
      const Byte both = p[64 * j + at], plane = p[512 + 64 * (j / 4) + at];
      even[i] = static_cast<Byte>((both & 15) | ((plane >> even_bit(j)) & 1) << 4);
      odd[i] = static_cast<Byte>((both >> 4) << 1 | ((plane >> odd_bit(j)) & 1));
    }
  }
};

template <>
struct Codes<6> {
  static constexpr int bytes = 768, odd_factor = 4;
  /// Where vector j's two pairs of bits are in a plane byte; they belong at 4 and 2.
  static constexpr int even_bit(int j) { return j % 2 == 0 ? 4 : 6; }
  static constexpr int odd_bit(int j) { return j % 2 == 0 ? 2 : 0; }
  template <int Odd>
  QUERN_VNNI_INLINE __m512i load(const Byte* p, int j) {
    __m512i rest = packed::load(p + 512 + 64 * (j / 2));
    if (j % 2 == 1) rest = Odd ? _mm512_slli_epi16(rest, 2) : _mm512_srli_epi16(rest, 2);
    rest = _mm512_and_si512(rest, set_bytes(Odd ? 0x0c : 0x30));
    const __m512i both = packed::load(p + 64 * j), high = set_bytes(0xf0);  // one mask for even and odd: registers are short
    return Odd ? select(high, both, rest) : select(high, rest, both);
  }
  template <int J>
  QUERN_VNNI_INLINE __m512i rest(__m512i even, __m512i odd) {
    return _mm512_or_si512(moved_bits<even_bit(J) - 4>(even, 3 << even_bit(J)), moved_bits<odd_bit(J)>(odd, 3 << odd_bit(J)));
  }
  QUERN_VNNI_INLINE void put(Byte* p, const __m512i (&even)[8], const __m512i (&odd)[8]) {
    put_nibbles<6>(p, even, odd);
    QUERN_VNNI_UNROLL
    for (int j = 0; j < 8; j += 2)
      _mm512_store_si512(p + 512 + 32 * j, _mm512_or_si512(rest<0>(even[j], odd[j]), rest<1>(even[j + 1], odd[j + 1])));
  }
  static void get(const Byte* p, int row, Byte* even, Byte* odd) noexcept {
    for (int i = 0; i < 32; ++i) {
      const int j = i / 4, at = 4 * row + i % 4;
      const Byte both = p[64 * j + at], plane = p[512 + 64 * (j / 2) + at];
      even[i] = static_cast<Byte>((both & 15) | ((plane >> even_bit(j)) & 3) << 4);
      odd[i] = static_cast<Byte>((both >> 4) << 2 | ((plane >> odd_bit(j)) & 3));
    }
  }
};

}  // namespace quern::cpu::avx512_vnni::packed
