// Speed of the packed kernels, without the plugin around them: multiply-adds a clock of one thread, or the bytes they stream.
//
//   bench_packed [set] [format] [k] [panels] [seconds]    defaults: all sets (avx2, avx512_vnni, avx512_bf16, avx512_amx), all formats, k 2048, 16 panels a call, 0.15 s a figure
// GEMM with the panels of one call in the cache, then 256 tokens with panels from memory, the next of 256 MiB in each call; the last
// column is one token against 256 MiB of panels beside a plain read of the same memory. The clock is a chain of dependent multiplications, timed directly behind each group of runs, where wide vectors still slow the
// processor; the fastest group and the fastest chain count, so that other work on the machine does not spoil a figure.
#include "packed/packed.hpp"
#include "view.hpp"

#include "quern/sdk/graph.hpp"

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

using namespace quern::cpu;

namespace {

/// Of this thread on a processor: what other work takes is not counted.
double seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Products of 32 bits take three clocks. A chain of adds of a constant would not do: newer processors renumber it away.
double clock_hz() {
  long n = 4000;
  const double start = seconds();
  asm volatile("1:\n.rept 10\nimul %%r11d, %%r11d\n.endr\ndec %0\njnz 1b" : "+r"(n) : : "r11", "cc");
  return 3 * 40000 / (seconds() - start);
}

/// Memory on 2 MB pages where the system gives them.
std::byte* reserve(std::size_t bytes) {
  constexpr std::size_t page = 2 << 20;
  auto* base = static_cast<std::byte*>(mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED) std::exit(1);
  auto* p = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(base) + page - 1) / page * page);
  madvise(p, bytes, MADV_HUGEPAGE);
  std::memset(p, 0, bytes);
  return p;
}

struct Work {
  const PackedSet& set;
  const PackedLayout& layout;
  std::int64_t k, panels;
  std::byte *weights, *activations;
  std::vector<float> y;
  float* scratch;
};

void run(Work& w, std::int64_t panel, std::int64_t tokens) {
  w.layout.multiply({w.weights + panel * w.layout.panel_bytes(w.k), w.panels, w.panels * w.layout.panel_rows, w.k, w.activations, tokens,
                     w.y.data(), w.panels * w.layout.panel_rows, w.scratch});
}

struct Rate {
  double a_clock = 0, clock = 0;
};
/// calls: how many different ones, one behind the other in memory.
Rate gemm(Work& w, std::int64_t tokens, double time, std::int64_t calls = 1) {
  const double macs = static_cast<double>(tokens * w.panels * w.layout.panel_rows * w.k);
  const int runs = std::max(1, static_cast<int>(4e6 / macs));
  double least = 1e9, clock = 0;
  std::int64_t call = 0;
  for (const double end = seconds() + time; seconds() < end; call = (call + 1) % calls) {
    const double start = seconds();
    for (int i = 0; i < runs; ++i) run(w, call * w.panels, tokens);
    least = std::min(least, (seconds() - start) / runs);
    clock = std::max(clock, clock_hz());
  }
  return {macs / least / clock, clock};
}

/// With loads of 32 bytes: narrower ones fill the processor's window with fewer lines, and read 23 GB/s on Zen 4 instead of 33.
__attribute__((target("avx2"))) double read_all(const std::byte* p, std::int64_t bytes, bool ask) {
  const double start = seconds();
  __m256i s[4] = {};
  for (std::int64_t i = 0; i + 128 <= bytes; i += 128) {
    for (int line = 0; ask && line < 2; ++line) _mm_prefetch(reinterpret_cast<const char*>(p + i + 4096 + 64 * line), _MM_HINT_T0);
    for (int j = 0; j < 4; ++j) s[j] = _mm256_xor_si256(s[j], _mm256_load_si256(reinterpret_cast<const __m256i*>(p + i) + j));
  }
  for (const __m256i& x : s) asm volatile("" : : "x"(x));
  return static_cast<double>(bytes) / (seconds() - start);
}

