// See machine_peaks.hpp.
#include "machine_peaks.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/graph/error.hpp"
#include "quern/sdk/thread.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace quern::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double>(to - from).count(); }

/// Runs `work(thread)` on all threads at once; the seconds from the first start to the last end. The workers look at the clock
/// themselves: on a busy machine the calling thread may wake up long after they began.
template <typename Work>
double timed(std::uint32_t threads, const Work& work) {
  std::barrier gate(static_cast<std::ptrdiff_t>(threads));
  std::vector<Clock::time_point> starts(threads), ends(threads);
  std::atomic<bool> given_up{false};
  std::vector<sdk::Thread> pool;  // joined behind what they use
  pool.reserve(threads);
  try {
    for (std::uint32_t t = 0; t < threads; ++t) {
      pool.emplace_back([&, t] {
        gate.arrive_and_wait();
        if (given_up) return;
        starts[t] = Clock::now();
        work(t);
        ends[t] = Clock::now();
      });
    }
  } catch (const std::exception& failure) {  // no more threads, or no memory for one: those that there are wait for it
    given_up = true;
    (void)gate.arrive(static_cast<std::ptrdiff_t>(threads - pool.size()));
    throw Error(QUERN_HOST_OUT_OF_MEMORY, concat("the machine was to be measured by ", threads, " threads, and after ", pool.size(),
                                                 " the system gave no more (", failure.what(), "); ask for fewer with --threads"));
  }
  pool.clear();
  return seconds_between(*std::ranges::min_element(starts), *std::ranges::max_element(ends));
}

/// Sums 64-bit words: enough streams in flight that the memory, not the adds, sets the pace.
std::uint64_t sum_portable(const std::uint64_t* at, std::uint64_t words) {
  std::uint64_t a = 0, b = 0, c = 0, d = 0;
  for (std::uint64_t i = 0; i + 4 <= words; i += 4) {
    a += at[i];
    b += at[i + 1];
    c += at[i + 2];
    d += at[i + 3];
  }
  return a + b + c + d;
}

#if defined(__x86_64__)
/// ask: for lines ahead. Some processors read a fifth faster so, others (Zen) when they are left alone.
template <bool ask>
__attribute__((target("avx2"))) std::uint64_t sum_avx2(const std::uint64_t* at, std::uint64_t words) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (std::uint64_t i = 0; i + 16 <= words; i += 16) {
    a = _mm256_add_epi64(a, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + i)));
    b = _mm256_add_epi64(b, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + i + 4)));
    c = _mm256_add_epi64(c, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + i + 8)));
    d = _mm256_add_epi64(d, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + i + 12)));
    if (ask) {
      _mm_prefetch(reinterpret_cast<const char*>(at + i + 512), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(at + i + 520), _MM_HINT_T0);
    }
  }
  a = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
  alignas(32) std::uint64_t lanes[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), a);
  return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

constexpr std::uint64_t rounds = 4'000'000;

