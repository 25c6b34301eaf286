// Small graphs of neighbours that plugins fuse, and of neighbours that look like those and must not be fused.
//
// 256 wide, so that every format fits. Each runs whole, without fusion, node by node, and with each of its values marked as output.
#include "graphs/composite.hpp"

#include <cmath>

namespace quern::conformance {

using namespace composite;

namespace {

void add_norm_patterns(std::vector<Pattern>& patterns) {
  patterns.push_back({"norm_matmul", [](Composite& c) { c.output(c.product(c.norm(c.rows(wide)), 96)); }});
  patterns.push_back({"norm_qkv",
                      [](Composite& c) {
                        const int x = c.norm(c.rows(wide));
                        c.output(c.product(x, wide)), c.output(c.product(x, 128)),
                            c.output(c.product(x, 128, wide, c.format == QUERN_Q4_K ? QUERN_Q6_K : c.format));
                      },
                      true});
  patterns.push_back({"norm_qkv_bias", [](Composite& c) {
                        const int x = c.norm(c.rows(wide));
                        c.output(c.product_with_bias(x, wide)), c.output(c.product(x, 37)), c.output(c.product_with_bias(x, 128));
                      }});
  patterns.push_back({"norm_of_two_roundings", [](Composite& c) {  // v wants other activations than q and k
                        const int x = c.norm(c.rows(wide));
                        c.output(c.product(x, wide, wide, QUERN_Q4_0)), c.output(c.product(x, 128, wide, QUERN_Q6_K)),
                            c.output(c.product(x, 128, wide, QUERN_F16));
                      }});
  patterns.push_back({"norm_of_numbers_and_floats", [](Composite& c) {  // codes that are whole numbers beside such as stand for floats
                        const int x = c.norm(c.rows(wide));
                        c.output(c.product(x, wide, wide, QUERN_Q4_Z128)), c.output(c.product(x, 128, wide, QUERN_F8_128)),
                            c.output(c.product(x, 64, wide, QUERN_NF4_64)), c.output(c.product(x, 96));
                      }});
  patterns.push_back({"norm_is_read_again", [](Composite& c) {
                        const int x = c.rows(wide), normed = c.norm(x), y = c.product(normed, wide);
                        c.output(c.add(normed, y));
                      }});
  patterns.push_back({"norm_between_others_rows", [](Composite& c) {  // the product reads another norm than its neighbour
                        const int x = c.rows(wide), first = c.norm(x), second = c.norm(x);
                        c.output(c.product(first, 64)), c.output(c.product(second, 64));
                      }});
  patterns.push_back({"eleven_products", [](Composite& c) {
                        const int x = c.norm(c.rows(wide));
                        for (int i = 0; i < 11; ++i) c.output(c.product(x, 16 + i));
                      }});
  patterns.push_back({"products_of_one_input", [](Composite& c) {
                        const int x = c.rows(wide);
                        c.output(c.product(x, 33)), c.output(c.product(x, 160));
                      }});
  patterns.push_back({"norm_of_wide_and_narrow_k", [](Composite& c) {
                        const int x = c.norm(c.rows(wide)), z = c.rows(ffn);
                        c.output(c.product(x, 64)), c.output(c.product(z, 64, ffn));
                      }});
}

void add_feed_forward_patterns(std::vector<Pattern>& patterns) {
  patterns.push_back({"gate_up", [](Composite& c) {
                        const int x = c.rows(wide), gate = c.product(x, ffn), up = c.product(x, ffn);
                        c.output(c.glu(gate, up));
                      }});
  patterns.push_back({"norm_gate_up_down",
                      [](Composite& c) {
                        const int x = c.norm(c.rows(wide)), gate = c.product(x, ffn), up = c.product(x, ffn);
                        c.output(c.product(c.glu(gate, up), wide, ffn));
                      },
                      true});
  patterns.push_back({"up_before_gate", [](Composite& c) {
                        const int x = c.norm(c.rows(wide)), up = c.product(x, ffn), gate = c.product(x, ffn);
                        c.output(c.glu(gate, up));
                      }});
  patterns.push_back({"gate_is_up", [](Composite& c) {
                        const int gate = c.product(c.rows(wide), ffn);
                        c.output(c.glu(gate, gate));
                      }});
  patterns.push_back({"gate_is_read_again", [](Composite& c) {
                        const int x = c.rows(wide), gate = c.product(x, ffn), up = c.product(x, ffn), y = c.glu(gate, up);
                        c.output(c.add(y, gate, ffn));
                      }});
  patterns.push_back({"gate_with_bias", [](Composite& c) {
                        const int x = c.norm(c.rows(wide)), gate = c.product_with_bias(x, ffn), up = c.product(x, ffn);
                        c.output(c.glu(gate, up));
                      }});
  patterns.push_back({"gate_and_up_of_two_formats", [](Composite& c) {
                        const int x = c.norm(c.rows(wide)), gate = c.product(x, ffn),
                                  up = c.product(x, ffn, wide, c.format == QUERN_Q4_0 ? QUERN_Q8_0 : QUERN_Q4_0);
                        c.output(c.glu(gate, up));
                      }});
  patterns.push_back({"gate_and_up_of_two_inputs", [](Composite& c) {
                        const int gate = c.product(c.rows(wide), ffn), up = c.product(c.rows(wide), ffn);
                        c.output(c.glu(gate, up));
                      }});
  for (const int kind : {1, 2, 3, 4})
    patterns.push_back({kind == 1   ? "geglu"
                        : kind == 2 ? "geglu_tanh"
                        : kind == 3 ? "reglu"
                                    : "sigmoid_glu",
                        [kind](Composite& c) {
                          const int x = c.norm(c.rows(wide)), gate = c.product(x, ffn), up = c.product(x, ffn);
                          c.output(c.glu(gate, up, {{QUERN_KEY_KIND, static_cast<double>(kind)}}));
                        }});
  patterns.push_back({"glu_with_limit", [](Composite& c) {
                        const int x = c.norm(c.rows(wide)), gate = c.product(x, ffn), up = c.product(x, ffn);
                        c.output(c.glu(gate, up, {{QUERN_KEY_ALPHA, 1.703125}, {QUERN_KEY_LIMIT, 1.5}}));
                      }});
  for (const bool swapped : {false, true})
    patterns.push_back({swapped ? "glu_of_halves_swapped" : "glu_of_halves", [swapped](Composite& c) {
                          const int both = c.product(c.norm(c.rows(wide)), 2 * ffn);
                          std::vector<Attribute> attributes;
                          if (swapped) attributes.push_back({QUERN_KEY_SWAPPED, 1});
                          c.output(c.graph.node(QUERN_OP_GLU, c.next("glu"), {both}, {rows_dim, ffn}, attributes));
                        }});
}

void add_residual_patterns(std::vector<Pattern>& patterns) {
  patterns.push_back({"product_and_residual",
                      [](Composite& c) {
                        const int x = c.rows(wide);
                        c.output(c.add(x, c.product(c.rows(ffn), wide, ffn)));
                      },
                      true});
  // All that a decoder's layer has behind attention, and the product behind its norm; the sums' sizes being one, or a power of two for each 16 neighbours.
  for (const bool far_apart : {false, true})
    patterns.push_back(
        {far_apart ? "feed_forward_of_far_sizes" : "feed_forward_between_norms", [far_apart](Composite& c) {
           const auto sizes = [](const Tensor& t, const CounterRandom& r) {
             for (std::int64_t i = 0; i < t.count(); ++i)
               t.set(i, std::ldexp(static_cast<double>(r.below(static_cast<std::uint64_t>(i), 1 << 12)) - 2047.5,
                                   static_cast<int>(i / 16 * 7 % 64) - 44));
           };
           const int x = far_apart ? c.graph.input(c.next("x"), filled(input(QUERN_F32, {rows_dim, wide}), "sizes", sizes)) : c.rows(wide);
           const int sum = c.add(x, c.product(c.rows(ffn), wide, ffn)), normed = c.norm(sum), gate = c.product(normed, ffn),
                     up = c.product(normed, ffn);
           const int layer = c.add(sum, c.product(c.glu(gate, up), wide, ffn));
           c.output(c.product(c.norm(layer), 96));
         }});
  patterns.push_back({"residual_behind_product", [](Composite& c) {
                        const int product = c.product(c.rows(wide), wide);
                        c.output(c.add(product, c.rows(wide)));
                      }});
  patterns.push_back({"product_twice", [](Composite& c) {
                        const int product = c.product(c.rows(wide), wide);
                        c.output(c.add(product, product));
                      }});
  patterns.push_back({"half_of_product", [](Composite& c) {
                        const int x = c.rows(wide);
                        c.output(c.add(x, c.product(x, wide), wide, {{QUERN_KEY_ALPHA, 0.5}}));
                      }});
  patterns.push_back({"product_plus_one_row", [](Composite& c) {
                        const int row = c.graph.input("row", input(QUERN_F32, {wide})), product = c.product(c.rows(wide), wide);
                        c.output(c.add(product, row));
                      }});
  patterns.push_back({"product_is_read_again", [](Composite& c) {
                        const int x = c.rows(wide), product = c.product(x, wide), sum = c.add(x, product);
                        c.output(c.add(sum, product));
                      }});
  patterns.push_back({"product_of_its_residual", [](Composite& c) {
                        const int x = c.rows(wide);
                        c.output(c.add(x, c.product(x, wide)));
                      }});
  patterns.push_back({"product_with_bias_and_residual", [](Composite& c) {
                        const int x = c.rows(wide);
                        c.output(c.add(x, c.product_with_bias(x, wide)));
                      }});
  patterns.push_back({"product_with_term_and_residual", [](Composite& c) {
                        const int x = c.rows(wide), z = c.rows(wide);
                        const int product =
                            c.graph.node(QUERN_OP_MATMUL, c.next("product"), {x, c.matrix(wide, wide, c.format), no_value, z},
                                         {rows_dim, wide}, {{QUERN_KEY_ALPHA, 0.5}, {QUERN_KEY_BETA, -1.5}});
                        c.output(c.add(z, product));
                      }});
  patterns.push_back({"residual_in_place", [](Composite& c) {
                        const int x = c.rows(wide), start = c.add(x, x), product = c.product(x, wide),
                                  sum = c.graph.in_place(c.next("sum"), start);
                        c.graph.node_into(QUERN_OP_ADD, {start, product}, {sum});
                        c.output(c.product(sum, 64));
                      }});
  patterns.push_back({"two_residuals", [](Composite& c) {
                        const int x = c.rows(wide), z = c.rows(wide);
                        c.output(c.add(c.add(x, c.product(z, wide)), z));
                      }});
  patterns.push_back({"sums_that_live_long", [](Composite& c) {  // values of different lifetimes share scratch
                        int x = c.rows(wide);
                        const int first = c.product(x, wide);
                        std::vector<int> kept;
                        for (int i = 0; i < 5; ++i) {
                          const int product = c.product(c.norm(x), wide);
                          x = c.add(x, product);
                          kept.push_back(product);
                        }
                        for (const int value : kept) x = c.add(x, value);
                        c.output(c.add(x, first));
                      }});
  patterns.push_back({"elementwise_chain", [](Composite& c) {
                        const int x = c.rows(wide), product = c.product(x, wide);
                        const int scaled = c.graph.node(QUERN_OP_SCALE, "scaled", {product}, {rows_dim, wide},
                                                        {{QUERN_KEY_ALPHA, 0.75}, {QUERN_KEY_BETA, 0.25}});
                        const int active = c.graph.node(QUERN_OP_SILU, "active", {scaled}, {rows_dim, wide});
                        c.output(c.add(c.graph.node(QUERN_OP_MUL, "gated", {active, x}, {rows_dim, wide}), product));
                      }});
  patterns.push_back({"add_norm_matmul", [](Composite& c) {
                        const int sum = c.add(c.rows(wide), c.rows(wide)), y = c.product(c.norm(sum), 96);
                        c.output(sum), c.output(y);
                      }});
  patterns.push_back({"fused_add_norm_matmul", [](Composite& c) {
                        const int a = c.rows(wide), b = c.rows(wide), weight = add_norm_weight(c.graph, "weight", wide, c.format);
                        const int sum = c.graph.internal("sum", QUERN_F32, {rows_dim, wide}),
                                  normed = c.graph.internal("normed", QUERN_F32, {rows_dim, wide});
                        c.graph.node_into(QUERN_OP_ADD_RMS_NORM, {a, b, weight}, {sum, normed}, {{QUERN_KEY_EPSILON, epsilon}});
                        c.output(c.add(sum, c.product(normed, wide)));
                      }});
  patterns.push_back({"product_add_norm_product", [](Composite& c) {
                        const int x = c.rows(wide), sum = c.add(x, c.product(c.rows(wide), wide));
                        c.output(c.add(sum, c.product(c.norm(sum), wide)));
                      }});
}

/// Rotations and cache writes of q, k and v given as rows.
struct CacheWrite {
  bool values_first = false, keys_again = false, neox = false, predicate = false;
  quern_dtype cache = QUERN_F16;
};

void write_caches(Composite& c, const CacheWrite& how) {
  const Batch batch{"rows", c.graph.rows(), 2, 5};
  const RowValues rows = add_row_values(c.graph, batch, head, 10000);
  const int q = c.graph.reshape(c.product(c.rows(wide), heads * head), {rows_dim, heads, head});
  const int k = c.graph.input("k", input(QUERN_F32, {rows_dim, kv_heads, head})),
            v = c.graph.input("v", input(QUERN_F32, {rows_dim, kv_heads, head}));
  std::vector<Attribute> mode;
  if (how.neox) mode.push_back({QUERN_KEY_MODE, 1});
  const int qr = c.graph.node(QUERN_OP_ROPE, "rope_q", {q, rows.position, rows.angles}, {rows_dim, heads, head}, mode);
  const int kr = c.graph.node(QUERN_OP_ROPE, "rope_k", {k, rows.position, rows.angles}, {rows_dim, kv_heads, head}, mode);
  const int keys = add_cache(c.graph, "k_cache", batch, how.cache, kv_heads, head),
            values = add_cache(c.graph, "v_cache", batch, how.cache, kv_heads, head);
  const int live =
      how.predicate
          ? c.graph.input("live", filled(input(QUERN_I32, {1}), "one", [](const Tensor& t, const CounterRandom&) { t.set(0, 1); }))
          : no_value;
  for (const bool second : {false, true}) {
    const bool is_key = second == how.values_first;
    c.graph.node_into(QUERN_OP_KV_WRITE, {is_key ? kr : v, rows.table, rows.slot, rows.position}, {is_key ? keys : values});
    if (how.predicate) c.graph.predicate(live);
  }
  c.output(qr);
  if (how.keys_again) c.output(c.graph.node(QUERN_OP_SCALE, "keys", {kr}, {rows_dim, kv_heads, head}, {{QUERN_KEY_ALPHA, 2}}));
}

void add_attention_patterns(std::vector<Pattern>& patterns) {
  patterns.push_back({"rope_kv_write", [](Composite& c) { write_caches(c, {}); }});
  patterns.push_back({"rope_kv_write_neox_q8_0", [](Composite& c) { write_caches(c, {false, false, true, false, QUERN_Q8_0}); }});
  patterns.push_back({"rope_kv_write_values_first", [](Composite& c) { write_caches(c, {true, false, false, false, QUERN_F32}); }});
  patterns.push_back({"rope_kv_write_keys_again", [](Composite& c) { write_caches(c, {false, true, false, false, QUERN_BF16}); }});
  patterns.push_back({"rope_kv_write_predicate", [](Composite& c) { write_caches(c, {false, false, false, true, QUERN_F16}); }});
  patterns.push_back(
      {"rope_of_rope", [](Composite& c) {
         const Batch batch{"rows", c.graph.rows(), 1, 3};
         const RowValues rows = add_row_values(c.graph, batch, head, 10000);
         const int x = c.graph.input("x", input(QUERN_F32, {rows_dim, kv_heads, head}));
         const int once = c.graph.node(QUERN_OP_ROPE, "once", {x, rows.position, rows.angles}, {rows_dim, kv_heads, head});
         const int twice = c.graph.node(QUERN_OP_ROPE, "twice", {once, rows.position, rows.angles}, {rows_dim, kv_heads, head});
         c.graph.node_into(QUERN_OP_KV_WRITE, {twice, rows.table, rows.slot, rows.position},
                           {add_cache(c.graph, "cache", batch, QUERN_F16, kv_heads, head)});
       }});
  patterns.push_back({"attention_projection_residual", [](Composite& c) {
                        const Batch batch{"rows", c.graph.rows(), 1, 20};
                        const RowValues rows = add_row_values(c.graph, batch, head, 10000);
                        Batch filled_cache = batch;  // every position that a row sees is there already
                        filled_cache.first = batch.capacity();
                        filled_cache.rows = 0;
                        const int keys = add_cache(c.graph, "k_cache", filled_cache, QUERN_F16, kv_heads, head),
                                  values = add_cache(c.graph, "v_cache", filled_cache, QUERN_F16, kv_heads, head);
                        const int x = c.rows(wide), q = c.graph.reshape(c.product(x, wide), {rows_dim, heads, head});
                        const int y = c.graph.node(QUERN_OP_ATTENTION, "attention", {q, keys, values, rows.table, rows.slot, rows.position},
                                                   {rows_dim, heads, head}, {{QUERN_KEY_SCALE, 0.0078125}});
                        c.output(c.add(x, c.product(c.graph.reshape(y, {rows_dim, wide}), wide)));
                      }});
  patterns.push_back({"attention_half",
                      [](Composite& c) {
                        const Batch batch{"rows", c.graph.rows(), 2, 9};
                        const RowValues rows = add_row_values(c.graph, batch, head, 10000);
                        const WeightFormats formats = all_of(c.format);
                        const Layer layer{shape, formats, batch, rows};
                        c.output(add_attention(c.graph, layer, "blk.0", c.rows(wide)));
                      },
                      true});
}

/// Beyond this many logits backends share a row out to several workgroups.
constexpr std::int64_t many_logits = 9216;

/// The sampler as sessions have it, or with its filters as nodes of their own.
void add_sampler(Composite& c, bool masks, std::int64_t vocab_size = vocab) {
  GraphBuilder& g = c.graph;
  constexpr std::int64_t rows = rows_dim;
  const int logits = c.product(c.norm(c.rows(wide)), vocab_size);
  c.output(logits);
  const auto whole = [vocab_size](const Tensor& t, const CounterRandom& r) {
    for (std::int64_t i = 0; i < t.count(); ++i)
      t.set(i, static_cast<double>(r.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocab_size))));
  };
  const int history = g.input("history", filled(input(QUERN_I32, {rows, 24}), "tokens", whole));
  const int length = g.input("history_len", filled(input(QUERN_I32, {rows}), "lengths", [](const Tensor& t, const CounterRandom&) {
                               for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, static_cast<double>(i * 7 % 25));
                             }));
  const int params =
      g.input("params", filled(input(QUERN_F32, {rows, 8}), "params", [masks](const Tensor& t, const CounterRandom&) {
                for (std::int64_t r = 0; r < t.count() / 8; ++r) {
                  const double of_row[8] = {
                      r % 3 == 0 ? 0.0 : 0.75, masks ? 0.0 : 40.0, masks ? 1.0 : 0.9375, masks ? 0.0 : 0.03125, 1.25, 0.5, 0.25, 16};
                  for (std::int64_t i = 0; i < 8; ++i) t.set(r * 8 + i, of_row[i]);
                }
              }));
  const int token = g.input("bias_token", filled(input(QUERN_I32, {rows, 3}), "tokens", [whole](const Tensor& t, const CounterRandom& r) {
                              whole(t, r);
                              for (std::int64_t row = 0; row < t.dims()[0]; ++row) t.set(row * 3 + 2, -1);
                            }));
  const int bias = g.input("bias", input(QUERN_F32, {rows, 3}));
  int x = g.node(QUERN_OP_PENALIZE, "penalized", {logits, history, length, params}, {rows, vocab_size});
  x = g.node(QUERN_OP_LOGIT_BIAS, "biased", {x, token, bias}, {rows, vocab_size});
  c.output(x);
  const auto same = [&](const char* name, quern_dtype dtype, double value) {
    return g.input(name, filled(input(dtype, {rows}), name, [value](const Tensor& t, const CounterRandom&) {
                     for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, value);
                   }));
  };
  if (masks) {
    x = g.node(QUERN_OP_TOP_K_MASK, "of_top_k", {x, same("k", QUERN_I32, 50)}, {rows, vocab_size});
    c.output(x);
    x = g.node(QUERN_OP_TOP_P_MASK, "of_top_p", {x, same("p", QUERN_F32, 0.875)}, {rows, vocab_size});
    c.output(x);
    x = g.node(QUERN_OP_MIN_P_MASK, "of_min_p", {x, same("share", QUERN_F32, 0.0625)}, {rows, vocab_size});
    c.output(x);
  }
  const int seed = g.input("seed", filled(input(QUERN_U32, {rows, 2}), "seeds", [](const Tensor& t, const CounterRandom& r) {
                             for (std::int64_t i = 0; i < t.count(); ++i)
                               t.set(i, static_cast<double>(r.below(static_cast<std::uint64_t>(i), std::uint64_t{1} << 32)));
                           }));
  const int step = g.input("step", filled(input(QUERN_I32, {rows}), "steps", [](const Tensor& t, const CounterRandom&) {
                             for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, static_cast<double>(i * 3));
                           }));
  const int drawn = g.internal("token", QUERN_I32, {rows}), logprob = g.internal("logprob", QUERN_F32, {rows});
  g.node_into(QUERN_OP_SAMPLE, {x, params, seed, step}, {drawn, logprob});
  c.output(drawn), c.output(logprob);
}

