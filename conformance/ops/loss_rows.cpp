// See loss_rows.hpp.
#include "ops/loss_rows.hpp"

#include "ops/hard_values.hpp"
#include "quern/quern_plan.h"

#include <algorithm>
#include <limits>

namespace quern::conformance {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// +-1e4: exp of any of them alone overflows, or is 0.
void fill_large(const Tensor& x, const CounterRandom& random) {
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    x.set(i, (random.below(at, 2) == 0 ? 1e4 : -1e4) + 4 * random.stream(1).gaussian(at));
  }
}

/// Row 1 has a NaN, row 2 -inf for all but one, row 3 all equal, row 4 one far above, row 5 -inf strewn in; the others usual.
void fill_edges(const Tensor& x, const CounterRandom& random) {
  const std::int64_t n = x.dim_from_end(0);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / n, column = i % n;
    double v = random.gaussian(static_cast<std::uint64_t>(i));
    if (row == 1 && column == n / 2) v = std::numeric_limits<double>::quiet_NaN();
    if (row == 2 && column != n / 3) v = -infinity;
    if (row == 3) v = 2.5;
    if (row == 4 && column == n - 1) v = 60;
    if (row == 5 && column % 2 == 0) v = -infinity;
    x.set(i, v);
  }
}

std::vector<std::int64_t> label_values(const LossShape& s, std::int64_t rows, std::int64_t n) {
  const CounterRandom random = CounterRandom::of("labels");
  std::vector<std::int64_t> label;
  for (std::int64_t t = 0; t < rows; ++t) {
    const bool first = t == 0, last = t + 1 == rows;
    label.push_back(first  ? n - 1
                    : last ? 0
                           : static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(n))));
    if (s.labels == Labels::all_ignored || (s.labels == Labels::some_ignored && t % 3 == 1))
      label.back() = static_cast<std::int64_t>(s.ignore);
    if (s.labels == Labels::out_of_range && t % 3 == 1) label.back() = t % 2 == 0 ? n : -1;
  }
  return label;
}

}  // namespace

LogSumExp log_sum_exp(const std::vector<double>& x) {
  double top = -infinity, sum = 0;
  for (const double v : x) {
    if (std::isnan(v)) return {v, 0};
    top = std::max(top, v);
  }
  if (std::isinf(top)) return {top, 0};
  for (const double v : x) sum += std::exp(v - top);
  const double value = top + std::log(sum);
  double far = 0;
  for (const double v : x)
    if (std::exp(v - top) > 0) far += std::exp(v - top) * (top - v);
  return {value, (4 * std::sqrt(static_cast<double>(x.size())) + 32 + 2 * far / sum + 4 * std::log(sum) + std::fabs(value)) * u32};
}

Case loss_case(std::uint32_t op, Profile profile, const LossShape& s) {
  constexpr const char* names[] = {"labels", "some_ignored", "all_ignored", "out_of_range"};
  const std::int64_t rows = s.logits.dims[0];
  Case c;
  c.group = "loss";
  c.op = op;
  c.profile = profile;
  c.level = level_training;
  c.inputs = {s.logits, given(input(QUERN_I32, {rows}), names[static_cast<int>(s.labels)], label_values(s, rows, s.logits.dims[1]))};
  if (s.ignore != -100) c.attributes.push_back({QUERN_KEY_IGNORE, s.ignore});
  if (s.smoothing != 0) c.attributes.push_back({QUERN_KEY_SMOOTHING, s.smoothing});
  if (s.z_loss != 0) c.attributes.push_back({QUERN_KEY_Z_LOSS, s.z_loss});
  c.faults = s.labels == Labels::out_of_range ? QUERN_FAULT_INDEX_RANGE : 0;
  return c;
}

void each_loss_shape(const std::function<void(Profile, const LossShape&)>& add) {
  constexpr double z = 0x1p-10;
  for (const quern_dtype dtype : float_dtypes) {
    for (const std::int64_t n : {1, 2, 7, 31, 64, 255, 257, 1000, 2048, 2049})
      for (const Labels labels : {Labels::usual, Labels::some_ignored})
        for (const double smoothing : {0.0, 0.125})
          for (const double z_loss : {0.0, z})
            add(n < 300 ? Profile::quick : Profile::full, {input(dtype, {7, n}), labels, -100, smoothing, z_loss});
    for (const std::int64_t vocabulary : {32000, 49152, 151936})
      for (const double smoothing : {0.0, 0.125}) {
        const auto x = [&](DataKind data) { return input(dtype, {4, vocabulary}, data); };
        const bool quick = dtype == QUERN_F32 && smoothing == 0;
        add(quick ? Profile::quick : Profile::full, {x(DataKind::gaussian), Labels::some_ignored, -100, smoothing, 0});
        add(quick && vocabulary == 151936 ? Profile::quick : Profile::full, {x(DataKind::positive), Labels::usual, -100, smoothing, 0});
        add(Profile::full, {filled(x(DataKind::gaussian), "tens_of_thousands", fill_large), Labels::some_ignored, -100, smoothing, 0});
      }
    for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::exponents, DataKind::one_hot, DataKind::uniform})
      for (const double smoothing : {0.0, 0.125, 1.0})
        add(Profile::quick, {input(dtype, {9, 300}, data), Labels::some_ignored, -100, smoothing, 0});
    for (const double ignore : {-1.0, 0.0, 5.0}) add(Profile::quick, {input(dtype, {9, 40}), Labels::some_ignored, ignore, 0, 0});
    for (const Labels labels : {Labels::all_ignored, Labels::out_of_range})
      add(Profile::quick, {input(dtype, {6, 129}), labels, -100, 0.125, z});
    add(Profile::quick, {filled(input(dtype, {6, 300}), "tens_of_thousands", fill_large), Labels::some_ignored, -100, 0, 0});
    add(Profile::quick, {filled(input(dtype, {9, 130}), "edge_rows", fill_edges), Labels::usual, -100, 0, 0});
    add(Profile::quick, {one_far(input(dtype, {67, 67}), "one_far", 0), Labels::usual, -100, 0, 0});
    add(Profile::quick, {filled(input(dtype, {10, 130}), "negative_rows", fill_negative_rows), Labels::some_ignored, -100, 0, 0});
    for (const Layout& layout : {rows_apart(3), ordered({1, 0}), shifted()})
      add(Profile::quick, {input(dtype, {5, 99}, DataKind::gaussian, layout), Labels::some_ignored, -100, 0.125, 0});
    for (const std::int64_t rows : {0, 1, 65, 4096}) add(Profile::full, {input(dtype, {rows, 33}), Labels::some_ignored, -100, 0, 0});
  }
}

}  // namespace quern::conformance
