// See matmul_any.hpp.
#include "matmul_any.hpp"

#include "../kernels/matmul.hpp"
#include "../kernels/tile_product.hpp"

#include "strided.hpp"

namespace quern::cuda {
namespace {

/// Strides of the last two dims, turned.
struct Sides {
  std::int64_t row, step;
  Sides(const Tensor& t, bool turned) : row(t.strides[t.rank - (turned ? 1 : 2)]), step(t.strides[t.rank - (turned ? 2 : 1)]) {}
};

}  // namespace

void launch_matmul_any(const Tensor& a, const Tensor& b, Address bias, const Tensor& c, const Tensor& y, const MatmulFactors& factors,
                       Launcher& launcher) {
  MatmulAnyParams p{};
  p.a = operand_of(a);
  p.b = operand_of(b);
  p.c = operand_of(c);
  p.y = operand_of(y);
  p.batches = empty_walk;
  Operand* const operands[] = {&p.a, &p.b, &p.c, &p.y};
  for (std::uint32_t d = 0; d + 2 < y.rank; ++d) {
    const bool b_has = d + b.rank >= y.rank;
    const std::int64_t n = y.dims[d], groups = b_has ? std::max<std::int64_t>(1, b.dims[d + b.rank - y.rank]) : 1, each = n / groups;
    const std::int64_t b_stride = b_has ? b.strides[d + b.rank - y.rank] : 0, c_stride = c.present() ? c.strides[d] : 0;
    const std::int64_t apart[] = {a.strides[d] * each, b_stride, c_stride * each, y.strides[d] * each};
    const std::int64_t inside[] = {a.strides[d], 0, c_stride, y.strides[d]};
    add_dimension(p.batches, groups, operands, apart);
    add_dimension(p.batches, each, operands, inside);
  }
  finish(p.batches);
  const Sides of_a(a, factors.transpose_a), of_b(b, factors.transpose_b), of_y(y, false);
  p.a_row = of_a.row;
  p.a.step = of_a.step;
  p.b_row = of_b.row;
  p.b.step = of_b.step;
  p.y_row = of_y.row;
  p.y.step = of_y.step;
  if (c.present()) {
    const Sides of_c(c, false);
    p.c_row = of_c.row;
    p.c.step = of_c.step;
  }
  p.b_blocks = is_block(b.dtype);
  if (p.b_blocks) {
    Tensor start = b;
    if (!b.packed_layout) start.data = 0;
    p.pieces = blocks_of(start);
    p.b_planes = b.packed_layout;
    p.b_turned = factors.transpose_b;
  }
  p.bias = bias;
  p.m = y.dims[y.rank - 2];
  p.n = y.dims[y.rank - 1];
  p.k = a.dims[a.rank - (factors.transpose_a ? 2 : 1)];
  p.alpha = factors.alpha;
  p.beta = factors.beta;
  launcher.launch(kernels::matmul_any,
                  {(p.n + product_tile - 1) / product_tile, (p.m + product_tile - 1) / product_tile,
                   std::min<std::int64_t>(p.batches.count, 65535)},
                  256, p);
}

}  // namespace quern::cuda
