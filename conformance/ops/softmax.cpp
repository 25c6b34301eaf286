// softmax softmax_backward logsumexp.
//
// Bounds, u = 2^-24, n the row's length, s the scores after everything, r the probability.
//   scores     scale x: u |s|, nothing where scale is a power of two; softcap: the tanh of 5 ulp, a division of 2.5 ulp and two products, 16 u of |cap tanh| and
//              8 u |s| (1 - tanh^2) through its argument; mask: 2 u |slope mask| (slope is itself rounded) and u |s| for the sum,
//              nothing where it adds 0
//   softmax    r times (4 sqrt(n) + 32 + 2 |s - max|) u, which is exp's, a blocked sum's and a division's, and times how far scores move
//   it:
//              the error of its own and the mean one under r. Below the normals of f32 exp may be 0: 2^-126 absolute.
//   backward   scale y (dy - D), D = sum(y dy): |scale y| times (2 sqrt(n) + 8) u sum|y dy|, a rounding of the
//              difference, and two of the products, of which one is exact where scale is a power of two
//   logsumexp  (4 sqrt(n) + 32) u, with sum(r 2 |x - max|) u, which the subtraction is in; 4 u |log| for a log of 4 ulp; u |lse| for the sum
#include "ops/hard_values.hpp"
#include "ops/make_case.hpp"

#include <algorithm>
#include <limits>

namespace quern::conformance {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

/// Press et al. 2021 (arXiv:2108.12409): powers of 2^(-max_bias / n) for n the power of two below the heads, odd steps of 2 n for the
/// rest.
double alibi_slope(double max_bias, std::int64_t head, std::int64_t heads) {
  if (max_bias <= 0) return 1.0;
  const double n = std::exp2(std::floor(std::log2(static_cast<double>(heads)))), h = static_cast<double>(head);
  return h < n ? std::exp2(-max_bias * (h + 1) / n) : std::exp2(-max_bias * (2 * (h - n) + 1) / (2 * n));
}

/// Which keys a query sees by its position alone.
struct Sight {
  bool causal;
  std::int64_t offset, window;
  bool hidden(std::int64_t q, std::int64_t k) const { return (causal && k > q + offset) || (window > 0 && k <= q + offset - window); }
};

/// The element of `mask` that meets element i of x, the leading dimensions broadcast.
std::int64_t mask_place(const Tensor& mask, const Tensor& x, std::int64_t i) {
  std::int64_t at = 0, step = 1;
  for (std::size_t d = 0; d < x.dims().size(); ++d) {
    if (mask.dim_from_end(d) != 1) at += i % x.dim_from_end(d) * step;
    i /= x.dim_from_end(d);
    step *= mask.dim_from_end(d);
  }
  return at;
}

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &mask = call.inputs[1], &sinks = call.inputs[2];
  const std::int64_t n = x.dim_from_end(0), queries = x.dim_from_end(1), heads = x.dim_from_end(2);
  const double scale = call.attribute(QUERN_KEY_SCALE, 1), cap = call.attribute(QUERN_KEY_SOFTCAP, 0),
               max_bias = call.attribute(QUERN_KEY_MAX_BIAS, 0);
  const Sight sight{call.attribute(QUERN_KEY_CAUSAL, 0) != 0, static_cast<std::int64_t>(call.attribute(QUERN_KEY_QUERY_OFFSET, 0)),
                    static_cast<std::int64_t>(call.attribute(QUERN_KEY_WINDOW, 0))};
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  y.reserve(static_cast<std::size_t>(x.count()));
  std::vector<double> score(static_cast<std::size_t>(n)), error(score.size());
  for (std::int64_t row = 0; row * n < x.count(); ++row) {
    const std::int64_t query = row % queries, head = row / queries % heads;
    double most = -infinity;
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t i = row * n + k;
      double &s = score[static_cast<std::size_t>(k)], &e = error[static_cast<std::size_t>(k)];
      s = -infinity, e = 0;
      if (sight.hidden(query, k)) continue;
      s = scale * x.at(i);
      e = scales_exactly(scale) ? 0.0 : u32 * std::fabs(s);
      if (cap > 0) {
        const double t = std::tanh(s / cap);
        e = 16.0 * u32 * std::fabs(cap * t) + 8.0 * u32 * std::fabs(s) * (1 - t * t);
        s = cap * t;
      }
      if (!mask.absent()) {
        const double m = mask.at(mask_place(mask, x, i));
        const double slope = alibi_slope(max_bias, head, heads), added = slope * m;
        s = m == -infinity ? m : s + added;
        if (m != 0) e += (slope == 1.0 ? 0.0 : 2.0 * u32 * std::fabs(added)) + u32 * std::fabs(s);
      }
      if (!std::isnan(most) && !(s <= most)) most = s;  // a NaN stays
    }
    const double sink = sinks.absent() ? -infinity : sinks.at(head);
    const double top = std::isnan(most) ? most : std::max(most, sink);
    double sum = top == -infinity ? 0.0 : std::exp(sink - top), moved = 0;
    for (std::size_t k = 0; k < score.size(); ++k) {
      if (score[k] == -infinity) continue;
      sum += std::exp(score[k] - top);
      moved += std::exp(score[k] - top) * error[k];
    }
    for (std::size_t k = 0; k < score.size(); ++k) {
      if (score[k] == -infinity && !std::isnan(top)) {
        y.add(0.0, 0.0);
        continue;
      }
      const double r = std::exp(score[k] - top) / sum;
      const double relative =
          (4.0 * std::sqrt(static_cast<double>(n)) + 32.0 + 2.0 * std::min(top - score[k], 256.0)) * u32 + error[k] + moved / sum;
      y.add(r, r * relative + 0x1p-126 + narrow_store(to, r));
    }
  }
}

