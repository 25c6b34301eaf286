// max, sum_rows and logsumexp along the last dimension. NaN wins; a row without elements gives -inf, 0 and -inf.
#include "log_sum_exp.hpp"

namespace quern::cpu {
namespace {

Verdict check_rows(const OpCall& call) {
  const TensorView &x = call.input(0), &y = call.output(0);
  if (Verdict v = check_floats(x, "x"); !v) return v;
  if (Verdict v = check_floats(y, "y"); !v) return v;
  if (x.rank == 0) return Verdict::invalid("x is a scalar; a reduction of rows takes rows");
  return Verdict::yes();
}
Verdict accepts_dropped(const OpCall& call) {
  if (Verdict v = check_rows(call); !v) return v;
  const TensorView &x = call.input(0), &y = call.output(0);
  if (y.rank + 1 != x.rank || !std::equal(y.dims, y.dims + y.rank, x.dims))
    return Verdict::invalid(concat("y is ", describe(y), " for x of ", describe(x), "; it has the dimensions of x but the last"));
  return Verdict::yes();
}
Verdict accepts_kept(const OpCall& call) {
  if (Verdict v = check_rows(call); !v) return v;
  TensorView one = call.input(0);
  one.dims[one.rank - 1] = 1;
  if (!same_shape(one, call.output(0)))
    return Verdict::invalid(concat("y is ", describe(call.output(0)), " for x of ", describe(call.input(0)),
                                   "; it has the dimensions of x with a last one of 1"));
  return Verdict::yes();
}

/// y[row] = f(row).
template <typename F>
void reduce(const OpCall& call, Context& context, const F& f) noexcept {
  const TensorView &x = call.input(0), &y = call.output(0);
  context.parallel(row_count(x), rows_a_part(row_length(x)), [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t row = begin; row < end; ++row) store_scalar(y, row, static_cast<float>(f(x, row)));
  });
}

void run_max(const OpCall& call, Context& context) noexcept { reduce(call, context, largest); }
void run_logsumexp(const OpCall& call, Context& context) noexcept {
  reduce(call, context, [](const TensorView& x, std::int64_t row) { return log_sum_exp(x, row, portable::vectors); });
}
void run_sum_rows(const OpCall& call, Context& context) noexcept {
  reduce(call, context, [](const TensorView& x, std::int64_t row) {
    return static_cast<float>(row_sum(x, row, 0, row_length(x), [](float v) { return v; }));
  });
}

constexpr Kernel kernels_reduce_rows[] = {
    {QUERN_OP_MAX, "max.portable", Isa::baseline, accepts_dropped, run_max},
    {QUERN_OP_LOGSUMEXP, "logsumexp.portable", Isa::baseline, accepts_dropped, run_logsumexp},
    {QUERN_OP_SUM_ROWS, "sum_rows.portable", Isa::baseline, accepts_kept, run_sum_rows},
};

}  // namespace

const std::span<const Kernel> reduce_rows_kernels = kernels_reduce_rows;

}  // namespace quern::cpu
