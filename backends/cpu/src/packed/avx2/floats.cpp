// f32, f16 and bf16 weights against f32 activations. A panel is k times 8 rows of one element.
//
// The sum of an output is taken in chunks of 256 k, and in each chunk in two: of k 0, 2, 4 .. and of k 1, 3, 5 .., each from zero,
// one fused multiply-add after the other. They are added to the total in order. So one token has two chains of additions to work on
// while it reads a panel from front to back (8 bytes of f16 a clock with additions of 4 clocks, more than memory gives a thread; four chunks
// at once would be four streams, of which Zen 4 fetches 15 GB/s instead of 26), a tile can hold 2 panels x 6 tokens in registers with the
// 16-bit weights of a chunk widened once, and all give the same bits; the error grows with k / 128 + 128 at that. With four chains a
// chunk, tiles began and ended sums twice as often: 14.4 multiply-adds a clock instead of 15.0 of 16.
#include "codes.hpp"
#include "layouts.hpp"
#include "wide_floats.hpp"

namespace quern::cpu::avx2::packed {
namespace {

struct F32 {
  static constexpr quern_dtype dtype = QUERN_F32;
  static constexpr const char* key = "f32.8.v1";
  static constexpr int bytes = 4;
  QUERN_AVX2_INLINE static __m256 read(const Byte* p) { return _mm256_load_ps(reinterpret_cast<const float*>(p)); }
  static std::uint32_t bits(const Byte* p) { return word_at(p); }
};
struct F16 {
  static constexpr quern_dtype dtype = QUERN_F16;
  static constexpr const char* key = "f16.8.v1";
  static constexpr int bytes = 2;
  QUERN_AVX2_INLINE static __m256 read(const Byte* p) { return load_halves(p); }
  static std::uint32_t bits(const Byte* p) {
    const std::uint32_t h = half_at(p), nan = (h & 0x8000u) << 16 | 0x7f800000u | (h & 0x3ffu) << 13;
    if ((h & 0x7fffu) > 0x7c00u) return nan;  // as it is: the instruction would quiet it
    const float value = half_value(static_cast<std::uint16_t>(h));
    return word_at(&value);
  }
};
struct Bf16 {
  static constexpr quern_dtype dtype = QUERN_BF16;
  static constexpr const char* key = "bf16.8.v1";
  static constexpr int bytes = 2;
  QUERN_AVX2_INLINE static __m256 read(const Byte* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half_vector(p)), 16));
  }
  static std::uint32_t bits(const Byte* p) { return static_cast<std::uint32_t>(half_at(p)) << 16; }
};

template <class Element>
struct FloatEngine : WideFloats<2, 256, false> {
  using Wide = WideFloats<2, 256, false>;
  static constexpr Activations activations = Activations::f32;
  static constexpr bool mins_apart = false, copies = false;
  static constexpr int step = 8 * Element::bytes;
  static constexpr int sums_a_chunk = 2;

  static std::int64_t panel_bytes(std::int64_t k) noexcept { return round_up(k * step, 64); }

  /// How often a line that follows is asked for. f32 is read too fast for that: 21 GB/s with it and 29 without on Zen 4. A core with too
  /// many lines under way drops requests: of one token of f16, Zen 4 reads 0.74 of a plain read's speed if each line is asked for once, 0.90
  /// for twice and 0.93 for four times.
  enum Asks : int { never = 0, twice = 2, four_times = 4 };

  /// Adds the products of a chunk of `length` k to C tokens' totals.
  template <int C, int Times>
  QUERN_AVX2_INLINE static void add_chunk(const Byte* panel, const Byte* const* x_at, std::int64_t length, __m256* main) {
    __m256 sum[sums_a_chunk][C];
    const Byte* x[C];
    for (int c = 0; c < C; ++c) x[c] = x_at[c];
    for (int n = 0; n < sums_a_chunk; ++n)
      for (int c = 0; c < C; ++c) sum[n][c] = _mm256_setzero_ps();
    const auto add = [&](std::int64_t i, int n) __attribute__((always_inline)) {
      const __m256 w = Element::read(panel + (i + n) * step);
#pragma GCC unroll 2
      for (int c = 0; c < C; ++c) sum[n][c] = _mm256_fmadd_ps(w, broadcast_float(x[c] + 4 * (i + n)), sum[n][c]);
    };
    std::int64_t i = 0;
    for (; i + sums_a_chunk <= length; i += sums_a_chunk) {
#pragma GCC unroll 4
      for (int n = 0; n < Times * sums_a_chunk * step / 64; ++n) prefetch_far(panel + i * step + 64 / Times * n);
#pragma GCC unroll 4
      for (int n = 0; n < sums_a_chunk; ++n) add(i, n);
    }
#pragma GCC unroll 4
    for (int n = 0; n < sums_a_chunk; ++n)
      if (i + n < length) add(i, n);
    for (int n = 0; n < sums_a_chunk; ++n)
      for (int c = 0; c < C; ++c) main[c] = _mm256_add_ps(main[c], sum[n][c]);
  }

