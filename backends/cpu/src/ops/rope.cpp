// Rotates pairs of the first r elements of each head by (cos, sin) rows of the table; the rest is copied.
//
// Pairs are (2i, 2i + 1) in mode 0 and (i, i + r/2) in mode 1. With sections, position has four rows and pair i uses the row of
// its section (the pairs beyond all sections use the last). A position outside the table: a row of zeros and INDEX_RANGE.
#include "rope_row.hpp"
#include "tables.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

constexpr std::int64_t max_head = rope_max_head;

struct Sections {
  std::int64_t end[4];  // first pair behind each
  bool used;
};

Sections sections_of(const Call& call) noexcept {
  const std::int64_t sizes[4] = {call.integer(QUERN_KEY_SECTION0), call.integer(QUERN_KEY_SECTION1), call.integer(QUERN_KEY_SECTION2),
                                 call.integer(QUERN_KEY_SECTION3)};
  Sections s{};
  std::int64_t at = 0;
  for (int i = 0; i < 4; ++i) s.end[i] = at += sizes[i];
  s.used = at > 0;
  return s;
}

Verdict accepts(const Call& call) {
  const Tensor &x = call.input(0), &table = call.input(2);
  if (table.strides[2] != 4 || table.strides[1] != 8) return Verdict::no("the rows of table are not packed");
  if (x.dims[2] > max_head) return Verdict::no(concat("a head has ", x.dims[2], " elements; at most ", max_head, " are taken"));
  return Verdict::yes();
}

/// (cos, sin) of each pair for one token, or false if a position lies outside the table.
bool angles(const Call& call, const Sections& sections, std::int64_t token, float* both) noexcept {
  const Tensor &position = call.input(1), &table = call.input(2);
  const std::int64_t pairs = table.dims[1];
  std::int64_t done = 0;
  for (int s = 0; s < 4 && done < pairs; ++s) {
    const std::int64_t end = !sections.used || s == 3 ? pairs : std::min(pairs, sections.end[s]);
    if (end <= done) continue;
    const std::int64_t p = load_integer(position, sections.used ? s * position.dims[1] + token : token);
    if (p < 0 || p >= table.dims[0]) return false;
    __builtin_memcpy(both + 2 * done, bytes_of(table) + p * table.strides[0] + done * 8, static_cast<std::size_t>(end - done) * 8);
    done = end;
  }
  return true;
}

void rotate(const float* both, std::int64_t pairs, bool split_halves, bool inverse, float* x) noexcept {
  const std::int64_t step = split_halves ? 1 : 2, other = split_halves ? pairs : 1;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float c = both[2 * i], s = inverse ? -both[2 * i + 1] : both[2 * i + 1];
    float &a = x[i * step], &b = x[i * step + other];
    const float turned = a * c - b * s;
    b = a * s + b * c;
    a = turned;
  }
}

void run(const Call& call, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, x.dims[1] * x.dims[2]));
  context.parallel(x.dims[0], grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t t = begin; t < end; ++t) rope_row(call, t, bytes_of(y) + t * y.strides[0], context);
  });
}

constexpr Kernel kernels[] = {{QUERN_OP_ROPE, "rope.portable", Isa::baseline, accepts, run}};

}  // namespace

void rope_row(const Call& call, std::int64_t t, std::byte* to, Context& context) noexcept {
  const Tensor &x = call.input(0), &y = call.output(0);
  const std::int64_t heads = x.dims[1], n = x.dims[2], pairs = call.input(2).dims[1];
  const bool split_halves = call.integer(QUERN_KEY_MODE) == 1, inverse = call.integer(QUERN_KEY_INVERSE) != 0;
  float both[max_head], head[max_head];
  const bool inside = angles(call, sections_of(call), t, both);
  if (!inside) context.fault(QUERN_FAULT_INDEX_RANGE);
  for (std::int64_t h = 0; h < heads; ++h) {
    if (inside) {
      load_floats(bytes_of(x) + t * x.strides[0] + h * x.strides[1], x.dtype, x.strides[2], 0, n, head);
      rotate(both, pairs, split_halves, inverse, head);
    } else {
      std::fill(head, head + n, 0.0f);
    }
    store_floats(to + h * y.strides[1], y.dtype, y.strides[2], 0, n, head);
  }
}

const std::span<const Kernel> rope_kernels = kernels;

}  // namespace quern::cpu
