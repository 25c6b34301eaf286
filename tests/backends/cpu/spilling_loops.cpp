// For the test of scripts/vector_spills.py: two loops that differ in the sums they keep, twelve and twenty, for sixteen registers;
// and one around products of tiles, never run.
#include <immintrin.h>

namespace {

template <int Sums>
[[gnu::always_inline]] inline void add_products(const float* x, const float* weights, long n, float* out) {
  __m256 sums[Sums];
#pragma GCC unroll 32
  for (int i = 0; i < Sums; ++i) sums[i] = _mm256_setzero_ps();
#pragma GCC unroll 1
  for (long k = 0; k < n; ++k) {
    const __m256 v = _mm256_loadu_ps(x + 8 * k);
#pragma GCC unroll 32
    for (int i = 0; i < Sums; ++i) sums[i] = _mm256_fmadd_ps(v, _mm256_broadcast_ss(weights + i * n + k), sums[i]);
  }
#pragma GCC unroll 32
  for (int i = 0; i < Sums; ++i) _mm256_storeu_ps(out + 8 * i, sums[i]);
}

}  // namespace

#if defined(QUERN_TEST_SPILLS)
void spilling_loop(const float* x, const float* weights, long n, float* out) { add_products<20>(x, weights, n, out); }
#elif defined(QUERN_TEST_FRAME_POINTER)
// The stack is aligned for a vector, so that spills are addressed from the frame pointer.
void spilling_loop(const float* x, const float* weights, long n, float* out) {
  auto* more = static_cast<float*>(__builtin_alloca(static_cast<unsigned long>(n)));
  asm volatile("" : "+r"(more) : : "memory");
  add_products<20>(x, weights, n, out);
}
#elif defined(QUERN_TEST_TILES)
// The loop inside has few products; what is on the stack is read beside it.
void spilling_loop(const float* x, long n, float* out) {
  volatile __m256 kept = _mm256_loadu_ps(x);
  for (long step = 0; step < n; ++step) {
    asm volatile("tdpbssd %tmm2, %tmm1, %tmm0");
    __m256 sum = kept;
#pragma GCC unroll 1
    for (long k = 0; k < n; ++k) sum = _mm256_fmadd_ps(sum, sum, _mm256_loadu_ps(x + 8 * k));
    _mm256_storeu_ps(out + 8 * step, sum);
  }
}
#else
void clean_loop(const float* x, const float* weights, long n, float* out) { add_products<12>(x, weights, n, out); }
#endif
