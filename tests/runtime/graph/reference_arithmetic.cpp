// Elementwise ops, norms, products and activations of the reference interpreter.
#include "reference_elements.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace quern::test {
namespace {

void norm_rows(const Cells& x, const Cells& weight, const Cells& y, double epsilon, double offset) {
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    double squares = 0;
    for (std::int64_t i = 0; i < x.last(); ++i) squares += x.cell(row, i) * x.cell(row, i);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(x.last()) + epsilon);
    for (std::int64_t i = 0; i < x.last(); ++i) y.cell(row, i) = (weight.data ? weight.flat(i) + offset : 1) * x.cell(row, i) * factor;
  }
}

}  // namespace

void reference_add(ReferenceCall& call) {
  const double alpha = call.number(QUERN_KEY_ALPHA);
  binary(call, [=](double a, double b) { return a + alpha * b; });
}
void reference_sub(ReferenceCall& call) { binary(call, std::minus<>()); }
void reference_mul(ReferenceCall& call) { binary(call, std::multiplies<>()); }
void reference_div(ReferenceCall& call) { binary(call, std::divides<>()); }

void reference_scale(ReferenceCall& call) {
  const double alpha = call.number(QUERN_KEY_ALPHA), beta = call.number(QUERN_KEY_BETA);
  unary(call, [=](double x) { return alpha * x + beta; });
}

void reference_copy(ReferenceCall& call) {
  unary(call, [](double x) { return x; });
}

void reference_silu(ReferenceCall& call) {
  unary(call, [](double x) { return x * sigmoid(x); });
}

void reference_get_rows(ReferenceCall& call) {
  const Cells &table = call.in[0], &index = call.in[1], &y = call.out[0];
  for (std::int64_t t = 0; t < index.count(); ++t) {
    const auto row = static_cast<std::int64_t>(index.flat(t));
    const bool inside = row >= 0 && row < table.dims[0];
    if (!inside) call.interpreter.raise_index_fault();
    for (std::int64_t i = 0; i < table.last(); ++i) y.at({t, i}) = inside ? table.at({row, i}) : 0;
  }
}

void reference_take(ReferenceCall& call) {
  const Cells &x = call.in[0], &index = call.in[1], &y = call.out[0];
  for (std::int64_t j = 0; j < index.count(); ++j) {
    const auto from = static_cast<std::int64_t>(index.flat(j));
    const bool inside = from >= 0 && from < x.last();
    if (!inside) call.interpreter.raise_index_fault();
    for (std::int64_t i = 0; i < x.dims[0]; ++i) y.at({i, j}) = inside ? x.at({i, from}) : 0;
  }
}

void reference_rms_norm(ReferenceCall& call) {
  norm_rows(call.in[0], call.in[1], call.out[0], call.number(QUERN_KEY_EPSILON), call.number(QUERN_KEY_WEIGHT_OFFSET));
}

void reference_add_rms_norm(ReferenceCall& call) {
  const Cells &a = call.in[0], &b = call.in[1], &sum = call.out[0];
  for (std::int64_t i = 0; i < a.count(); ++i) sum.flat(i) = a.flat(i) + b.flat(i);
  norm_rows(sum, call.in[2], call.out[1], call.number(QUERN_KEY_EPSILON), call.number(QUERN_KEY_WEIGHT_OFFSET));
}

void reference_matmul(ReferenceCall& call) {
  const Cells &a = call.in[0], &b = call.in[1], &bias = call.in[2], &c = call.in[3], &y = call.out[0];
  const bool transpose_a = call.integer(QUERN_KEY_TRANSPOSE_A) != 0, transpose_b = call.integer(QUERN_KEY_TRANSPOSE_B) != 0;
  const std::size_t rank = a.dims.size(), b_rank = b.dims.size();
  const std::int64_t m = y.dims[rank - 2], n = y.dims[rank - 1], k = a.dims[transpose_a ? rank - 2 : rank - 1];
  std::int64_t batches = 1;
  for (std::size_t d = 0; d + 2 < rank; ++d) batches *= a.dims[d];
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    std::int64_t left = batch, b_batch = 0, b_step = 1;
    for (std::size_t d = rank - 2; d-- > 0; left /= a.dims[d]) {
      const std::size_t behind = rank - d;  // dimensions from d to the end
      if (behind > b_rank) continue;
      const std::int64_t size = b.dims[b_rank - behind];
      b_batch += left % a.dims[d] / (a.dims[d] / size) * b_step;
      b_step *= size;
    }
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l)
          sum += a.flat(batch * m * k + (transpose_a ? l * m + i : i * k + l)) *
                 b.flat(b_batch * n * k + (transpose_b ? l * n + j : j * k + l));
        sum *= call.number(QUERN_KEY_ALPHA);
        if (bias.data) sum += bias.flat(j);
        const std::int64_t at = (batch * m + i) * n + j;
        if (c.data) sum += call.number(QUERN_KEY_BETA) * c.flat(at);
        y.flat(at) = sum;
      }
  }
}

void reference_glu(ReferenceCall& call) {
  const Cells &gate = call.in[0], &up = call.in[1], &y = call.out[0];
  const std::int64_t n = y.last();
  const bool swapped = call.integer(QUERN_KEY_SWAPPED) != 0;
  const double limit = call.number(QUERN_KEY_LIMIT);
  const bool limited = std::isfinite(limit);
  for (std::int64_t row = 0; row < y.rows(); ++row)
    for (std::int64_t i = 0; i < n; ++i) {
      double g = up.data ? gate.cell(row, i) : gate.cell(row, swapped ? n + i : i);
      double u = up.data ? up.cell(row, i) : gate.cell(row, swapped ? i : n + i);
      if (limited) {
        g = std::min(g, limit);
        u = std::max(std::min(u, limit), -limit) + 1;
      }
      y.cell(row, i) = gated(call.integer(QUERN_KEY_KIND), g, limited ? call.number(QUERN_KEY_ALPHA) : 1) * u;
    }
}

}  // namespace quern::test
