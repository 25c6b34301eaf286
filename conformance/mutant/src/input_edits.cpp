// Edits of inputs; see edits.hpp. Each works on a private copy, so the host's inputs stay as they are.
#include "edits.hpp"

#include "data/float_codes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace quern::mutant {
namespace {

/// Copies the parts of `slot` along dimension `dim`: part i becomes what part from(i) was.
template <class F>
void permute(const Slot& slot, std::uint32_t dim, const F& from) {
  if (slot.absent() || slot.is_block() || dim >= slot.rank()) return;
  std::vector<double> was;
  for (std::int64_t i = 0; i < slot.count(); ++i) was.push_back(slot.get(i));
  std::int64_t inner = 1;
  for (std::uint32_t d = dim + 1; d < slot.rank(); ++d) inner *= slot.dim(d);
  const std::int64_t parts = slot.dim(dim);
  for (std::int64_t i = 0; i < slot.count(); ++i) {
    const std::int64_t part = i / inner % parts;
    slot.set(i, was[static_cast<std::size_t>(i + (from(part) - part) * inner)]);
  }
}

/// The permutation of 0 .. n - 1 that undoes `to`.
template <class F>
auto inverse(const F& to, std::int64_t n) {
  std::vector<std::int64_t> from(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) from[static_cast<std::size_t>(to(i))] = i;
  return [from](std::int64_t i) { return from[static_cast<std::size_t>(i)]; };
}

}  // namespace

Mutation edits_inputs(std::uint32_t op, std::vector<std::size_t> inputs, Edit before, Edit after) {
  Mutation m;
  m.op = op;
  m.copied_inputs = std::move(inputs);
  m.before = std::move(before);
  m.after = std::move(after);
  return m;
}

Mutation edits_input(std::uint32_t op, std::size_t input, Edit edit) { return edits_inputs(op, {input}, std::move(edit)); }

Mutation maps_input(std::uint32_t op, std::size_t input, double (*f)(double)) {
  return edits_input(op, input, [input, f](const NodeRun& node) {
    const Slot x = node.input(input);
    for (std::int64_t i = 0; i < x.count() && !x.is_block(); ++i) x.set(i, f(x.get(i)));
  });
}

double flushed_f32(double x) { return std::fabs(x) < 0x1p-126 ? std::copysign(0.0, x) : x; }
double flushed_below_2_120(double x) { return std::fabs(x) < 0x1p-120 ? std::copysign(0.0, x) : x; }
double raised_to_normal(double x) { return x != 0 && std::fabs(x) < 0x1p-126 ? std::copysign(0x1p-126, x) : x; }

Mutation flushes_sums(double (*f)(double)) {
  const auto map = [f](const Slot& x) {
    for (std::int64_t i = 0; i < x.count() && x.dtype() != QUERN_F16; ++i) x.set(i, f(x.get(i)));
  };
  return edits_inputs(
      QUERN_OP_ADD, {0, 1},
      [map](const NodeRun& node) {
        map(node.input(0));
        map(node.input(1));
      },
      [map](const NodeRun& node) { map(node.output(0)); });
}

double to_bf16(double x) { return conformance::bf16_value(conformance::bf16_bits(x)); }

double to_tf32(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(x, 11 - exponent)), exponent - 11);
}

double finite_mask(double x) { return x == -std::numeric_limits<double>::infinity() ? -1e4 : x; }
double nan_to_minus_infinity(double x) { return std::isnan(x) ? -std::numeric_limits<double>::infinity() : x; }
double one_less_behind_512(double x) { return x >= 512 ? x - 1 : x; }
double zero_unless_finite(double x) { return std::isfinite(x) ? x : 0; }
double zero_if_negative(double x) { return std::max(x, 0.0); }
double zero(double) { return 0; }
double one(double) { return 1; }

