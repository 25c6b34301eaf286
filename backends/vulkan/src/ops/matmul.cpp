// matmul and matmul_id. Packed rows take shaders/matmul.comp, whatever the format of b; other products of floats shaders/matmul_any.comp.
#include "tables.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::uint32_t most_leading = 4;
constexpr std::int64_t rows_a_subgroup = 4;  // tile_n of the kernel

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

bool ranged(const Tensor& t, std::uint32_t d) { return (t.ranged >> d & 1u) != 0; }

std::string check_factors(const Tensor& a, const Tensor& b, const Tensor& y) {
  if (std::string r = first_of({check_floats(a), check_floats(y)}); !r.empty()) return r;
  if (!is_float(b.dtype) && !is_block(b.dtype)) return concat(describe(b), "; floats and block formats are taken");
  return {};
}

std::string refuse(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &bias = call.input(2), &c = call.input(3), &y = call.output(0);
  if (std::string r = check_factors(a, b, y); !r.empty()) return r;
  if (a.rank < 2 || b.rank < 2 || a.rank > 2 + most_leading)
    return concat(describe(a), " and ", describe(b), "; both have 2 to 6 dimensions");
  const Product s = product_of(call);
  if (is_block(b.dtype) && s.transpose_b) return concat(describe(b), ": block formats are not transposed");
  if (s.k != b.dims[b.rank - (s.transpose_b ? 2 : 1)]) return concat(describe(a), " and ", describe(b), " have another k");
  if (is_block(b.dtype) && (!sdk::has_packed_rows(a) || s.transpose_a || !sdk::has_packed_rows(b)))
    return concat(describe(a), ": with block formats the rows of both factors are packed");
  if (b.rank > a.rank) return concat(describe(b), " has more leading dimensions than ", describe(a));
  if (std::string r = first_of({check_rank(y, a.rank), check_dim(y, y.rank - 2, s.m), check_dim(y, y.rank - 1, s.n)}); !r.empty()) return r;
  for (std::uint32_t d = 0; d + 2 < a.rank; ++d) {
    if (std::string r = check_dim(y, d, a.dims[d]); !r.empty()) return r;
    const std::int64_t at = std::int64_t{d} + b.rank - a.rank;
    if (at < 0) continue;
    const auto e = static_cast<std::uint32_t>(at);
    const std::int64_t size = b.dims[at];
    const bool divides = ranged(a, d) || ranged(b, e) ? size == 1 || (size == a.dims[d] && ranged(a, d) == ranged(b, e))
                                                      : size > 0 && a.dims[d] % size == 0;
    if (!divides && a.dims[d] != 0) return concat(describe(b), ": its leading dimensions divide those of ", describe(a));
  }
  if (bias.present())
    if (std::string r = first_of({check_floats(bias), check_rank(bias, 1), check_dim(bias, 0, s.n)}); !r.empty()) return r;
  if (c.present())
    if (std::string r = first_of({check_floats(c), check_same_shape(c, y)}); !r.empty()) return r;
  if (s.m >= std::int64_t{1} << 31 || s.n >= std::int64_t{1} << 31 || s.k >= std::int64_t{1} << 31)
    return "a product has fewer than 2^31 rows, columns and terms";
  return {};
}

/// The tile's rows of a: more rows share what is decoded of b.
std::int64_t rows_of_a_tile(std::int64_t m) { return m == 1 ? 1 : 4; }

void launch_rows(MatmulParams& p, const Tensor& a, const Tensor& b, std::int64_t tile, bool ids, Launcher& launcher) {
  const std::uint32_t threads = launcher.facts().software() ? 8 : 128;
  const std::int64_t subgroups = std::max<std::int64_t>(1, threads / std::max<std::uint32_t>(1, launcher.facts().subgroup));
  const std::int64_t rows = rows_a_subgroup * subgroups;
  launcher.launch("matmul", threads,
                  {std::min<std::int64_t>((p.n + rows - 1) / rows, 65535), std::min<std::int64_t>((p.m + tile - 1) / tile, 65535),
                   std::min<std::int64_t>(p.batch, 65535)},
                  p,
                  {static_cast<std::int32_t>(b.dtype), static_cast<std::int32_t>(a.dtype), static_cast<std::int32_t>(tile), ids ? 1 : 0,
                   p.k % 16 != 0 ? 1 : 0, b.packed_layout ? 1 : 0});
}

