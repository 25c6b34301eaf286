// Another dtype, rounded to nearest even; block formats by their rules.
#include "copy.hpp"
#include "vectorised.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

/// Floats and blocks to f32, and f32 to 16 bits, in packed rows.
Verdict accepts_packed_cast(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  const bool widens = y.dtype == QUERN_F32 && (is_float(x.dtype) || is_block(x.dtype)), narrows = x.dtype == QUERN_F32 && is_float(y.dtype);
  if (x.dtype == y.dtype || (!widens && !narrows))
    return Verdict::no(concat("x is ", sdk::dtype_name(x.dtype), " and y ", sdk::dtype_name(y.dtype)));
  if (!has_packed_rows(x) || !has_packed_rows(y)) return Verdict::no("the rows of x and y are not packed");
  return Verdict::yes();
}

template <Isa isa>
void run_packed_cast(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const Vectors& vectors = vectors_of(isa);
  constexpr std::int64_t part = 8192;  // a multiple of every block
  const std::int64_t n = x.last(), parts = (n + part - 1) / part, unit = unit_elements(x.dtype);
  context.parallel(x.rows() * parts, rows_a_part(std::min(n, part)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / parts, first = i % parts * part, count = std::min(part, n - first);
      const std::byte* from = row_pointer(x, row) + first / unit * unit_bytes(x.dtype);
      std::byte* to = row_pointer(y, row) + first * unit_bytes(y.dtype);
      if (y.dtype == QUERN_F32) vectors.to_floats(x.dtype, from, count, reinterpret_cast<float*>(to));
      else vectors.from_floats(y.dtype, reinterpret_cast<const float*>(from), count, to);
    }
  });
}

void run_cast(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (x.dtype == y.dtype) return run_copy(call, context);
  const std::int64_t n = x.last(), grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, n));
  context.parallel(x.rows(), grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    constexpr std::int64_t part = 512;  // a multiple of every block
    float buffer[part];
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t first = 0; first < n; first += part) {
        const std::int64_t count = std::min(part, n - first);
        load_row(x, row, first, count, buffer);
        store_row(y, row, first, count, buffer);
      }
  });
}

constexpr Kernel kernels_cast[] = {
    QUERN_CPU_KERNELS(QUERN_OP_CAST, "cast.rows", accepts_packed_cast, run_packed_cast, nullptr, false),
    {QUERN_OP_CAST, "cast.portable", Isa::baseline, accepts_any, run_cast},
};

}  // namespace

const std::span<const Kernel> cast_kernels = kernels_cast;

}  // namespace quern::cpu
