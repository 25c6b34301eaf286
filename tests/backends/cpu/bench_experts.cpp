// Times a step of a model of experts through the plugin's C ABI, in the shape of granite-3.0-1b-a400m without its table: 24 layers of 1,024,
// 16 heads of 64, 8 of keys, 32 experts of 512, 8 used, Q4_K.
//
//   bench_experts [THREADS [REPETITIONS [PROMPT]]]
//
// Each repetition reads all packed weights with as many threads, decodes 8 tokens of one row, runs 8 rows twice and a prompt once. Prints
// medians and bests: tokens/s, and the bytes a second of the weights that a token needs (its chosen experts') as a share of the plain reads'.
#include "harness.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <immintrin.h>
#include <stdexcept>
#include <thread>

namespace quern::cpu_test {
namespace {

constexpr std::int64_t layers = 24, hidden = 1024, ffn = 512, experts = 32, used = 8, heads = 16, kv_heads = 8, head = 64;
constexpr std::int64_t most_tokens = 512, page = 16, pages = 40;

class Model {
 public:
  GraphSpec graph;
  double bytes_of_a_token = 0;

  Model() {
    graph.symbols = {{{"tokens", 6}, 0, most_tokens, 1, QUERN_NONE, 0}};
    std::vector<std::int32_t> positions(most_tokens), table(pages);
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);
    std::uint32_t x = ranged(random_tensor(QUERN_F32, {most_tokens, hidden}, 1));
    position_ = ranged(ints({most_tokens}, positions));
    slot_ = ranged(ints({most_tokens}, std::vector<std::int32_t>(most_tokens, 0)));
    table_ = graph.add(ints({1, pages}, table));
    angles_ = graph.add(random_tensor(QUERN_F32, {pages * page, head / 2, 2}, 2));
    for (std::int64_t l = 0; l < layers; ++l) x = feed_forward(attention(x), l + 1 == layers ? QUERN_VALUE_OUTPUT : QUERN_VALUE_INTERNAL);
    patterns_.clear();
  }

 private:
  std::uint32_t ranged(Tensor t) {
    t.symbols.assign(t.dims.size(), 0);
    t.symbols[0] = 1;
    return graph.add(std::move(t));
  }
  std::uint32_t rows(std::vector<std::int64_t> dims, std::uint32_t kind = QUERN_VALUE_INTERNAL, quern_dtype dtype = QUERN_F32) {
    if (kind != QUERN_VALUE_INTERNAL) return ranged(make(dtype, std::move(dims), kind));
    Tensor t;
    t.dtype = dtype;
    t.dims = std::move(dims);
    t.kind = kind;
    return ranged(std::move(t));
  }
  std::uint32_t seen_as(std::uint32_t value, std::vector<std::int64_t> dims) {
    const std::uint32_t view = rows(std::move(dims));
    graph.values[view].alias_of = value;
    return view;
  }
  /// Memory of its own; the same numbers in all layers, which take long to draw.
  std::uint32_t weight(quern_dtype dtype, std::vector<std::int64_t> dims) {
    const auto [at, is_new] = patterns_.try_emplace({dtype, dims});
    if (is_new) at->second = random_tensor(dtype, dims, 7, 0.02);
    const Tensor t = make(dtype, std::move(dims), QUERN_VALUE_CONSTANT);
    std::memcpy(t.raw().data(), at->second.raw().data(), t.bytes());
    bytes_of_a_token += static_cast<double>(t.bytes()) * (t.dims.size() == 3 ? static_cast<double>(used) / experts : 1.0);
    return graph.add(t);
  }
  void node(std::uint32_t op, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
            std::vector<Attribute> attributes = {}) {
    NodeSpec spec{op, std::move(inputs), std::move(outputs), std::move(attributes)};
    spec.conversions = QUERN_CONVERT_INT8 | QUERN_CONVERT_BF16 | QUERN_CONVERT_F16;
    graph.nodes.push_back(std::move(spec));
  }
  std::uint32_t product(std::uint32_t a, std::int64_t k, std::int64_t n, quern_dtype dtype = QUERN_Q4_K) {
    const std::uint32_t y = rows({most_tokens, n});
    node(QUERN_OP_MATMUL, {a, weight(dtype, {n, k})}, {y});
    return y;
  }
  std::uint32_t chosen(std::uint32_t a, std::uint32_t id, std::int64_t k, std::int64_t n) {
    const std::uint32_t y = rows({most_tokens, used, n});
    node(QUERN_OP_MATMUL_ID, {a, weight(QUERN_Q4_K, {experts, n, k}), id}, {y});
    return y;
  }
  std::uint32_t norm(std::uint32_t x) {
    const std::uint32_t y = rows({most_tokens, hidden});
    node(QUERN_OP_RMS_NORM, {x, weight(QUERN_F32, {hidden})}, {y}, {{QUERN_KEY_EPSILON, 1e-5}});
    return y;
  }
  std::uint32_t sum(std::uint32_t a, std::uint32_t b, std::uint32_t kind = QUERN_VALUE_INTERNAL) {
    const std::uint32_t y = rows({most_tokens, hidden}, kind);
    node(QUERN_OP_ADD, {a, b}, {y});
    return y;
  }
  std::uint32_t cache() {
    const std::uint32_t id = graph.add(make(QUERN_F16, {pages, kv_heads, page, head}, QUERN_VALUE_STATE));
    std::memset(graph.values[id].raw().data(), 0, graph.values[id].bytes());
    return id;
  }

