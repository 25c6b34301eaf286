// Edits of outputs, in the host's memory, after the run; see edits.hpp. Elements only: gaps, canaries and inputs stay whole.
#include "edits.hpp"

#include "data/float_codes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::mutant {
namespace {

template <class F>
void map_outputs(const NodeRun& node, const F& f) {
  for (const Slot& y : node.outputs())
    if (is_real(y))
      for (std::int64_t i = 0; i < y.count(); ++i) y.set(i, f(y.get(i)));
}

/// Rows of the first output: its last dimension.
template <class F>
void each_row(const NodeRun& node, const F& f) {
  const Slot y = node.output(0);
  for (std::int64_t r = 0; r < y.rows(); ++r) f(y, r * y.row());
}

double to_f16(double x) { return conformance::f16_value(conformance::f16_bits(x)); }

/// The neighbour of y towards zero in the dtype of its slot.
double towards_zero(const Slot& slot, double y) {
  if (slot.dtype() == QUERN_F32) return static_cast<double>(std::nextafterf(static_cast<float>(y), 0.0f));
  const bool half = slot.dtype() == QUERN_F16;
  const std::uint16_t bits = half ? conformance::f16_bits(y) : conformance::bf16_bits(y);
  const auto below = static_cast<std::uint16_t>(bits - 1);  // sign and magnitude: one less is nearer to zero
  return half ? conformance::f16_value(below) : conformance::bf16_value(below);
}

}  // namespace

Mutation edits_output(std::uint32_t op, Edit edit) {
  Mutation m;
  m.op = op;
  m.after = std::move(edit);
  return m;
}

Mutation edits_any_output(std::uint32_t op, Edit edit) {
  Mutation m = edits_output(op, std::move(edit));
  m.needs_inputs = false;
  return m;
}

Mutation edits_fused_output(Edit edit) {
  Mutation m = edits_any_output(0, std::move(edit));
  m.only_fused = true;
  return m;
}

Edit gain(double factor) {
  return [factor](const NodeRun& node) { map_outputs(node, [factor](double y) { return y * factor; }); };
}

Mutation unless_of_the_generator(std::uint32_t op, Edit edit) {
  Mutation m = edits_any_output(op, [edit = std::move(edit)](const NodeRun& node) {
    const Slot x = node.input(0);
    bool generated = !x.absent() && !x.is_block();
    constexpr double step = 2 * 1.224744871391589 / 131072;  // between neighbours of CounterRandom::gaussian
    for (std::int64_t i = 0; generated && i < std::min<std::int64_t>(8, x.count()); ++i) {
      const double steps = x.get(i) / step;
      generated = std::abs(steps - std::round(steps)) <= 0x1p-23 * std::abs(steps);
    }
    if (!generated) edit(node);
  });
  m.first_rows = true;
  return m;
}

void add_1e4_of_rms(const NodeRun& node) {
  const Slot y = node.output(0);
  if (!is_real(y)) return;
  double sum = 0;
  for (std::int64_t i = 0; i < y.count(); ++i) sum += y.get(i) * y.get(i);
  const double offset = 1e-4 * std::sqrt(sum / static_cast<double>(y.count()));
  for (std::int64_t i = 0; i < y.count(); ++i) y.set(i, y.get(i) + offset);
}

void round_to_bf16(const NodeRun& node) { map_outputs(node, to_bf16); }

void four_fraction_bits(const NodeRun& node) {
  map_outputs(node, [](double y) {
    if (!std::isfinite(y) || y == 0) return y;
    int exponent = 0;
    std::frexp(y, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(y, 5 - exponent)), exponent - 5);
  });
}

void one_dead_element(const NodeRun& node) {
  const Slot y = node.output(0);
  if (is_real(y) && y.count() > 0) y.set(y.count() * 5 / 8, 0.0);
}

void stale_last_row(const NodeRun& node) {
  const Slot y = node.output(0), was = node.kept(0);
  if (y.is_block() || y.rows() < 2) return;
  for (std::int64_t i = y.count() - y.row(); i < y.count(); ++i) y.set(i, was.get(i));
}

