// matmul: which kernel serves which product. The first that fits is taken.
//
//   gemv        Up to 8 rows of f32, weights of a block format, int8 activations allowed. tiles.cpp comes before it.
//   gemv_exact  Up to 8 rows. The weights lie in rows of whole sixteens.
//   dense       More rows. Operands have the 16 bits that are allowed, or are made so (matmul_dense.cpp): cuBLASLt, else gemm_dense.
//   gemm_mma    More rows. bf16 activations are allowed, and the card has compute capability 8.0.
//   gemm_tf32   More rows of transposed weights of a block format, where f16 is the one conversion that is allowed.
//   gemm_exact  More rows.
//   any         Batches, and what else lies in no rows of k: matmul_any.cpp.
//
// More rows of transposed or strided operands that dense does not take as they lie are copied to rows of k first, where matrix units then
// serve them. Transposed weights of a block format are not: gemm_mma and gemm_tf32 decode them a tile at a time as they lie.
#include "matmul.hpp"

#include "../kernels/gemm.hpp"
#include "../kernels/row_pieces.hpp"

#include "arrange.hpp"
#include "matmul_any.hpp"
#include "matmul_dense.hpp"

#include "tables.hpp"

namespace quern::cuda {
namespace {

constexpr std::uint64_t round_up(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }

/// a is rows of k, b a plain matrix of rows of k, everything packed.
bool is_plain(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &c = call.input(3), &y = call.output(0);
  if (call.integer(QUERN_KEY_TRANSPOSE_A) != 0 || call.integer(QUERN_KEY_TRANSPOSE_B) != 0) return false;
  if (b.rank != 2 || a.rank < 2 || a.last() % 16 != 0 || (a.ranged >> (a.rank - 1) & 1u) != 0 || b.ranged != 0) return false;
  // Rows may be ranged in the first dimension only: then they stay packed in every run.
  if (a.ranged > 1 || y.ranged > 1) return false;
  return is_contiguous(a) && (b.packed_layout || is_contiguous(b)) && is_contiguous(y) && (!c.present() || is_contiguous(c));
}

bool takes_gemv(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  return call.int8_allowed() && has_int8_kernel(b) && a.dtype == QUERN_F32 && y.dtype == QUERN_F32 && a.data % 16 == 0 &&
         !call.input(3).present() && call.real(QUERN_KEY_ALPHA) == 1.0;
}

std::string refuse(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  if (a.rank < 2) return concat(describe(a), "; a has two dimensions at least");
  for (std::uint32_t d = 0; d + 2 < b.rank; ++d)
    if (b.dims[d] == 0) return concat(describe(b), " has no matrices");
  return first_of({check_packed_f32(call.input(2)), b.packed_layout ? check_rank(b, 2) : check_units(b)});
}

MatmulFactors any_factors(const Call& call) {
  return {call.integer(QUERN_KEY_TRANSPOSE_A) != 0, call.integer(QUERN_KEY_TRANSPOSE_B) != 0,
          static_cast<float>(call.real(QUERN_KEY_ALPHA)), static_cast<float>(call.real(QUERN_KEY_BETA))};
}

constexpr std::int64_t mma_step = 32;  // elements of k in a step of gemm_mma.cu

/// Whether the matrix units serve the product once its operands lie in rows of k, turned blocks aside.
bool takes_arranged(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &c = call.input(3), &y = call.output(0);
  const bool turned = has_turned_blocks(call), weights = turned ? b.packed_layout || is_contiguous(b) : is_float(b.dtype),
             halves = call.f16_allowed() && (turned || (a.dtype == QUERN_F16 && b.dtype == QUERN_F16));
  return (call.bf16_allowed() || halves) && !call.invariant && a.rank == 2 && b.rank == 2 && weights && y.dims[0] > most_gemv_rows &&
         is_contiguous(y) && (!c.present() || is_contiguous(c));
}

/// The rows of a packed tensor as a matrix.
Tensor as_matrix(const Tensor& t) {
  Tensor matrix = t;
  matrix.rank = 2;
  matrix.dims[0] = t.rows();
  matrix.dims[1] = t.last();
  matrix.strides[1] = static_cast<std::int64_t>(sdk::element_size(t.dtype).bytes);
  matrix.strides[0] = t.last() * matrix.strides[1];
  return matrix;
}

/// Rows of k of an operand, as its strides give them.
Tensor in_rows_of_k(Tensor t, bool turned) {
  if (turned) std::swap(t.dims[0], t.dims[1]), std::swap(t.strides[0], t.strides[1]);
  return t;
}

std::int64_t whole_steps(std::int64_t k) { return (k + mma_step - 1) / mma_step * mma_step; }

std::uint64_t arranged_bytes(const Tensor& rows) {
  return round_up(static_cast<std::uint64_t>(rows.dims[0] * whole_steps(rows.dims[1])) * sdk::element_size(rows.dtype).bytes);
}

/// Bytes of the sums of blocks that share k: no more of them than gemm_split_blocks store a tile.
std::uint64_t split_bytes(const Call& call) {
  const Tensor& y = call.output(0);
  const std::int64_t rows = std::int64_t{gemm_split_blocks} * std::min<std::int64_t>(gemm_rows, y.rows());
  return call.invariant ? 0 : static_cast<std::uint64_t>(rows * std::min<std::int64_t>(gemm_columns, y.last())) * 4;
}

/// Rows of int8 activations that a call may have in scratch.
std::int64_t most_int8_rows(const Call& call) { return call.invariant ? call.input(0).rows() : most_gemv_rows; }

std::uint64_t scratch(const Call& call) {
  // The sums lie where operands of cuBLASLt would: a product has one or the others.
  if (is_plain(call))
    return std::max({takes_gemv(call) ? activation_bytes(call.input(0).last(), most_int8_rows(call)) : 0, dense_scratch(call),
                     split_bytes(call)});
  if (!takes_arranged(call)) return 0;
  const MatmulFactors factors = any_factors(call);
  return std::max(dense_scratch(call), split_bytes(call)) + arranged_bytes(in_rows_of_k(call.input(0), factors.transpose_a)) +
         (has_turned_blocks(call) ? 0 : arranged_bytes(in_rows_of_k(call.input(1), factors.transpose_b)));
}

/// The rows in whole steps of k with zeros behind each, copied to `to` where they do not lie so.
Tensor arranged(const Tensor& rows, Address to, Launcher& launcher) {
  const std::int64_t k = rows.dims[1], whole = whole_steps(k);
  if (k == whole && rows.data % 16 == 0 && is_contiguous(rows)) return rows;
  Tensor copy = rows;
  copy.data = to;
  copy.dims[1] = whole;
  copy.strides[1] = static_cast<std::int64_t>(sdk::element_size(rows.dtype).bytes);
  copy.strides[0] = whole * copy.strides[1];
  launch_copy(rows, part_of(copy, 1, 0, k), {}, launcher);
  if (whole > k) launch_fill(part_of(copy, 1, k, whole - k), 0.0f, launcher);
  return copy;
}

/// More rows than gemv takes: operands in rows of k, or turned blocks, all packed.
void launch_gemm(const Call& call, const Tensor& a, const Tensor& b, Address scratch, Launcher& launcher) {
  const Tensor &c = call.input(3), &y = call.output(0);
  const bool turned = has_turned_blocks(call);
  const std::int64_t m = a.rows(), n = y.last(), k = a.last();
  const MatmulFactors factors = any_factors(call);
  if (!turned && launch_dense(call, as_matrix(a), b, scratch, launcher)) return;
  GemmParams p{blocks_of(b),
               a.data,
               call.input(2).data,
               c.data,
               y.data,
               static_cast<int>(a.dtype),
               static_cast<int>(c.dtype),
               static_cast<int>(y.dtype),
               static_cast<int>(m),
               static_cast<int>(n),
               static_cast<int>(k),
               turned ? static_cast<int>(b.dims[0]) : 0,
               factors.alpha,
               factors.beta,
               1,
               scratch};
  const std::int64_t columns = (n + gemm_columns - 1) / gemm_columns;
  const auto launch_shares = [&](const KernelId<GemmParams>& kernel, std::int64_t tile) {
    const std::int64_t tiles = (m + tile - 1) / tile;
    p.splits = gemm_splits(columns * tiles, p.k);
    launcher.launch(kernel, {columns, tiles, p.splits}, 256, p);
    if (p.splits > 1) launcher.launch(kernels::gemm_join, launcher.spread(m * n), 256, p);
  };
  if (turned && !call.bf16_allowed()) {
    launch_shares(kernels::gemm_tf32_turned, gemm_rows);
  } else if (call.bf16_allowed() && k % mma_step == 0 && launcher.card().has_matrix_units()) {
    const bool split = b.dtype == QUERN_F32 || b.dtype == QUERN_F16;
    const std::int64_t tile = m > 64 && !split ? gemm_rows : gemm_few_rows;
    const bool many = tile == gemm_rows;
    launch_shares(split    ? kernels::gemm_mma_split
                  : turned ? many ? kernels::gemm_mma_turned_128 : kernels::gemm_mma_turned_32
                  : many   ? kernels::gemm_mma_128
                           : kernels::gemm_mma_32,
                  tile);
  } else {
    launcher.launch(kernels::gemm_exact, {(n + gemm_exact_tile - 1) / gemm_exact_tile, (m + gemm_exact_tile - 1) / gemm_exact_tile, 1}, 256,
                    p);
  }
}

void emit(const Call& call, Launcher& launcher) {
  const Tensor &a = call.input(0), &b = call.input(1), &c = call.input(3), &y = call.output(0);
  const MatmulFactors factors = any_factors(call);
  if (!is_plain(call)) {
    if (!takes_arranged(call) || !launcher.card().has_matrix_units() || a.elements() == 0 || b.elements() == 0)
      return launch_matmul_any(a, b, call.input(2).data, c, y, factors, launcher);
    const bool turned = has_turned_blocks(call);
    const Tensor a_rows = in_rows_of_k(a, factors.transpose_a), b_rows = turned ? b : in_rows_of_k(b, factors.transpose_b);
    if (launch_dense(call, a_rows, b_rows, call.scratch, launcher)) return;
    const Address for_b = call.scratch + arranged_bytes(a_rows), behind = for_b + (turned ? 0 : arranged_bytes(b_rows));
    const Tensor a_steps = arranged(a_rows, call.scratch, launcher);
    return launch_gemm(call, a_steps, turned ? b : arranged(b_rows, for_b, launcher), behind, launcher);
  }
  const std::int64_t m = a.rows(), n = b.dims[0], k = a.last();
  if (m == 0 || n == 0) return;
  const auto at_row = [](const Tensor& t, std::int64_t row) {
    return t.data == 0 ? 0 : t.data + static_cast<Address>(row * t.last()) * sdk::element_size(t.dtype).bytes;
  };
  if (m > most_gemv_rows && !call.invariant) return launch_gemm(call, a, b, call.scratch, launcher);
  if (takes_gemv(call)) {
    GemvParams p{};
    p.part[0] = {blocks_of(b), y.data, call.input(2).data, static_cast<int>(n)};
    p.parts = 1;
    p.k = static_cast<int>(k);
    p.t = static_cast<int>(m);
    p.x = activations_at(call.scratch, k, false, 0, most_int8_rows(call));
    launch_quantise(a.data, 0, 0.0f, m, k, p.x, launcher);
    return launch_gemv(p, call.invariant, launcher);
  }
  // Few outputs have several warps each, so that many read at once.
  const int ways = n > 1024 ? 1 : k >= 4096 ? 8 : k >= 2048 ? 4 : k >= 1024 ? 2 : 1;
  // Eight rows at a time: a row's bits are the same in each of these kernels, whatever the others are.
  for (std::int64_t row = 0; row < m; row += most_gemv_rows) {
    const std::int64_t rows = std::min(most_gemv_rows, m - row);
    const GemvExactParams p{blocks_of(b),
                            at_row(a, row),
                            call.input(2).data,
                            at_row(c, row),
                            at_row(y, row),
                            static_cast<int>(a.dtype),
                            static_cast<int>(c.dtype),
                            static_cast<int>(y.dtype),
                            static_cast<int>(n),
                            static_cast<int>(k),
                            static_cast<int>(rows),
                            factors.alpha,
                            factors.beta,
                            ways};
    launcher.launch(rows == 1   ? kernels::gemv_exact_1
                    : rows == 2 ? kernels::gemv_exact_2
                    : rows <= 4 ? kernels::gemv_exact_4
                                : kernels::gemv_exact_8,
                    {(n * ways + 7) / 8, 1, 1}, 256, p);
  }
}

/// The product of at most eight rows from row `row` on.
GemvParams rows_from(const GemvParams& all, std::int64_t row) {
  GemvParams p = all;
  p.t = static_cast<int>(std::min(most_gemv_rows, all.t - row));
  const auto activations_from = [row](Activations& x, std::int64_t k) {
    if (x.codes == 0) return;
    const auto groups = static_cast<Address>(row * (k / 32));
    x.codes += groups * 32;
    x.meta += groups * 8;
    if (x.sums != 0) x.sums += groups * 4;
  };
  activations_from(p.x, p.k);
  activations_from(p.out, p.part[0].rows);
  const auto results_from = [row](Address& results, int of) {
    if (results != 0) results += static_cast<Address>(row * of) * 4;
  };
  for (int i = 0; i < p.parts; ++i) results_from(p.part[i].y, p.part[i].rows);
  for (Address* sum : {&p.residual, &p.residual2}) results_from(*sum, p.part[0].rows);
  return p;
}

/// Fused schedules take blocks in packed rows alone.
bool fusable(const Call& call) { return !is_block(call.input(1).dtype) || is_plain(call); }

}  // namespace

bool has_int8_kernel(const Tensor& weights) {
  return is_fast_format(weights.dtype) && weights.rank == 2 && (weights.packed_layout || !sdk::gains_by_planes(weights.dtype));
}

std::uint64_t activation_bytes(std::int64_t k, std::int64_t rows) {
  const auto elements = static_cast<std::uint64_t>(k * rows), groups = static_cast<std::uint64_t>(k / 32 * rows);
  return round_up(elements * 2) + round_up(groups * 8) + round_up(groups * 4);
}

Activations activations_at(Address at, std::int64_t k, bool sums, int dtype, std::int64_t rows) {
  const auto groups = static_cast<std::uint64_t>(k / 32);
  Activations x{};
  x.dtype = dtype;
  x.codes = at;
  x.meta = at + round_up(static_cast<std::uint64_t>(k * rows) * 2);
  x.sums = sums ? x.meta + round_up(groups * static_cast<std::uint64_t>(rows) * 8) : 0;
  x.sum_count = static_cast<int>(groups);
  return x;
}

void launch_quantise(Address x, Address weight, float offset, std::int64_t rows, std::int64_t k, const Activations& out,
                     Launcher& launcher) {
  const QuantiseParams p{x, weight, offset, static_cast<int>(k), out};
  launcher.launch(kernels::quantise, {(k / 32 + 7) / 8, rows, 1}, 256, p);
}

bool launch_tiles(const GemvParams& g, bool invariant, Launcher& launcher, const RawInput& raw, const Adapters* adapters) {
  if (!launcher.card().has_bulk_copies()) return false;
  const auto l = tiles_launch(g, invariant, {launcher.multiprocessors(), launcher.gpu().facts().shared_limit}, raw, adapters);
  if (!l) return false;
  static constexpr KernelId<TilesParams> streams[2][2][2][2] = {
      // of groups, adapters, general, that quantise
      {{{kernels::stream_1, kernels::stream_quantise_1}, {kernels::stream_general_1, kernels::stream_general_quantise_1}},
       {{kernels::stream_adapted_1, kernels::stream_adapted_quantise_1},
        {kernels::stream_adapted_general_1, kernels::stream_adapted_general_quantise_1}}},
      {{{kernels::stream_groups_1, kernels::stream_groups_quantise_1},
        {kernels::stream_groups_general_1, kernels::stream_groups_general_quantise_1}},
       {{kernels::stream_groups_adapted_1, kernels::stream_groups_adapted_quantise_1},
        {kernels::stream_groups_adapted_general_1, kernels::stream_groups_adapted_general_quantise_1}}}};
  const bool groups = is_group_format(static_cast<quern_dtype>(g.part[0].w.dtype)), quantises = g.out.codes != 0,
             general = is_general(g, raw);
  // Where no row is long, a kernel that can share none: each kernel of a step is short. Other models keep to one kernel, whose code is there.
  const bool brief = !groups && !general && adapters == nullptr && !quantises && l->p.rows == tiles_rows && g.k < 2048;
  const KernelId<TilesParams>& kernel = !l->stream ? g.t == 1 ? kernels::tiles_1 : kernels::tiles_8
                                        : brief    ? kernels::stream_short_1
                                                : streams[groups ? 1 : 0][adapters != nullptr ? 1 : 0][general ? 1 : 0][quantises ? 1 : 0];
  const std::int64_t pieces = (g.t + most_gemv_rows - 1) / most_gemv_rows;
  launcher.launch(kernel, l->stream ? Launcher::Grid{l->grid, 1, 1} : Launcher::Grid{pieces, l->grid, 1}, l->stream ? 576 : 288, l->p,
                  l->shared);
  return true;
}

void launch_gemv(const GemvParams& all, bool invariant, Launcher& launcher) {
  if (launch_tiles(all, invariant, launcher)) return;
  if (all.x.dtype != 0) throw Failure(QUERN_INTERNAL, "a product of f16 or bf16 weights was fused that has no kernel");
  std::int64_t outputs = 0;
  for (int i = 0; i < (all.glu ? 1 : all.parts); ++i) outputs += all.part[i].rows;
  for (std::int64_t row = 0; row < all.t; row += most_gemv_rows) {
    GemvParams p = rows_from(all, row);
    unsigned threads = 128;  // small blocks: the tail of the last wave is short
    p.rounds = 1;
    if (p.out.codes != 0) {  // 32 outputs a block
      threads = p.glu || p.t > 1 ? 256 : 512;
      p.rounds = 32 / (static_cast<int>(threads / 32) * (p.glu ? 1 : 2));
    }
    const std::int64_t a_block = std::int64_t{threads / 32} * p.rounds * (p.glu ? 1 : 2);
    launcher.launch(p.t == 1   ? kernels::gemv_1
                    : p.t == 2 ? kernels::gemv_2
                    : p.t <= 4 ? kernels::gemv_4
                               : kernels::gemv_8,
                    {(outputs + a_block - 1) / a_block, 1, 1}, threads, p);
  }
}

const Op matmul_op{QUERN_OP_MATMUL, "matmul.cuda", refuse, emit, scratch, false, fusable};

}  // namespace quern::cuda
