// attention_dense and attention_backward. See kernels/attention_dense.cu and kernels/attention_backward.cu.
#include "attention_dense.hpp"

#include "strided.hpp"
#include "tables.hpp"

#include <array>

namespace quern::cuda {
namespace {

enum Input { in_q, in_k, in_v, in_y, in_lse, in_dy };  // of the gradient; the forward pass has its mask behind v

bool is_backward(const Call& call) { return call.op == QUERN_OP_ATTENTION_BACKWARD; }
const Tensor& mask_of(const Call& call) { return call.input(is_backward(call) ? 6 : 3); }
const Tensor& sinks_of(const Call& call) { return call.input(is_backward(call) ? 7 : 4); }
const Tensor& lse_of(const Call& call) { return is_backward(call) ? call.input(in_lse) : call.output(1); }

/// [b, t, heads, d]
std::string check_four(const Tensor& t, std::int64_t b, std::int64_t rows, std::int64_t heads, std::int64_t d) {
  return first_of({check_floats(t), check_rank(t, 4), check_dim(t, 0, b), check_dim(t, 1, rows), check_dim(t, 2, heads),
                   check_dim(t, 3, d)});
}

std::string check_mask(const Tensor& mask, const Tensor& q, const Tensor& k) {
  if (!mask.present()) return {};
  if (!is_float(mask.dtype) && mask.dtype != QUERN_U8) return concat(describe(mask), "; a mask is of floats or u8");
  if (mask.rank < 2 || mask.rank > 4) return concat(describe(mask), " does not broadcast to [b, heads, t, u]");
  const std::array<std::int64_t, 4> whole = {q.dims[0], q.dims[2], q.dims[1], k.dims[1]};
  for (std::uint32_t d = 0; d < mask.rank; ++d)
    if (const std::int64_t n = whole[d + 4 - mask.rank]; mask.dims[d] != n && mask.dims[d] != 1)
      return concat(describe(mask), " does not broadcast to [b, heads, t, u]");
  return {};
}

std::string refuse(const Call& call) {
  const Tensor &q = call.input(in_q), &k = call.input(in_k), &v = call.input(in_v), &lse = lse_of(call);
  if (std::string r = first_of({check_rank(q, 4), check_rank(k, 4), check_rank(v, 4)}); !r.empty()) return r;
  if (std::string r = check_heads(q, k, v); !r.empty()) return r;
  const std::int64_t b = q.dims[0], t = q.dims[1], u = k.dims[1], heads = q.dims[2], kv_heads = k.dims[2];
  if (t > 0x3fffffff || u > 0x3fffffff) return "sequences of 2^30 rows and more are not taken";
  if (std::string r = first_of({check_four(q, b, t, heads, q.last()), check_four(k, b, u, kv_heads, q.last()),
                                check_four(v, b, u, kv_heads, v.last()), check_mask(mask_of(call), q, k)});
      !r.empty())
    return r;
  if (const Tensor& sinks = sinks_of(call); sinks.present())
    if (std::string r =
            first_of({check_dtype(sinks, QUERN_F32), check_rank(sinks, 1), check_contiguous(sinks), check_dim(sinks, 0, heads)});
        !r.empty())
      return r;
  if (lse.present())
    if (std::string r = first_of({check_dtype(lse, QUERN_F32), check_rank(lse, 3), check_dim(lse, 0, b), check_dim(lse, 1, t),
                                  check_dim(lse, 2, heads)});
        !r.empty())
      return r;
  if (!is_backward(call)) return check_four(call.output(0), b, t, heads, v.last());
  if (!lse.present()) return "attention_backward needs lse";
  return first_of({check_four(call.input(in_y), b, t, heads, v.last()), check_four(call.input(in_dy), b, t, heads, v.last()),
                   check_four(call.output(0), b, t, heads, q.last()), check_four(call.output(1), b, u, kv_heads, q.last()),
                   check_four(call.output(2), b, u, kv_heads, v.last())});
}

/// The strides of the leading dims, and the step.
Operand leading(const Tensor& t) {
  Operand operand = operand_of(t);
  for (std::uint32_t d = 0; d < t.rank && d < 3; ++d) operand.strides[d] = t.strides[d];
  return operand;
}

DenseAttentionParams params_of(const Call& call) {
  const Tensor &q = call.input(in_q), &k = call.input(in_k), &v = call.input(in_v), &mask = mask_of(call);
  DenseAttentionParams p = scores_of(call, q, k, v);
  p.q = leading(q);
  p.k = leading(k);
  p.v = leading(v);
  p.lse = leading(lse_of(call));
  p.mask = operand_of(mask);
  for (std::uint32_t d = 0; d < mask.rank; ++d) p.mask.strides[d + 4 - mask.rank] = mask.dims[d] == 1 ? 0 : mask.strides[d];
  p.sinks = sinks_of(call).data;
  p.queries = static_cast<int>(q.dims[1]);
  p.keys = static_cast<int>(k.dims[1]);
  p.offset = call.integer(QUERN_KEY_QUERY_OFFSET);
  p.max_bias = static_cast<float>(call.real(QUERN_KEY_MAX_BIAS));
  return p;
}

/// A kernel's tiles of 16 `rows` and heads of up to 16 `columns`; of a gradient, the kernel of keys and that of queries.
struct Tiling {
  int rows, columns;
  KernelId<DenseAttentionParams> first, second;
};

/// The largest tiles whose `floats` of shared memory a block may have.
template <std::size_t N, class Floats>
const Tiling& choose(const std::array<Tiling, N>& tilings, int d, const Floats& floats, Launcher& launcher, unsigned& shared) {
  for (const Tiling& tiling : tilings) {
    shared = static_cast<unsigned>(floats(16 * tiling.rows)) * 4;
    if (d <= 16 * tiling.columns && static_cast<int>(shared) <= launcher.gpu().facts().shared_limit) return tiling;
  }
  throw Failure(QUERN_UNSUPPORTED, concat("attention with heads of ", d, " elements needs ", shared,
                                          " bytes of shared memory; this card has ", launcher.gpu().facts().shared_limit));
}

/// Tiles of the rows of a batch or of packed examples.
std::int64_t tiles_of(const DenseAttentionParams& p, std::int64_t rows, int tile) {
  return p.start != 0 ? ragged_tiles(rows, p.examples, tile) : (rows + tile - 1) / tile;
}

void emit(const Call& call, Launcher& launcher) {
  DenseAttentionParams p = params_of(call);
  p.y = leading(call.output(0));
  attend(p, call.input(in_q).dims[0], launcher);
}

std::uint64_t scratch_backward(const Call& call) {
  const Tensor& q = call.input(in_q);
  return static_cast<std::uint64_t>(q.dims[0] * q.dims[1] * q.dims[2]) * sizeof(float);
}

void emit_backward(const Call& call, Launcher& launcher) {
  DenseAttentionParams p = params_of(call);
  p.y = leading(call.input(in_y));
  p.dy = leading(call.input(in_dy));
  p.dq = leading(call.output(0));
  p.dk = leading(call.output(1));
  p.dv = leading(call.output(2));
  p.dots = call.scratch;
  attend_backward(p, call.input(in_q).dims[0], launcher);
}

constexpr Op table[] = {{QUERN_OP_ATTENTION_DENSE, "attention_dense.cuda", refuse, emit},
                        {QUERN_OP_ATTENTION_BACKWARD, "attention_backward.cuda", refuse, emit_backward, scratch_backward}};

}  // namespace

const std::span<const Op> attention_dense_ops = table;

std::string check_heads(const Tensor& q, const Tensor& k, const Tensor& v) {
  const std::int64_t heads = q.dims[q.rank - 2], kv_heads = k.dims[k.rank - 2];
  if (kv_heads == 0 || heads % kv_heads != 0) return concat(describe(q), ": its heads are a multiple of the ", kv_heads, " of the keys");
  if (q.last() <= largest_dense_head && v.last() <= largest_dense_head) return {};
  return concat("heads of ", q.last(), " and ", v.last(), " elements; up to ", largest_dense_head, " are taken");
}

DenseAttentionParams scores_of(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v) {
  DenseAttentionParams p{};
  p.heads = static_cast<int>(q.dims[q.rank - 2]);
  p.kv_heads = static_cast<int>(k.dims[k.rank - 2]);
  p.d = static_cast<int>(q.last());
  p.dv_size = static_cast<int>(v.last());
  p.causal = call.flag(QUERN_KEY_CAUSAL);
  p.window = static_cast<int>(call.integer(QUERN_KEY_WINDOW));
  p.scale = call.number(QUERN_KEY_SCALE);
  p.softcap = call.number(QUERN_KEY_SOFTCAP);
  return p;
}

void attend(const DenseAttentionParams& p, std::int64_t batches, Launcher& launcher) {
  static constexpr std::array<Tiling, 4> tilings = {{{4, 4, kernels::attention_dense_4_4, kernels::attention_dense_4_4},
                                                     {4, 8, kernels::attention_dense_4_8, kernels::attention_dense_4_8},
                                                     {2, 16, kernels::attention_dense_2_16, kernels::attention_dense_2_16},
                                                     {1, 16, kernels::attention_dense_1_16, kernels::attention_dense_1_16}}};
  const int largest = std::max(p.d, p.dv_size);
  unsigned shared = 0;
  const Tiling& tiling = choose(
      tilings, largest, [&](int tile) { return tile * (dense_pitch(p.d) + dense_pitch(largest) + tile + 1); }, launcher, shared);
  launcher.launch(tiling.first, {tiles_of(p, p.queries, 16 * tiling.rows), p.heads, batches}, 256, p, shared);
}

void attend_backward(const DenseAttentionParams& p, std::int64_t batches, Launcher& launcher) {
  static constexpr std::array<Tiling, 4> tilings = {{{4, 4, kernels::attention_keys_4_4, kernels::attention_queries_4_4},
                                                     {2, 8, kernels::attention_keys_2_8, kernels::attention_queries_2_8},
                                                     {2, 16, kernels::attention_keys_2_16, kernels::attention_queries_2_16},
                                                     {1, 16, kernels::attention_keys_1_16, kernels::attention_queries_1_16}}};
  unsigned shared = 0;
  const Tiling& tiling = choose(
      tilings, std::max(p.d, p.dv_size), [&](int tile) { return 2 * tile * (dense_pitch(p.d) + dense_pitch(p.dv_size) + tile + 1); },
      launcher, shared);
  const int tile = 16 * tiling.rows;
  launcher.launch(kernels::attention_dots, {(p.queries + 7) / 8, p.heads, batches}, 256, p);
  launcher.launch(tiling.first, {tiles_of(p, p.keys, tile), p.kv_heads, batches}, 256, p, shared);
  launcher.launch(tiling.second, {tiles_of(p, p.queries, tile), p.heads, batches}, 256, p, shared);
}

}  // namespace quern::cuda
