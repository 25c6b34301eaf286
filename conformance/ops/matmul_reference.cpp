// See matmul_reference.hpp.
//
// Exact numerics: T1, (2 sqrt(K) + 8) u S, with S = |alpha| sum |a b| + |bias| + |beta c|; the epilogue's three roundings are of values
// below S. For a of 16 bits T2, what a matrix unit with truncating partial sums keeps: its products are exact, its sums are not rounded
// to nearest. Integers whose partial sums stay below 2^24 are expected bit for bit.
// In fast numerics S is that of the parts of a weight where it has a minimum (has_parts). Fast numerics add 8 sigma, sigma^2 = alpha^2 / 3 * sum (da b)^2, da half a step of the widest conversion allowed: int8 the largest
// |a| of the block of weights / 254 (blocks are those of the format), bf16 2^-8 |a|, f16 2^-11 |a|, tf32 2^-11 |a|.
#include "ops/matmul_reference.hpp"

#include <algorithm>
#include <set>

namespace quern::conformance {
namespace {

constexpr double most_products = 1 << 24;
constexpr std::uint64_t seeded_outputs = 4096;

struct Shape {
  std::int64_t batches = 1, m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;
};

/// One row of a as the products read it: its elements that are not 0, and half a step of each one's conversion.
struct Row {
  std::vector<std::int64_t> at;
  std::vector<double> value, step;
};

class Matmul {
 public:
  explicit Matmul(const ReferenceCall& call) : call_(call), a_(call.inputs[0]), b_(call.inputs[1]) {
    shape_.a_transposed = call.attribute(QUERN_KEY_TRANSPOSE_A, 0) != 0;
    shape_.b_transposed = call.attribute(QUERN_KEY_TRANSPOSE_B, 0) != 0;
    shape_.m = a_.dim_from_end(shape_.a_transposed ? 0 : 1);
    shape_.k = a_.dim_from_end(shape_.a_transposed ? 1 : 0);
    shape_.n = b_.dim_from_end(shape_.b_transposed ? 0 : 1);
    for (std::size_t d = 2; d < a_.dims().size(); ++d) shape_.batches *= a_.dim_from_end(d);
    parts_ = has_parts(b_.dtype(), call.what.fast_conversions);
    alpha_ = call.attribute(QUERN_KEY_ALPHA, 1);
    beta_ = call.attribute(QUERN_KEY_BETA, 1);
  }

  void run(ExpectedOutput& y) {
    const DataKind data = call_.what.inputs[0].data;
    const bool exact = data == DataKind::integers && alpha_ == 1 && call_.inputs.size() <= 2 && shape_.k <= 4096;
    y.rule = exact ? Rule::value : Rule::bounded;
    y.length = static_cast<double>(shape_.k);
    y.independent = is_centred(data) && is_centred(call_.what.inputs[1].data) && shape_.m >= 8;
    const ConversionShares shares = y.independent ? shares_of_rows() : even_shares(shape_.k);
    y.sharing = sharing_of_conversions(shape_.n, shares);
    y.gain_variance = gain_variance_of_weights(shape_.n, shares, b_.dtype(), call_.what.fast_conversions);
    const double products = static_cast<double>(shape_.batches * shape_.m) * static_cast<double>(shape_.n) * static_cast<double>(shape_.k);
    const bool all = products <= most_products || data == DataKind::one_hot || data == DataKind::integers;
    if (!all) choose(y.index);
    const auto each = [&](std::int64_t output) { judge_output(output, y); };
    if (all) for_all(each);
    else std::ranges::for_each(y.index, each);
  }

 private:
  template <class F>
  void for_all(const F& f) const {
    for (std::int64_t i = 0; i < shape_.batches * shape_.m * shape_.n; ++i) f(i);
  }

  ConversionShares shares_of_rows() {
    RowShares shares(shape_.k);
    for (std::int64_t i = 0; i < shape_.batches * shape_.m; ++i) {
      const Row& row = row_of_a(i);
      shares.add(row.at, row.value, row.step);
    }
    return shares.shares();
  }

  /// Crossings of the rows and columns beside each power of two and both ends, and seeded outputs; ascending.
  void choose(std::vector<std::int64_t>& index) const {
    const auto beside = [](std::int64_t size) {
      std::set<std::int64_t> at = {0, size - 1, std::max<std::int64_t>(0, size - 2)};
      for (std::int64_t tile = 4; tile < size; tile *= 2) at.insert({tile - 1, tile});
      return at;
    };
    std::set<std::int64_t> chosen;
    for (const std::int64_t row : beside(shape_.batches * shape_.m))
      for (const std::int64_t column : beside(shape_.n)) chosen.insert(row * shape_.n + column);
    const CounterRandom random = CounterRandom::of(call_.what.name).stream(1000);
    const auto outputs = static_cast<std::uint64_t>(shape_.batches * shape_.m * shape_.n);
    for (std::uint64_t i = 0; i < seeded_outputs; ++i) chosen.insert(static_cast<std::int64_t>(random.below(i, outputs)));
    index.assign(chosen.begin(), chosen.end());
  }