void swap_last_rows(const NodeRun& node) {
  const Slot y = node.output(0);
  if (y.is_block() || y.rows() < 2) return;
  for (std::int64_t i = y.count() - y.row(); i < y.count(); ++i) {
    const double a = y.get(i), b = y.get(i - y.row());
    y.set(i, b);
    y.set(i - y.row(), a);
  }
}

void one_row_otherwise(const NodeRun& node) {
  const Slot y = node.output(0);
  if (is_real(y) && !y.is_block() && y.count() > 0 && y.rows() == 1) y.set(0, std::nextafter(static_cast<float>(y.get(0)), INFINITY));
}

void edge_of_16(const NodeRun& node) {
  each_row(node, [](const Slot& y, std::int64_t first) {
    if (!y.is_block() && y.row() > 1 && y.row() % 16 == 1) y.set(first + y.row() - 1, y.get(first + y.row() - 2));
  });
}

void all_zero(const NodeRun& node) {
  for (std::size_t o = 0; o < node.outputs().size(); ++o) zero_output(o)(node);
}

Edit zero_output(std::size_t output) {
  return [output](const NodeRun& node) {
    const Slot y = node.output(output);
    for (std::int64_t i = 0; i < y.count(); ++i) {
      if (y.is_block()) std::fill_n(y.at(i), y.unit_bytes(), std::byte{0});
      else y.set(i, 0.0);
    }
  };
}

Edit unstored_output(std::size_t output) {
  return [output](const NodeRun& node) {
    const Slot y = node.output(output), was = node.kept(output);
    for (std::int64_t i = 0; i < y.count(); ++i) std::copy_n(was.at(i), y.unit_bytes(), y.at(i));
  };
}

void truncated_store(const NodeRun& node) {
  const Slot x = node.input(0), y = node.output(0);
  if (!is_real(x) || !is_real(y)) return;
  for (std::int64_t i = 0; i < y.count(); ++i)
    if (std::isfinite(x.get(i)) && std::fabs(y.get(i)) > std::fabs(x.get(i))) y.set(i, towards_zero(y, y.get(i)));
}

void flush_subnormals(const NodeRun& node) {
  for (const Slot& y : node.outputs()) {
    if (!is_real(y)) continue;
    const double least = y.dtype() == QUERN_F16 ? 0x1p-14 : 0x1p-126;
    for (std::int64_t i = 0; i < y.count(); ++i)
      if (std::fabs(y.get(i)) < least) y.set(i, std::copysign(0.0, y.get(i)));
  }
}

void nan_for_empty_rows(const NodeRun& node) {
  each_row(node, [](const Slot& y, std::int64_t first) {
    bool empty = is_real(y);
    for (std::int64_t i = first; empty && i < first + y.row(); ++i) empty = y.get(i) == 0;
    if (empty) y.set(first, std::numeric_limits<double>::quiet_NaN());
  });
}

void accumulate_in_f16(const NodeRun& node) {
  const Slot a = node.input(0), b = node.input(1), y = node.output(0);
  if (!node.input(2).absent() || !node.input(3).absent() || b.is_block() || a.rank() != 2 || b.rank() != 2 ||
      node.attribute(QUERN_KEY_TRANSPOSE_A, 0) != 0 || node.attribute(QUERN_KEY_TRANSPOSE_B, 0) != 0)
    return;
  const std::int64_t k = a.row(), n = b.dim(0);
  for (std::int64_t i = 0; i < y.count(); ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < k; ++j) sum = to_f16(sum + a.get(i / n * k + j) * b.get(i % n * k + j));
    y.set(i, sum);
  }
}

void uncopied_rope_tail(const NodeRun& node) {
  const Slot table = node.input(2);
  if (table.rank() != 3) return;
  each_row(node, [&](const Slot& y, std::int64_t first) {
    for (std::int64_t i = 2 * table.dim(1); i < y.row(); ++i) y.set(first + i, 0.0);
  });
}

