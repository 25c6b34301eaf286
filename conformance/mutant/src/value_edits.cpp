// Faults of numbers that are not finite, beyond a narrower type, tiny, or far from all others; see edits.hpp.
#include "edits.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace quern::mutant {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double largest_f16 = 65504.0, exp_overflows = 88.0;

/// The numbers of one row of a slot.
struct Row {
  const Slot& slot;
  std::int64_t first;
  double operator[](std::int64_t i) const { return slot.get(first + i); }
  std::int64_t size() const { return slot.row(); }
  template <class F>
  bool any(const F& f) const {
    for (std::int64_t i = 0; i < size(); ++i)
      if (f((*this)[i])) return true;
    return false;
  }
  double most() const {
    double m = -infinity;
    for (std::int64_t i = 0; i < size(); ++i) m = std::max(m, (*this)[i]);
    return m;
  }
  void fill(double x) const {
    for (std::int64_t i = 0; i < size(); ++i) slot.set(first + i, x);
  }
};

/// f(row of input 0, row of output 0) of each pair; a row of input 0 may have several of output 0, one after another.
template <class F>
void each_pair(const NodeRun& node, const F& f) {
  const Slot x = node.input(0), y = node.output(0);
  if (!is_real(x) || !is_real(y) || x.rows() == 0 || y.rows() % x.rows() != 0) return;
  const std::int64_t each = y.rows() / x.rows();
  for (std::int64_t r = 0; r < y.rows(); ++r) f(Row{x, r / each * x.row()}, Row{y, r * y.row()});
}

/// Where an output has one element for each row of input 0: that row and the element's place.
template <class F>
void each_reduced(const NodeRun& node, std::size_t output, const F& f) {
  const Slot x = node.input(0), y = node.output(output);
  if (!is_real(x) || !is_real(y) || x.rows() != y.count()) return;
  for (std::int64_t r = 0; r < x.rows(); ++r)
    if (const double changed = f(Row{x, r * x.row()}); changed != 0) y.set(r, changed);
}

bool is_nan(double x) { return std::isnan(x); }
bool is_beyond_f16(double x) { return std::isfinite(x) && std::fabs(x) > largest_f16; }

/// Whether the row has one element so far above all others that exp of the difference overflows, and it is at `place`.
bool is_far(const Row& x, std::int64_t place) {
  double others = -infinity;
  for (std::int64_t i = 0; i < x.size(); ++i)
    if (i != place) others = std::max(others, x[i]);
  return std::isfinite(others) && x[place] - others > exp_overflows;
}

/// f(scores of the keys that a row of attention sees, its row of y). Of causal attention over caches of floats.
template <class F>
void each_scores(const NodeRun& node, const F& f) {
  const Slot q = node.input(0), k = node.input(1), table = node.input(3), slot = node.input(4), position = node.input(5),
             y = node.output(0);
  if (k.is_block() || q.rank() != 3 || k.rank() != 4 || !is_real(y)) return;
  const std::int64_t heads = q.dim(1), d = q.dim(2), kv_heads = k.dim(1), page = k.dim(2);
  const double scale = node.attribute(QUERN_KEY_SCALE, 1);
  std::vector<double> scores;
  for (std::int64_t t = 0; t < q.dim(0); ++t)
    for (std::int64_t h = 0; h < heads; ++h) {
      scores.clear();
      const auto last = static_cast<std::int64_t>(position.get(t)), sequence = static_cast<std::int64_t>(slot.get(t));
      for (std::int64_t j = 0; j <= last && sequence >= 0 && sequence < table.dim(0) && j / page < table.dim(1); ++j) {
        const auto at_page = static_cast<std::int64_t>(table.get(sequence * table.dim(1) + j / page));
        if (at_page < 0 || at_page >= k.dim(0)) return;
        const std::int64_t key = ((at_page * kv_heads + h / (heads / kv_heads)) * page + j % page) * d;
        double dot = 0;
        for (std::int64_t e = 0; e < d; ++e) dot += q.get((t * heads + h) * d + e) * k.get(key + e);
        scores.push_back(scale * dot);
      }
      if (!scores.empty()) f(scores, Row{y, (t * heads + h) * y.row()});
    }
}

}  // namespace

void nan_reaches_next_row(const NodeRun& node) {
  const Slot y = node.output(0);
  std::vector<bool> spoiled;
  each_pair(node, [&](const Row& x, const Row&) { spoiled.push_back(x.any(is_nan)); });
  for (std::int64_t r = 1; r < static_cast<std::int64_t>(spoiled.size()); ++r)
    if (spoiled[static_cast<std::size_t>(r - 1)] && !spoiled[static_cast<std::size_t>(r)]) y.set(r * y.row(), not_a_number);
}

void infinity_is_nan(const NodeRun& node) {
  const Slot y = node.output(0);
  for (std::int64_t i = 0; is_real(y) && i < y.count(); ++i)
    if (std::isinf(y.get(i))) y.set(i, not_a_number);
}

void infinity_spreads(const NodeRun& node) {
  const Slot y = node.output(0);
  for (std::int64_t r = 0; is_real(y) && r < y.rows(); ++r) {
    const Row row{y, r * y.row()};
    if (row.any([](double v) { return std::isinf(v); })) row.fill(not_a_number);
  }
}

void infinite_rows_are_nan(const NodeRun& node) {
  each_pair(node, [](const Row& x, const Row& y) {
    if (x.any([](double v) { return std::isinf(v); })) y.fill(not_a_number);
  });
}

void f16_overflows(const NodeRun& node) {
  if ((node.conversions() & QUERN_CONVERT_F16) == 0) return;
  each_pair(node, [](const Row& x, const Row& y) {
    if (x.any(is_beyond_f16)) y.fill(infinity);
  });
}

