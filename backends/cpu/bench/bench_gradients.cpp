// Speed of gradients beside their forward ops: milliseconds a call, and GMAC/s (attention, adapters, experts) or GB/s of what is read and
// written. Time is what the threads were on a processor, divided by their number.
//
//   bench_gradients [threads] [tokens]     defaults 2, 512
// The best kernel of this processor runs; f32 tensors. Multiply-adds are those of the definition: scores and values for attention, five
// products for its gradient, halved by causality.
#include "kernel.hpp"
#include "processor_time.hpp"

#include "quern/quern_plugin.hpp"

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

using namespace quern::cpu;

namespace {

struct Data {
  Tensor view;
  std::vector<float> floats;
};
Data tensor(quern_dtype dtype, std::initializer_list<std::int64_t> dims, float scale = 1.0f) {
  Data d;
  d.view.dtype = dtype;
  for (const std::int64_t size : dims) d.view.dims[d.view.rank++] = size;
  std::int64_t stride = unit_bytes(dtype);
  for (std::uint32_t i = d.view.rank; i-- > 0;) {
    d.view.strides[i] = stride;
    stride *= d.view.dims[i];
  }
  d.floats.assign(static_cast<std::size_t>(stride / 4 + 16), 0.0f);
  std::uint32_t bits = 1;
  if (dtype == QUERN_F32)
    for (float& x : d.floats) x = scale * (static_cast<float>((bits = bits * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1.0f);
  d.view.data = reinterpret_cast<std::uintptr_t>(d.floats.data());
  return d;
}

/// Milliseconds a call of the first kernel that takes it.
double measure(ThreadPool& pool, std::uint32_t op, std::initializer_list<const Data*> inputs, std::initializer_list<const Data*> outputs,
               const std::vector<quern_attribute>& sent) {
  std::vector<Tensor> in, out;
  for (const Data* d : inputs) in.push_back(d == nullptr ? Tensor() : d->view);
  for (const Data* d : outputs) out.push_back(d == nullptr ? Tensor() : d->view);
  Call call;
  call.op = op;
  call.thread_count = pool.size();
  call.inputs = {in.data(), in.size()};
  call.outputs = {out.data(), out.size()};
  auto node = quern::sdk::made<quern_node>();
  node.op = op;
  node.attributes = {sent.data(), sent.size(), sizeof(quern_attribute)};
  const quern::sdk::Attributes attributes(node);
  call.attributes = &attributes;
  const Isa best = detect_processor().best;
  for (const std::span<const Kernel> table : kernel_tables())
    for (const Kernel& kernel : table) {
      if (kernel.op != op || kernel.isa > best || kernel.packed) continue;
      if (const Verdict v = kernel.accepts(call); !v) continue;
      std::vector<double> scratch((kernel.scratch == nullptr ? 0 : kernel.scratch(call)) / 8 + 16);
      std::atomic<std::uint64_t> faults{0};
      std::atomic<std::uint32_t> cancelled{0};
      auto* at = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
      Context context(pool, at, scratch.size() * 8 - 64, 64, faults, cancelled);
      kernel.run(call, context);
      const double start = processor_seconds(pool.size());
      double seconds = 0;
      int calls = 0;
      for (; seconds < 1.0; ++calls) {
        kernel.run(call, context);
        seconds = processor_seconds(pool.size()) - start;
      }
      std::printf("  %-34s %10.3f ms", kernel.name, seconds / calls * 1e3);
      return seconds / calls * 1e3;
    }
  std::printf("  op %u: no kernel takes this call\n", op);
  std::exit(1);
}
void report(double milliseconds, double work, const char* unit) { std::printf(" %9.2f %s\n", work / milliseconds * 1e-6, unit); }

quern_attribute real(std::uint32_t key, double value) { return {key, QUERN_ATTR_F64, 0, value}; }
quern_attribute integer(std::uint32_t key, std::int64_t value) { return {key, QUERN_ATTR_I64, value, 0}; }

void attention(ThreadPool& pool, std::int64_t t) {
  constexpr std::int64_t heads = 8, kv_heads = 4, d = 64;
  std::printf("attention, %lld tokens, %lld heads over %lld, head size %lld, causal\n", static_cast<long long>(t),
              static_cast<long long>(heads), static_cast<long long>(kv_heads), static_cast<long long>(d));
  const Data q = tensor(QUERN_F32, {1, t, heads, d}), k = tensor(QUERN_F32, {1, t, kv_heads, d}),
             v = tensor(QUERN_F32, {1, t, kv_heads, d}), y = tensor(QUERN_F32, {1, t, heads, d}), lse = tensor(QUERN_F32, {1, t, heads}),
             dy = tensor(QUERN_F32, {1, t, heads, d}), out_q = tensor(QUERN_F32, {1, t, heads, d}),
             out_k = tensor(QUERN_F32, {1, t, kv_heads, d}), out_v = tensor(QUERN_F32, {1, t, kv_heads, d});
  const std::vector<quern_attribute> how = {real(QUERN_KEY_SCALE, 0.125), integer(QUERN_KEY_CAUSAL, 1)};
  const double product = static_cast<double>(t * (t + 1) / 2 * heads * d);
  report(measure(pool, QUERN_OP_ATTENTION_DENSE, {&q, &k, &v}, {&y, &lse}, how), 2 * product, "GMAC/s");
  report(measure(pool, QUERN_OP_ATTENTION_BACKWARD, {&q, &k, &v, &y, &lse, &dy}, {&out_q, &out_k, &out_v}, how), 5 * product, "GMAC/s");
}

void cross_entropy(ThreadPool& pool, std::int64_t t) {
  constexpr std::int64_t n = 49152;
  const std::int64_t rows = t / 4;
  std::printf("cross_entropy, %lld rows of %lld\n", static_cast<long long>(rows), static_cast<long long>(n));
  const Data x = tensor(QUERN_F32, {rows, n}, 4.0f), label = tensor(QUERN_I32, {rows}), loss = tensor(QUERN_F32, {rows}),
             lse = tensor(QUERN_F32, {rows}), dloss = tensor(QUERN_F32, {rows}), dx = tensor(QUERN_F32, {rows, n});
  const double bytes = static_cast<double>(rows * n * 4);
  report(measure(pool, QUERN_OP_CROSS_ENTROPY, {&x, &label}, {&loss, &lse}, {integer(QUERN_KEY_IGNORE, -100)}), bytes, "GB/s");
  report(measure(pool, QUERN_OP_CROSS_ENTROPY_BACKWARD, {&x, &label, &lse, &dloss}, {&dx}, {integer(QUERN_KEY_IGNORE, -100)}), 2 * bytes,
         "GB/s");
}

void adapters(ThreadPool& pool, std::int64_t t) {
  constexpr std::int64_t k = 2048, n = 2048, rank = 16;
  std::printf("lora_matmul, %lld rows of %lld to %lld, rank %lld\n", static_cast<long long>(t), static_cast<long long>(k),
              static_cast<long long>(n), static_cast<long long>(rank));
  const Data x = tensor(QUERN_F32, {t, k}), pool_data = tensor(QUERN_F32, {rank * (k + n)}), slot = tensor(QUERN_I32, {t}),
             y = tensor(QUERN_F32, {t, n}), dx = tensor(QUERN_F32, {t, k}), dpool = tensor(QUERN_F32, {rank * (k + n)});
  Data table = tensor(QUERN_I32, {1, 4});
  const std::int32_t entry[4] = {0, rank * k, rank, 0x3f800000};
  __builtin_memcpy(table.floats.data(), entry, sizeof(entry));
  table.view.data = reinterpret_cast<std::uintptr_t>(table.floats.data());
  const double product = static_cast<double>(t * rank) * (k + n);
  report(measure(pool, QUERN_OP_LORA_MATMUL, {&x, &pool_data, &table, &slot}, {&y}, {real(QUERN_KEY_ALPHA, 1)}), product, "GMAC/s");
  report(measure(pool, QUERN_OP_LORA_MATMUL_BACKWARD, {&x, &pool_data, &table, &slot, &y}, {&dx, &dpool}, {real(QUERN_KEY_ALPHA, 1)}),
         3 * product, "GMAC/s");
}

/// dx = dy W: W as it lies, or decoded first.
void frozen_weights(ThreadPool& pool, std::int64_t t) {
  constexpr std::int64_t n = 1536, k = 576;
  std::printf("gradients by frozen weights, %lld rows, %lld to %lld\n", static_cast<long long>(t), static_cast<long long>(n),
              static_cast<long long>(k));
  const Data dy = tensor(QUERN_F32, {t, n}), w = tensor(QUERN_F32, {n, k}), dx = tensor(QUERN_F32, {t, k});
  const double product = static_cast<double>(t * n * k);
  for (const quern_dtype dtype : {QUERN_Q4_0, QUERN_Q4_1, QUERN_Q5_0, QUERN_Q5_1, QUERN_Q8_0}) {
    const Data blocks = tensor(dtype, {n, k / unit_elements(dtype)});
    Data weights = blocks;
    weights.view.dims[1] = k;
    std::printf(" %s\n", quern::sdk::dtype_name(dtype).data());
    const double decoding = measure(pool, QUERN_OP_CAST, {&weights}, {&w}, {});
    std::printf("\n");
    const double after = measure(pool, QUERN_OP_MATMUL, {&dy, &w}, {&dx}, {integer(QUERN_KEY_TRANSPOSE_B, 1)});
    report(decoding + after, product, "GMAC/s decoded first");
    report(measure(pool, QUERN_OP_MATMUL, {&dy, &weights}, {&dx}, {integer(QUERN_KEY_TRANSPOSE_B, 1)}), product, "GMAC/s as it lies");
  }
}

void experts(ThreadPool& pool, std::int64_t t) {
  constexpr std::int64_t k = 512, n = 512, count = 8, used = 2;
  std::printf("matmul_id, %lld tokens, %lld of %lld experts, %lld to %lld\n", static_cast<long long>(t), static_cast<long long>(used),
              static_cast<long long>(count), static_cast<long long>(k), static_cast<long long>(n));
  const Data a = tensor(QUERN_F32, {t, 1, k}), b = tensor(QUERN_F32, {count, n, k}), y = tensor(QUERN_F32, {t, used, n}),
             da = tensor(QUERN_F32, {t, 1, k}), db = tensor(QUERN_F32, {count, n, k});
  Data id = tensor(QUERN_I32, {t, used});
  for (std::int64_t i = 0; i < t * used; ++i) {
    const auto expert = static_cast<std::int32_t>(i * 5 % count);
    __builtin_memcpy(id.floats.data() + i, &expert, 4);
  }
  const double product = static_cast<double>(t * used * n * k);
  report(measure(pool, QUERN_OP_MATMUL_ID, {&a, &b, &id}, {&y}, {}), product, "GMAC/s");
  report(measure(pool, QUERN_OP_MATMUL_ID_BACKWARD, {&y, &a, &b, &id}, {&da, &db}, {}), 2 * product, "GMAC/s");
}

void optimiser(ThreadPool& pool) {
  constexpr std::int64_t n = std::int64_t{1} << 23;
  std::printf("adamw, %lld weights\n", static_cast<long long>(n));
  const Data gradient = tensor(QUERN_F32, {n}), lr = tensor(QUERN_F32, {1}), w = tensor(QUERN_F32, {n}), m = tensor(QUERN_F32, {n}),
             v = tensor(QUERN_F32, {n}), norm = tensor(QUERN_F32, {1}), finite = tensor(QUERN_I32, {1});
  Data step = tensor(QUERN_I32, {1});
  const std::int32_t one = 1;
  __builtin_memcpy(step.floats.data(), &one, 4);
  report(measure(pool, QUERN_OP_GRAD_NORM, {&gradient}, {&norm, &finite}, {}), 4.0 * n, "GB/s");
  report(
      measure(pool, QUERN_OP_ADAMW, {&gradient, &step, &lr}, {&w, &m, &v},
              {real(QUERN_KEY_BETA1, 0.9), real(QUERN_KEY_BETA2, 0.999), real(QUERN_KEY_EPSILON, 1e-8), real(QUERN_KEY_WEIGHT_DECAY, 0.1)}),
      28.0 * n, "GB/s");
}

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 2);
  const std::int64_t tokens = argc > 2 ? std::atoll(argv[2]) : 512;
  ThreadPool pool(threads, {});
  std::printf("%s, %u threads\n", detect_processor().name.c_str(), threads);
  attention(pool, tokens);
  cross_entropy(pool, tokens);
  adapters(pool, tokens);
  frozen_weights(pool, tokens);
  experts(pool, tokens);
  optimiser(pool);
}
