// See matmul_dense.hpp. Blocks are decoded to bf16 in scratch, some outputs at a time, and weights of f16 are rounded there; activations of other types
// are rounded there, some rows at a time. So no copy is larger than most_decoded or most_rounded.
#include "matmul_dense.hpp"

#include "arrange.hpp"

#include <algorithm>
#include <optional>

namespace quern::cuda {
namespace {

constexpr std::int64_t fewest_decoded_rows = 128;  // of activations: below, gemm_mma decodes weights where it multiplies them
constexpr std::int64_t most_decoded = 16 << 20, most_rounded = 64 << 20;
constexpr Address blas_alignment = 256;  // what cuBLASLt takes for granted when it names an algorithm
constexpr std::int64_t whole = 256;  // slices have a multiple of so many rows or outputs: they begin at that alignment, and at whole blocks

/// k of operands in scratch; arranged ones have it too.
std::int64_t padded(std::int64_t k) { return (k + 31) / 32 * 32; }
std::int64_t slice(std::int64_t count, std::int64_t k, std::int64_t bytes) {
  return std::min(count, std::max<std::int64_t>(bytes / (2 * k) / whole, 1) * whole);
}

/// The 16 bits of a product's operands, if it is one for Launcher::dense.
std::optional<quern_dtype> type_of(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &c = call.input(3), &y = call.output(0);
  const bool half = a.dtype == QUERN_F16 && b.dtype == QUERN_F16 && call.f16_allowed();
  const quern_dtype type = half ? QUERN_F16 : QUERN_BF16;
  const bool adds = c.present() && c.dtype == y.dtype && call.real(QUERN_KEY_BETA) == 1.0;
  const bool stores = y.dtype == QUERN_F32 || (y.dtype == type && !call.input(2).present());  // 16 bits alone would need such a bias
  // Training in bf16 allows that alone; where f16 is allowed too, weights of f16 keep their bits.
  const bool rounds = b.dtype == QUERN_F16 && !call.f16_allowed(), decodes = is_block(b.dtype) && (b.packed_layout || is_contiguous(b));
  const bool weights = b.rank == 2 && (b.dtype == type || rounds || decodes);
  if (call.invariant || !(half || call.bf16_allowed()) || !weights || !stores || (c.present() && !adds)) return std::nullopt;
  return type;
}

/// Rows of k as DenseParams has them, or turned; none where they lie otherwise.
std::optional<DenseOperand> operand_of_rows(const Tensor& rows) {
  const auto apart = [&](std::uint32_t d) { return rows.dims[d] == 1 ? 0 : rows.strides[d]; };
  for (const std::uint32_t across : {0u, 1u}) {
    const std::int64_t pitch = apart(across), along = apart(1 - across), length = rows.dims[1 - across] * 2;
    if (along != 2 && along != 0) continue;
    if (pitch != 0 && (pitch < length || pitch % 16 != 0)) continue;
    const std::int64_t row = pitch == 0 ? (length + 15) / 16 * 16 : pitch;
    return DenseOperand{rows.data, static_cast<int>(row / 2), static_cast<int>(across)};
  }
  return std::nullopt;
}

/// Rows of padded(k) in scratch.
void round_rows(const Tensor& rows, quern_dtype type, Address scratch, Launcher& launcher) {
  Tensor to = rows;
  to.data = scratch;
  to.dtype = type;
  to.strides[0] = padded(rows.last()) * 2;
  to.strides[1] = 2;
  launch_cast(rows, to, launcher);
}

}  // namespace

bool has_turned_blocks(const Call& call) { return is_block(call.input(1).dtype) && call.integer(QUERN_KEY_TRANSPOSE_B) != 0; }

std::uint64_t dense_scratch(const Call& call) {
  const std::optional<quern_dtype> type = type_of(call);
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  if (!type || a.elements() == 0 || b.elements() == 0) return 0;
  const std::int64_t m = y.rows(), n = y.last(), k = padded(a.elements() / m);
  const auto bytes = [&](std::int64_t count, std::int64_t most) { return std::min(count * k * 2, std::max(most, whole * k * 2)); };
  return static_cast<std::uint64_t>((a.dtype == *type ? 0 : bytes(m, most_rounded)) + (b.dtype == *type ? 0 : bytes(n, most_decoded))) +
         blas_alignment;
}

bool launch_dense(const Call& call, const Tensor& a, const Tensor& b, Address scratch, Launcher& launcher) {
  const std::optional<quern_dtype> type = type_of(call);
  const Tensor &bias = call.input(2), &c = call.input(3), &y = call.output(0);
  const std::int64_t m = y.rows(), n = y.last(), k = a.last();
  if (!type || k == 0 || !launcher.card().has_matrix_units()) return false;
  const bool decodes = is_block(b.dtype), as_it_is = b.dtype == *type, turned = has_turned_blocks(call);
  if (!as_it_is && m < fewest_decoded_rows) return false;
  if ((a.data | (as_it_is ? b.data : 0) | y.data | c.data) % blas_alignment != 0) return false;
  std::optional<DenseOperand> x = a.dtype == *type ? operand_of_rows(a) : std::nullopt, w = as_it_is ? operand_of_rows(b) : std::nullopt;
  if ((a.dtype == *type && !x) || (as_it_is && !w)) return false;
  const std::int64_t pitch = decodes ? k : padded(k);  // of weights in scratch
  const std::int64_t m_slice = x ? m : slice(m, padded(k), most_rounded), n_slice = w ? n : slice(n, pitch, most_decoded);
  const Address decoded =
      scratch + (x ? 0 : (static_cast<Address>(m_slice * padded(k)) * 2 + blas_alignment - 1) / blas_alignment * blas_alignment);
  const auto bytes_of = [](const Tensor& t) { return static_cast<Address>(sdk::element_size(t.dtype).bytes); };
  for (std::int64_t m0 = 0; m0 < m; m0 += m_slice) {
    const std::int64_t rows = std::min(m_slice, m - m0);
    DenseOperand of_rows = x.value_or(DenseOperand{scratch, static_cast<int>(padded(k)), 0});
    if (!x) round_rows(part_of(a, 0, m0, rows), *type, scratch, launcher);
    for (std::int64_t n0 = 0; n0 < n; n0 += n_slice) {
      const std::int64_t outputs = std::min(n_slice, n - n0);
      DenseOperand of_outputs = w.value_or(DenseOperand{decoded, static_cast<int>(turned ? outputs : pitch), turned ? 1 : 0});
      if (!as_it_is && !decodes) round_rows(part_of(b, 0, n0, outputs), *type, decoded, launcher);
      if (decodes) {
        const UnpackParams p{.w = turned ? blocks_of(b) : blocks_of_rows(b, n0),
                             .y = decoded,
                             .y_dtype = static_cast<int>(*type),
                             .rows = turned ? k : outputs,
                             .k = b.last(),
                             .first = turned ? n0 : 0,
                             .columns = turned ? outputs : k};
        launcher.launch(kernels::unpack_rows, launcher.spread(p.rows * p.columns / 16), 256, p);
      }
      const Address at = static_cast<Address>(m0 * n + n0);
      launcher.dense({.x = of_rows,
                      .w = of_outputs,
                      .bias = bias.present() ? bias.data + static_cast<Address>(n0) * 4 : 0,
                      .c = c.present() ? c.data + at * bytes_of(c) : 0,
                      .y = y.data + at * bytes_of(y),
                      .m = static_cast<int>(rows),
                      .n = static_cast<int>(outputs),
                      .k = static_cast<int>(k),
                      .row = static_cast<int>(n),
                      .alpha = static_cast<float>(call.real(QUERN_KEY_ALPHA)),
                      .y16 = y.dtype == QUERN_F32 ? 0 : 1},
                     *type == QUERN_F16);
    }
  }
  return true;
}

}  // namespace quern::cuda
