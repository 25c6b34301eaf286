// Logits to tokens. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

/// index i32 [...]: the position of the largest of each row of x [..., n], n >= 1, f32, f16 or bf16; ties to the lowest; NaN
/// counts as -inf; 0 where nothing else is there.
ValueId argmax(Graph& graph, ValueId x, NodeOptions options = {});

struct Sorted {
  ValueId value, index;
};
/// value f32 and index i32 [..., k]: the k largest of each row of x f32 [..., n], best first, ties to the lowest index.
Sorted top_k(Graph& graph, ValueId x, std::int64_t k, NodeOptions options = {});
/// value f32 and index i32 like x f32 [..., n]: a stable sort of each row.
Sorted sort(Graph& graph, ValueId x, bool descending = true, NodeOptions options = {});

/// For each token in the last `window` of a row's history, with c its count there: x / repeat if x > 0, else x * repeat; then
/// - frequency * c - presence. Settings as in sample.
///
///   x            [s, n]  f32 logits
///   history      [s, h]  i32
///   history_len  [s]     i32
///   params       [s, 8]  f32
ValueId penalize(Graph& graph, ValueId x, ValueId history, ValueId history_len, ValueId params, NodeOptions options = {});

/// y[token] = x[token] + bias; token i32 and bias f32 [s, m], token -1 skips; x and y f32 [s, n].
ValueId logit_bias(Graph& graph, ValueId x, ValueId token, ValueId bias, NodeOptions options = {});

/// Keeps the fewest best logits whose softmax sums to at least p f32 [s], the best always; the others are -inf. p >= 1 keeps
/// all. x and y f32 [s, n].
ValueId top_p_mask(Graph& graph, ValueId x, ValueId p, NodeOptions options = {});
/// Keeps logits whose probability is at least p f32 [s] times that of the best; the others are -inf.
ValueId min_p_mask(Graph& graph, ValueId x, ValueId p, NodeOptions options = {});
/// Keeps the k i32 [s] best logits, ties at the edge to the lowest index; k <= 0 keeps all; the others are -inf.
ValueId top_k_mask(Graph& graph, ValueId x, ValueId k, NodeOptions options = {});

struct Sampled {
  ValueId token, logprob;
};
/// One token a row: top-k, top-p, min-p, temperature, then a draw from the kept tokens, best to worst, with
/// u = philox4x32-10(counter (step, 0, 0, 0), key seed) word 0, as (w + 0.5) / 2^32; temperature 0 is argmax.
///
///   x        [s, n]  f32 logits
///   params   [s, 8]  f32: temperature, top_k, top_p, min_p, repeat, presence, frequency, window
///   seed     [s, 2]  u32
///   step     [s]     i32
///   token    [s]     i32
///   logprob  [s]     f32: of the token under softmax(x), before any filter
///
/// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", for Philox.
Sampled sample(Graph& graph, ValueId x, ValueId params, ValueId seed, ValueId step, NodeOptions options = {});

/// y f32 [shape]: y[i] = (philox4x32-10(counter (i / 4, step, salt, 0), key seed) word i % 4 + 0.5) / 2^32. seed u32 [2], step
/// i32 [1], salt in 32 bits.
ValueId random_uniform(Graph& graph, Shape shape, ValueId seed, ValueId step, std::int64_t salt = 0, NodeOptions options = {});

struct Accepted {
  ValueId token, count;
};
/// token i32 [s, k + 1] and count i32 [s]: the longest prefix of draft [s, k] that equals target [s, k + 1], then target's
/// next token; live i32 [s].
Accepted spec_accept(Graph& graph, ValueId draft, ValueId target, ValueId live, NodeOptions options = {});

/// ring[sequence_number % r] = token, then sequence_number is one more. token i32 [s]; sequence_number i32 [1] and ring i32
/// [r, s] are state. Returns ring.
ValueId token_publish(Graph& graph, ValueId token, ValueId sequence_number, ValueId ring, NodeOptions options = {});

}  // namespace quern::graph::ops