  const Row& row_of_a(std::int64_t row) {
    if (row == a_row_) return a_values_;
    a_row_ = row;
    const std::int64_t batch = row / shape_.m, first = batch * shape_.m * shape_.k, in_batch = row % shape_.m;
    std::vector<double> values(static_cast<std::size_t>(shape_.k));
    if (!shape_.a_transposed) a_.read(first + in_batch * shape_.k, shape_.k, values.data());
    else
      for (std::int64_t l = 0; l < shape_.k; ++l) values[static_cast<std::size_t>(l)] = a_.at(first + l * shape_.m + in_batch);
    const std::vector<double> step = conversion_steps(values, call_.what.fast_conversions, b_.dtype());
    a_values_ = {};
    for (std::size_t l = 0; l < values.size(); ++l) {
      if (values[l] == 0.0) continue;
      a_values_.at.push_back(static_cast<std::int64_t>(l));
      a_values_.value.push_back(values[l]);
      a_values_.step.push_back(step[l]);
    }
    return a_values_;
  }

  /// The matrix of b that belongs to a batch of a: leading dims repeat in whole groups.
  std::int64_t batch_of_b(std::int64_t batch) const {
    std::int64_t at = 0, step = 1;
    for (std::size_t d = 2; d < a_.dims().size(); ++d) {
      const std::int64_t size = a_.dim_from_end(d), groups = b_.dim_from_end(d);
      at += batch % size / (size / groups) * step;
      batch /= size;
      step *= groups;
    }
    return at;
  }

  struct Weight {
    double value, size;  // size: |value|, or that of its parts
  };
  /// A column of b in f64: element l lies `l * step` behind the first.
  struct Column {
    const double *value = nullptr, *size = nullptr;  // size: null where it is |value|; value: null where elements are read one by one
    std::int64_t step = 1, first = 0;                // first: its place in b, for those

    Weight at(const Tensor& b, std::int64_t l) const {
      Weight one{};
      if (value == nullptr) {
        b.read_sized(first + l, 1, &one.value, &one.size);
        return one;
      }
      one.value = value[l * step];
      one.size = size == nullptr ? std::fabs(one.value) : size[l * step];
      return one;
    }
  };
  /// `sizes` only where they are not the values'.
  void read_b(std::int64_t first, std::int64_t count, std::vector<double>& values, std::vector<double>& sizes) const {
    values.resize(static_cast<std::size_t>(count));
    if (!parts_) return b_.read(first, count, values.data());
    sizes.resize(values.size());
    b_.read_sized(first, count, values.data(), sizes.data());
  }
  static Column column_of(const std::vector<double>& values, const std::vector<double>& sizes, std::int64_t at, std::int64_t step) {
    return {values.data() + at, sizes.empty() ? nullptr : sizes.data() + at, step, 0};
  }
  /// All of b is kept where it is small, else one row of it at a time, else (sparse a) single elements are read.
  Column column_of_b(std::int64_t b_batch, std::int64_t column) {
    const std::int64_t matrix = b_batch * shape_.n * shape_.k, first = matrix + column * shape_.k;
    if (shape_.b_transposed || b_.count() <= 1 << 22) {
      if (b_all_.empty()) read_b(0, b_.count(), b_all_, b_all_sizes_);
      return shape_.b_transposed ? column_of(b_all_, b_all_sizes_, matrix + column, shape_.n) : column_of(b_all_, b_all_sizes_, first, 1);
    }
    if (a_values_.at.size() * 16 < static_cast<std::size_t>(shape_.k)) return {nullptr, nullptr, 1, first};
    if (b_first_ != first) {
      read_b(first, shape_.k, b_row_, b_row_sizes_);
      b_first_ = first;
    }
    return column_of(b_row_, b_row_sizes_, 0, 1);
  }

