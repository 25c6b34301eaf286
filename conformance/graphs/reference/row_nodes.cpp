// Norms, rotations, row look-ups and elementwise nodes. Bounds as in the files of ops/ and the suite's tolerance table.
#include "graphs/reference/node_reference.hpp"

#include "ops/family.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace quern::conformance {
namespace {

/// (weight + offset) * x / rms of one row. Deviation: that of x_i itself, and that of the mean square through 1 / rms,
/// w x_i / (n rms^3) * root(sum (x_j s_j)^2).
void norm_row(const NodeCall& call, const double* x, const double* s, std::int64_t n, const std::vector<double>& weight, Result& y) {
  const double epsilon = call.attribute(QUERN_KEY_EPSILON, 0), offset = call.attribute(QUERN_KEY_WEIGHT_OFFSET, 0);
  double square = 0, moved = 0;
  for (std::int64_t i = 0; i < n; ++i) square += x[i] * x[i], moved += x[i] * x[i] * s[i] * s[i];
  const double factor = 1.0 / std::sqrt(square / static_cast<double>(n) + epsilon);
  const double shared = std::sqrt(moved) * factor * factor * factor / static_cast<double>(n);
  for (std::int64_t i = 0; i < n; ++i) {
    const double w = (weight.empty() ? 1.0 : weight[static_cast<std::size_t>(i)]) + (weight.empty() ? 0.0 : offset), r = w * x[i] * factor;
    const double offset_error = offset == 0 ? 0.0 : u32 * (std::fabs(w) + 2 * std::fabs(offset)) * std::fabs(x[i]) * factor;
    const double bound =
        (2.0 * std::sqrt(static_cast<double>(n)) + 8.0) * u32 * std::fabs(r) + offset_error + 0x1p-150 * (factor + std::fabs(w));
    y.add(r, bound + narrow_store(call.dtypes.back(), r), std::hypot(w * factor * s[i], w * x[i] * shared));
  }
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// f of glu by its kind; `alpha` is that of silu with a limit.
double activation(int kind, double x, double alpha) {
  switch (kind) {
    case 0: return x == -std::numeric_limits<double>::infinity() ? -0.0 : x * sigmoid(alpha * x);
    case 1: return 0.5 * x * (1.0 + std::erf(x * std::sqrt(0.5)));
    case 2: return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case 3: return std::max(x, 0.0);
    case 4: return sigmoid(x);
    default: throw std::logic_error("no such kind of glu");
  }
}

/// Of f in f32: exp within 3 + 2|x| ulp and a division, for tanh and erf 16 u |x|; the floor of small results as for silu.
double activation_bound(int kind, double x, double f) {
  const double size = std::min(std::fabs(x), 128.0);
  if (kind == 3) return 0.0;
  if (kind == 1 || kind == 2) return 16.0 * u32 * std::fabs(x);
  return (8.0 + 2.0 * size) * ulp_f32(f) + size * 0x1p-100;
}

/// Where f lies for an argument within 8 deviations of x. silu and gelu have one minimum, which may be inside.
struct Range {
  double low, high;
};
Range activation_range(int kind, double x, double s, double alpha) {
  const double a = activation(kind, x - 8 * s, alpha), b = activation(kind, x + 8 * s, alpha);
  Range range{std::min(a, b), std::max(a, b)};
  constexpr double minima[] = {-1.2784645427610738, -0.7517915246935645, -0.7524614220710162};  // of silu, gelu, gelu by tanh
  if (kind < 3) {
    const double at = kind == 0 ? minima[0] / alpha : minima[kind];
    if (x - 8 * s < at && at < x + 8 * s) range.low = std::min(range.low, activation(kind, at, alpha));
  }
  return range;
}

/// An eighth of the furthest that a product of two factors within their ranges is from r. Activations bend too much for a slope: where
/// f is flat at x, it need not be one deviation further.
double product_deviation(Range f, Range u, double r) {
  double furthest = 0;
  for (const double product : {f.low * u.low, f.low * u.high, f.high * u.low, f.high * u.high})
    furthest = std::max(furthest, std::fabs(product - r));
  return furthest / 8;
}

void glu(const NodeCall& call, Result& y) {
  const int kind = static_cast<int>(call.attribute(QUERN_KEY_KIND, 0));
  const double infinity = std::numeric_limits<double>::infinity(), limit = call.attribute(QUERN_KEY_LIMIT, infinity);
  const double alpha = std::isfinite(limit) ? call.attribute(QUERN_KEY_ALPHA, 1) : 1.0, more = std::isfinite(limit) ? 1.0 : 0.0;
  const bool packed = !call.has(1), swapped = call.attribute(QUERN_KEY_SWAPPED, 0) != 0;
  const Operand& gate = call.input(0);
  const std::int64_t n = packed ? gate.last() / 2 : gate.last(), rows = gate.count() / gate.last();
  const std::vector<double> a = gate.values(), sa = gate.deviations();
  const std::vector<double> b = packed ? a : call.input(1).values(), sb = packed ? sa : call.input(1).deviations();
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < n; ++i) {
      const auto g_at = static_cast<std::size_t>(packed ? row * 2 * n + (swapped ? n : 0) + i : row * n + i);
      const auto u_at = static_cast<std::size_t>(packed ? row * 2 * n + (swapped ? 0 : n) + i : row * n + i);
      const double g = std::min(a[g_at], limit), u = std::clamp(b[u_at], -limit, limit) + more;
      const double f = activation(kind, g, alpha), r = f * u;
      const double bound = activation_bound(kind, alpha * g, f) * std::fabs(u) + ulp_f32(r) + (more != 0 ? u32 * std::fabs(f * u) : 0.0);
      y.add(r, bound + narrow_store(call.dtypes[0], r),
            product_deviation(activation_range(kind, g, sa[g_at], alpha), {u - 8 * sb[u_at], u + 8 * sb[u_at]}, r));
    }
}

/// An activation of one operand: its kind as of glu and the factor of x in its sigmoid.
void activate(const NodeCall& call, Result& y) {
  const auto gelu = static_cast<int>(call.attribute(QUERN_KEY_KIND, 0));
  const bool quick = call.node.op == QUERN_OP_GELU && gelu == 2;
  const int kind = call.node.op == QUERN_OP_SIGMOID ? 4 : call.node.op == QUERN_OP_GELU && !quick ? gelu + 1 : 0;
  const double alpha = quick ? 1.702 : 1.0;
  const std::vector<double> x = call.input(0).values(), s = call.input(0).deviations();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double r = activation(kind, x[i], alpha);
    y.add(r, activation_bound(kind, alpha * x[i], r) + narrow_store(call.dtypes[0], r),
          product_deviation(activation_range(kind, x[i], s[i], alpha), {1, 1}, r));
  }
}

