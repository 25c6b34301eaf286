// See layer_step.hpp.
#include "graphs/layers/layer_step.hpp"

#include <cmath>

namespace quern::conformance {

#define QUERN_CONFORMANCE_LAYER(name) extern const LayerFamily name##_layer;
#include "graphs/layers/layers.def"
#undef QUERN_CONFORMANCE_LAYER

namespace {

constexpr double epsilon = 1e-5;

constexpr const LayerFamily* families[] = {
#define QUERN_CONFORMANCE_LAYER(name) &name##_layer,
#include "graphs/layers/layers.def"
#undef QUERN_CONFORMANCE_LAYER
};

}  // namespace

std::span<const LayerFamily* const> layer_families() { return families; }

LayerStep::LayerStep(const LayerWidths& widths, quern_dtype matrices, const Batch& of, const std::vector<std::int64_t>& counts,
                     std::uint32_t conversions)
    : graph(of.rows, counts),
      w(widths),
      format(matrices),
      batch(of),
      rows(add_row_values(graph, of, w.turned != 0 ? w.turned : w.head, 10000)) {
  graph.allow(conversions);
}

int LayerStep::product(const char* part, int a, std::int64_t n, std::int64_t k, Bias bias) {
  std::vector<int> inputs = {a, matrix(part, n, k)};
  if (bias == Bias::f32) inputs.push_back(graph.weight(name(part) + ".bias", QUERN_F32, {n}));
  return graph.node(QUERN_OP_MATMUL, name(part), std::move(inputs), {dim, n});
}

int LayerStep::norm_weight(const char* part, std::int64_t n, double offset) {
  return graph.input(name(part) + ".weight",
                     filled(constant(QUERN_F32, {n}), "near_one", [offset](const Tensor& t, const CounterRandom& random) {
                       for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, 0.5 + random.uniform(static_cast<std::uint64_t>(i)) - offset);
                     }));
}

int LayerStep::norm(const char* part, int x, double weight_offset) {
  std::vector<Attribute> attributes = {{QUERN_KEY_EPSILON, epsilon}};
  if (weight_offset != 0) attributes.push_back({QUERN_KEY_WEIGHT_OFFSET, weight_offset});
  const int weight = add_norm_weight(graph, name(part) + ".weight", w.hidden, format, weight_offset);
  return graph.node(QUERN_OP_RMS_NORM, name(part), {x, weight}, {dim, w.hidden}, std::move(attributes));
}

int LayerStep::layer_norm(const char* part, int x) {
  const int weight = add_norm_weight(graph, name(part) + ".weight", w.hidden, format);
  const int bias =
      graph.input(name(part) + ".bias", filled(constant(QUERN_F32, {w.hidden}), "small", [](const Tensor& t, const CounterRandom& random) {
                    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, (random.uniform(static_cast<std::uint64_t>(i)) - 0.5) / 64);
                  }));
  return graph.node(QUERN_OP_LAYER_NORM, name(part), {x, weight, bias}, {rows_dim, w.hidden}, {{QUERN_KEY_EPSILON, epsilon}});
}

int LayerStep::unit_norm(const char* part, int x, Dims dims, double weight_offset) {
  std::vector<Attribute> attributes = {{QUERN_KEY_EPSILON, epsilon}};
  if (weight_offset != 0) attributes.push_back({QUERN_KEY_WEIGHT_OFFSET, weight_offset});
  const int weight = norm_weight(part, dims.back(), weight_offset);
  return graph.node(QUERN_OP_RMS_NORM, name(part), {x, weight}, std::move(dims), std::move(attributes));
}

int LayerStep::add(const char* part, int a, int b, double alpha) {
  std::vector<Attribute> attributes;
  if (alpha != 1) attributes.push_back({QUERN_KEY_ALPHA, alpha});
  return graph.node(QUERN_OP_ADD, name(part), {a, b}, {rows_dim, w.hidden}, std::move(attributes));
}

int LayerStep::rope(const char* part, int x, std::int64_t heads, int mode, int angles) {
  std::vector<Attribute> attributes;
  if (mode != 0) attributes.push_back({QUERN_KEY_MODE, static_cast<double>(mode)});
  return graph.node(QUERN_OP_ROPE, name(part), {x, rows.position, angles == no_value ? rows.angles : angles}, {rows_dim, heads, w.head},
                    std::move(attributes));
}

int LayerStep::attend(int q, int k, int v, const Attending& how) {
  const int keys_cache = add_cache(graph, name("k_cache"), batch, QUERN_F16, w.kv_heads, w.head);
  const int values_cache = add_cache(graph, name("v_cache"), batch, QUERN_F16, w.kv_heads, w.head);
  graph.node_into(QUERN_OP_KV_WRITE, {k, rows.table, rows.slot, rows.position}, {keys_cache});
  graph.node_into(QUERN_OP_KV_WRITE, {v, rows.table, rows.slot, rows.position}, {values_cache});
  std::vector<Attribute> attributes = {{QUERN_KEY_SCALE, how.scale != 0 ? how.scale : attention_scale(w.head)}};
  if (how.window != 0) attributes.push_back({QUERN_KEY_WINDOW, static_cast<double>(how.window)});
  if (how.softcap != 0) attributes.push_back({QUERN_KEY_SOFTCAP, how.softcap});
  std::vector<int> inputs = {q, keys_cache, values_cache, rows.table, rows.slot, rows.position};
  if (how.sinks != no_value) inputs.insert(inputs.end(), {no_value, no_value, how.sinks});
  const int y = graph.node(QUERN_OP_ATTENTION, name("attention"), std::move(inputs), {rows_dim, w.heads, w.head}, std::move(attributes));
  return graph.reshape(y, {rows_dim, queries()});
}