  void judge_output(std::int64_t output, ExpectedOutput& y) {
    const std::int64_t row = output / shape_.n, column = output % shape_.n;
    const Row& a = row_of_a(row);
    const Column weights = column_of_b(batch_of_b(row / shape_.m), column);
    double sum = 0, scale = 0, parts = 0, variance = 0;
    for (std::size_t i = 0, n = a.at.size(); i < n; ++i) {
      const Weight b = weights.at(b_, a.at[i]);
      const double product = a.value[i] * b.value, moved = a.step[i] * b.value;
      sum += product;
      scale += std::fabs(product);
      parts += converted_size(a.value[i], a.step[i]) * b.size;
      variance += moved * moved;
    }
    sum *= alpha_;
    double terms = 0;  // of the epilogue
    const auto add_term = [&](double term) { sum += term, terms += std::fabs(term); };
    if (call_.inputs.size() > 2 && !call_.inputs[2].absent()) add_term(call_.inputs[2].at(column));
    if (call_.inputs.size() > 3 && !call_.inputs[3].absent()) add_term(beta_ * call_.inputs[3].at(output));
    scale = std::fabs(alpha_) * scale + terms;
    const auto length = static_cast<double>(std::max<std::size_t>(1, a.at.size()));
    const Tier tier = a_.dtype() == QUERN_F32 ? Tier::t1 : Tier::t2;
    const double store = narrow_store(call_.what.outputs[0].dtype, sum);
    y.add(sum, accumulation_bound(tier, length, scale) + store);
    if (parts_) y.fast_bound.push_back(accumulation_bound(tier, length, std::fabs(alpha_) * parts + terms) + store);
    y.scale.push_back(scale);
    y.deviation.push_back(std::fabs(alpha_) * std::sqrt(variance / 3.0));
  }

  const ReferenceCall& call_;
  const Tensor &a_, &b_;
  Shape shape_;
  bool parts_ = false;
  double alpha_ = 1, beta_ = 1;
  std::int64_t a_row_ = -1, b_first_ = -1;
  Row a_values_;
  std::vector<double> b_row_, b_row_sizes_, b_all_, b_all_sizes_;  // sizes: empty unless parts_
};

/// Half a step of a float's conversion, of its size.
double relative_step(std::uint32_t allowed) noexcept {
  if ((allowed & QUERN_CONVERT_BF16) != 0) return 0x1p-8;
  return (allowed & (QUERN_CONVERT_F16 | QUERN_CONVERT_TF32)) != 0 ? 0x1p-11 : 0;
}

}  // namespace

void matmul_reference(const ReferenceCall& call, Expected& expected) { Matmul(call).run(expected.outputs[0]); }

bool has_parts(quern_dtype b, std::uint32_t allowed) { return (allowed & QUERN_CONVERT_INT8) != 0 && has_minimums(b); }

double converted_size(double a, double step) noexcept { return std::fabs(a) + std::min(std::fabs(a), step); }

ConversionShares even_shares(std::int64_t k) noexcept {
  const auto length = static_cast<double>(std::max<std::int64_t>(1, k));
  return {3.0 / length, 1.0 / length};
}

void RowShares::add(const std::vector<std::int64_t>& at, const std::vector<double>& value, const std::vector<double>& step) {
  double steps = 0, together = 0, all = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double step_square = step[i] * step[i], square = value[i] * value[i];
    steps += step_square;
    together += step_square * square;
    all += square;
  }
  const double row = together / (steps * steps);
  if (!(steps > 0) || !std::isfinite(row) || !std::isfinite(all / steps)) return;  // nothing is converted, or nothing can be said
  together_ += row;
  all_ += all / steps;
  for (std::size_t i = 0; i < at.size(); ++i) columns_[static_cast<std::size_t>(at[i])] += value[i] * value[i] / steps;
}

ConversionShares RowShares::shares() const noexcept {
  const ConversionShares shares = even_shares(static_cast<std::int64_t>(columns_.size()));
  if (!(all_ > 0)) return shares;
  double sum = 0, squares = 0;
  for (const double column : columns_) {
    sum += column;
    squares += column * column;
  }
  return {std::max(shares.activations, together_ / all_), std::max(shares.weights, squares / (sum * sum))};
}

double sharing_of_conversions(std::int64_t outputs, const ConversionShares& shares) noexcept {
  return 1.0 + static_cast<double>(outputs) * shares.activations;
}

double gain_variance_of_weights(std::int64_t outputs, const ConversionShares& shares, quern_dtype b, std::uint32_t allowed) {
  const double step = relative_step(allowed), together = std::max(3.0, static_cast<double>(unit_of(b).elements));
  return step * step / 3.0 * together * shares.weights / static_cast<double>(std::max<std::int64_t>(1, outputs));
}

std::vector<double> conversion_steps(const std::vector<double>& row, std::uint32_t allowed, quern_dtype b) {
  const double relative = relative_step(allowed);
  const auto block = static_cast<std::size_t>(unit_of(b).elements);
  std::vector<double> step(row.size());
  for (std::size_t first = 0; first < row.size(); first += block) {
    double largest = 0;
    const std::size_t end = std::min(row.size(), first + block);
    for (std::size_t i = first; i < end; ++i) largest = std::max(largest, std::fabs(row[i]));
    const double int8 = (allowed & QUERN_CONVERT_INT8) != 0 ? largest / 254 : 0;
    for (std::size_t i = first; i < end; ++i) step[i] = std::max(int8, relative * std::fabs(row[i]));
  }
  return step;
}

std::uint32_t weight_conversions(quern_dtype b) {
  return format_of(b) != nullptr ? QUERN_CONVERT_INT8 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16 : QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
}

}  // namespace quern::conformance
