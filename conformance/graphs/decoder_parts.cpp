// See decoder_parts.hpp.
#include "graphs/decoder_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace quern::conformance {
namespace {

/// The page of index `i` of a sequence: pages of different sequences alternate and run backwards.
std::int64_t page_id(const Batch& batch, std::int64_t sequence, std::int64_t i) {
  return (batch.pages_each() - 1 - i) * batch.sequences + sequence;
}

int product(GraphBuilder& graph, const Layer& layer, const std::string& name, int a, std::int64_t k, std::int64_t n, quern_dtype dtype,
            bool bias = false, std::int64_t dim = rows_dim) {
  std::vector<int> inputs = {a, graph.weight(name + ".weight", dtype, {n, k})};
  if (bias) inputs.push_back(graph.weight(name + ".bias", QUERN_F32, {n}));
  return graph.node(QUERN_OP_MATMUL, name, std::move(inputs), {dim, n}, {}, layer.activations);
}

/// The row of the step that output `o` is of. Rows stand in reverse between one run's number of them and the next larger one, so that the outputs of
/// each run are of rows that it has.
std::int64_t row_of_output(std::int64_t o, const std::vector<Extents>& runs) {
  std::vector<std::int64_t> counts{0};
  for (const Extents& run : runs) counts.push_back(run.rows);
  std::ranges::sort(counts);
  const auto end = std::ranges::upper_bound(counts, o);
  return end == counts.end() ? o % counts.back() : *std::prev(end) + *end - 1 - o;
}

}  // namespace

WeightFormats all_of(quern_dtype dtype) { return {dtype_name(dtype), dtype, dtype, dtype, dtype, dtype, dtype, dtype}; }

double root_mean_square(quern_dtype dtype) {
  const Tensor sample(dtype, {4, 1024});
  fill(sample, DataKind::gaussian, CounterRandom::of("size"));
  double squares = 0;
  for (const double v : sample.values()) squares += v * v;
  return std::sqrt(squares / 4096.0);
}

int add_angles(GraphBuilder& graph, std::string name, const Batch& batch, std::int64_t head, double base) {
  return graph.state(std::move(name), filled(input(QUERN_F32, {batch.capacity(), head / 2, 2}), "rotations",
                                             [head, base](const Tensor& t, const CounterRandom&) {
                                               for (std::int64_t i = 0; i < t.count() / 2; ++i) {
                                                 const double angle =
                                                     static_cast<double>(i / (head / 2)) *
                                                     std::pow(base, -2.0 * static_cast<double>(i % (head / 2)) / static_cast<double>(head));
                                                 t.set(2 * i, std::cos(angle));
                                                 t.set(2 * i + 1, std::sin(angle));
                                               }
                                             }));
}

RowValues add_row_values(GraphBuilder& graph, const Batch& batch, std::int64_t head, double base) {
  RowValues v{};
  v.position = graph.input("position", filled(input(QUERN_I32, {rows_dim}), "positions", [batch](const Tensor& t, const CounterRandom&) {
                             for (std::int64_t r = 0; r < t.count(); ++r) t.set(r, static_cast<double>(batch.first + r / batch.sequences));
                           }));
  v.slot = graph.input("row_slot", filled(input(QUERN_I32, {rows_dim}), "slots", [batch](const Tensor& t, const CounterRandom&) {
                         for (std::int64_t r = 0; r < t.count(); ++r) t.set(r, static_cast<double>(r % batch.sequences));
                       }));
  v.table = graph.state("block_table", filled(input(QUERN_I32, {batch.sequences, batch.pages_each()}), "pages",
                                              [batch](const Tensor& t, const CounterRandom&) {
                                                for (std::int64_t s = 0; s < batch.sequences; ++s)
                                                  for (std::int64_t i = 0; i < batch.pages_each(); ++i)
                                                    t.set(s * batch.pages_each() + i, static_cast<double>(page_id(batch, s, i)));
                                              }));
  v.angles = add_angles(graph, "rope", batch, head, base);
  return v;
}

