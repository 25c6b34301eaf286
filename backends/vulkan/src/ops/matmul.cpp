// Few packed rows take shaders/matmul.comp, whatever the format of b; other products shaders/matmul_tiles.comp.
#include "matmul_halves.hpp"
#include "matmul_rows.hpp"
#include "matmul_tiles.hpp"
#include "tables.hpp"

#include <algorithm>

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
  MatmulParams p = product_params(call, b);
  if (b.packed_layout) p.b_blocks = static_cast<std::uint64_t>(p.n) * p.k / sdk::element_size(b.dtype).elements;
  launch_matmul_rows(p, a, b, p.m == 1 ? 1 : few_product_rows, false, launcher);
}
std::uint64_t product_scratch(const Call& call) { return takes_few_rows(call) ? 0 : std::max(tiles_scratch(call), halves_scratch(call)); }
std::int64_t product_turns(const Call& call) { return takes_few_rows(call) ? 0 : tiles_turns(call); }

}  // namespace

const Op matmul_op = offer(QUERN_OP_MATMUL, "matmul.vulkan", refuse, emit, product_scratch).with_turns(product_turns);

}  // namespace quern::vulkan
