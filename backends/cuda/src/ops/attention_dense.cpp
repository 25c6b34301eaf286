// Attention over dense keys (kernels/attention_dense.cu), and what its gradient and packed examples launch (attention_dense.hpp).
#include "attention_dense.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

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

std::string refuse(const Call& call) { return check_dense(call, call.output(1), call.input(4)); }

void emit(const Call& call, Launcher& launcher) {
  DenseAttentionParams p = dense_params(call, call.input(3), call.input(4), call.output(1));
  p.y = leading(call.output(0));
  attend(p, call.input(0).dims[0], launcher);
}

}  // namespace

const Op attention_dense_op{QUERN_OP_ATTENTION_DENSE, "attention_dense.cuda", refuse, emit};

std::string check_dense(const Call& call, const Tensor& lse, const Tensor& sinks) {
  const Tensor &q = call.input(0), &k = call.input(1);
  if (q.dims[1] > 0x3fffffff || k.dims[1] > 0x3fffffff) return "sequences of 2^30 rows and more are not taken";
  return first_of({check_heads(q, call.input(2)), check_packed_f32(sinks), check_lse(lse)});
}

Operand leading(const Tensor& t) {
  Operand operand = operand_of(t);
  for (std::uint32_t d = 0; d < t.rank && d < 3; ++d) operand.strides[d] = t.strides[d];
  return operand;
}

DenseAttentionParams dense_params(const Call& call, const Tensor& mask, const Tensor& sinks, const Tensor& lse) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2);
  DenseAttentionParams p = scores_of(call, q, k, v);
  p.q = leading(q);
  p.k = leading(k);
  p.v = leading(v);
  p.lse = leading(lse);
  p.mask = operand_of(mask);
  for (std::uint32_t d = 0; d < mask.rank; ++d) p.mask.strides[d + 4 - mask.rank] = mask.dims[d] == 1 ? 0 : mask.strides[d];
  p.sinks = sinks.data;
  p.queries = static_cast<int>(q.dims[1]);
  p.keys = static_cast<int>(k.dims[1]);
  p.offset = call.integer(QUERN_KEY_QUERY_OFFSET);
  p.max_bias = static_cast<float>(call.real(QUERN_KEY_MAX_BIAS));
  return p;
}

std::string check_heads(const Tensor& q, const Tensor& v) {
  if (q.last() <= largest_dense_head && v.last() <= largest_dense_head) return {};
  return concat("heads of ", q.last(), " and ", v.last(), " elements; up to ", largest_dense_head, " are taken");
}

std::string check_lse(const Tensor& lse) { return lse.present() ? check_dtype(lse, QUERN_F32) : ""; }

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