void backward_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &y = call.inputs[0], &dy = call.inputs[1];
  const std::int64_t n = y.dim_from_end(0);
  const double scale = call.attribute(QUERN_KEY_SCALE, 1);
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& dx = expected.outputs[0];
  dx.rule = Rule::bounded;
  for (std::int64_t first = 0; first < y.count(); first += n) {
    double dot = 0, size = 0;
    for (std::int64_t i = first; i < first + n; ++i) {
      dot += y.at(i) * dy.at(i);
      size += std::fabs(y.at(i) * dy.at(i));
    }
    for (std::int64_t i = first; i < first + n; ++i) {
      const double p = y.at(i), r = scale * p * (dy.at(i) - dot);
      if (p == 0.0 && !std::isnan(r)) {
        dx.add(0.0, 0.0);  // exactly
        continue;
      }
      const double through_dot =
          std::fabs(scale * p) * ((2.0 * std::sqrt(static_cast<double>(n)) + 8.0) * u32 * size + u32 * std::fabs(dy.at(i) - dot));
      dx.add(r, through_dot + roundings(scales_exactly(scale) ? 1 : 2, r) + narrow_store(to, r) + 0x1p-149 * (1.0 + std::fabs(scale)));
    }
  }
}

void logsumexp_reference(const ReferenceCall& call, Expected& expected) {
  const Tensor& x = call.inputs[0];
  const std::int64_t n = x.dim_from_end(0), rows = element_count(call.what.outputs[0].dims);
  const quern_dtype to = call.what.outputs[0].dtype;
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bounded;
  for (std::int64_t row = 0; row < rows; ++row) {
    double top = -infinity, sum = 0, far = 0;
    for (std::int64_t i = row * n; i < (row + 1) * n; ++i)
      if (!(x.at(i) <= top)) {
        top = x.at(i);
        if (std::isnan(top)) break;
      }
    if (!std::isfinite(top)) {
      y.add(top, 0.0);
      continue;
    }
    for (std::int64_t i = row * n; i < (row + 1) * n; ++i) {
      const double power = std::exp(x.at(i) - top);
      sum += power;
      if (power > 0) far += power * (top - x.at(i));
    }
    const double log = std::log(sum), r = top + log;
    y.add(r,
          (4.0 * std::sqrt(static_cast<double>(n)) + 32.0 + 2.0 * far / sum + 4.0 * log) * u32 + u32 * std::fabs(r) + narrow_store(to, r));
  }
}