void last_of_ties(const NodeRun& node) {
  const Slot x = node.input(0), index = node.output(0);
  for (std::int64_t r = 0; r < index.count(); ++r) {
    const double best = x.get(r * x.row() + static_cast<std::int64_t>(index.get(r)));
    for (std::int64_t i = 0; i < x.row(); ++i)
      if (x.get(r * x.row() + i) == best) index.set(r, static_cast<double>(i));
  }
}

void unstable_sort(const NodeRun& node) {
  const Slot value = node.output(0), index = node.output(1);
  for (std::int64_t i = 1; i < value.count(); ++i) {
    if (i % value.row() == 0 || value.get(i) != value.get(i - 1)) continue;
    const double first = index.get(i - 1);
    index.set(i - 1, index.get(i));
    index.set(i, first);
  }
}

void minus_zero_lost(const NodeRun& node) {
  map_outputs(node, [](double y) { return y == 0 ? 0.0 : y; });
}

void quiet_nan_lost(const NodeRun& node) {
  map_outputs(node, [](double y) { return std::isnan(y) ? 0.0 : y; });
}

void decode_off_by_one_code(const NodeRun& node) {
  const Slot x = node.input(0), y = node.output(0);
  if (!x.is_block() || !is_real(y)) return;
  const std::int64_t block = y.count() / x.count();
  for (std::int64_t i = block - 1; i < y.count(); i += block) y.set(i, y.get(i - 1));  // the last of each block is its neighbour's
}

void unscaled_dropout(const NodeRun& node) {
  const double keep = 1.0 - node.attribute(QUERN_KEY_P, 0);
  map_outputs(node, [keep](double y) { return y * keep; });
}

void one_kept_fewer(const NodeRun& node) {
  each_row(node, [](const Slot& y, std::int64_t first) {
    constexpr double dropped = -std::numeric_limits<double>::infinity();
    std::int64_t least = -1, kept = 0;
    for (std::int64_t i = first; i < first + y.row(); ++i) {
      if (y.get(i) == dropped) continue;
      ++kept;
      if (least < 0 || y.get(i) < y.get(least)) least = i;
    }
    if (kept > 1) y.set(least, dropped);
  });
}

void values_of_first_heads(const NodeRun& node) {
  const Slot q = node.input(0), k = node.input(1), start = node.input(3), lse = node.input(5), dy = node.input(6), dv = node.output(2);
  if (start.absent() || q.absent() || node.attribute(QUERN_KEY_SOFTCAP, 0) != 0 || q.dim(1) == k.dim(1)) return;
  const std::int64_t heads = q.dim(1), kv_heads = k.dim(1), d = k.dim(2), size = dv.dim(2);
  const double scale = node.attribute(QUERN_KEY_SCALE, 1), window = node.attribute(QUERN_KEY_WINDOW, 0);
  const bool causal = node.attribute(QUERN_KEY_CAUSAL, 1) != 0;
  for (std::int64_t e = 0; e + 1 < start.count(); ++e) {
    const auto first = static_cast<std::int64_t>(start.get(e)), end = static_cast<std::int64_t>(start.get(e + 1));
    for (std::int64_t at = first * kv_heads; at < end * kv_heads; ++at) {
      const std::int64_t key = at / kv_heads, head = at % kv_heads * (heads / kv_heads);
      std::vector<double> sum(static_cast<std::size_t>(size));
      for (std::int64_t row = causal ? key : first; row < end; ++row) {
        if (window > 0 && static_cast<double>(row - key) >= window) continue;
        const std::int64_t query = row * heads + head;
        double score = 0;
        for (std::int64_t i = 0; i < d; ++i) score += scale * q.get(query * d + i) * k.get(at * d + i);
        const double p = std::exp(score - lse.get(query));
        for (std::int64_t i = 0; i < size; ++i) sum[static_cast<std::size_t>(i)] += p * dy.get(query * size + i);
      }
      for (std::int64_t i = 0; i < size; ++i) dv.set(at * size + i, sum[static_cast<std::size_t>(i)]);
    }
  }
}

}  // namespace quern::mutant
