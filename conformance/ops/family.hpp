// What the files of ops/ share: short ways to say a value, and the dtypes and shapes that many ops cross.
#pragma once

#include "case_table/case_table.hpp"

#include <array>
#include <cmath>

namespace quern::conformance {

inline ValueSpec input(quern_dtype dtype, Dims dims, DataKind data = DataKind::gaussian, Layout layout = {}) {
  ValueSpec v;
  v.dtype = dtype;
  v.dims = std::move(dims);
  v.data = data;
  v.layout = std::move(layout);
  return v;
}
/// A weight: bound at prepare, and packed where the plugin plans a layout for it.
inline ValueSpec constant(quern_dtype dtype, Dims dims, DataKind data = DataKind::gaussian, Layout layout = {}) {
  ValueSpec v = input(dtype, std::move(dims), data, std::move(layout));
  v.kind = QUERN_VALUE_CONSTANT;
  return v;
}
inline ValueSpec output(quern_dtype dtype, Dims dims, Layout layout = {}) {
  ValueSpec v = input(dtype, std::move(dims), DataKind::uniform, std::move(layout));
  v.kind = QUERN_VALUE_OUTPUT;
  return v;
}
/// An output in the memory of input `of`.
inline ValueSpec in_place(const ValueSpec& of, int index) {
  ValueSpec v = output(of.dtype, of.dims);
  v.in_place_of = index;
  return v;
}
/// What input `index` holds after the run, where an op writes an input of its (token_publish counts). Comes behind the node's outputs.
inline ValueSpec observed(const ValueSpec& of, int index) {
  ValueSpec v = in_place(of, index);
  v.observed = true;
  return v;
}
/// A state that the node reads and writes; `data` is what it holds before.
inline ValueSpec state(quern_dtype dtype, Dims dims, DataKind data = DataKind::gaussian, Layout layout = {}) {
  ValueSpec v = input(dtype, std::move(dims), data, std::move(layout));
  v.kind = QUERN_VALUE_STATE;
  return v;
}
inline ValueSpec absent() { return {}; }
/// Filled by a function of the op's own; `name` stands for it in the case's name.
inline ValueSpec filled(ValueSpec v, std::string name, std::function<void(const Tensor&, const CounterRandom&)> fill) {
  v.fill = std::move(fill);
  v.fill_name = std::move(name);
  return v;
}

inline constexpr std::array float_dtypes = {QUERN_F32, QUERN_F16, QUERN_BF16};
inline constexpr auto block_dtypes = [] {
  std::array<quern_dtype, std::size(quern_formats)> ids{};
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = quern_formats[i].id;
  return ids;
}();

/// An ulp of f32 at r.
inline double ulp_f32(double r) { return 2.0 * half_ulp_f32(r); }
/// Whether x times any normal number is exact: 0 and powers of two. A bound charges such a product nothing.
inline bool scales_exactly(double x) {
  int exponent = 0;
  return x == 0.0 || std::fabs(std::frexp(x, &exponent)) == 0.5;
}
/// Rounding an f32 intermediate that is stored as a narrower dtype; f32 itself has it in E_out.
inline double narrow_store(quern_dtype y, double r) { return y == QUERN_F32 ? 0.0 : half_ulp_f32(r); }

}  // namespace quern::conformance