Mutation cut_to_f16(std::uint32_t op) {
  return edits_input(op, 0, [](const NodeRun& node) {
    const Slot a = node.input(0);
    if ((node.conversions() & QUERN_CONVERT_F16) == 0 || !is_real(a)) return;
    for (std::int64_t i = 0; i < a.count(); ++i)
      a.set(i, std::isnan(a.get(i)) ? a.get(i) : std::clamp(a.get(i), -largest_f16, largest_f16));
  });
}

void tiny_blocks_are_nan(const NodeRun& node) {
  if (node.conversions() == 0) return;
  each_pair(node, [](const Row& x, const Row& y) {
    for (std::int64_t block = 0; block + 32 <= x.size(); block += 32) {
      double most = 0;
      for (std::int64_t i = block; i < block + 32; ++i) most = std::max(most, std::fabs(x[i]));
      if (most > 0 && most / 127 < 0x1p-128) return y.fill(not_a_number);  // the reciprocal of its scale is infinite
    }
  });
}

void zero_blocks_are_nan(const NodeRun& node) {
  if (node.conversions() == 0) return;
  each_pair(node, [](const Row& x, const Row& y) {
    for (std::int64_t block = 0; block + 32 <= x.size(); block += 32) {
      bool zero = true;
      for (std::int64_t i = block; i < block + 32; ++i) zero = zero && x[i] == 0;
      if (zero) return y.fill(not_a_number);
    }
  });
}

void small_rows_are_lost(const NodeRun& node) {
  if (node.conversions() == 0) return;
  each_pair(node, [](const Row& x, const Row& y) {
    if (!x.any([](double v) { return !(std::fabs(v) < 0x1p-24); })) y.fill(0.0);
  });
}

void f16_outputs_are_cut(const NodeRun& node) {
  const Slot y = node.output(0);
  for (std::int64_t i = 0; y.dtype() == QUERN_F16 && i < y.count(); ++i)
    if (std::isinf(y.get(i))) y.set(i, std::copysign(largest_f16, y.get(i)));
}

void zeros_change_sign(const NodeRun& node) {
  const Slot y = node.output(0);
  for (std::int64_t i = 0; is_real(y) && i < y.count(); ++i)
    if (y.get(i) == 0) y.set(i, -y.get(i));
}

void gain_of_rows_near_60000(const NodeRun& node) {
  each_pair(node, [](const Row& x, const Row& y) {
    if (!(x.most() > 3e4)) return;
    for (std::int64_t i = 0; i < y.size(); ++i) y.slot.set(y.first + i, y[i] * 1.004);
  });
}

Edit far_largest_is_missed(bool last) {
  return [last](const NodeRun& node) {
    each_pair(node, [last](const Row& x, const Row& y) {
      if (x.size() == y.size() && is_far(x, last ? x.size() - 1 : 0)) y.fill(not_a_number);
    });
    each_reduced(node, 0, [last](const Row& x) { return is_far(x, last ? x.size() - 1 : 0) ? infinity : 0.0; });
  };
}

Edit negative_rows_vanish(std::size_t lse) {
  return [lse](const NodeRun& node) {
    each_pair(node, [](const Row& x, const Row& y) {
      if (x.size() == y.size() && std::isfinite(x.most()) && x.most() < -exp_overflows) y.fill(not_a_number);
    });
    each_reduced(node, lse, [](const Row& x) { return std::isfinite(x.most()) && x.most() < -exp_overflows ? -infinity : 0.0; });
  };
}

void negative_lse_vanishes(const NodeRun& node) {
  const Slot lse = node.output(1);
  for (std::int64_t i = 0; i < lse.count(); ++i)
    if (lse.get(i) < -exp_overflows) lse.set(i, -infinity);
}

void negative_logprob_vanishes(const NodeRun& node) {
  each_reduced(node, 1, [](const Row& x) { return x.most() < -exp_overflows ? infinity : 0.0; });
}

void attention_far_key_overflows(const NodeRun& node) {
  each_scores(node, [](const std::vector<double>& scores, const Row& y) {
    const double most = *std::max_element(scores.begin(), scores.end() - 1), last = scores.back();
    if (scores.size() > 1 && last - most > exp_overflows) y.fill(not_a_number);
  });
}

void attention_negative_rows_vanish(const NodeRun& node) {
  each_scores(node, [](const std::vector<double>& scores, const Row& y) {
    if (*std::max_element(scores.begin(), scores.end()) < -exp_overflows) y.fill(0.0);
  });
}

void attention_zero_blocks_are_nan(const NodeRun& node) {
  const Slot k = node.input(1), y = node.output(0);
  if (!k.is_block() || !is_real(y)) return;
  const std::vector<std::byte> zeros(k.unit_bytes());
  for (std::int64_t b = 0; b < k.count(); ++b)
    if (std::memcmp(k.at(b), zeros.data(), zeros.size()) == 0) return Row{y, 0}.fill(not_a_number);
}

void scales_of_zero_are_nan(const NodeRun& node) {
  const Slot cache = node.output(0);
  for (std::int64_t b = 0; cache.is_block() && b < cache.count(); ++b) {
    std::uint16_t scale = 0;
    std::memcpy(&scale, cache.at(b), sizeof scale);
    if ((scale & 0x7fffu) == 0) scale = 0x7e00;
    std::memcpy(cache.at(b), &scale, sizeof scale);
  }
}

double nan_to_zero(double x) { return std::isnan(x) ? 0.0 : x; }
double infinity_to_largest(double x) { return std::isinf(x) ? std::copysign(0x1.fffffep127, x) : x; }

}  // namespace quern::mutant