int add_cache(GraphBuilder& graph, std::string name, const Batch& batch, quern_dtype dtype, std::int64_t kv_heads, std::int64_t head) {
  const std::int64_t pages = batch.pages_each() * batch.sequences;
  return graph.state(
      std::move(name),
      filled(input(dtype, {pages, kv_heads, batch.page, head}), "cache",
             [batch, kv_heads, head](const Tensor& t, const CounterRandom& random) {
               const std::int64_t units_each = head / unit_of(t.dtype()).elements;
               Tensor earlier(t.dtype(), {t.count() / head, head});
               fill(earlier, DataKind::gaussian, random);
               std::memset(t.bytes().data(), 0xff, t.bytes().size());  // NaN in floats and in the scales of blocks
               const std::uint64_t row = static_cast<std::uint64_t>(units_each) * unit_of(t.dtype()).bytes;
               for (std::int64_t s = 0; s < batch.sequences; ++s)
                 for (std::int64_t p = 0; p < batch.first; ++p)
                   for (std::int64_t h = 0; h < kv_heads; ++h) {
                     const auto at =
                         static_cast<std::uint64_t>((page_id(batch, s, p / batch.page) * kv_heads + h) * batch.page + p % batch.page) * row;
                     std::memcpy(t.bytes().data() + at, earlier.bytes().data() + at, row);
                   }
             }));
}

int add_norm_weight(GraphBuilder& graph, std::string name, std::int64_t n, quern_dtype dtype, double offset) {
  return graph.input(std::move(name),
                     filled(constant(QUERN_F32, {n}), "norm", [n, dtype, offset](const Tensor& t, const CounterRandom& random) {
                       const double mean = 1.0 / (root_mean_square(dtype) * std::sqrt(static_cast<double>(n)));
                       for (std::int64_t i = 0; i < n; ++i) t.set(i, mean * (0.5 + random.uniform(static_cast<std::uint64_t>(i))) - offset);
                     }));
}

double attention_scale(std::int64_t head) {
  return std::ldexp(1.0, -static_cast<int>(std::lround(0.5 * std::log2(static_cast<double>(head)))));
}

int add_attention(GraphBuilder& graph, const Layer& layer, const std::string& prefix, int x) {
  const ModelShape& m = layer.shape;
  const std::int64_t wide = m.heads * m.head, narrow = m.kv_heads * m.head;
  const int norm = graph.node(QUERN_OP_RMS_NORM, prefix + ".attn_norm",
                              {x, add_norm_weight(graph, prefix + ".attn_norm.weight", m.hidden, layer.formats.query)},
                              {rows_dim, m.hidden}, {{QUERN_KEY_EPSILON, m.epsilon}}, layer.activations);
  const int q = product(graph, layer, prefix + ".attn_q", norm, m.hidden, wide, layer.formats.query, m.bias);
  const int k = product(graph, layer, prefix + ".attn_k", norm, m.hidden, narrow, layer.formats.query, m.bias);
  const int v = product(graph, layer, prefix + ".attn_v", norm, m.hidden, narrow, layer.formats.value, m.bias);
  const int qh = graph.reshape(q, {rows_dim, m.heads, m.head}), kh = graph.reshape(k, {rows_dim, m.kv_heads, m.head});
  const int vh = graph.reshape(v, {rows_dim, m.kv_heads, m.head});
  std::vector<Attribute> mode;
  if (m.rope_mode != 0) mode.push_back({QUERN_KEY_MODE, static_cast<double>(m.rope_mode)});
  const int qr = graph.node(QUERN_OP_ROPE, prefix + ".rope_q", {qh, layer.rows.position, layer.rows.angles}, {rows_dim, m.heads, m.head},
                            mode, layer.activations);
  const int kr = graph.node(QUERN_OP_ROPE, prefix + ".rope_k", {kh, layer.rows.position, layer.rows.angles}, {rows_dim, m.kv_heads, m.head},
                            mode, layer.activations);
  const int keys = add_cache(graph, prefix + ".k_cache", layer.batch, layer.cache, m.kv_heads, m.head);
  const int values = add_cache(graph, prefix + ".v_cache", layer.batch, layer.cache, m.kv_heads, m.head);
  graph.node_into(QUERN_OP_KV_WRITE, {kr, layer.rows.table, layer.rows.slot, layer.rows.position}, {keys});
  graph.node_into(QUERN_OP_KV_WRITE, {vh, layer.rows.table, layer.rows.slot, layer.rows.position}, {values});
  std::vector<Attribute> attention = {{QUERN_KEY_SCALE, attention_scale(m.head)}};
  if (layer.window > 0) attention.push_back({QUERN_KEY_WINDOW, static_cast<double>(layer.window)});
  const int attended =
      graph.node(QUERN_OP_ATTENTION, prefix + ".attention", {qr, keys, values, layer.rows.table, layer.rows.slot, layer.rows.position},
                 {rows_dim, m.heads, m.head}, attention, layer.activations);
  int joined = graph.reshape(attended, {rows_dim, wide});
  const std::int64_t dim = layer.dim_behind_attention();
  if (layer.early_outputs != no_value) {
    joined = graph.node(QUERN_OP_GET_ROWS, prefix + ".output_heads", {joined, layer.early_outputs}, {dim, wide}, {}, layer.activations);
    x = graph.node(QUERN_OP_GET_ROWS, prefix + ".output_rows", {x, layer.early_outputs}, {dim, m.hidden}, {}, layer.activations);
  }
  const int projected = product(graph, layer, prefix + ".attn_output", joined, wide, m.hidden, layer.formats.output, false, dim);
  return graph.node(QUERN_OP_ADD, prefix + ".attn_sum", {x, projected}, {dim, m.hidden}, {}, layer.activations);
}