/// 5 ulp; tanh rises everywhere, so its range is that of the ends.
void tanh_values(const NodeCall& call, Result& y) {
  const std::vector<double> x = call.input(0).values(), s = call.input(0).deviations();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double r = std::tanh(x[i]);
    y.add(r, 10.0 * u32 * std::fabs(r) + narrow_store(call.dtypes[0], r),
          product_deviation({std::tanh(x[i] - 8 * s[i]), std::tanh(x[i] + 8 * s[i])}, {1, 1}, r));
  }
}

/// The element of b that broadcasts to element i of a.
std::int64_t broadcast_index(const Dims& a, const Dims& b, std::int64_t i) {
  std::int64_t at = 0, step = 1;
  for (std::size_t d = 0; d < a.size(); ++d) {
    const std::int64_t size = a[a.size() - 1 - d], own = d < b.size() ? b[b.size() - 1 - d] : 1;
    if (own != 1) at += i % size * step;
    step *= own;
    i /= size;
  }
  return at;
}

}  // namespace

void rms_norm_node(const NodeCall& call, Result& y) {
  const Operand& x = call.input(0);
  const std::int64_t n = x.last();
  const std::vector<double> values = x.values(), s = x.deviations(), weight = call.has(1) ? call.input(1).values() : std::vector<double>();
  for (std::int64_t first = 0; first < x.count(); first += n)
    norm_row(call, &values[static_cast<std::size_t>(first)], &s[static_cast<std::size_t>(first)], n, weight, y);
}