/// Best pass over all memory: one token, and the plain read, in turns; every second read asks for lines ahead.
void stream(Work& w, std::int64_t bytes) {
  const std::int64_t call = w.panels * w.layout.panel_bytes(w.k), calls = bytes / call;
  double kernel = 0, plain = 0;
  for (int pass = 0; pass < 6; ++pass) {
    plain = std::max(plain, read_all(w.weights, calls * call, pass % 2 == 1));
    const double start = seconds();
    for (std::int64_t i = 0; i < calls; ++i) run(w, i * w.panels, 1);
    kernel = std::max(kernel, static_cast<double>(calls * call) / (seconds() - start));
  }
  std::printf("  %5.1f of %5.1f GB/s, %3.0f %%\n", kernel / 1e9, plain / 1e9, 100 * kernel / plain);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only_set = argc > 1 ? argv[1] : "", only_format = argc > 2 ? argv[2] : "";
  const std::int64_t k = argc > 3 ? std::atoll(argv[3]) : 2048, panels = argc > 4 ? std::atoll(argv[4]) : 16;
  const double time = argc > 5 ? std::atof(argv[5]) : 0.15;
  constexpr std::int64_t bytes = std::int64_t{256} << 20, most = 256;
  Processor processor = detect_processor();
  allow_amx(processor);
  if (only_set == "avx512_amx" && processor.best < Isa::amx) {
    std::fprintf(stderr, "bench_packed: no avx512_amx: %s\n", processor.no_amx.c_str());
    return 1;
  }
  std::byte* weights = reserve(bytes + (1 << 20));
  std::byte* activations = reserve(static_cast<std::size_t>(most * activation_row_bytes(Activations::f32, k)));
  std::mt19937 random(1);
  std::vector<float> x(static_cast<std::size_t>(most * k));
  std::normal_distribution<float> like_activations;  // of even ones, sums of Q6_K are seldom small
  for (float& v : x) v = like_activations(random);
  const std::int64_t counts[] = {1, 2, 4, 8, 16, 64, 256};
  std::printf("%s, k %lld, %lld panels a call; multiply-adds a clock\n%-12s %-18s", processor.name.c_str(), static_cast<long long>(k),
              static_cast<long long>(panels), "set", "tokens");
  for (const std::int64_t n : counts) std::printf("%7lld", static_cast<long long>(n));
  std::printf("%7s    GHz\n", "memory");
  struct {
    const char* name;
    const PackedSet* set;
    bool runs;
  } const sets[] = {{"avx2", &packed_set_avx2(), processor.best >= Isa::avx2},
                    {"avx512_vnni", &packed_set_avx512_vnni(), processor.vnni},
                    {"avx512_bf16", &packed_set_avx512_bf16(), processor.bf16},
                    {"avx512_amx", &packed_set_avx512_amx(), processor.best >= Isa::amx}};
  for (const auto& [name, set, runs] : sets) {
    if (!runs || (!only_set.empty() && only_set != name)) continue;
    for (const PackedLayout& layout : set->layouts) {
      if (k % layout.k_multiple != 0 ||
          (!only_format.empty() && only_format != "all" && only_format != quern::sdk::dtype_name(layout.format)))
        continue;
      if (set == &packed_set_avx512_bf16() && layout.activations != Activations::bf16) continue;  // the others are those of avx512_vnni
      Work w{
          *set,   layout, k, panels, weights, activations, std::vector<float>(static_cast<std::size_t>(most * panels * layout.panel_rows)),
          nullptr};
      w.scratch =
          reinterpret_cast<float*>(reserve(static_cast<std::size_t>(layout.scratch_floats != nullptr ? layout.scratch_floats(k) * 4 : 64)));
      if (layout.activations != Activations::f32) set->quantise(layout.activations, x.data(), k, most, k, activations);
      else
        for (std::int64_t t = 0; t < most; ++t)
          std::memcpy(activations + t * activation_row_bytes(layout.activations, k), x.data() + t * k, static_cast<std::size_t>(k) * 4);
      std::printf("%-12s %-18s", name, layout.key);
      Rate last;
      for (const std::int64_t n : counts) {
        last = gemm(w, n, time);
        std::printf("%7.1f", last.a_clock);
        std::fflush(stdout);
      }
      std::printf("%7.1f", gemm(w, most, time, bytes / (panels * layout.panel_bytes(k))).a_clock);
      std::printf("%7.2f", last.clock / 1e9);
      stream(w, bytes);
    }
  }
}