constexpr OpUnderTest softmax_op{QUERN_OP_SOFTMAX, "softmax", level_inference, reference};
constexpr OpUnderTest backward_op{QUERN_OP_SOFTMAX_BACKWARD, "softmax", level_training, backward_reference};
constexpr OpUnderTest logsumexp_op{QUERN_OP_LOGSUMEXP, "softmax", level_all, logsumexp_reference};

struct Settings {
  double scale = 1, causal = 0, offset = 0, window = 0, max_bias = 0, softcap = 0;
  std::vector<Attribute> attributes() const {
    return unless_default({{{QUERN_KEY_SCALE, scale}, 1},
                           {{QUERN_KEY_CAUSAL, causal}, 0},
                           {{QUERN_KEY_QUERY_OFFSET, offset}, 0},
                           {{QUERN_KEY_WINDOW, window}, 0},
                           {{QUERN_KEY_MAX_BIAS, max_bias}, 0},
                           {{QUERN_KEY_SOFTCAP, softcap}, 0}});
  }
};

/// What a mask hides holds a large number that would take all of the mass.
ValueSpec poisoned(ValueSpec x) {
  return filled(std::move(x), "poison_behind_mask", [](const Tensor& t, const CounterRandom& random) {
    const std::int64_t square = t.dim_from_end(0) * t.dim_from_end(1);
    for (std::int64_t i = 0; i < t.count(); ++i)
      t.set(i, i % square % 7 == 3 ? 1000.0 : 2.0 * random.gaussian(static_cast<std::uint64_t>(i)));
  });
}
/// -inf at every 7th element, the whole of the last query's row if `empty_row`; else a bias.
ValueSpec mask_of(quern_dtype dtype, Dims dims, bool empty_row) {
  return filled(input(dtype, std::move(dims)), empty_row ? "sevenths_and_a_row" : "sevenths",
                [empty_row](const Tensor& t, const CounterRandom& random) {
                  const std::int64_t n = t.dim_from_end(0), square = n * t.dim_from_end(1);
                  for (std::int64_t i = 0; i < t.count(); ++i) {
                    const bool hidden = i % square % 7 == 3 || (empty_row && i % square / n == t.dim_from_end(1) - 1);
                    t.set(i, hidden ? -infinity : -4.0 * random.uniform(static_cast<std::uint64_t>(i)));
                  }
                });
}
/// A finite number so low that it hides: the least of f16, or -1e30.
ValueSpec low_mask(quern_dtype dtype, Dims dims) {
  return filled(input(dtype, std::move(dims)), "low_sevenths", [](const Tensor& t, const CounterRandom&) {
    const std::int64_t square = t.dim_from_end(0) * t.dim_from_end(1);
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, i % square % 7 == 3 ? (t.dtype() == QUERN_F16 ? -65504.0 : -1e30) : 0.0);
  });
}
/// What causality and the window hide holds NaN, infinity and large numbers.
ValueSpec poisoned_by_sight(ValueSpec x, const Settings& s) {
  const Sight sight{s.causal != 0, static_cast<std::int64_t>(s.offset), static_cast<std::int64_t>(s.window)};
  return filled(std::move(x), "poison_out_of_sight", [sight](const Tensor& t, const CounterRandom& random) {
    const std::int64_t n = t.dim_from_end(0), queries = t.dim_from_end(1);
    static constexpr double poison[] = {nan_value, infinity, 60000.0};
    for (std::int64_t i = 0; i < t.count(); ++i)
      t.set(i, sight.hidden(i / n % queries, i % n) ? poison[i % 3] : 2.0 * random.gaussian(static_cast<std::uint64_t>(i)));
  });
}
/// Row 0 all equal, 1 with a NaN, 2 a ramp of 200, 3 all -inf, 4 large and close together, 5 with -inf strewn in.
void fill_edge_rows(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / n, column = i % n;
    double v = random.gaussian(static_cast<std::uint64_t>(i));
    if (row == 0) v = 3.0;
    if (row == 1 && column == n / 2) v = nan_value;
    if (row == 2) v = -200.0 * static_cast<double>(column) / static_cast<double>(n);
    if (row == 3) v = -infinity;
    if (row == 4) v = 60000.0 + 32.0 * std::round(v);
    if (row == 5 && column % 3 == 1) v = -infinity;
    x.set(i, v);
  }
}

