// See matmul_halves.hpp. Both operands become rows of f16 in scratch, each row times a power of two. Rows of a are converted once; b some outputs
// at a time, decoded first where it is of blocks. What y, c and alpha ask for beyond rows of f32 is a step of its own. A long k with few tiles is
// cut into parts that run side by side, each with operands of its own; that step adds their sums in order.
#include "matmul_halves.hpp"
#include "../shaders/modes.h"

#include "../gemm.hpp"
#include "matmul_tiles.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::int64_t least_side = 64;         // rows, outputs and k of a product that is worth it
constexpr std::int64_t gemm_step = 64;          // of k in gemm.comp
constexpr std::int64_t rows_together = 128;     // slices have a multiple of so many rows: of the largest tile
constexpr std::int64_t outputs_together = 256;  // and of outputs: of whole blocks
constexpr std::int64_t most_region = 64 << 20;  // bytes of what is in scratch of each kind, if not of the fewest rows
constexpr std::int64_t converted_rows = 64;     // of a workgroup of operand_f16.comp
constexpr std::int64_t product_part = 512;      // of k, which a part has at the least
constexpr std::int64_t most_product_parts = 32;
constexpr std::int64_t groups_at_once = 256;  // fewer tiles are cut into parts of k; twice as many workgroups convert
constexpr std::int64_t part_alignment = 256;

std::int64_t up_to(std::int64_t count, std::int64_t of) { return (count + of - 1) / of * of; }

/// A product's sizes, and how it is cut.
struct Cut {
  std::int64_t m, n, k, padded, rows, outputs, part_k, parts;
  bool decodes, direct;

  explicit Cut(const Call& call) {
    const MatmulParams p = product_params(call, call.input(1));
    m = p.m, n = p.n, k = p.k;
    padded = up_to(k, gemm_step);
    decodes = is_block(call.input(1).dtype);
    rows = std::min({m, slice(row_bytes(), rows_together), most_region / 4 / outputs_together});
    outputs = std::min({n, slice(row_bytes(), outputs_together), slice(rows * 4, outputs_together)});
    if (decodes) outputs = std::min(outputs, slice(k * 4, outputs_together));
    const std::int64_t tiles = (up_to(rows, rows_together) / rows_together) * (up_to(outputs, rows_together) / rows_together);
    const std::int64_t wanted = std::clamp<std::int64_t>(groups_at_once / tiles, 1, most_parts_of(k));
    part_k = up_to((padded + wanted - 1) / wanted, gemm_step);
    parts = (padded + part_k - 1) / part_k;
    const Tensor &c = call.input(3), &y = call.output(0);
    const bool adds = !c.present() || (c.dtype == QUERN_F32 && is_contiguous(c) && call.real(QUERN_KEY_BETA) == 1.0);
    const Tensor& bias = call.input(2);
    direct = y.dtype == QUERN_F32 && is_contiguous(y) && adds && call.real(QUERN_KEY_ALPHA) == 1.0 && outputs == n && parts == 1 &&
             (!bias.present() || is_contiguous(bias)) && ((y.data | c.data) & 15u) == 0;
  }
  static std::int64_t most_parts_of(std::int64_t k) { return std::clamp<std::int64_t>(k / product_part, 1, most_product_parts); }
  std::int64_t row_bytes() const { return padded * 2 + 4 * most_parts_of(k); }
  /// From one part of an operand of so many rows to the next: its f16, and the rows' scales.
  std::int64_t part_bytes(std::int64_t of) const { return up_to(of * (part_k * 2 + 4), part_alignment); }
  std::uint64_t a_bytes() const { return operand_bytes(rows); }
  std::uint64_t b_bytes() const { return operand_bytes(outputs); }
  std::uint64_t floats_bytes() const { return decodes ? region(outputs * k * 4) : 0; }

 private:
  std::uint64_t operand_bytes(std::int64_t of) const { return region(of * row_bytes() + most_parts_of(k) * part_alignment); }
  static std::int64_t slice(std::int64_t bytes, std::int64_t together) {
    return std::max<std::int64_t>(1, most_region / std::max<std::int64_t>(1, bytes) / together) * together;
  }
  static std::uint64_t region(std::int64_t bytes) { return static_cast<std::uint64_t>(up_to(bytes, 256)); }
};

/// The most bytes of `rows` of so many each that are in scratch at once, at these sizes or smaller ones.
std::uint64_t most_bytes(std::int64_t rows, std::int64_t bytes, std::int64_t together) {
  return static_cast<std::uint64_t>(up_to(std::min(rows * bytes, std::max(most_region, together * bytes)), 256)) + 256;
}

/// Sums of a product, in parts where there are few tiles. Before that the largest elements of both operands are there: at most 32 shares of 64 rows
/// and more on each side are no more than the sums.
std::uint64_t most_sums_bytes(const Cut& cut) {
  constexpr std::int64_t in_parts = groups_at_once * rows_together * rows_together * 4;
  const std::int64_t sums = cut.m * cut.n * 4;
  return static_cast<std::uint64_t>(up_to(std::max(std::min(sums, most_region), std::min(sums * Cut::most_parts_of(cut.k), in_parts)),
                                          256));
}

bool may_round(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  return (call.bf16_allowed() || call.f16_allowed()) && !call.invariant && a.rank == 2 && b.rank == 2;
}
bool is_large(const Cut& cut) { return cut.m >= least_side && cut.n >= least_side && cut.k >= least_side; }

