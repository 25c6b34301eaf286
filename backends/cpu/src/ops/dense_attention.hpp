// What attention_dense and its gradient share: the checks of their tensors and which keys a query sees.
#pragma once

#include "../kernel.hpp"

#include <algorithm>
#include <cmath>

namespace quern::cpu {

/// [b, heads, t, u], which a mask broadcasts to.
inline TensorView score_shape(const TensorView& q, const TensorView& k) noexcept {
  TensorView s;
  s.rank = 4;
  s.dims[0] = q.dims[0];
  s.dims[1] = q.dims[2];
  s.dims[2] = q.dims[1];
  s.dims[3] = k.dims[1];
  return s;
}

inline Verdict check_score_mask(const OpCall& call, const TensorView& mask) {
  const TensorView shape = score_shape(call.input(0), call.input(1));
  if (!mask.present()) return Verdict::yes();
  if (!is_float(mask.dtype) && mask.dtype != QUERN_U8)
    return Verdict::no(concat("mask is ", dtype_name(mask.dtype), "; it takes f32, f16, bf16 and u8"));
  if (mask.rank < 2 || !broadcasts_to(mask, shape) || mask.dim_from_end(0) != shape.dims[3])
    return Verdict::invalid(concat("mask is ", describe(mask), ", which does not broadcast to batch, heads, queries and keys, [",
                                   shape.dims[0], ", ", shape.dims[1], ", ", shape.dims[2], ", ", shape.dims[3], "]"));
  return Verdict::yes();
}

inline Verdict check_attention_attributes(const OpCall& call) {
  constexpr std::int64_t largest_offset = std::int64_t{1} << 56;
  if (const double scale = call.real(QUERN_KEY_SCALE); !std::isfinite(scale))
    return Verdict::invalid(concat("scale is ", scale, "; it is finite"));
  if (const std::int64_t offset = call.integer(QUERN_KEY_QUERY_OFFSET); offset < 0 || offset > largest_offset)
    return Verdict::invalid(concat("query_offset is ", offset, "; it is 0 to 2^56"));
  if (const std::int64_t window = call.integer(QUERN_KEY_WINDOW); window < 0)
    return Verdict::invalid(concat("window is ", window, "; it is 0 or more"));
  if (const double cap = call.real(QUERN_KEY_SOFTCAP); !(cap >= 0))
    return Verdict::invalid(concat("softcap is ", cap, "; it is 0 or more"));
  if (const double bias = call.real(QUERN_KEY_MAX_BIAS); !(bias >= 0))
    return Verdict::invalid(concat("max_bias is ", bias, "; it is 0 or more"));
  return Verdict::yes();
}

/// A view of 4 dimensions whose heads and head size are fixed.
inline Verdict check_heads(const TensorView& view, const char* name) {
  if (Verdict e = check_floats(view, name); !e) return e;
  if (Verdict e = check_rank(view, name, 4); !e) return e;
  if ((view.ranged & 12u) != 0) return Verdict::invalid(concat(name, " is ", describe(view), "; its heads and head size are fixed"));
  return Verdict::yes();
}

/// q, k and v as inputs 0 to 2, the mask and the sinks as inputs `mask` and `sinks`, and the attributes.
inline Verdict check_dense_attention(const OpCall& call, std::size_t mask, std::size_t sinks) {
  const TensorView &q = call.input(0), &k = call.input(1), &v = call.input(2), &sink = call.input(sinks);
  for (const auto& [view, name] : {std::pair{&q, "q"}, std::pair{&k, "k"}, std::pair{&v, "v"}})
    if (Verdict e = check_heads(*view, name); !e) return e;
  if (Verdict e = check_dim(k, "k", 0, q.dims[0], "the batch of q"); !e) return e;
  if (Verdict e = check_dim(k, "k", 3, q.dims[3], "the head size of q"); !e) return e;
  if (k.dims[2] < 1 || q.dims[2] % k.dims[2] != 0)
    return Verdict::invalid(concat("q has ", q.dims[2], " heads, no multiple of the ", k.dims[2], " of k"));
  for (const auto& [dim, what] : {std::pair{0u, "the batch of k"}, std::pair{1u, "the keys of k"}, std::pair{2u, "the heads of k"}})
    if (Verdict e = check_dim(v, "v", dim, k.dims[dim], what); !e) return e;
  if (sink.present()) {
    if (Verdict e = check_floats(sink, "sinks"); !e) return e;
    if (Verdict e = check_rank(sink, "sinks", 1); !e) return e;
    if (Verdict e = check_dim(sink, "sinks", 0, q.dims[2], "the heads of q"); !e) return e;
  }
  if (Verdict e = check_score_mask(call, call.input(mask)); !e) return e;
  return check_attention_attributes(call);
}

/// y, and what has its shape: [b, t, heads, dv].
inline Verdict check_attention_rows(const OpCall& call, const TensorView& y, const char* name) {
  const TensorView &q = call.input(0), &v = call.input(2);
  if (Verdict e = check_heads(y, name); !e) return e;
  for (const auto& [dim, what] : {std::pair{0u, "the batch of q"}, std::pair{1u, "the queries of q"}, std::pair{2u, "the heads of q"}})
    if (Verdict e = check_dim(y, name, dim, q.dims[dim], what); !e) return e;
  return check_dim(y, name, 3, v.dims[3], "the head size of v");
}

inline Verdict check_attention_lse(const OpCall& call, const TensorView& lse) {
  const TensorView& q = call.input(0);
  if (Verdict e = check_floats(lse, "lse"); !e) return e;
  if (Verdict e = check_rank(lse, "lse", 3); !e) return e;
  for (const auto& [dim, what] : {std::pair{0u, "the batch of q"}, std::pair{1u, "the queries of q"}, std::pair{2u, "the heads of q"}})
    if (Verdict e = check_dim(lse, "lse", dim, q.dims[dim], what); !e) return e;
  return Verdict::yes();
}

/// Keys [first, end) are visible to query `query` by causality and window; neither falls as `query` rises.
struct KeyRange {
  std::int64_t first, end;
};
inline KeyRange visible_keys(const OpCall& call, std::int64_t query, std::int64_t keys) noexcept {
  const std::int64_t at = query + call.integer(QUERN_KEY_QUERY_OFFSET), window = call.integer(QUERN_KEY_WINDOW);
  const std::int64_t end = call.integer(QUERN_KEY_CAUSAL) != 0 ? std::min(at + 1, keys) : keys;
  return {window > 0 ? std::clamp<std::int64_t>(at - window + 1, 0, end) : 0, end};
}

}  // namespace quern::cpu