int LayerStep::gated(int x, int glu_kind) {
  const int gate = product("ffn_gate", x, w.ffn, w.hidden), up = product("ffn_up", x, w.ffn, w.hidden);
  std::vector<Attribute> attributes;
  if (glu_kind != 0) attributes.push_back({QUERN_KEY_KIND, static_cast<double>(glu_kind)});
  const int active = graph.node(QUERN_OP_GLU, name("ffn_act"), {gate, up}, {rows_dim, w.ffn}, std::move(attributes));
  return product("ffn_down", active, w.hidden, w.ffn);
}

int plain_attention(LayerStep& s, int normed, Bias bias, int rope_mode, const LayerStep::Attending& how) {
  const int q = s.product("attn_q", normed, s.queries(), s.w.hidden, bias), k = s.product("attn_k", normed, s.keys(), s.w.hidden, bias);
  const int v = s.product("attn_v", normed, s.keys(), s.w.hidden, bias);
  const int qr = s.rope("rope_q", s.split(q, s.w.heads), s.w.heads, rope_mode),
            kr = s.rope("rope_k", s.split(k, s.w.kv_heads), s.w.kv_heads, rope_mode);
  return s.product("attn_output", s.attend(qr, kr, s.split(v, s.w.kv_heads), how), s.w.hidden, s.queries(), bias);
}

int add_experts(LayerStep& s, int normed, const Experts& how) {
  GraphBuilder& g = s.graph;
  const std::int64_t experts = s.w.experts, used = s.w.used, wide = s.w.hidden, ffn = s.w.ffn;
  // Logits of about unit variance, as those of products of the same norm.
  const double size = root_mean_square(s.format);
  std::vector<int> router = {normed,
                             g.input(s.name("ffn_gate_inp.weight"), filled(constant(QUERN_F32, {experts, wide}), "router",
                                                                           [size](const Tensor& t, const CounterRandom& r) {
                                                                             for (std::int64_t i = 0; i < t.count(); ++i)
                                                                               t.set(i, size * r.gaussian(static_cast<std::uint64_t>(i)));
                                                                           }))};
  if (how.biases) router.push_back(g.weight(s.name("ffn_gate_inp.bias"), QUERN_F32, {experts}));
  const int logits = g.node(QUERN_OP_MATMUL, s.name("ffn_gate_inp"), std::move(router), {rows_dim, experts});
  const int id = g.internal(s.name("ffn_chosen"), QUERN_I32, {rows_dim, used}),
            weight = g.internal(s.name("ffn_weight"), QUERN_F32, {rows_dim, used});
  g.output(id);
  g.node_into(QUERN_OP_MOE_ROUTER, {logits}, {id, weight}, {{QUERN_KEY_USED, static_cast<double>(used)}});
  const int token = g.reshape(normed, {rows_dim, 1, wide});
  // The op set adds no row of a table to what an expert gave: a product of one with the chosen expert's bias as its only column does.
  const int one = how.biases ? g.input(s.name("one"), filled(input(QUERN_F32, {rows_dim, 1, 1}), "one",
                                                             [](const Tensor& t, const CounterRandom&) {
                                                               for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, 1);
                                                             }))
                             : no_value;
  const auto expert = [&](const char* part, int a, std::int64_t n, std::int64_t k) {
    const int y = g.node(QUERN_OP_MATMUL_ID, s.name(part), {a, g.weight(s.name(part) + ".weight", s.format, {experts, n, k}), id},
                         {rows_dim, used, n});
    if (!how.biases) return y;
    const int bias = g.node(QUERN_OP_MATMUL_ID, s.name(part) + ".chosen_bias",
                            {one, g.weight(s.name(part) + ".bias", QUERN_F32, {experts, n, 1}), id}, {rows_dim, used, n});
    return g.node(QUERN_OP_ADD, s.name(part) + ".biased", {y, bias}, {rows_dim, used, n});
  };
  const int gate = expert("ffn_gate_exps", token, ffn, wide), up = expert("ffn_up_exps", token, ffn, wide);
  const int active = g.node(QUERN_OP_GLU, s.name("ffn_act_exps"), {gate, up}, {rows_dim, used, ffn}, how.glu);
  return g.node(QUERN_OP_MOE_COMBINE, s.name("ffn_combined"), {expert("ffn_down_exps", active, wide, ffn), weight}, {rows_dim, wide});
}

void add_layers(LayerStep& s, const LayerFamily& family, int layers) {
  int x = s.graph.input("x", input(QUERN_F32, {rows_dim, s.w.hidden}));
  if (family.of_embeddings != nullptr) x = family.of_embeddings(s, x);
  for (int l = 0; l < layers; ++l) {
    s.prefix = "blk." + std::to_string(l);
    x = family.add(s, x, l);
  }
  s.prefix = "output";
  int wanted = x;
  if (s.graph.has_outputs()) {
    s.dim = outputs_dim;
    wanted = s.graph.node(QUERN_OP_GET_ROWS, s.name("rows"), {x, add_output_rows(s.graph)}, {s.dim, s.w.hidden});
  }
  int logits = s.product("head", s.norm("norm", wanted), s.w.head_outputs, s.w.hidden);
  if (family.behind_head != nullptr) logits = family.behind_head(s, logits);
  s.graph.output(x), s.graph.output(logits);
}

}  // namespace quern::conformance