int add_feed_forward(GraphBuilder& graph, const Layer& layer, const std::string& prefix, int x) {
  const ModelShape& m = layer.shape;
  const std::int64_t dim = layer.dim_behind_attention();
  const int norm = graph.node(QUERN_OP_RMS_NORM, prefix + ".ffn_norm",
                              {x, add_norm_weight(graph, prefix + ".ffn_norm.weight", m.hidden, layer.formats.gate)}, {dim, m.hidden},
                              {{QUERN_KEY_EPSILON, m.epsilon}}, layer.activations);
  const int gate = product(graph, layer, prefix + ".ffn_gate", norm, m.hidden, m.ffn, layer.formats.gate, false, dim);
  const int up = product(graph, layer, prefix + ".ffn_up", norm, m.hidden, m.ffn, layer.formats.gate, false, dim);
  const int active = graph.node(QUERN_OP_GLU, prefix + ".ffn_act", {gate, up}, {dim, m.ffn}, {}, layer.activations);
  const int down = product(graph, layer, prefix + ".ffn_down", active, m.ffn, m.hidden, layer.formats.down, false, dim);
  return graph.node(QUERN_OP_ADD, prefix + ".ffn_sum", {x, down}, {dim, m.hidden}, {}, layer.activations);
}

int add_tokens(GraphBuilder& graph, std::int64_t vocab) {
  return graph.input("token", filled(input(QUERN_I32, {rows_dim}), "tokens", [vocab](const Tensor& t, const CounterRandom& random) {
                       for (std::int64_t i = 0; i < t.count(); ++i)
                         t.set(i, static_cast<double>(random.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocab))));
                     }));
}

int add_output_rows(GraphBuilder& graph) {
  return graph.input("output_row",
                     filled(input(QUERN_I32, {outputs_dim}), "rows", [runs = graph.runs()](const Tensor& t, const CounterRandom&) {
                       for (std::int64_t o = 0; o < t.count(); ++o) t.set(o, static_cast<double>(row_of_output(o, runs)));
                     }));
}

void add_head(GraphBuilder& graph, const ModelShape& m, const WeightFormats& formats, int x, int table) {
  const int normed = graph.node(QUERN_OP_RMS_NORM, "output_norm", {x, add_norm_weight(graph, "output_norm.weight", m.hidden, formats.head)},
                                {outputs_dim, m.hidden}, {{QUERN_KEY_EPSILON, m.epsilon}});
  const int head = table != no_value ? table : graph.weight("output.weight", formats.head, {m.vocab, m.hidden});
  const int logits = graph.node(QUERN_OP_MATMUL, "output", {normed, head}, {outputs_dim, m.vocab});
  graph.output(logits);
  const int best = graph.internal("best", QUERN_I32, {outputs_dim});
  graph.output(best);
  graph.node_into(QUERN_OP_ARGMAX, {logits}, {best});
}

}  // namespace quern::conformance
