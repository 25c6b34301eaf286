// add, sub, mul, div and scale: y in f32 with one rounding at the store, rows broadcast, any strides and any mix of float dtypes.
#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

constexpr std::int64_t part = 256;  // floats that a thread holds on its stack at a time

/// y = f(a, b) for each element; a row of b of length 1 repeats along the row of a.
template <typename F>
void binary(const Call& call, Context& context, const F& f) noexcept {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  const std::int64_t length = a.last(), b_length = b.last();
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, length));
  context.parallel(a.rows(), grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float left[part], right[part];
    for (std::int64_t row = begin; row < end; ++row) {
      const std::byte* b_row = broadcast_row_pointer(b, a, row);
      for (std::int64_t first = 0; first < length; first += part) {
        const std::int64_t n = std::min(part, length - first);
        load_row(a, row, first, n, left);
        if (b_length == 1) {
          load_floats(b_row, b.dtype, 0, 0, 1, right);
          std::fill(right + 1, right + n, right[0]);
        } else {
          load_floats(b_row, b.dtype, b.stride_from_end(0), first, n, right);
        }
        for (std::int64_t i = 0; i < n; ++i) left[i] = f(left[i], right[i]);
        store_row(y, row, first, n, left);
      }
    }
  });
}

void run_mul(const Call& call, Context& context) noexcept {
  binary(call, context, [](float a, float b) { return a * b; });
}
void run_sub(const Call& call, Context& context) noexcept {
  binary(call, context, [](float a, float b) { return a - b; });
}
void run_div(const Call& call, Context& context) noexcept {
  binary(call, context, [](float a, float b) { return a / b; });
}
void run_add(const Call& call, Context& context) noexcept {
  const float alpha = static_cast<float>(call.real(QUERN_KEY_ALPHA));
  if (alpha == 1.0f) return binary(call, context, [](float a, float b) { return a + b; });
  binary(call, context, [alpha](float a, float b) { return a + alpha * b; });
}

void run_scale(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const float alpha = static_cast<float>(call.real(QUERN_KEY_ALPHA)), beta = static_cast<float>(call.real(QUERN_KEY_BETA));
  const std::int64_t length = x.last();
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, length));
  context.parallel(x.rows(), grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    float buffer[part];
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t first = 0; first < length; first += part) {
        const std::int64_t n = std::min(part, length - first);
        load_row(x, row, first, n, buffer);
        if (beta == 0.0f)  // -0 is kept
          for (std::int64_t i = 0; i < n; ++i) buffer[i] *= alpha;
        else
          for (std::int64_t i = 0; i < n; ++i) buffer[i] = alpha * buffer[i] + beta;
        store_row(y, row, first, n, buffer);
      }
  });
}

/// Packed f32 rows whose b is no single number, and no factor.
Verdict accepts_packed_rows(const Call& call) {
  for (const auto& [view, name] : {std::pair{&call.input(0), "a"}, std::pair{&call.input(1), "b"}, std::pair{&call.output(0), "y"}})
    if (view->dtype != QUERN_F32 || !has_packed_rows(*view)) return Verdict::no(concat(name, " is not f32 in packed rows"));
  if (call.input(1).last() != call.input(0).last()) return Verdict::no("one number of b is for a row of a");
  if (call.op == QUERN_OP_ADD && call.real(QUERN_KEY_ALPHA) != 1.0) return Verdict::no("b has a factor");
  return Verdict::yes();
}

template <Isa isa>
void run_packed_rows(const Call& call, Context& context) noexcept {
  const Tensor &a = call.input(0), &b = call.input(1), &y = call.output(0);
  const auto body = call.op == QUERN_OP_ADD ? vectors_of(isa).add : vectors_of(isa).mul;
  const auto floats = [](std::byte* from) { return reinterpret_cast<float*>(from); };
  if (same_shape(a, b) && is_contiguous(a) && is_contiguous(b) && is_contiguous(y)) {
    context.parallel(a.elements(), 16384, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
      body(floats(bytes_of(a)) + begin, floats(bytes_of(b)) + begin, end - begin, floats(bytes_of(y)) + begin);
    });
    return;
  }
  const std::int64_t n = a.last();
  context.parallel(a.rows(), rows_a_part(n), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t row = begin; row < end; ++row)
      body(floats(row_pointer(a, row)), floats(broadcast_row_pointer(b, a, row)), n, floats(row_pointer(y, row)));
  });
}

constexpr Kernel kernels_elementwise[] = {
    QUERN_CPU_KERNELS(QUERN_OP_ADD, "add.rows", accepts_packed_rows, run_packed_rows, nullptr, false),
    QUERN_CPU_KERNELS(QUERN_OP_MUL, "mul.rows", accepts_packed_rows, run_packed_rows, nullptr, false),
    {QUERN_OP_ADD, "add.portable", Isa::baseline, accepts_any, run_add},
    {QUERN_OP_SUB, "sub.portable", Isa::baseline, accepts_any, run_sub},
    {QUERN_OP_DIV, "div.portable", Isa::baseline, accepts_any, run_div},
    {QUERN_OP_MUL, "mul.portable", Isa::baseline, accepts_any, run_mul},
    {QUERN_OP_SCALE, "scale.portable", Isa::baseline, accepts_any, run_scale},
};

}  // namespace

const std::span<const Kernel> elementwise_kernels = kernels_elementwise;

}  // namespace quern::cpu
