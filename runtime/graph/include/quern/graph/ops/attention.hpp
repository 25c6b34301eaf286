// Attention over paged and over dense keys. See ops.hpp for what holds for all ops.
#pragma once

#include "quern/graph/graph.hpp"

namespace quern::graph::ops {

/// Row t of x goes to cache[block_table[row_slot[t]][position[t] / page]][head][position[t] % page], encoded.
///
///   x            [t, kv_heads, d]            f32, f16 or bf16; any strides
///   block_table  [s, p]                      i32, page ids of each sequence
///   row_slot     [t]                         i32
///   position     [t]                         i32; -1 skips the row
///   cache        [pages, kv_heads, page, d]  f32, f16, bf16, q8_0 or q4_0; state, written in place
///
/// A page id out of range raises INDEX_RANGE and writes nothing. Returns cache.
ValueId kv_write(Graph& graph, ValueId x, ValueId block_table, ValueId row_slot, ValueId position, ValueId cache, NodeOptions options = {});

struct AttentionInputs {
  ValueId q, k_cache, v_cache, block_table, row_slot, position;
  ValueId kv_len = no_value, mask = no_value, sinks = no_value;
};

struct AttentionAttributes {
  double scale;  // > 0, of the products
  bool causal = true;
  std::int64_t window = 0;  // keys that a row sees, its own included; 0: all
  double softcap = 0;       // > 0: softcap * tanh(. / softcap), before the mask
  double max_bias = 0;      // > 0: ALiBi slopes multiply the mask
};

/// Row t sees keys j of its sequence with j <= position[t] if causal, else j < kv_len, and j > position[t] - window if there
/// is a window; query head h reads kv head h / (heads / kv_heads).
///
///   q                     [t, heads, d]                f32, f16 or bf16
///   k_cache               [pages, kv_heads, page, d]   f32, f16, bf16, q8_0 or q4_0
///   v_cache               [pages, kv_heads, page, dv]  the same list; it may differ from that of k_cache
///   block_table, row_slot, position                    as in kv_write; position -1: the row is zeros
///   kv_len                [s]    i32; needed unless causal
///   mask                  [t, kv]  f32 or f16, added; or u8, where 0 hides
///   sinks                 [heads]  f32
///   y                     [t, heads, dv]  the dtype of q
///
/// Keys that are not seen are not read into arithmetic: their slots may hold NaN. A row that sees no key is zeros.
ValueId attention(Graph& graph, const AttentionInputs& in, const AttentionAttributes& how, NodeOptions options = {});

struct AttentionDenseInputs {
  ValueId q, k, v;
  ValueId mask = no_value, sinks = no_value;
};

struct AttentionDenseAttributes {
  double scale;  // > 0
  bool causal = true;
  std::int64_t query_offset = 0;  // the key position of query 0
  std::int64_t window = 0;
  double softcap = 0;
  double max_bias = 0;
};

struct AttentionDense {
  ValueId y, lse;
};
/// Attention for training.
///
///   q      [b, t, heads, d]      f32, f16 or bf16
///   k      [b, u, kv_heads, d]   the dtype of q
///   v      [b, u, kv_heads, dv]  the dtype of q
///   mask   broadcasts to [b, heads, t, u]; f32, f16 or bf16
///   sinks  [heads]  f32
///   y      [b, t, heads, dv]  the dtype of q
///   lse    [b, t, heads]      f32: the log of the sum of exp of each row; may be skipped by NodeOptions
AttentionDense attention_dense(Graph& graph, const AttentionDenseInputs& in, const AttentionDenseAttributes& how, NodeOptions options = {});

struct AttentionGradients {
  ValueId dq, dk, dv;
};
/// Gradients of attention_dense like q, k and v; dy is like y. Recomputes the probabilities from lse.
AttentionGradients attention_backward(Graph& graph, const AttentionDenseInputs& in, const AttentionDense& forward, ValueId dy,
                                      const AttentionDenseAttributes& how, NodeOptions options = {});

struct AttentionRaggedInputs {
  ValueId q, k, v, start;
};

struct AttentionRaggedAttributes {
  double scale;  // > 0
  bool causal = true;
  std::int64_t window = 0;
  double softcap = 0;
};

struct AttentionRagged {
  ValueId y, lse;
};
/// attention_dense within each of s examples, whose rows follow one another. A row sees those of its own example, up to itself if causal.
///
///   q      [t, heads, d]      f32, f16 or bf16
///   k      [t, kv_heads, d]   the dtype of q
///   v      [t, kv_heads, dv]  the dtype of q
///   start  [s + 1]  i32: the first row of each example, and the row behind the last; from 0, never falling, at most t
///   y      [t, heads, dv]  the dtype of q
///   lse    [t, heads]      f32; may be skipped by NodeOptions
///
/// Rows from start[s] on are in no example: zeros, and an lse of -inf. A start that is not as said: all rows are, and INDEX_RANGE.
AttentionRagged attention_ragged(Graph& graph, const AttentionRaggedInputs& in, const AttentionRaggedAttributes& how,
                                 NodeOptions options = {});

/// Gradients of attention_ragged like q, k and v; dy is like y.
AttentionGradients attention_ragged_backward(Graph& graph, const AttentionRaggedInputs& in, const AttentionRagged& forward, ValueId dy,
                                             const AttentionRaggedAttributes& how, NodeOptions options = {});

/// cache[page_to[i]] = cache[page_from[i]] for whole pages; the pairs are disjoint. cache as in kv_write; page ids [n] i32.
ValueId kv_copy(Graph& graph, ValueId cache, ValueId page_from, ValueId page_to, NodeOptions options = {});

/// Moves position from[i] of sequence row_slot[i] to to[i], in the order of i. cache and block_table as in kv_write; the
/// others [n] i32.
ValueId kv_move(Graph& graph, ValueId cache, ValueId block_table, ValueId row_slot, ValueId from, ValueId to, NodeOptions options = {});

}  // namespace quern::graph::ops
