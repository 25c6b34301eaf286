// What the families of attention over dense keys share: shapes, inputs, and which keys a query sees.
#pragma once

#include "ops/attention_reference.hpp"
#include "ops/given.hpp"

#include <functional>
#include <optional>
#include <stdexcept>

namespace quern::conformance {

enum class DenseMask { none, additive, floor, boolean };  // -inf strewn; the dtype's least number strewn; u8

struct DenseShape {
  std::int64_t batch = 1, queries = 5, keys = 5, heads = 4, kv_heads = 2, d = 32, dv = 32;
  quern_dtype dtype = QUERN_F32;
  bool causal = true, sinks = false, lse = true;
  std::int64_t offset = 0, window = 0;
  double scale = 0, softcap = 0, max_bias = 0;  // scale 0: a power of two near 1 / sqrt(d), which f32 has
  DenseMask mask = DenseMask::none;
  quern_dtype mask_dtype = QUERN_F32;
  int mask_rank = 2;  // 1: [1, u]; 2: [t, u]; 3: [heads, t, u]; 4: [b, 1, t, u]
  DataKind data = DataKind::gaussian;
  Layout layout, y_layout;  // of q, k and v; of y
};

/// q, k and v. Keys that no query sees are NaN; values that some queries do not see have 1000 added, where data is gaussian.
void add_dense_inputs(Case& c, const DenseShape& s);
/// The mask and the sinks, absent ones only where something follows.
void add_mask_and_sinks(Case& c, const DenseShape& s);
void add_dense_attributes(Case& c, const DenseShape& s);

/// The matrix that forward and gradient cross: dtypes, GQA, head sizes, causal offsets, windows, softcaps, masks, ALiBi, sinks, sizes
/// beside the tile of 64, rows that see nothing.
void each_dense_shape(const std::function<void(Profile, const DenseShape&)>& add);

/// Throws UnseenRead where a reference gave NaN, and so read a key that no query sees.
void refuse_unseen(const Expected& expected, const char* op);

/// The inputs of a call as the reference reads them.
class DenseAttention {
 public:
  /// `mask` and `sinks`: where the call has them.
  DenseAttention(const ReferenceCall& call, std::size_t mask, std::size_t sinks);
  /// Rows of packed examples, [t, heads, d], as one batch; `start`: where the call has it.
  DenseAttention(const ReferenceCall& call, std::size_t start);

  AttentionRules rules() const { return attention_rules(call_, call_.inputs[0], call_.inputs[1]); }
  std::int64_t batch() const noexcept { return batch_; }
  std::int64_t queries() const noexcept { return queries_; }
  std::int64_t heads() const noexcept { return heads_; }
  std::int64_t key_size() const noexcept { return d_; }
  std::int64_t value_size() const noexcept { return dv_; }
  std::int64_t row_index(std::int64_t batch, std::int64_t query, std::int64_t head) const noexcept {
    return (batch * queries_ + query) * heads_ + head;
  }
  std::int64_t key_row(std::int64_t batch, std::int64_t key, std::int64_t head) const noexcept {
    return (batch * keys_ + key) * kv_heads_ + head / (heads_ / kv_heads_);
  }
  const double* query(std::int64_t batch, std::int64_t query, std::int64_t head) const {
    return q_.data() + row_index(batch, query, head) * d_;
  }
  const double* key(std::int64_t batch, std::int64_t key, std::int64_t head) const { return k_.data() + key_row(batch, key, head) * d_; }
  const double* value(std::int64_t batch, std::int64_t key, std::int64_t head) const { return v_.data() + key_row(batch, key, head) * dv_; }
  std::optional<double> sink(std::int64_t head) const;

  /// The keys that a query sees, with their scores.
  void fill_row(AttentionRow& row, std::int64_t batch, std::int64_t query, std::int64_t head) const;
  template <class F>
  void each_row(const F& f) const {
    for (std::int64_t b = 0; b < batch_; ++b)
      for (std::int64_t t = 0; t < queries_; ++t)
        for (std::int64_t h = 0; h < heads_; ++h) f(b, t, h);
  }

 private:
  /// What the mask adds before the slope; nothing where it hides the key.
  std::optional<double> mask_at(std::int64_t batch, std::int64_t query, std::int64_t head, std::int64_t key) const;

  /// Rows [first, end) of the example of a row; none where the row is in no example.
  struct Example {
    std::int64_t first, end;
  };

  const ReferenceCall& call_;
  std::size_t mask_, sinks_;
  std::vector<Example> examples_;  // of each row; empty: all keys are one example
  std::int64_t batch_, queries_, keys_, heads_, kv_heads_, d_, dv_;
  std::vector<double> q_, k_, v_;
};

}  // namespace quern::conformance