/// Bound: ops/norms.cpp. Deviation, with c = x - mean and r = 1 / sqrt(variance + e): that of x_i itself, of the mean, and of the variance
/// through r, c_i r^2 / n * root(sum (c_j s_j)^2).
void layer_norm_node(const NodeCall& call, Result& y) {
  const Operand& x = call.input(0);
  const std::int64_t n = x.last();
  const double epsilon = call.attribute(QUERN_KEY_EPSILON, 0), count = static_cast<double>(n),
               of_sum = (2.0 * std::sqrt(count) + 8.0) * u32;
  const std::vector<double> values = x.values(), s = x.deviations(), weight = call.has(1) ? call.input(1).values() : std::vector<double>(),
                            bias = call.has(2) ? call.input(2).values() : std::vector<double>();
  for (std::int64_t first = 0; first < x.count(); first += n) {
    const double *row = &values[static_cast<std::size_t>(first)], *off = &s[static_cast<std::size_t>(first)];
    double mean = 0, size = 0, variance = 0, moved_mean = 0, moved_root = 0;
    for (std::int64_t i = 0; i < n; ++i) mean += row[i] / count, size += std::fabs(row[i]) / count, moved_mean += off[i] * off[i];
    for (std::int64_t i = 0; i < n; ++i) {
      const double c = row[i] - mean;
      variance += c * c / count, moved_root += c * c * off[i] * off[i];
    }
    const double d = of_sum * size, inverse = 1.0 / std::sqrt(variance + epsilon);
    const double root = 0.5 * ((of_sum + 2.0 * u32) * variance + d * d + u32 * epsilon) * inverse * inverse + 4.0 * u32;
    const double mean_off = std::sqrt(moved_mean) / count, root_off = inverse * inverse * std::sqrt(moved_root) / count;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double c = row[i] - mean, w = weight.empty() ? 1.0 : weight[at], b = bias.empty() ? 0.0 : bias[at], r = w * c * inverse + b;
      const double bound =
          std::fabs(w) * inverse * (d + u32 * std::fabs(c)) + std::fabs(w * c) * inverse * (root + 3.0 * u32) + u32 * std::fabs(b);
      y.add(r, bound + half_ulp_f32(r) + narrow_store(call.dtypes[0], r) + 0x1p-150 * (inverse + std::fabs(w)),
            std::fabs(w) * inverse * std::hypot(off[i], mean_off, c * root_off));
    }
  }
}

void add_rms_norm_node(const NodeCall& call, Result& sum, Result& y) {
  const std::vector<double> a = call.input(0).values(), b = call.input(1).values(), sa = call.input(0).deviations(),
                            sb = call.input(1).deviations();
  const std::vector<double> weight = call.input(2).values();
  const std::int64_t n = call.input(0).last();
  std::vector<double> x(a.size()), s(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    x[i] = a[i] + b[i];
    sum.add(x[i], narrow_store(call.dtypes[0], x[i]), std::hypot(sa[i], sb[i]));
    // The norm may read the sum as it is stored, or as it was before: half an ulp of its dtype is between them.
    s[i] = std::hypot(sum.deviation[i], store_bound(call.dtypes[0], x[i]) / std::sqrt(3.0));
  }
  for (std::size_t first = 0; first < x.size(); first += static_cast<std::size_t>(n)) norm_row(call, &x[first], &s[first], n, weight, y);
}

void get_rows_node(const NodeCall& call, Result& y) {
  const Operand &table = call.input(0), &index = call.input(1);
  const std::int64_t h = table.last(), rows = table.count() / h;
  std::vector<double> values(static_cast<std::size_t>(h)), s(values.size());
  for (const double id : index.values()) {
    const auto row = static_cast<std::int64_t>(id);
    const bool in_range = row >= 0 && row < rows;
    if (in_range) table.read(row * h, h, values.data()), table.read_deviation(row * h, h, s.data());
    // Decoding is exact but for formats with an offset, which may round once.
    for (std::size_t i = 0; i < values.size(); ++i)
      y.add(in_range ? values[i] : 0.0, in_range ? half_ulp_f32(values[i]) : 0.0, in_range ? s[i] : 0.0);
  }
}