  std::uint32_t attention(std::uint32_t x) {
    const std::uint32_t keys = cache(), values = cache(), a = norm(x);
    const std::uint32_t q = product(a, hidden, heads * head), k = product(a, hidden, kv_heads * head),
                        v = product(a, hidden, kv_heads * head);
    const std::uint32_t qr = rows({most_tokens, heads, head}), kr = rows({most_tokens, kv_heads, head}),
                        y = rows({most_tokens, heads, head});
    node(QUERN_OP_ROPE, {seen_as(q, {most_tokens, heads, head}), position_, angles_}, {qr});
    node(QUERN_OP_ROPE, {seen_as(k, {most_tokens, kv_heads, head}), position_, angles_}, {kr});
    node(QUERN_OP_KV_WRITE, {kr, table_, slot_, position_}, {keys});
    node(QUERN_OP_KV_WRITE, {seen_as(v, {most_tokens, kv_heads, head}), table_, slot_, position_}, {values});
    node(QUERN_OP_ATTENTION, {qr, keys, values, table_, slot_, position_}, {y}, {{QUERN_KEY_SCALE, 0.125}});
    return sum(x, product(seen_as(y, {most_tokens, hidden}), hidden, hidden));
  }
  std::uint32_t feed_forward(std::uint32_t x, std::uint32_t kind) {
    const std::uint32_t a = norm(x), logits = product(a, hidden, experts, QUERN_F32);
    const std::uint32_t id = rows({most_tokens, used}, QUERN_VALUE_INTERNAL, QUERN_I32), share = rows({most_tokens, used});
    node(QUERN_OP_MOE_ROUTER, {logits}, {id, share}, {{QUERN_KEY_USED, static_cast<double>(used)}});
    const std::uint32_t one = seen_as(a, {most_tokens, 1, hidden}), gate = chosen(one, id, hidden, ffn), up = chosen(one, id, hidden, ffn);
    const std::uint32_t gated = rows({most_tokens, used, ffn}), y = rows({most_tokens, hidden});
    node(QUERN_OP_GLU, {gate, up}, {gated});
    node(QUERN_OP_MOE_COMBINE, {chosen(gated, id, ffn, hidden), share}, {y});
    return sum(x, y, kind);
  }

  std::uint32_t position_ = 0, slot_ = 0, table_ = 0, angles_ = 0;
  std::map<std::pair<quern_dtype, std::vector<std::int64_t>>, Tensor> patterns_;
};

template <typename F>
double seconds(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Two lines at a time, asked for 8 KiB ahead. Emerald Rapids reads a third more by loads of whole lines than by halves.
[[gnu::target("avx512f")]] std::uint64_t mix_lines(const std::byte* from, std::size_t bytes) {
  __m512i a = _mm512_setzero_si512(), b = a;
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i + 8192), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(from + i + 8256), _MM_HINT_T1);
    a = _mm512_xor_si512(a, _mm512_load_si512(from + i));
    b = _mm512_xor_si512(b, _mm512_load_si512(from + i + 64));
  }
  alignas(64) std::uint64_t lanes[8];
  _mm512_store_si512(lanes, _mm512_xor_si512(a, b));
  return lanes[0];
}
[[gnu::target("avx2")]] std::uint64_t mix_halves(const std::byte* from, std::size_t bytes) {
  __m256i mix[4] = {};
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(from + i + 8192), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(from + i + 8256), _MM_HINT_T1);
    for (std::size_t l = 0; l < 4; ++l)
      mix[l] = _mm256_xor_si256(mix[l], _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i + 32 * l)));
  }
  return static_cast<std::uint64_t>(
      _mm256_extract_epi64(_mm256_xor_si256(_mm256_xor_si256(mix[0], mix[1]), _mm256_xor_si256(mix[2], mix[3])), 0));
}

