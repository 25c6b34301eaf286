// Eight floats side by side. Each operation rounds as the scalar one does, so lanes have the same bits on every processor.
//
// Compiled once for each instruction set, in a namespace of its own: QUERN_FITS_ISA.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace quern::quantize::QUERN_FITS_ISA {

inline constexpr int lanes = 8;

/// The sum of eight parts, in an order that stays.
inline float joined(const float (&part)[lanes]) noexcept {
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

#if defined(__AVX2__)

struct Lanes {
  __m256 all;
  static Lanes of(float x) noexcept { return {_mm256_set1_ps(x)}; }
  static Lanes at(const float* x) noexcept { return {_mm256_loadu_ps(x)}; }
  void store(float* to) const noexcept { _mm256_storeu_ps(to, all); }
  friend Lanes operator+(Lanes a, Lanes b) noexcept { return {_mm256_add_ps(a.all, b.all)}; }
  friend Lanes operator-(Lanes a, Lanes b) noexcept { return {_mm256_sub_ps(a.all, b.all)}; }
  friend Lanes operator*(Lanes a, Lanes b) noexcept { return {_mm256_mul_ps(a.all, b.all)}; }
  /// Beyond the limits the limit; what is no number stays.
  Lanes within(Lanes low, Lanes high) const noexcept { return {_mm256_min_ps(high.all, _mm256_max_ps(low.all, all))}; }
  float sum() const noexcept {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

#elif defined(__SSE2__)

struct Lanes {
  __m128 low, high;
  static Lanes of(float x) noexcept { return {_mm_set1_ps(x), _mm_set1_ps(x)}; }
  static Lanes at(const float* x) noexcept { return {_mm_loadu_ps(x), _mm_loadu_ps(x + 4)}; }
  void store(float* to) const noexcept {
    _mm_storeu_ps(to, low);
    _mm_storeu_ps(to + 4, high);
  }
  friend Lanes operator+(Lanes a, Lanes b) noexcept { return {_mm_add_ps(a.low, b.low), _mm_add_ps(a.high, b.high)}; }
  friend Lanes operator-(Lanes a, Lanes b) noexcept { return {_mm_sub_ps(a.low, b.low), _mm_sub_ps(a.high, b.high)}; }
  friend Lanes operator*(Lanes a, Lanes b) noexcept { return {_mm_mul_ps(a.low, b.low), _mm_mul_ps(a.high, b.high)}; }
  Lanes within(Lanes least, Lanes most) const noexcept {
    return {_mm_min_ps(most.low, _mm_max_ps(least.low, low)), _mm_min_ps(most.high, _mm_max_ps(least.high, high))};
  }
  float sum() const noexcept {
    const __m128 four = _mm_add_ps(low, high);
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
};

#else

struct Lanes {
  float part[lanes];
  template <typename F>
  static Lanes each(const F& f) noexcept {
    Lanes made;
    for (int l = 0; l < lanes; ++l) made.part[l] = f(l);
    return made;
  }
  static Lanes of(float x) noexcept {
    return each([&](int) { return x; });
  }
  static Lanes at(const float* x) noexcept {
    return each([&](int l) { return x[l]; });
  }
  void store(float* to) const noexcept {
    for (int l = 0; l < lanes; ++l) to[l] = part[l];
  }
  friend Lanes operator+(const Lanes& a, const Lanes& b) noexcept {
    return each([&](int l) { return a.part[l] + b.part[l]; });
  }
  friend Lanes operator-(const Lanes& a, const Lanes& b) noexcept {
    return each([&](int l) { return a.part[l] - b.part[l]; });
  }
  friend Lanes operator*(const Lanes& a, const Lanes& b) noexcept {
    return each([&](int l) { return a.part[l] * b.part[l]; });
  }
  Lanes within(const Lanes& low, const Lanes& high) const noexcept {
    return each([&](int l) {
      const float above = part[l] < low.part[l] ? low.part[l] : part[l];
      return high.part[l] < above ? high.part[l] : above;
    });
  }
  float sum() const noexcept { return joined(part); }
};

#endif

}  // namespace quern::quantize::QUERN_FITS_ISA