void add(CaseSink& sink, Profile profile, ValueSpec x, ValueSpec mask, ValueSpec sinks, ValueSpec y, const Settings& s = {}) {
  sink.add(make_case(softmax_op, profile, {std::move(x), std::move(mask), std::move(sinks)}, {std::move(y)}, s.attributes()));
}

void generate_plain(CaseSink& sink, quern_dtype dtype) {
  for (const std::int64_t n : {1, 7, 31, 64, 257, 1025, 4097})
    for (const DataKind data : {DataKind::gaussian, DataKind::heavy, DataKind::exponents, DataKind::positive})
      for (const double scale : {1.0, 0.125}) {
        const Profile profile = n <= 257 && (data != DataKind::gaussian || n == 7) ? Profile::quick : Profile::full;
        add(sink, profile, input(dtype, {5, n}, data), absent(), absent(), output(dtype, {5, n}), {.scale = scale});
      }
  for (const std::int64_t n : {31, 576, 4097})
    add(sink, Profile::quick, filled(input(dtype, {7, n}), "edge_rows", fill_edge_rows), absent(), absent(), output(dtype, {7, n}));
  for (const Dims& dims : {Dims{67, 67}, Dims{17, 4097}}) {
    const auto rows = [&](const char* name, double offset) { return one_far(input(dtype, dims), name, offset); };
    add(sink, Profile::quick, rows("one_far", 0), absent(), absent(), output(dtype, dims));
    add(sink, Profile::full, rows("one_far_negative", -200), absent(), absent(), output(dtype, dims));
  }
  for (const std::int64_t n : {33, 1025})
    add(sink, Profile::quick, filled(input(dtype, {5, n}), "negative_rows", fill_negative_rows), absent(), absent(), output(dtype, {5, n}));
  add(sink, Profile::quick, filled(input(dtype, {5, 257}), "not_finite_rows", fill_not_finite_rows), absent(), absent(),
      output(dtype, {5, 257}));
  for (const std::int64_t n : {32000, 49152, 151936})
    for (const DataKind data : {DataKind::positive, DataKind::heavy})
      add(sink, n == 151936 && data == DataKind::positive ? Profile::quick : Profile::full, input(dtype, {2, n}, data), absent(), absent(),
          output(dtype, {2, n}));
  const Dims dims{3, 4, 65};
  for (const Layout& layout : {rows_apart(3), shifted(), ordered({1, 0, 2}), ordered({0, 2, 1}), ordered({2, 0, 1})}) {
    add(sink, Profile::quick, input(dtype, dims, DataKind::heavy, layout), absent(), absent(), output(dtype, dims));
    add(sink, Profile::full, input(dtype, dims, DataKind::gaussian), absent(), absent(), output(dtype, dims, layout));
  }
  add(sink, Profile::full, input(dtype, {513, 129}), absent(), absent(), output(dtype, {513, 129}));
}

