// Values that are written in place between the node that reads them and the product, or attention, that a fused kernel does that node in.
//
// OPS.md allows it of elementwise, activation, norm and rope ops. Who defers a read has to look for such a write; each pattern here is one kind
// of read that plugins defer, or of writing that they bring forward.
#include "graphs/composite.hpp"

namespace quern::conformance::composite {
namespace {

/// A value that a node made, so that others may write it.
int made(Composite& c, std::int64_t n = wide) { return c.add(c.rows(n), c.rows(n), n); }

void add_norm_patterns(std::vector<Pattern>& patterns) {
  patterns.push_back({"norm_input_is_written",
                      [](Composite& c) {  // a parallel block with its residual in place
                        const int x = made(c), normed = c.norm(x), sum = c.add_in_place(x, c.rows(wide));
                        c.output(c.product(normed, 96)), c.output(c.product(sum, 64));
                      },
                      false, true});
  patterns.push_back({"norm_input_is_written_between_products",
                      [](Composite& c) {
                        const int x = made(c), normed = c.norm(x), first = c.product(normed, wide),
                                  sum = c.add_in_place(x, c.product(c.rows(wide), wide));
                        c.output(first), c.output(c.product(normed, 96)), c.output(c.product(sum, 64));
                      },
                      false, true});
  patterns.push_back({"norm_input_is_written_before_gate_and_up",
                      [](Composite& c) {
                        const int x = made(c), normed = c.norm(x), sum = c.add_in_place(x, c.rows(wide)), gate = c.product(normed, ffn),
                                  up = c.product(normed, ffn);
                        c.output(c.add(sum, c.product(c.glu(gate, up), wide, ffn)));
                      },
                      false, true});
  patterns.push_back({"norm_in_place",
                      [](Composite& c) {  // products before and behind it have one memory
                        const int x = made(c), first = c.product(x, 64), normed = c.graph.in_place("normed", x);
                        c.graph.node_into(QUERN_OP_RMS_NORM, {x, add_norm_weight(c.graph, "weight", wide, c.format)}, {normed},
                                          {{QUERN_KEY_EPSILON, epsilon}});
                        c.output(first), c.output(c.product(normed, 96));
                      },
                      false, true});
}

void add_product_patterns(std::vector<Pattern>& patterns) {
  patterns.push_back({"products_around_a_write",
                      [](Composite& c) {  // of one memory with two contents
                        const int x = made(c), first = c.product(x, 64), sum = c.add_in_place(x, c.rows(wide));
                        c.output(first), c.output(c.product(sum, 64));
                      },
                      false, true});
  patterns.push_back({"three_products_around_writes",
                      [](Composite& c) {  // as queries, keys and values have one operand
                        const int x = made(c), first = c.product(x, wide), once = c.add_in_place(x, c.rows(wide)),
                                  second = c.product(once, 128);
                        const int twice = c.add_in_place(once, c.rows(wide));
                        c.output(first), c.output(second), c.output(c.product(twice, 128));
                      },
                      false, true});
  patterns.push_back({"gate_and_up_around_a_write",
                      [](Composite& c) {
                        const int x = made(c), gate = c.product(x, ffn), sum = c.add_in_place(x, c.rows(wide)), up = c.product(sum, ffn);
                        c.output(c.product(c.glu(gate, up), wide, ffn));
                      },
                      false, true});
  patterns.push_back({"gate_is_written_before_down",
                      [](Composite& c) {
                        const int x = c.rows(wide), gate = c.product(x, ffn), up = c.product(x, ffn), active = c.glu(gate, up),
                                  later = c.add_in_place(gate, c.rows(ffn));
                        c.output(c.product(active, wide, ffn)), c.output(c.product(later, 64, ffn));
                      },
                      false, true});
  patterns.push_back({"up_is_written_before_down",
                      [](Composite& c) {
                        const int gate = made(c, ffn), up = made(c, ffn), active = c.glu(gate, up), later = c.add_in_place(up, c.rows(ffn));
                        c.output(c.product(active, wide, ffn)), c.output(c.product(later, 64, ffn));
                      },
                      false, true});
  patterns.push_back({"glu_in_place",
                      [](Composite& c) {
                        const int x = c.rows(wide), gate = c.product(x, ffn), up = c.product(x, ffn),
                                  active = c.graph.in_place("active", gate);
                        c.graph.node_into(QUERN_OP_GLU, {gate, up}, {active});
                        c.output(c.product(active, wide, ffn));
                      },
                      false, true});
  patterns.push_back({"residual_is_read_before_it_is_written",
                      [](Composite& c) {  // its sum may not come as early as its product does
                        const int x = made(c), product = c.product(c.rows(wide), wide), between = c.product(x, 64),
                                  sum = c.add_in_place(x, product);
                        c.output(between), c.output(c.product(c.norm(sum), 64));
                      },
                      false, true});
  patterns.push_back({"residual_is_written_before_the_sum",
                      [](Composite& c) {
                        const int x = made(c), product = c.product(c.rows(wide), wide), later = c.add_in_place(x, c.rows(wide));
                        c.output(c.add(later, product));
                      },
                      false, true});
}

/// A sum in the memory of a third value, which a product that takes the sum over would write before others have read it.
int sum_over(Composite& c, int memory, int a, int b) {
  const int sum = c.graph.in_place(c.next("sum"), memory);
  c.graph.node_into(QUERN_OP_ADD, {a, b}, {sum});
  return sum;
}

void add_sum_patterns(std::vector<Pattern>& patterns) {
  patterns.push_back({"sum_over_the_operand_of_its_product",
                      [](Composite& c) {
                        const int x = made(c), product = c.product(x, wide), sum = sum_over(c, x, product, c.rows(wide));
                        c.output(c.product(sum, 64));
                      },
                      false, true});
  patterns.push_back({"sum_over_the_norm_input_of_its_product",
                      [](Composite& c) {
                        const int x = made(c), product = c.product(c.norm(x), wide), sum = sum_over(c, x, product, c.rows(wide));
                        c.output(c.product(sum, 64));
                      },
                      false, true});
  patterns.push_back({"sum_over_a_norm_input_that_a_later_product_reads",
                      [](Composite& c) {
                        const int x = made(c), normed = c.norm(x), first = c.product(normed, wide), other = c.product(c.rows(wide), wide),
                                  last = c.product(normed, 96), sum = sum_over(c, x, other, first);
                        c.output(last), c.output(c.product(sum, 64));
                      },
                      false, true});
  patterns.push_back({"sum_over_a_gate_that_down_reads",
                      [](Composite& c) {
                        const int gate = made(c, ffn), up = made(c, ffn), active = c.glu(gate, up), other = c.product(c.rows(wide), ffn),
                                  down = c.product(active, wide, ffn), sum = sum_over(c, gate, other, c.rows(ffn));
                        c.output(down), c.output(c.product(sum, 64, ffn));
                      },
                      false, true});
}

/// What is written between the rotations and cache writes of a layer and its attention.
enum class Written { queries, keys, values };

int rotated(Composite& c, const RowValues& rows, const char* name, int x, std::int64_t of_heads) {
  return c.graph.node(QUERN_OP_ROPE, name, {x, rows.position, rows.angles}, {rows_dim, of_heads, head});
}

int attention(Composite& c, const RowValues& rows, const char* name, int q, int keys, int values) {
  return c.graph.node(QUERN_OP_ATTENTION, name, {q, keys, values, rows.table, rows.slot, rows.position}, {rows_dim, heads, head},
                      {{QUERN_KEY_SCALE, 0.125}});
}

void write_before_attention(Composite& c, Written what, bool early) {
  const Batch batch{"rows", c.graph.rows(), 1, 9};
  const RowValues rows = add_row_values(c.graph, batch, head, 10000);
  const int x = c.norm(c.rows(wide));
  const int q = c.product(x, wide), k = c.product(x, kv_heads * head), v = c.product(x, kv_heads * head);
  const auto split = [&](int value, std::int64_t of_heads) { return c.graph.reshape(value, {rows_dim, of_heads, head}); };
  const int keys = add_cache(c.graph, "k_cache", batch, QUERN_F16, kv_heads, head),
            values = add_cache(c.graph, "v_cache", batch, QUERN_F16, kv_heads, head);
  int later = no_value;
  const auto write = [&] {
    if (what == Written::queries) later = c.add_in_place(q, c.rows(wide));
    if (what == Written::keys) later = c.add_in_place(k, c.rows(kv_heads * head));
    if (what == Written::values) later = c.add_in_place(v, c.rows(kv_heads * head));
  };
  if (what == Written::values) c.graph.node_into(QUERN_OP_KV_WRITE, {split(v, kv_heads), rows.table, rows.slot, rows.position}, {values});
  const int qr = rotated(c, rows, "rope_q", split(q, heads), heads), kr = rotated(c, rows, "rope_k", split(k, kv_heads), kv_heads);
  if (early) write();  // before the last of the nodes that one kernel does
  c.graph.node_into(QUERN_OP_KV_WRITE, {kr, rows.table, rows.slot, rows.position}, {keys});
  if (what != Written::values) c.graph.node_into(QUERN_OP_KV_WRITE, {split(v, kv_heads), rows.table, rows.slot, rows.position}, {values});
  if (!early) write();
  c.output(c.product(c.graph.reshape(attention(c, rows, "attention", qr, keys, values), {rows_dim, wide}), wide));
  c.output(c.product(later, 32, what == Written::queries ? wide : kv_heads * head, QUERN_F16));
}

/// Attention that reads the caches before the attention whose queries are rotated does.
void read_caches_twice(Composite& c) {
  const Batch batch{"rows", c.graph.rows(), 1, 9};
  const RowValues rows = add_row_values(c.graph, batch, head, 10000);
  const int x = c.norm(c.rows(wide)), q = c.graph.reshape(c.product(x, wide), {rows_dim, heads, head});
  const int k = c.graph.reshape(c.product(x, kv_heads * head), {rows_dim, kv_heads, head}),
            v = c.graph.reshape(c.product(x, kv_heads * head), {rows_dim, kv_heads, head});
  const int keys = add_cache(c.graph, "k_cache", batch, QUERN_F16, kv_heads, head),
            values = add_cache(c.graph, "v_cache", batch, QUERN_F16, kv_heads, head);
  const int plain = c.graph.input("plain_q", input(QUERN_F32, {rows_dim, heads, head}));
  const int qr = rotated(c, rows, "rope_q", q, heads), kr = rotated(c, rows, "rope_k", k, kv_heads);
  c.graph.node_into(QUERN_OP_KV_WRITE, {kr, rows.table, rows.slot, rows.position}, {keys});
  c.graph.node_into(QUERN_OP_KV_WRITE, {v, rows.table, rows.slot, rows.position}, {values});
  c.output(attention(c, rows, "attention_first", plain, keys, values));
  c.output(attention(c, rows, "attention", qr, keys, values));
}

void rope_in_place(Composite& c) {
  const Batch batch{"rows", c.graph.rows(), 1, 9};
  const RowValues rows = add_row_values(c.graph, batch, head, 10000);
  const int x = c.norm(c.rows(wide)), q = c.graph.reshape(c.product(x, wide), {rows_dim, heads, head});
  const int k = c.graph.reshape(c.product(x, kv_heads * head), {rows_dim, kv_heads, head}),
            v = c.graph.reshape(c.product(x, kv_heads * head), {rows_dim, kv_heads, head});
  const int keys = add_cache(c.graph, "k_cache", batch, QUERN_F16, kv_heads, head),
            values = add_cache(c.graph, "v_cache", batch, QUERN_F16, kv_heads, head);
  const int qr = c.graph.in_place("rope_q", q), kr = c.graph.in_place("rope_k", k);
  c.graph.node_into(QUERN_OP_ROPE, {q, rows.position, rows.angles}, {qr});
  c.graph.node_into(QUERN_OP_ROPE, {k, rows.position, rows.angles}, {kr});
  c.graph.node_into(QUERN_OP_KV_WRITE, {kr, rows.table, rows.slot, rows.position}, {keys});
  c.graph.node_into(QUERN_OP_KV_WRITE, {v, rows.table, rows.slot, rows.position}, {values});
  c.output(c.product(c.graph.reshape(attention(c, rows, "attention", qr, keys, values), {rows_dim, wide}), wide));
}

/// A sum over queries that could come as early as its product, before they are rotated.
void add_over_queries(Composite& c) {
  const Batch batch{"rows", c.graph.rows(), 1, 9};
  const RowValues rows = add_row_values(c.graph, batch, head, 10000);
  const int x = c.norm(c.rows(wide)), product = c.product(x, wide),
            k = c.graph.reshape(c.product(x, kv_heads * head), {rows_dim, kv_heads, head}),
            v = c.graph.reshape(c.product(x, kv_heads * head), {rows_dim, kv_heads, head});
  const int keys = add_cache(c.graph, "k_cache", batch, QUERN_F16, kv_heads, head),
            values = add_cache(c.graph, "v_cache", batch, QUERN_F16, kv_heads, head);
  const int q = c.graph.reshape(product, {rows_dim, heads, head});
  const int qr = rotated(c, rows, "rope_q", q, heads), other = c.product(c.rows(wide), wide), kr = rotated(c, rows, "rope_k", k, kv_heads);
  c.graph.node_into(QUERN_OP_KV_WRITE, {kr, rows.table, rows.slot, rows.position}, {keys});
  c.graph.node_into(QUERN_OP_KV_WRITE, {v, rows.table, rows.slot, rows.position}, {values});
  const int sum = sum_over(c, product, other, c.rows(wide));
  c.output(attention(c, rows, "attention", qr, keys, values)), c.output(c.product(sum, 32));
}

/// A sum that could come as early as its product, before the queries that it reads are rotated.
void add_queries_to_product(Composite& c) {
  const Batch batch{"rows", c.graph.rows(), 1, 9};
  const RowValues rows = add_row_values(c.graph, batch, head, 10000);
  const int x = c.norm(c.rows(wide)), q = c.graph.reshape(c.product(x, wide), {rows_dim, heads, head});
  const int k = c.graph.reshape(c.product(x, kv_heads * head), {rows_dim, kv_heads, head}),
            v = c.graph.reshape(c.product(x, kv_heads * head), {rows_dim, kv_heads, head});
  const int keys = add_cache(c.graph, "k_cache", batch, QUERN_F16, kv_heads, head),
            values = add_cache(c.graph, "v_cache", batch, QUERN_F16, kv_heads, head);
  const int qr = rotated(c, rows, "rope_q", q, heads), other = c.product(c.rows(wide), wide), kr = rotated(c, rows, "rope_k", k, kv_heads);
  c.graph.node_into(QUERN_OP_KV_WRITE, {kr, rows.table, rows.slot, rows.position}, {keys});
  c.graph.node_into(QUERN_OP_KV_WRITE, {v, rows.table, rows.slot, rows.position}, {values});
  c.output(c.add(c.graph.reshape(qr, {rows_dim, wide}), other));
  c.output(attention(c, rows, "attention", qr, keys, values));
}

void add_attention_patterns(std::vector<Pattern>& patterns) {
  patterns.push_back({"queries_are_written_before_attention", [](Composite& c) { write_before_attention(c, Written::queries, false); },
                      false, true});
  patterns.push_back({"keys_are_written_before_attention", [](Composite& c) { write_before_attention(c, Written::keys, false); }, false,
                      true});
  patterns.push_back({"values_are_written_before_attention", [](Composite& c) { write_before_attention(c, Written::values, false); }, false,
                      true});
  patterns.push_back({"queries_are_written_before_cache_writes", [](Composite& c) { write_before_attention(c, Written::queries, true); },
                      false, true});
  patterns.push_back({"keys_are_written_before_cache_writes", [](Composite& c) { write_before_attention(c, Written::keys, true); }, false,
                      true});
  patterns.push_back({"values_are_written_before_keys_are_cached", [](Composite& c) { write_before_attention(c, Written::values, true); },
                      false, true});
  patterns.push_back({"caches_are_read_before_attention", read_caches_twice, false, true});
  patterns.push_back({"rope_in_place", rope_in_place, false, true});
  patterns.push_back({"sum_with_rotated_queries", add_queries_to_product, false, true});
  patterns.push_back({"sum_over_queries_before_they_are_rotated", add_over_queries, false, true});
}

/// Penalties and biases of logits that are written before the token is drawn.
void add_draw_pattern(std::vector<Pattern>& patterns) {
  patterns.push_back(
      {"logits_are_written_before_the_draw",
       [](Composite& c) {
         GraphBuilder& g = c.graph;
         const auto numbers = [&](const char* name, quern_dtype dtype, Dims dims, std::function<double(std::int64_t)> of) {
           return g.input(name, filled(input(dtype, std::move(dims)), name, [of = std::move(of)](const Tensor& t, const CounterRandom&) {
                            for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, of(i));
                          }));
         };
         const int logits = c.product(c.norm(c.rows(wide)), vocab);
         const int history =
             numbers("history", QUERN_I32, {rows_dim, 8}, [](std::int64_t i) { return static_cast<double>(i * 37 % vocab); });
         const int length = numbers("history_len", QUERN_I32, {rows_dim}, [](std::int64_t) { return 8.0; });
         static constexpr double of_row[8] = {0.75, 40, 0.9375, 0.03125, 1.25, 0.5, 0.25, 16};
         const int params = numbers("params", QUERN_F32, {rows_dim, 8}, [](std::int64_t i) { return of_row[i % 8]; });
         const int token =
             numbers("bias_token", QUERN_I32, {rows_dim, 2}, [](std::int64_t i) { return static_cast<double>(i * 11 % vocab); });
         const int bias = g.input("bias", input(QUERN_F32, {rows_dim, 2}));
         const int seed = numbers("seed", QUERN_U32, {rows_dim, 2}, [](std::int64_t i) { return static_cast<double>(i * 7919 + 17); });
         const int step = numbers("step", QUERN_I32, {rows_dim}, [](std::int64_t i) { return static_cast<double>(i * 3); });
         const int penalised = g.node(QUERN_OP_PENALIZE, "penalized", {logits, history, length, params}, {rows_dim, vocab});
         const int later = c.add_in_place(logits, c.rows(vocab));
         const int biased = g.node(QUERN_OP_LOGIT_BIAS, "biased", {penalised, token, bias}, {rows_dim, vocab});
         const int drawn = g.internal("token", QUERN_I32, {rows_dim}), logprob = g.internal("logprob", QUERN_F32, {rows_dim});
         g.node_into(QUERN_OP_SAMPLE, {biased, params, seed, step}, {drawn, logprob});
         c.output(biased), c.output(drawn), c.output(logprob), c.output(c.product(later, 32, vocab));
       },
       false, true});
}

}  // namespace

void add_overwritten_patterns(std::vector<Pattern>& patterns) {
  add_norm_patterns(patterns);
  add_product_patterns(patterns);
  add_sum_patterns(patterns);
  add_attention_patterns(patterns);
  add_draw_pattern(patterns);
}

}  // namespace quern::conformance::composite