/// `largest`: room for a number of each row and share of k.
void convert(std::uint64_t x, std::int64_t row, std::int64_t step, std::int32_t dtype, std::int64_t rows, const Cut& cut, std::uint64_t y,
             std::uint64_t largest, Launcher& launcher) {
  const std::int64_t groups = (rows + converted_rows - 1) / converted_rows;
  const std::int64_t wanted = std::clamp<std::int64_t>(2 * groups_at_once / groups, 1, Cut::most_parts_of(cut.k));
  OperandParams p{};
  p.x = x;
  p.y = y;
  p.largest = largest;
  p.x_row = row;
  p.x_step = step;
  p.part_bytes = cut.part_bytes(rows);
  p.rows = static_cast<uint>(rows);
  p.k = static_cast<uint>(cut.k);
  p.padded = static_cast<uint>(cut.padded);
  p.part_k = static_cast<uint>(cut.part_k);
  p.share = static_cast<uint>(up_to((cut.padded + wanted - 1) / wanted, gemm_step));
  p.shares = (p.padded + p.share - 1) / p.share;
  Launcher::Grid grid = launcher.rows(groups);
  grid.y = p.shares;
  const std::int32_t across = std::abs(row) < std::abs(step) ? 1 : 0;
  if (p.shares == 1) return launcher.launch("operand_f16", 256, grid, p, {dtype, across, operand_both});
  launcher.launch("operand_f16", 256, grid, p, {dtype, across, operand_measure});
  launcher.barrier();
  launcher.launch("operand_f16", 256, grid, p, {dtype, across, operand_convert});
}

/// `rows` rows from `row` on times `outputs` outputs from `output` on, both converted.
void multiply(const Call& call, const Cut& cut, MatmulParams p, std::int64_t row, std::int64_t rows, std::int64_t output,
              std::int64_t outputs, std::uint64_t a, std::uint64_t b, Launcher& launcher) {
  p.m = static_cast<uint>(rows);
  p.n = static_cast<uint>(outputs);
  p.y += static_cast<std::uint64_t>(row * p.y_row + output * p.y_step);
  if (p.c != 0) p.c += static_cast<std::uint64_t>(row * p.c_row + output * p.c_step);
  if (p.bias != 0) p.bias += static_cast<std::uint64_t>(output * p.bias_step);
  for (std::int64_t part = 0; part < cut.parts; ++part) {
    const std::int64_t k = std::min(cut.part_k, cut.padded - part * cut.part_k);
    GemmParams g{};
    g.a = a + static_cast<std::uint64_t>(part * cut.part_bytes(rows));
    g.row_scale = g.a + static_cast<std::uint64_t>(rows * k * 2);
    g.b = g.halves = b + static_cast<std::uint64_t>(part * cut.part_bytes(outputs));
    g.y = p.partial + static_cast<std::uint64_t>(part * rows * outputs * 4);
    g.m = p.m;
    g.n = p.n;
    g.k = static_cast<uint>(k);
    if (cut.direct) g.y = p.y, g.c = p.c, g.bias = p.bias, g.bias_dtype = static_cast<int>(call.input(2).dtype);
    launch_gemm_tiles(g, QUERN_F16, launcher);
  }
  if (cut.direct) return;
  launcher.barrier();
  p.parts = static_cast<uint>(cut.parts);
  launcher.launch("matmul_sums", launcher.item_threads(), launcher.spread(rows * outputs), p);
}

}  // namespace

std::uint64_t halves_scratch(const Call& call) {
  if (!may_round(call)) return 0;
  const Cut cut(call);
  if (!is_large(cut)) return 0;
  // Of fewer rows or a shorter k there may be more at once: these are the most of all.
  return most_bytes(cut.m, cut.row_bytes(), rows_together) + most_bytes(cut.n, cut.row_bytes(), outputs_together) +
         (cut.decodes ? most_bytes(cut.n, cut.k * 4, outputs_together) : 0) + 2 * Cut::most_parts_of(cut.k) * part_alignment +
         most_sums_bytes(cut);
}

bool launch_halves(const Call& call, Launcher& launcher) {
  if (!may_round(call) || !launcher.facts().by_matrices) return false;
  const Cut cut(call);
  if (!is_large(cut)) return false;
  const Tensor &a = call.input(0), &b = call.input(1);
  const std::uint64_t a_at = call.scratch, b_at = a_at + cut.a_bytes(), floats_at = b_at + cut.b_bytes();
  MatmulParams p = product_params(call, b);
  p.partial = floats_at + cut.floats_bytes();
  for (std::int64_t row = 0; row < cut.m; row += cut.rows) {
    const std::int64_t rows = std::min(cut.rows, cut.m - row);
    if (row > 0) launcher.barrier();
    convert(a.data + static_cast<std::uint64_t>(row * p.a_row), p.a_row, p.a_step, p.a_dtype, rows, cut, a_at, p.partial, launcher);
    for (std::int64_t output = 0; output < cut.n; output += cut.outputs) {
      const std::int64_t outputs = std::min(cut.outputs, cut.n - output);
      Tensor part = b;
      if (output > 0) launcher.barrier();
      if (cut.decodes) {
        part = decode_outputs(call, output, outputs, floats_at, launcher);
        launcher.barrier();
      } else {
        part.data += static_cast<std::uint64_t>(output * p.b_row);
      }
      const MatmulParams of_part = product_params(call, part);
      convert(part.data, of_part.b_row, of_part.b_step, of_part.b_dtype, outputs, cut, b_at,
              p.partial + static_cast<std::uint64_t>(cut.rows * Cut::most_parts_of(cut.k) * 4), launcher);
      launcher.barrier();
      multiply(call, cut, p, row, rows, output, outputs, a_at, b_at, launcher);
    }
  }
  return true;
}

}  // namespace quern::vulkan