__attribute__((target("avx2,fma"))) float multiply_avx2() {
  __m256 sums[10];
  for (int i = 0; i < 10; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
  for (std::uint64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 10
    for (int i = 0; i < 10; ++i) sums[i] = _mm256_fmadd_ps(sums[i], x, y);
  }
  float total = 0;
  for (int i = 0; i < 10; ++i) total += _mm256_cvtss_f32(sums[i]);
  return total;
}

__attribute__((target("avx512f"))) float multiply_avx512() {
  __m512 sums[10];
  for (int i = 0; i < 10; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
  for (std::uint64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 10
    for (int i = 0; i < 10; ++i) sums[i] = _mm512_fmadd_ps(sums[i], x, y);
  }
  float total = 0;
  for (int i = 0; i < 10; ++i) total += _mm512_cvtss_f32(sums[i]);
  return total;
}

/// Two products of bf16 a lane and their sum. Twice what fused multiplications of f32 give on some processors, half of it on others.
__attribute__((target("avx512f,avx512bf16"))) float multiply_bf16() {
  __m512 sums[10];
  for (int i = 0; i < 10; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  __m512i x = _mm512_set1_epi16(0x3c00);  // 2^-7
  for (std::uint64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 10
    for (int i = 0; i < 10; ++i) {
      __asm__("" : "+v"(x));
      sums[i] = _mm512_dpbf16_ps(sums[i], reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(x));
    }
  }
  float total = 0;
  for (int i = 0; i < 10; ++i) total += _mm512_cvtss_f32(sums[i]);
  return total;
}

/// Four products of bytes a lane and their sum, in one instruction.
__attribute__((target("avx512f,avx512vnni"))) std::uint64_t multiply_bytes_vnni() {
  __m512i sums[10];
  for (int i = 0; i < 10; ++i) sums[i] = _mm512_set1_epi32(i);
  __m512i x = _mm512_set1_epi8(3);
  const __m512i y = _mm512_set1_epi8(-1);
  for (std::uint64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 10
    for (int i = 0; i < 10; ++i) {
      __asm__("" : "+v"(x));  // or the sum of all rounds is one multiplication; of sums[i] it would keep the sums in memory
      sums[i] = _mm512_dpbusd_epi32(sums[i], x, y);
    }
  }
  __m512i total = sums[0];
  for (int i = 1; i < 10; ++i) total = _mm512_add_epi32(total, sums[i]);
  alignas(64) std::int32_t lanes[16];
  _mm512_store_si512(lanes, total);
  return static_cast<std::uint64_t>(lanes[0]);
}

/// Whether this process was allowed AMX's tiles: where the CPU backend uses them it has asked (ARCH_GET_XCOMP_PERM, bit 18).
bool tiles_allowed() noexcept {
  std::uint64_t allowed = 0;
  return syscall(SYS_arch_prctl, 0x1022, &allowed) == 0 && (allowed >> 18 & 1u) != 0;
}

constexpr std::uint64_t tile_rounds = 500'000;

/// Products of tiles of 16 x 64 and 64 x 16 bytes, four sums side by side: 16 clocks each of a latency of 52.
void multiply_bytes_tiles() {
  struct alignas(64) {
    std::uint8_t palette = 1, none[15] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const shapes;
  __asm__ volatile("ldtilecfg %0" : : "m"(shapes));  // all tiles are zeros
  for (std::uint64_t r = 0; r < tile_rounds; ++r) {
    __asm__ volatile(
        "tdpbusd %%tmm6, %%tmm4, %%tmm0\n\ttdpbusd %%tmm6, %%tmm5, %%tmm1\n\t"
        "tdpbusd %%tmm7, %%tmm4, %%tmm2\n\ttdpbusd %%tmm7, %%tmm5, %%tmm3"
        :
        :);
  }
  __asm__ volatile("tilerelease");
}

/// Pairs of products of bytes, added in 16 bits: the least that AVX2 takes for them.
__attribute__((target("avx2"))) std::uint64_t multiply_bytes_avx2() {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a, x = _mm256_set1_epi8(3);
  const __m256i y = _mm256_set1_epi8(-1);
  const auto add = [&](__m256i & sum) __attribute__((target("avx2"), always_inline)) {
    __asm__("" : "+x"(x));  // or the product is computed once
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(x, y));
  };
  for (std::uint64_t r = 0; r < rounds; ++r) {
    add(a), add(b), add(c), add(d);
    add(a), add(b), add(c), add(d);
  }
  return static_cast<std::uint64_t>(_mm256_extract_epi16(_mm256_add_epi16(_mm256_add_epi16(a, b), _mm256_add_epi16(c, d)), 0));
}
#endif

float multiply_portable(std::uint64_t count) {
  float sums[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  for (std::uint64_t r = 0; r < count; ++r) {
    for (float& s : sums) s = s * 0.999f + 1e-3f;
  }
  float total = 0;
  for (const float s : sums) total += s;
  return total;
}

std::atomic<std::uint64_t> sink{0};  // so that no pass is optimised away

}  // namespace

ReadBandwidth::ReadBandwidth(std::uint64_t bytes, std::uint32_t threads)
    : bytes_(std::max<std::uint64_t>(bytes / 4096 * 4096, 1 << 20)), threads_(std::max(1u, threads)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(QUERN_HOST_OUT_OF_MEMORY, concat("no memory for a buffer of ", byte_words(bytes_), " to measure the read bandwidth"));
  }
  madvise(memory, bytes_, MADV_HUGEPAGE);
  buffer_ = static_cast<std::uint8_t*>(memory);
  for (std::uint64_t i = 0; i < bytes_; i += 64) buffer_[i] = static_cast<std::uint8_t>(i >> 6);
}

ReadBandwidth::~ReadBandwidth() { munmap(buffer_, bytes_); }

double ReadBandwidth::measure(std::uint32_t passes) {
  const std::uint64_t share = bytes_ / threads_ / 128 * 16;  // words
  double best = 0;
  for (std::uint32_t p = 0; p < passes; ++p) {
    const double seconds = timed(threads_, [&](std::uint32_t t) {
      const auto* at = reinterpret_cast<const std::uint64_t*>(buffer_) + share * t;
#if defined(__x86_64__)
      if (__builtin_cpu_supports("avx2")) sink += p % 2 == 0 ? sum_avx2<false>(at, share) : sum_avx2<true>(at, share);
      else sink += sum_portable(at, share);
#else
      sink += sum_portable(at, share);
#endif
    });
    best = std::max(best, static_cast<double>(share * 8 * threads_) / seconds);
  }
  return best;
}

double multiply_add_peak(std::uint32_t threads, Arithmetic arithmetic) {
  threads = std::max(1u, threads);
  double best = 0;
  for (int pass = 0; pass < (arithmetic == Arithmetic::f32 ? 3 : 6); ++pass) {  // of bf16 and int8: either way three times
    double per_thread = 0;
    const double seconds = timed(threads, [&](std::uint32_t t) {
      double done = 0;
#if defined(__x86_64__)
      if (arithmetic == Arithmetic::int8 && pass % 2 == 1 && tiles_allowed()) {
        multiply_bytes_tiles();
        done = static_cast<double>(tile_rounds) * 4 * 16 * 16 * 64;
      } else if (arithmetic == Arithmetic::int8 && __builtin_cpu_supports("avx512vnni")) {
        sink += multiply_bytes_vnni();
        done = static_cast<double>(rounds) * 10 * 64;
      } else if (arithmetic == Arithmetic::int8 && __builtin_cpu_supports("avx2")) {
        sink += multiply_bytes_avx2();
        done = static_cast<double>(rounds) * 8 * 32;
      } else if (arithmetic == Arithmetic::bf16 && pass % 2 == 1 && __builtin_cpu_supports("avx512bf16")) {
        sink += static_cast<std::uint64_t>(multiply_bf16());
        done = static_cast<double>(rounds) * 10 * 32;
      } else if (__builtin_cpu_supports("avx512f")) {
        sink += static_cast<std::uint64_t>(multiply_avx512());
        done = static_cast<double>(rounds) * 10 * 16;
      } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        sink += static_cast<std::uint64_t>(multiply_avx2());
        done = static_cast<double>(rounds) * 10 * 8;
      }
#endif
      if (done == 0) {
        constexpr std::uint64_t count = 10'000'000;
        sink += static_cast<std::uint64_t>(multiply_portable(count));
        done = static_cast<double>(count) * 8;
      }
      if (t == 0) per_thread = done;
    });
    best = std::max(best, per_thread * threads / seconds);
  }
  return best;
}

std::uint64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    if (key == "VmHWM:") {
      std::uint64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
    std::getline(status, key);
  }
  return 0;
}

}  // namespace quern::runtime