  /// Tokens in twos: more chains of additions than eight do not fit the registers. The second two find the chunk in the cache.
  template <int C>
  [[gnu::noinline]] static void direct(const Byte* panel, std::int64_t k, const Tokens& tokens, const DirectScratch& scratch) {
    __m256 main[C];
    const Byte* x[C];
    for (int c = 0; c < C; ++c) {
      main[c] = _mm256_setzero_ps();
      x[c] = tokens.code(c, 0);
      pin(x[c]);
    }
    const Asks asks = Element::bytes != 2 ? never : C == 1 && __builtin_cpu_is("amd") ? four_times : twice;
    for (std::int64_t i = 0; i < k; i += chunk, panel += chunk * step) {
      const std::int64_t length = least(k - i, chunk);
      if (asks == never) add_chunk<(C == 1 ? 1 : 2), never>(panel, x, length, main);
      else if (asks == twice) add_chunk<(C == 1 ? 1 : 2), twice>(panel, x, length, main);
      else add_chunk<(C == 1 ? 1 : 2), four_times>(panel, x, length, main);
      if constexpr (C > 2) add_chunk<C - 2, never>(panel, x + 2, length, main + 2);
      for (int c = 0; c < C; ++c) x[c] += 4 * length;
    }
    for (int c = 0; c < C; ++c) _mm256_store_ps(scratch.main + 8 * c, main[c]);
  }

  template <int R>
  static void expand(const Byte* panels, std::int64_t k, std::int64_t from, std::int64_t length, Byte* to) {
    for (std::int64_t i = 0; i < length; ++i)
      for (int r = 0; r < R; ++r)
        _mm256_store_ps(Wide::template line<R>(reinterpret_cast<float*>(to), i) + r * 8,
                        Element::read(panels + r * panel_bytes(k) + (from + i) * step));
  }

  /// 32 bytes of each of 8 rows.
  QUERN_AVX2_INLINE static void turn(const Byte* rows, std::int64_t stride, Byte* to) {
    __m256i words[8];
    transpose_words(rows, stride, words);
    for (int j = 0; j < 8; ++j) {
      if constexpr (Element::bytes == 2) {  // a word of two halves is two lines: the even k of 8 rows, then the odd one
        const __m256i halves =
            _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
        words[j] = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(words[j], halves), 0xd8);
      }
      store(to + 32 * j, words[j]);
    }
  }

  static void pack(const std::byte* source, std::int64_t stride, std::int64_t rows, std::int64_t k, std::byte* panel) noexcept {
    constexpr int together = 32 / Element::bytes;
    const auto* from = reinterpret_cast<const Byte*>(source);
    auto* to = reinterpret_cast<Byte*>(panel);
    std::int64_t i = 0;
    if (rows == 8)
      for (; i + together <= k; i += together) turn(from + i * Element::bytes, stride, to + i * step);
    __builtin_memset(to + i * step, 0, static_cast<std::size_t>(panel_bytes(k) - i * step));
    for (; i < k; ++i)
      for (std::int64_t row = 0; row < rows; ++row)
        __builtin_memcpy(to + i * step + row * Element::bytes, from + row * stride + i * Element::bytes, Element::bytes);
  }

  static void unpack_row(const std::byte* panel, std::int64_t row, std::int64_t k, float* out) noexcept {
    for (std::int64_t i = 0; i < k; ++i) {
      const std::uint32_t bits = Element::bits(reinterpret_cast<const Byte*>(panel) + i * step + row * Element::bytes);
      __builtin_memcpy(out + i, &bits, 4);
    }
  }

  static PackedLayout layout() noexcept {
    return {Element::dtype,
            Isa::avx2,
            Element::key,
            activations,
            8,
            1,
            panel_bytes,
            pack,
            unpack_row,
            multiply<FloatEngine>,
            scratch_floats<FloatEngine>};
  }
};

}  // namespace

PackedLayout f32_layout() noexcept { return FloatEngine<F32>::layout(); }
PackedLayout f16_layout() noexcept { return FloatEngine<F16>::layout(); }
PackedLayout bf16_layout() noexcept { return FloatEngine<Bf16>::layout(); }

}  // namespace quern::cpu::avx2::packed