void drop_last_of_k(const NodeRun& node) {
  const Slot a = node.input(0);
  if (node.attribute(QUERN_KEY_TRANSPOSE_A, 0) != 0) return;
  for (std::int64_t r = 0; r < a.rows(); ++r) a.set(r * a.row() + a.row() - 1, 0.0);
}

void flush_block_scales(const NodeRun& node) {
  const Slot b = node.input(1);
  if (b.dtype() != QUERN_Q4_0 && b.dtype() != QUERN_Q8_0) return;
  for (std::int64_t i = 0; i < b.count(); ++i) {
    std::uint16_t scale = 0;
    std::memcpy(&scale, b.at(i), sizeof scale);
    if ((scale & 0x7c00u) == 0) scale &= 0x8000u;
    std::memcpy(b.at(i), &scale, sizeof scale);
  }
}

Mutation edits_blocks(std::uint32_t op, std::size_t input, quern_dtype dtype, BlockEdit edit) {
  return edits_input(op, input, [input, dtype, edit](const NodeRun& node) {
    const Slot x = node.input(input);
    if (x.dtype() != dtype) return;
    for (std::int64_t i = 0; i < x.count(); ++i) edit(reinterpret_cast<std::uint8_t*>(x.at(i)));
  });
}

// Byte offsets as quern_formats.h has them.
void swap_nibbles(std::uint8_t* q4_0) {
  for (int i = 2; i < 18; ++i) q4_0[i] = static_cast<std::uint8_t>(q4_0[i] << 4 | q4_0[i] >> 4);
}
void negate_min(std::uint8_t* q4_1) { q4_1[3] ^= 0x80; }
void drop_fifth_bits(std::uint8_t* q5_1) { std::fill_n(q5_1 + 4, 4, std::uint8_t{0}); }
void swap_scale_and_min(std::uint8_t* q4_k) { std::swap_ranges(q4_k, q4_k + 2, q4_k + 2); }
void rotate_sub_scales(std::uint8_t* q6_k) { std::rotate(q6_k + 192, q6_k + 193, q6_k + 208); }

void skip_last_block(const NodeRun& node) {
  const Slot x = node.input(0);
  if (!x.is_block()) return;
  for (std::int64_t r = 0; r < x.rows(); ++r) std::fill_n(x.at(r * x.row() + x.row() - 1), x.unit_bytes(), std::byte{0});
}

void keep_first_of_duplicates(const NodeRun& node) {
  const Slot index = node.input(1);
  std::set<double> seen;
  for (std::int64_t i = 0; i < index.count(); ++i)
    if (!seen.insert(index.get(i)).second) index.set(i, -1);
}

Edit identity_table(std::size_t input) {
  return [input](const NodeRun& node) {
    const Slot table = node.input(input);
    for (std::int64_t i = 0; i < table.count(); ++i)
      if (table.get(i) >= 0) table.set(i, static_cast<double>(i));
  };
}

Edit pages_of_next_sequence(std::size_t table_at, std::size_t slot_at, std::size_t position_at) {
  return [=](const NodeRun& node) {
    const Slot table = node.input(table_at), slot = node.input(slot_at), position = node.input(position_at);
    const Slot cache = node.output(0).rank() == 4 ? node.output(0) : node.input(1);  // of kv_write, of attention
    if (table.rank() != 2 || cache.rank() != 4) return;
    for (std::int64_t i = 0; i < slot.count(); ++i) {
      const auto next = static_cast<std::int64_t>(slot.get(i)) + 1, page = static_cast<std::int64_t>(position.get(i)) / cache.dim(2);
      if (next < 1 || next >= table.dim(0) || position.get(i) < 0 || page >= table.dim(1)) continue;
      const double id = table.get(next * table.dim(1) + page);
      if (id >= 0 && id < static_cast<double>(cache.dim(0))) slot.set(i, static_cast<double>(next));
    }
  };
}