void add_head_patterns(std::vector<Pattern>& patterns) {
  patterns.push_back({"head_argmax", [](Composite& c) {
                        const int best = c.graph.internal("best", QUERN_I32, {rows_dim}), logits = c.product(c.norm(c.rows(wide)), vocab);
                        c.graph.node_into(QUERN_OP_ARGMAX, {logits}, {best});
                        c.output(best);
                      }});
  patterns.push_back({"head_sample", [](Composite& c) { add_sampler(c, false); }});
  patterns.push_back({"head_sample_of_many", [](Composite& c) { add_sampler(c, false, many_logits); }});
  patterns.push_back({"head_masks_sample", [](Composite& c) { add_sampler(c, true); }});
  patterns.push_back({"tied_table_and_head", [](Composite& c) {
                        const int table = c.matrix(vocab, wide, c.format);
                        const int token = c.graph.input(
                            "token", filled(input(QUERN_I32, {rows_dim}), "tokens", [](const Tensor& t, const CounterRandom& r) {
                              for (std::int64_t i = 0; i < t.count(); ++i)
                                t.set(i, static_cast<double>(r.below(static_cast<std::uint64_t>(i), vocab)));
                            }));
                        const int x = c.graph.node(QUERN_OP_GET_ROWS, "embedded", {table, token}, {rows_dim, wide});
                        c.output(c.graph.node(QUERN_OP_MATMUL, "logits", {c.norm(x), table}, {rows_dim, vocab}));
                      }});
}