void generate_hidden(CaseSink& sink, quern_dtype dtype) {
  const Dims dims{9, 7, 33};
  const ValueSpec y = output(dtype, dims), sinks = input(QUERN_F32, {9}, DataKind::uniform);
  for (const quern_dtype mask : {QUERN_F32, QUERN_F16})
    for (const Dims& shape : {Dims{7, 33}, Dims{1, 7, 33}, Dims{9, 7, 33}}) {
      for (const double softcap : {0.0, 30.0, 50.0})
        for (const double max_bias : {0.0, 8.0}) {
          const Settings s{.scale = 0.25, .max_bias = max_bias, .softcap = softcap};
          const Profile profile = shape.size() == 2 && softcap != 50 ? Profile::quick : Profile::full;
          add(sink, profile, poisoned(input(dtype, dims)), mask_of(mask, shape, true), absent(), y, s);
          add(sink, profile, poisoned(input(dtype, dims)), mask_of(mask, shape, true), sinks, y, s);
          add(sink, Profile::full, poisoned(input(dtype, dims)), mask_of(mask, shape, false), absent(), y, s);
        }
      add(sink, Profile::quick, input(dtype, dims), low_mask(mask, shape), absent(), y);
      add(sink, Profile::full, input(dtype, dims), mask_of(mask, shape, true), absent(), output(dtype, dims, rows_apart(3)),
          {.causal = 1, .offset = 26});
    }
  for (const std::int64_t heads : {1, 2, 3, 4, 6, 8, 12, 32}) {  // slopes of ALiBi, powers of two and not
    const Dims shape{heads, 3, 17};
    add(sink, heads <= 12 ? Profile::quick : Profile::full, poisoned(input(dtype, shape)), mask_of(QUERN_F32, {3, 17}, false), absent(),
        output(dtype, shape), {.max_bias = 8});
    add(sink, Profile::full, poisoned(input(dtype, {2, heads, 3, 17})), mask_of(QUERN_F16, {2, 1, 3, 17}, false), absent(),
        output(dtype, {2, heads, 3, 17}), {.max_bias = 4});
  }
  for (const double offset : {0.0, 1.0, 26.0, 40.0, -3.0})  // -3: the first queries see nothing
    for (const double window : {0.0, 1.0, 5.0, 16.0, 100.0})
      for (const double causal : {1.0, 0.0}) {
        if (causal == 0 && window == 0) continue;
        const Settings s{.scale = 0.5, .causal = causal, .offset = offset, .window = window};
        const Profile profile = causal == 1 && window != 16 ? Profile::quick : Profile::full;
        add(sink, profile, poisoned_by_sight(input(dtype, dims), s), absent(), absent(), y, s);
        add(sink, causal == 1 && window == 5 ? Profile::quick : Profile::full, poisoned_by_sight(input(dtype, dims), s), absent(), sinks, y,
            s);
      }
  for (const double window : {4095.0, 4096.0, 4097.0}) {
    const Settings s{.causal = 1, .offset = 4150, .window = window};
    add(sink, window == 4096 ? Profile::quick : Profile::full, poisoned_by_sight(input(dtype, {2, 3, 4200}), s), absent(), absent(),
        output(dtype, {2, 3, 4200}), s);
  }
  const Dims batch{2, 3, 5, 65};
  add(sink, Profile::quick, input(dtype, batch), mask_of(QUERN_F32, {2, 1, 5, 65}, false), input(QUERN_F32, {3}), output(dtype, batch),
      {.causal = 1, .offset = 60});
  add(sink, Profile::full, input(dtype, batch, DataKind::gaussian, ordered({0, 2, 1, 3})), mask_of(QUERN_F32, {5, 65}, false), absent(),
      output(dtype, batch));
  add(sink, Profile::quick, input(dtype, {3, 0, 8}), absent(), absent(), output(dtype, {3, 0, 8}));
}

/// Probabilities: rows that sum to about 1, every 5th element exactly 0.
void fill_probabilities(const Tensor& y, const CounterRandom& random) {
  const std::int64_t n = y.dim_from_end(0);
  for (std::int64_t i = 0; i < y.count(); ++i)
    y.set(i, i % 5 == 2 ? 0.0 : 2.0 * random.uniform(static_cast<std::uint64_t>(i)) / static_cast<double>(n));
}