void emit(const Call& call, Launcher& launcher) {
  const Tensor &a = call.input(0), &b = call.input(1), &bias = call.input(2), &c = call.input(3), &y = call.output(0);
  const Product s = product_of(call);
  MatmulParams p{};
  p.a = a.data;
  p.b = b.data;
  p.bias = bias.data;
  p.c = c.data;
  p.y = y.data;
  p.m = static_cast<uint>(s.m);
  p.n = static_cast<uint>(s.n);
  p.k = static_cast<uint>(s.k);
  p.batch = 1;
  std::fill_n(p.batch_dims, most_leading, 1u);
  std::fill_n(p.group, most_leading, 1u);
  for (std::uint32_t d = 0; d + 2 < a.rank; ++d) {
    const std::int64_t at = std::int64_t{d} + b.rank - a.rank;
    p.batch_dims[d] = static_cast<uint>(a.dims[d]);
    p.batch *= p.batch_dims[d];
    p.a_batch[d] = a.strides[d];
    p.y_batch[d] = y.strides[d];
    if (c.present()) p.c_batch[d] = c.strides[d];
    if (at < 0 || b.dims[at] == 0) continue;
    p.b_batch[d] = b.strides[at];
    p.group[d] = std::max<uint>(1, static_cast<uint>(a.dims[d] / b.dims[at]));
  }
  p.a_row = a.strides[a.rank - (s.transpose_a ? 1 : 2)];
  p.a_step = a.strides[a.rank - (s.transpose_a ? 2 : 1)];
  p.b_row = b.strides[b.rank - (s.transpose_b ? 1 : 2)];
  p.b_step = b.strides[b.rank - (s.transpose_b ? 2 : 1)];
  p.y_row = y.strides[y.rank - 2];
  p.y_step = static_cast<int>(y.strides[y.rank - 1]);
  if (c.present()) {
    p.c_row = c.strides[c.rank - 2];
    p.c_step = static_cast<int>(c.strides[c.rank - 1]);
  }
  if (bias.present()) p.bias_step = static_cast<int>(bias.strides[0]);
  p.a_dtype = static_cast<int>(a.dtype);
  p.b_dtype = static_cast<int>(b.dtype);
  p.bias_dtype = static_cast<int>(bias.dtype);
  p.c_dtype = static_cast<int>(c.dtype);
  p.y_dtype = static_cast<int>(y.dtype);
  if (b.packed_layout) p.b_blocks = static_cast<std::uint64_t>(s.n) * static_cast<std::uint64_t>(s.k) / sdk::element_size(b.dtype).elements;
  p.alpha = call.number(QUERN_KEY_ALPHA);
  p.beta = call.number(QUERN_KEY_BETA);
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const bool packed = !s.transpose_a && !s.transpose_b && sdk::has_packed_rows(a) && sdk::has_packed_rows(b);
  if (packed) return launch_rows(p, a, b, rows_of_a_tile(s.m), false, launcher);
  for (std::int64_t done = 0; done < s.m;) {  // an item an output: fewer than 2^31 of them
    const std::int64_t rows = std::min(s.m - done, std::max<std::int64_t>(1, (std::int64_t{1} << 30) / s.n));
    p.m = static_cast<uint>(rows);
    Launcher::Grid grid = launcher.spread(rows * s.n);
    grid.z = std::min<std::int64_t>(p.batch, 65535);
    launcher.launch("matmul_any", launcher.item_threads(), grid, p);
    p.a += static_cast<std::uint64_t>(rows * p.a_row);
    p.y += static_cast<std::uint64_t>(rows * p.y_row);
    p.c += static_cast<std::uint64_t>(c.present() ? rows * p.c_row : 0);
    done += rows;
  }
}

std::string refuse_ids(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &id = call.input(2), &y = call.output(0);
  if (std::string r = first_of({check_factors(a, b, y), check_rank(a, 3), check_rank(b, 3), check_rank(y, 3), check_rank(id, 2),
                                check_dtype(id, QUERN_I32), check_contiguous(id)});
      !r.empty())
    return r;
  const std::int64_t t = a.dims[0], used = id.dims[1];
  if (a.dims[1] != 1 && a.dims[1] != used) return concat(describe(a), "; it has one row a token, or one an expert that the token uses");
  return first_of({check_dim(id, 0, t), check_dim(b, 2, a.dims[2]), check_dim(y, 0, t), check_dim(y, 1, used), check_dim(y, 2, b.dims[1]),
                   sdk::check_packed_rows(a), sdk::check_packed_rows(b)});
}
void emit_ids(const Call& call, Launcher& launcher) {
  const Tensor &a = call.input(0), &b = call.input(1), &id = call.input(2), &y = call.output(0);
  MatmulParams p{};
  p.a = a.data;
  p.b = b.data;
  p.ids = id.data;
  p.y = y.data;
  p.faults = launcher.faults();
  p.m = static_cast<uint>(id.elements());
  p.n = static_cast<uint>(b.dims[1]);
  p.k = static_cast<uint>(b.dims[2]);
  p.batch = 1;
  std::fill_n(p.batch_dims, most_leading, 1u);
  std::fill_n(p.group, most_leading, 1u);
  p.used = static_cast<int>(std::max<std::int64_t>(1, id.dims[1]));
  p.a_row = a.strides[0];
  p.a_step = a.dims[1] == 1 ? 0 : a.strides[1];
  p.b_expert = b.strides[0];
  p.b_row = b.strides[1];
  p.y_row = y.strides[0];
  p.c_row = y.strides[1];
  p.y_step = static_cast<int>(y.strides[2]);
  p.y_dtype = static_cast<int>(y.dtype);
  p.experts = static_cast<int>(b.dims[0]);
  p.alpha = 1;
  launch_rows(p, a, b, 1, true, launcher);
}

constexpr Op matmul_table[] = {offer(QUERN_OP_MATMUL, "matmul.vulkan", refuse, emit),
                               offer(QUERN_OP_MATMUL_ID, "matmul_id.vulkan", refuse_ids, emit_ids)};

}  // namespace

const std::span<const Op> matmul_ops = matmul_table;

}  // namespace quern::vulkan