void generate(CaseSink& sink) {
  std::vector<Pattern> patterns;
  add_norm_patterns(patterns);
  add_feed_forward_patterns(patterns);
  add_residual_patterns(patterns);
  add_attention_patterns(patterns);
  add_head_patterns(patterns);
  add_overwritten_patterns(patterns);
  // One format of each kind of kernel (floats, int8 blocks of 32, blocks of 256) has every pattern with each number of rows. In full the others
  // have every pattern too, by turns with one number of rows: what joins does not depend on the format. In quick they have the main patterns.
  const auto stands_for_its_kind = [](quern_dtype dtype) { return dtype == QUERN_F16 || dtype == QUERN_Q4_0 || dtype == QUERN_Q4_K; };
  std::vector<quern_dtype> formats(float_dtypes.begin(), float_dtypes.end());
  formats.insert(formats.end(), block_dtypes.begin(), block_dtypes.end());
  constexpr std::int64_t row_counts[] = {1, 3, 17, 40};
  for (std::size_t p = 0; p < patterns.size(); ++p)
    for (std::size_t f = 0; f < formats.size(); ++f)
      for (std::size_t r = 0; r < std::size(row_counts); ++r) {
        const Pattern& pattern = patterns[p];
        const quern_dtype format = formats[f];
        const std::int64_t rows = row_counts[r];
        const bool by_rows = rows != 40 && (pattern.every_format || pattern.by_rows) && format == QUERN_Q4_K;
        const bool quick = rows == 3 ? stands_for_its_kind(format) || pattern.every_format
                                     : by_rows || (rows == 1 && pattern.by_rows && format == QUERN_F16);
        const bool turn = (p + f) % std::size(row_counts) == r;
        if (!quick && !stands_for_its_kind(format) && !turn) continue;
        Composite c(format, rows);
        pattern.build(c);
        sink.add_graph("graphs.composite." + std::string(pattern.name) + "." + dtype_name(format) + ".rows" + std::to_string(rows),
                       c.graph.finish(quick ? Profile::quick : Profile::full, level_inference));
      }
}

}  // namespace

extern const Family composites_family;
const Family composites_family = {"composites", generate};

}  // namespace quern::conformance