void generate_backward(CaseSink& sink, quern_dtype dtype) {
  const auto add_backward = [&](Profile profile, ValueSpec y, ValueSpec dy, ValueSpec dx, double scale) {
    sink.add(make_case(backward_op, profile, {std::move(y), std::move(dy)}, {std::move(dx)}, Settings{.scale = scale}.attributes()));
  };
  const auto probabilities = [&](const Dims& dims, const Layout& layout) {
    return filled(input(dtype, dims, DataKind::uniform, layout), "probabilities", fill_probabilities);
  };
  for (const std::int64_t n : {1, 7, 31, 64, 257, 1025, 4097, 32000, 151936})
    for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy})
      for (const double scale : {1.0, 0.125}) {
        const std::int64_t rows = n > 4097 ? 1 : 5;
        const bool quick = n <= 257 ? data != DataKind::gaussian : n == 1025 && data == DataKind::positive && scale == 1;
        add_backward(quick ? Profile::quick : Profile::full, probabilities({rows, n}, {}), input(dtype, {rows, n}, data),
                     output(dtype, {rows, n}), scale);
      }
  const Dims dims{3, 4, 65};
  for (const Layout& layout : {rows_apart(3), shifted(), ordered({1, 0, 2}), ordered({0, 2, 1})}) {
    add_backward(Profile::quick, probabilities(dims, layout), input(dtype, dims), output(dtype, dims), 1);
    add_backward(Profile::full, probabilities(dims, {}), input(dtype, dims, DataKind::gaussian, layout), output(dtype, dims, rows_apart(1)),
                 1);
  }
  add_backward(Profile::quick,
               filled(input(dtype, {6, 33}), "edge_rows",
                      [](const Tensor& y, const CounterRandom& random) {  // 0 all 0, 1 one 1, 2 a NaN
                        for (std::int64_t i = 0; i < y.count(); ++i) {
                          const std::int64_t row = i / 33, column = i % 33;
                          double v = random.uniform(static_cast<std::uint64_t>(i)) / 16;
                          if (row == 0) v = 0;
                          if (row == 1) v = column == 4 ? 1 : 0;
                          if (row == 2 && column == 5) v = nan_value;
                          y.set(i, v);
                        }
                      }),
               input(dtype, {6, 33}), output(dtype, {6, 33}), 1);
}

void generate_logsumexp(CaseSink& sink, quern_dtype dtype) {
  const auto add_rows = [&](Profile profile, ValueSpec x, Layout layout = {}) {
    Dims dims = x.dims;
    dims.pop_back();
    const quern_dtype to = x.dtype;
    sink.add(make_case(logsumexp_op, profile, {std::move(x)}, {output(to, dims, std::move(layout))}));
  };
  for (const std::int64_t n : {1, 7, 31, 257, 1025, 4097, 49152, 151936})
    for (const DataKind data : {DataKind::gaussian, DataKind::positive, DataKind::heavy, DataKind::exponents}) {
      const std::int64_t rows = n > 4097 ? 2 : 5;
      add_rows(n <= 1025 || (n == 151936 && data == DataKind::positive) ? Profile::quick : Profile::full, input(dtype, {rows, n}, data));
    }
  add_rows(Profile::quick, input(dtype, {33}));
  add_rows(Profile::quick, input(dtype, {4, 0}));  // the log of nothing
  add_rows(Profile::quick, filled(input(dtype, {7, 577}), "edge_rows", fill_edge_rows));
  add_rows(Profile::quick, one_far(input(dtype, {67, 67}), "one_far", 0));
  add_rows(Profile::quick, one_far(input(dtype, {17, 4097}), "one_far_negative", -200));
  for (const std::int64_t n : {33, 1025}) add_rows(Profile::quick, filled(input(dtype, {5, n}), "negative_rows", fill_negative_rows));
  add_rows(Profile::quick, filled(input(dtype, {14, 257}), "not_finite_rows", fill_not_finite_rows));
  for (const Layout& layout : {rows_apart(3), shifted(), ordered({1, 0, 2}), ordered({0, 2, 1})}) {
    add_rows(Profile::quick, input(dtype, {3, 4, 65}, DataKind::gaussian, layout));
    add_rows(Profile::full, input(dtype, {3, 4, 1041}, DataKind::heavy, layout), rows_apart(2));
  }
}

void generate(CaseSink& sink) {
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16}) {
    generate_plain(sink, dtype);
    generate_hidden(sink, dtype);
  }
  for (const quern_dtype dtype : float_dtypes) {
    generate_backward(sink, dtype);
    generate_logsumexp(sink, dtype);
  }
}

}  // namespace

extern const Family softmax_family;
const Family softmax_family = {"softmax", generate};

}  // namespace quern::conformance