void take_node(const NodeCall& call, Result& y) {
  const Operand& x = call.input(0);
  const std::vector<double> values = x.values(), s = x.deviations(), index = call.input(1).values();
  for (std::int64_t row = 0; row < x.count(); row += x.last())
    for (const double from : index) {
      const auto at = static_cast<std::size_t>(row + static_cast<std::int64_t>(from));
      const bool in_range = from >= 0 && from < static_cast<double>(x.last());
      y.add(in_range ? values[at] : 0.0, 0.0, in_range ? s[at] : 0.0);  // elements are stored as they are
    }
}

void rope_node(const NodeCall& call, Result& y) {
  const Operand& x = call.input(0);
  const Tensor& table = *call.input(2).tensor;
  const std::int64_t d = x.last(), heads = x.dims[x.dims.size() - 2], pairs = table.dim_from_end(1);
  const bool half_split = call.attribute(QUERN_KEY_MODE, 0) == 1;
  const double turn = call.attribute(QUERN_KEY_INVERSE, 0) != 0 ? -1.0 : 1.0;
  const std::vector<double> values = x.values(), s = x.deviations(), position = call.input(1).values();
  for (std::int64_t row = 0; row < x.count() / d; ++row) {
    const auto at = static_cast<std::int64_t>(position[static_cast<std::size_t>(row / heads)]);
    const bool in_range = at >= 0 && at < table.dims()[0];
    std::vector<double> r(static_cast<std::size_t>(d)), bound(r.size()), moved(r.size());
    for (std::int64_t i = 0; i < d; ++i) {
      const auto from = static_cast<std::size_t>(row * d + i);
      if (in_range) r[static_cast<std::size_t>(i)] = values[from], moved[static_cast<std::size_t>(i)] = s[from];
    }
    for (std::int64_t p = 0; in_range && p < pairs; ++p) {
      const auto i0 = static_cast<std::size_t>(half_split ? p : 2 * p), i1 = static_cast<std::size_t>(half_split ? p + pairs : 2 * p + 1);
      const double c = table.at((at * pairs + p) * 2), n = turn * table.at((at * pairs + p) * 2 + 1), x0 = r[i0], x1 = r[i1],
                   s0 = moved[i0], s1 = moved[i1];
      r[i0] = c * x0 - n * x1;
      r[i1] = n * x0 + c * x1;
      bound[i0] = bound[i1] = 4.0 * u32 * (std::fabs(x0) + std::fabs(x1));
      moved[i0] = std::hypot(c * s0, n * s1);
      moved[i1] = std::hypot(n * s0, c * s1);
    }
    for (std::size_t i = 0; i < r.size(); ++i) y.add(r[i], bound[i] + narrow_store(call.dtypes[0], r[i]), moved[i]);
  }
}

void elementwise_node(const NodeCall& call, Result& y) {
  const std::uint32_t op = call.node.op;
  if (op == QUERN_OP_GLU) return glu(call, y);
  if (op == QUERN_OP_TANH) return tanh_values(call, y);
  if (op == QUERN_OP_SILU || op == QUERN_OP_GELU || op == QUERN_OP_SIGMOID) return activate(call, y);
  const Operand& a = call.input(0);
  const std::vector<double> x = a.values(), s = a.deviations();
  if (op == QUERN_OP_SCALE) {
    const double alpha = call.attribute(QUERN_KEY_ALPHA, 1), beta = call.attribute(QUERN_KEY_BETA, 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double r = alpha * x[i] + beta;
      y.add(r, u32 * std::fabs(alpha * x[i]) + narrow_store(call.dtypes[0], r), std::fabs(alpha) * s[i]);
    }
    return;
  }
  const Operand& b = call.input(1);
  const std::vector<double> other = b.values(), t = b.deviations();
  const double alpha = op == QUERN_OP_SUB ? -1.0 : call.attribute(QUERN_KEY_ALPHA, 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto j = static_cast<std::size_t>(broadcast_index(a.dims, b.dims, static_cast<std::int64_t>(i)));
    const bool product = op == QUERN_OP_MUL;
    const double r = product ? x[i] * other[j] : x[i] + alpha * other[j];
    const double bound = product || alpha == 1.0 || alpha == -1.0 ? 0.0 : u32 * std::fabs(alpha * other[j]);
    y.add(r, bound + narrow_store(call.dtypes[0], r), product ? std::hypot(other[j] * s[i], x[i] * t[j]) : std::hypot(s[i], alpha * t[j]));
  }
}

}  // namespace quern::conformance
