// Speed of the matmul kernels, without the plugin around them: GMAC/s for each format, instruction set and number of tokens.
//
//   bench_matmul [threads] [n] [k]     defaults 2, 1536, 576 (the widest layer of a 135M model)
// Time is what the threads were on a processor, divided by their number: a busy machine then changes caches and clock only.
// The weights of one call are rotated over 64 MiB, so that with one token they come from memory as they do in a model.
#include "kernel.hpp"
#include "processor_time.hpp"
#include "simd/vectors.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace quern::cpu;

namespace {

double measure(Isa isa, quern_dtype dtype, std::int64_t n, std::int64_t k, std::int64_t m, ThreadPool& pool) {
  const std::int64_t row = k / unit_elements(dtype) * unit_bytes(dtype);
  const std::int64_t copies = std::max<std::int64_t>(1, (std::int64_t{64} << 20) / (n * row));
  std::vector<std::byte> weights(static_cast<std::size_t>(copies * n * row), std::byte{0x11});
  std::vector<float> a(static_cast<std::size_t>(m * k), 0.5f), y(static_cast<std::size_t>(m * n));
  std::vector<float> buffers(static_cast<std::size_t>(pool.size() * matmul_buffer_floats()));
  const Vectors& vectors = vectors_of(isa);
  std::int64_t calls = 0;
  const double start = processor_seconds(pool.size());
  double now = start;
  while (now - start < 0.25) {
    const std::byte* w = weights.data() + calls % copies * n * row;
    struct Call {
      const std::byte* w;
      std::int64_t row, n, k, m;
      quern_dtype dtype;
      const float* a;
      float *y, *buffers;
      const Vectors* vectors;
    };
    const Call call{w, row, n, k, m, dtype, a.data(), y.data(), buffers.data(), &vectors};
    pool.run(
        n, 32, nullptr,
        [](const void* c, std::int64_t begin, std::int64_t end, std::uint32_t thread) {
          const Call& s = *static_cast<const Call*>(c);
          s.vectors->matmul({s.dtype, s.w + begin * s.row, s.row, end - begin, s.a, s.k, s.m, s.k, s.y + begin, s.n,
                             s.buffers + thread * matmul_buffer_floats()});
        },
        &call);
    ++calls;
    now = processor_seconds(pool.size());
  }
  return static_cast<double>(calls) * static_cast<double>(m * n * k) / (now - start) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 2);
  const std::int64_t n = argc > 2 ? std::atoll(argv[2]) : 1536, k = argc > 3 ? std::atoll(argv[3]) : 576;
  ThreadPool pool(threads, {});
  const Processor processor = detect_processor();
  std::printf("%s, %u threads, n %lld, k %lld, GMAC/s\n%-16s", processor.name.c_str(), threads, static_cast<long long>(n),
              static_cast<long long>(k), "tokens");
  const std::int64_t tokens[] = {1, 2, 3, 4, 8, 32, 128, 512};
  for (const std::int64_t m : tokens) std::printf("%8lld", static_cast<long long>(m));
  std::printf("\n");
  for (const quern_dtype dtype :
       {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0, QUERN_Q5_1, QUERN_Q8_0, QUERN_Q4_K, QUERN_Q5_K, QUERN_Q6_K}) {
    if (k % unit_elements(dtype) != 0) continue;
    for (int isa = static_cast<int>(processor.best); isa >= 0; --isa) {
      std::printf("%-6s %-9s", quern::sdk::dtype_name(dtype).data(), isa_name(static_cast<Isa>(isa)));
      for (const std::int64_t m : tokens) std::printf("%8.1f", measure(static_cast<Isa>(isa), dtype, n, k, m, pool));
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}