void one_position_more(const NodeRun& node) {
  const Slot keys = node.input(1), table = node.input(3), position = node.input(5);
  if (table.absent() || keys.rank() != 4) return;
  const auto room = static_cast<double>(table.row() * keys.dim(2));
  for (std::int64_t i = 0; i < position.count(); ++i)
    if (const double p = position.get(i); p >= 0 && p + 1 < room) position.set(i, p + 1);
}

void examples_begin_a_row_early(const NodeRun& node) {
  const Slot start = node.input(3);
  for (std::int64_t e = start.count() - 2; e > 0; --e)
    if (start.get(e) > start.get(e - 1)) start.set(e, start.get(e) - 1);
}

void next_expert(const NodeRun& node) {
  const Slot b = node.input(1), id = node.input(2);
  if (b.absent() || b.rank() != 3) return;
  for (std::int64_t i = 0; i < id.count(); ++i)
    if (const double e = id.get(i); e >= 0) id.set(i, std::fmod(e + 1, static_cast<double>(b.dim(0))));
}

void count_ignored_labels(const NodeRun& node) {
  const Slot label = node.input(1);
  for (std::int64_t i = 0; i < label.count(); ++i)
    if (label.get(i) == node.attribute(QUERN_KEY_IGNORE, -100)) label.set(i, 0);
}

/// L2 in the gradient instead of decoupled decay (edits_graph of the caller drops the attribute from what
/// runs).
void coupled_decay(const NodeRun& node) {
  const Slot gradient = node.input(0), w = node.output(0);
  const double decay = node.attribute(QUERN_KEY_WEIGHT_DECAY, 0);
  for (std::int64_t i = 0; i < gradient.count() && i < w.count(); ++i) gradient.set(i, gradient.get(i) + decay * w.get(i));
}

void late_step(const NodeRun& node) { node.input(1).set(0, 1e6); }  // both bias corrections are then 1 within 1e-6

void rank_blind_scale(const NodeRun& node) {
  const Slot table = node.input(2);  // [slots, 4]: offset A, offset B, rank, bits of scale
  for (std::int64_t s = 0; s < table.rows(); ++s) {
    float scale = 0;
    std::memcpy(&scale, table.at(s * 4 + 3), sizeof scale);
    scale *= static_cast<float>(table.get(s * 4 + 2));
    std::memcpy(table.at(s * 4 + 3), &scale, sizeof scale);
  }
}

// The plugin underneath maps query head h to kv head h / g. Handing it query head h in the place of one that
// meets kv head h % kv_heads, and putting the result back, makes it map by the remainder.
Mutation heads_modulo() {
  const auto place = [](const NodeRun& node) {
    const std::int64_t heads = node.input(0).dim(1), kv = node.input(1).dim(1), g = heads / kv;
    return [=](std::int64_t h) { return h % kv * g + h / kv; };
  };
  return edits_inputs(
      QUERN_OP_ATTENTION, {0}, [place](const NodeRun& node) { permute(node.input(0), 1, inverse(place(node), node.input(0).dim(1))); },
      [place](const NodeRun& node) { permute(node.output(0), 1, place(node)); });
}

Mutation batches_modulo() {
  const auto applies = [](const NodeRun& node) {
    const Slot a = node.input(0), b = node.input(1);
    return a.rank() == 3 && b.rank() == 3 && b.dim(0) > 1 && b.dim(0) < a.dim(0) && !a.is_block();
  };
  const auto place = [](const NodeRun& node) {
    const std::int64_t groups = node.input(1).dim(0), g = node.input(0).dim(0) / groups;
    return [=](std::int64_t i) { return i % groups * g + i / groups; };
  };
  return edits_inputs(
      QUERN_OP_MATMUL, {0},
      [applies, place](const NodeRun& node) {
        if (applies(node)) permute(node.input(0), 0, inverse(place(node), node.input(0).dim(0)));
      },
      [applies, place](const NodeRun& node) {
        if (applies(node)) permute(node.output(0), 0, place(node));
      });
}

}  // namespace quern::mutant
