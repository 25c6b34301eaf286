// Few packed rows take shaders/matmul.comp, whatever the format of b; one row by weights of f16 or bf16 shaders/gemv_floats.comp, where a conversion is
// allowed, since its sums have another order; other products shaders/matmul_tiles.comp.
#include "matmul_halves.hpp"
#include "matmul_rows.hpp"
#include "matmul_tiles.hpp"
#include "tables.hpp"

#include <algorithm>
#include <optional>

namespace quern::vulkan {
namespace {

constexpr std::int64_t few_product_rows = 4;

struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
};
Product product_of(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  Product s;
  s.transpose_a = call.flag(QUERN_KEY_TRANSPOSE_A);
  s.transpose_b = call.flag(QUERN_KEY_TRANSPOSE_B);
  s.m = a.dims[a.rank - (s.transpose_a ? 1 : 2)];
  s.k = a.dims[a.rank - (s.transpose_a ? 2 : 1)];
  s.n = b.dims[b.rank - (s.transpose_b ? 1 : 2)];
  return s;
}

/// Whether a subgroup makes the sums of some outputs: of few rows, or where their bits must not depend on how many there are.
bool takes_few_rows(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  const Product s = product_of(call);
  return (s.m <= few_product_rows || call.invariant) && !s.transpose_a && !s.transpose_b && sdk::has_packed_rows(a) &&
         sdk::has_packed_rows(b);
}

/// One row of f32 by a packed matrix of f16 or bf16 that gemv_floats.comp multiplies; null: it does not.
std::optional<OneRowProduct> one_row(const Call& call, const CardFacts& card) {
  const Tensor &a = call.input(0), &b = call.input(1), &bias = call.input(2), &y = call.output(0);
  const Product s = product_of(call);
  const auto format = static_cast<int>(b.dtype);
  const bool floats = (b.dtype == QUERN_F16 || b.dtype == QUERN_BF16) && a.dtype == QUERN_F32 && y.dtype == QUERN_F32;
  const bool allowed = (call.f16_allowed() || call.bf16_allowed()) && !call.invariant;
  if (!floats || !allowed || a.rank != 2 || b.rank != 2 || s.m != 1 || s.k % 64 != 0 || s.k >= std::int64_t{1} << 24) return std::nullopt;
  if (call.input(3).present() || call.real(QUERN_KEY_ALPHA) != 1.0 || (bias.present() && !is_contiguous(bias))) return std::nullopt;
  if (!is_contiguous(a) || !is_contiguous(b) || !is_contiguous(y) || ((a.data | b.data) & 15u) != 0) return std::nullopt;
  if (!card.shuffles || card.group_limit < 256 || one_row_bytes(format, s.k) > card.shared_limit) return std::nullopt;
  OneRowProduct product;
  product.params.x = a.data;
  product.params.b = b.data;
  product.params.bias = bias.data;
  product.params.bias_dtype = static_cast<int>(bias.dtype);
  product.params.y = y.data;
  product.params.n = static_cast<uint>(s.n);
  product.format = format;
  product.k = static_cast<uint>(s.k);
  return product;
}

std::string refuse(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1);
  if (a.rank < 2 || a.rank > 2 + most_leading) return concat(describe(a), " and ", describe(b), "; both have 2 to 6 dimensions");
  if (is_block(b.dtype) && !sdk::has_packed_rows(b)) return concat(describe(b), ": blocks of a row lie one behind the other");
  if (b.packed_layout && b.rank != 2 && !takes_few_rows(call)) return concat(describe(b), ": weights in planes are a matrix");
  const Product s = product_of(call);
  const bool large = s.m >= std::int64_t{1} << 31 || s.n >= std::int64_t{1} << 31 || s.k >= std::int64_t{1} << 31;
  return large ? "a product has fewer than 2^31 rows, columns and terms" : "";
}

void emit(const Call& call, Launcher& launcher) {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  if (y.elements() == 0) return;
  if (!takes_few_rows(call)) {
    if (!launch_halves(call, launcher)) launch_tiles(call, launcher);
    return;
  }
  if (const auto product = one_row(call, launcher.facts())) return launcher.launch_products({*product});
  MatmulParams p = product_params(call, b);
  if (b.packed_layout) p.b_blocks = static_cast<std::uint64_t>(p.n) * p.k / sdk::element_size(b.dtype).elements;
  launch_matmul_rows(p, a, b, p.m == 1 ? 1 : few_product_rows, false, launcher);
}
std::uint64_t product_scratch(const Call& call) { return takes_few_rows(call) ? 0 : std::max(tiles_scratch(call), halves_scratch(call)); }
std::int64_t product_turns(const Call& call) { return takes_few_rows(call) ? 0 : tiles_turns(call); }

}  // namespace

const Op matmul_op = offer(QUERN_OP_MATMUL, "matmul.vulkan", refuse, emit, product_scratch).with_turns(product_turns);

}  // namespace quern::vulkan
