// A case of attention by its shape, for the families that derive shapes: attention's own, and models.
#pragma once

#include "ops/paged_batch.hpp"

namespace quern::conformance {

enum class AttentionMask { none, additive, floor, boolean };  // -inf strewn; the dtype's least number strewn; u8

/// Of sequence 1: which of its rows, or of its keys in the middle, holds a NaN in head 0; the others are usual. And keys of which one is far
/// above all others.
enum class AttentionHard { none, nan_q, nan_k, nan_v, infinite_v, far_k, zero_k };

struct AttentionShape {
  PagedBatch batch;
  std::int64_t heads = 4, kv_heads = 2, d = 64, dv = 64;
  quern_dtype q = QUERN_F32, k = QUERN_F16, v = QUERN_F16, y = QUERN_F32;
  AttentionMask mask = AttentionMask::none;
  quern_dtype mask_dtype = QUERN_F32;
  bool sinks = false, causal = true, lengths = false;
  std::int64_t window = 0;
  double scale = 0, softcap = 0, max_bias = 0;  // scale 0: a power of two near 1 / sqrt(d), which f32 has
  DataKind data_q = DataKind::gaussian, data_k = DataKind::gaussian, data_v = DataKind::gaussian;
  Layout q_layout, cache_layout, y_layout;
  AttentionHard hard = AttentionHard::none;
};

Case attention_case(Profile profile, const AttentionShape& shape);

struct KvWriteShape {
  PagedBatch batch;
  std::int64_t kv_heads = 2, d = 64;
  quern_dtype x = QUERN_F32, cache = QUERN_F16;
  DataKind data = DataKind::exponents;
  Layout x_layout, cache_layout;
};
Case kv_write_case(Profile profile, const KvWriteShape& shape);

}  // namespace quern::conformance