/// Bytes a second of a plain read of all packed weights.
double read_rate(const GraphSpec& graph, unsigned threads) {
  std::atomic<std::uint64_t> bytes{0}, mixed{0};
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  const double spent = seconds([&] {
    std::vector<std::thread> readers;
    for (unsigned t = 0; t < threads; ++t)
      readers.emplace_back([&, t] {
        std::uint64_t own = 0;
        unsigned turn = 0;
        for (const Tensor& weights : graph.values) {
          if (weights.layout.empty() || turn++ % threads != t) continue;
          own ^= (wide ? mix_lines : mix_halves)(weights.memory->data.get(), weights.memory->size);
          bytes += weights.memory->size;
        }
        mixed ^= own;
      });
    for (std::thread& reader : readers) reader.join();
  });
  return static_cast<double>(bytes) / spent;
}

struct Samples {
  std::vector<double> values;

  double median() {
    std::ranges::sort(values);
    return values[values.size() / 2];
  }
  double best() const { return *std::ranges::max_element(values); }
};

void time_model(unsigned threads, int repetitions, std::int64_t prompt) {
  Model model;
  Plugin plugin(threads);
  plugin.fuse = true;
  pack_constants(plugin, model.graph);
  Prepared prepared(plugin, model.graph);
  const auto rate = [&](std::int64_t tokens, int steps) {
    return static_cast<double>(tokens * steps) / seconds([&] {
             for (int i = 0; i < steps; ++i)
               if (const Outcome outcome = prepared.submit({{0, 0, tokens}}); outcome.status != QUERN_OK)
                 throw std::runtime_error(outcome.text);
           });
  };
  rate(1, 4);
  Samples read, decode, share, batch, prefill;
  for (int r = 0; r < repetitions; ++r) {
    const double before = read_rate(model.graph, threads);
    decode.values.push_back(rate(1, 8));
    read.values.push_back((before + read_rate(model.graph, threads)) / 2);
    share.values.push_back(decode.values.back() * model.bytes_of_a_token / read.values.back());
    batch.values.push_back(rate(8, 2));
    prefill.values.push_back(rate(prompt, 1));
  }
  const auto print = [](const char* what, Samples& samples, double unit) {
    std::printf("%-28s %9.1f %9.1f\n", what, samples.median() / unit, samples.best() / unit);
  };
  std::printf("%u threads, %.1f MB of weights a token    median      best\n", threads, model.bytes_of_a_token / 1e6);
  print("plain read, GB/s", read, 1e9);
  print("decode, tokens/s", decode, 1);
  print("decode, % of the plain read", share, 0.01);
  print("8 rows, tokens/s", batch, 1);
  print("prompt, tokens/s", prefill, 1);
}

}  // namespace
}  // namespace quern::cpu_test

int main(int count, char** arguments) {
  const auto number = [&](int i, int otherwise) { return count > i ? std::atoi(arguments[i]) : otherwise; };
  const int threads = number(1, 2), repetitions = number(2, 7), prompt = number(3, 512);
  if (threads < 1 || repetitions < 1 || prompt < 1 || prompt > quern::cpu_test::most_tokens) {
    std::fprintf(stderr, "usage: bench_experts [THREADS [REPETITIONS [PROMPT]]], with a prompt of up to %d tokens\n",
                 static_cast<int>(quern::cpu_test::most_tokens));
    return 2;
  }
  if (!__builtin_cpu_supports("avx2")) {
    std::fprintf(stderr, "this processor has no avx2; without it weights are not packed\n");
    return 1;
  }
  quern::cpu_test::time_model(static_cast<unsigned>(threads), repetitions, prompt);
  return 0;
}
