// What ops ask of a call in words that the table of forms does not have; and form_problem(), which asks both.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_FORM_RULES_HPP
#define QUERN_SDK_FORM_RULES_HPP

#include "quern/sdk/forms.hpp"

namespace quern {
namespace sdk {
namespace form_rule {

inline bool is_ranged(const Tensor& t, std::uint32_t dim) noexcept { return (t.ranged >> dim & 1u) != 0; }
/// "x is [2, 3] f32 and y is [2] f32"
inline std::string both(const char* a_name, const Tensor& a, const char* b_name, const Tensor& b) {
  return concat(a_name, " is ", shape_text(a), " and ", b_name, " is ", shape_text(b));
}

inline std::string glu(const Tensor& gate, bool has_up, const char* y_name, const Tensor& y) {
  Tensor part = gate;
  if (!has_up) part.dims[part.rank - 1] /= 2;
  if (same_shape(part, y) && (has_up || part.last() * 2 == gate.last())) return {};
  return concat(both("gate", gate, y_name, y), has_up ? "; they have one shape" : "; without up a row of gate holds two of them");
}

inline std::string whole_fill(const Call& call) {
  const double value = call.real(QUERN_KEY_VALUE);
  const bool fits = call.output(0).dtype != QUERN_I32 || (value >= -0x1p31 && value < 0x1p31 && value == std::nearbyint(value));
  return fits ? "" : concat("value is ", value, "; y is i32 and takes whole numbers from -2147483648 to 2147483647");
}

/// The axis of concat and pad, whose size is fixed.
inline std::string axis(const Call& call) {
  const std::int64_t at = call.integer(QUERN_KEY_AXIS);
  const Tensor& y = call.output(0);
  if (at < 0 || at >= std::int64_t{y.rank})
    return concat("axis is ", at, " and y is ", shape_text(y), "; it is 0 or more and below the rank");
  for (const Tensor& t : call.inputs)
    if (t.rank != y.rank) return concat(both("x", t, "y", y), "; they have one rank");
  for (const TensorList* list : {&call.inputs, &call.outputs})
    for (const Tensor& t : *list)
      if (is_ranged(t, static_cast<std::uint32_t>(at)))
        return concat("an operand is ", shape_text(t), "; along axis ", at, " its size is fixed");
  return {};
}
/// Whether all dims but that along the axis are equal.
inline bool stand_side_by_side(const Tensor& x, const Tensor& y, std::int64_t axis) noexcept {
  bool same = true;
  for (std::uint32_t d = 0; d < y.rank; ++d) same = same && (d == axis || x.dims[d] == y.dims[d]);
  return same;
}
inline std::string join(const Call& call) {
  const Tensor& y = call.output(0);
  if (std::string text = axis(call); !text.empty()) return text;
  const std::int64_t at = call.integer(QUERN_KEY_AXIS);
  std::int64_t total = 0;
  for (const Tensor& x : call.inputs) {
    if (x.dtype != y.dtype) return concat(both("x", x, "y", y), "; they have one dtype");
    if (!stand_side_by_side(x, y, at)) return concat(both("x", x, "y", y), "; they differ along axis ", at, " only");
    total += x.dims[at];  // each below 2^56, and as many as a graph lists
  }
  return total == y.dims[at] ? "" : concat("y is ", shape_text(y), " and its inputs have ", total, " elements along axis ", at);
}
inline std::string pad(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  if (std::string text = axis(call); !text.empty()) return text;
  const std::int64_t at = call.integer(QUERN_KEY_AXIS), before = call.integer(QUERN_KEY_BEFORE), after = call.integer(QUERN_KEY_AFTER);
  const bool fits = stand_side_by_side(x, y, at) && before <= y.dims[at] && y.dims[at] - before - x.dims[at] == after;
  return fits ? "" : concat(both("x", x, "y", y), "; y is x with ", before, " and ", after, " elements around it along axis ", at);
}
/// Of repeat, and of sum_to the other way round.
inline std::string repeats(const char* small_name, const Tensor& small, const char* large_name, const Tensor& large) {
  bool fills = small.rank <= large.rank;
  for (std::uint32_t e = 1; fills && e <= small.rank; ++e) {
    const std::uint32_t s = small.rank - e, l = large.rank - e;
    const std::int64_t n = small.dims[s], m = large.dims[l];
    if (is_ranged(small, s) || is_ranged(large, l))
      fills = (n == m && is_ranged(small, s) == is_ranged(large, l)) || (n == 1 && !is_ranged(small, s));
    else fills = n == m || (n > 0 && m % n == 0);
  }
  return fills ? ""
               : concat(both(small_name, small, large_name, large), "; each dimension of ", large_name, " is a multiple of that of ",
                        small_name, ", a ranged one is the same or repeats a 1");
}

inline std::string softmax(const Call& call) {
  const Tensor &x = call.input(0), &mask = call.input(1), &sinks = call.input(2);
  if (mask.present() && mask.last() != x.last()) return concat(both("mask", mask, "x", x), "; their rows are equally long");
  const std::int64_t heads = x.rank < 3 ? 1 : x.dims[x.rank - 3];
  return !sinks.present() || sinks.dims[0] == heads
             ? ""
             : concat(both("sinks", sinks, "x", x), "; there is a sink for each of ", heads, " heads");
}

inline std::string rope_table(const Call& call) {
  const std::int64_t scaling = call.integer(QUERN_KEY_SCALING);
  const bool stretched = scaling == 2 || scaling == 3 || scaling == 5;
  return !stretched || call.integer(QUERN_KEY_ORIGINAL_CONTEXT) > 0 ? "" : concat("scaling is ", scaling, ", which needs original_context");
}
inline std::string rope(const Call& call) {
  const Tensor &x = call.input(0), &position = call.input(1), &table = call.input(2);
  std::uint32_t sections = 0;
  for (const std::uint32_t key : {QUERN_KEY_SECTION0, QUERN_KEY_SECTION1, QUERN_KEY_SECTION2, QUERN_KEY_SECTION3}) {
    const std::int64_t pairs = call.integer(key);
    if (pairs < 0 || pairs > table.dims[1]) return concat("a section has ", pairs, " pairs; it has 0 to the ", table.dims[1], " of table");
    if (pairs > 0) sections = 1;
  }
  const bool fits = position.rank == sections + 1 && position.dims[sections] == x.dims[0] && (sections == 0 || position.dims[0] == 4);
  return fits ? ""
              : concat(both("position", position, "x", x),
                       sections == 0 ? "; it has one for each row" : "; it has a row a section, of one for each row of x");
}

inline std::string matmul(const Call& call) {
  const Tensor &a = call.input(0), &b = call.input(1), &bias = call.input(2), &y = call.output(0);
  const bool turned_a = call.flag(QUERN_KEY_TRANSPOSE_A), turned_b = call.flag(QUERN_KEY_TRANSPOSE_B);
  if (a.rank < (turned_a ? 2u : 1u) || b.rank < 2 || (b.rank > 2 && b.rank > a.rank))
    return concat(both("a", a, "b", b), "; b has two dimensions at least, and no more than a beyond these");
  const std::int64_t k = turned_a ? a.dims[a.rank - 2] : a.last(), m = a.rank < 2 ? 1 : a.dims[a.rank - (turned_a ? 1 : 2)];
  const std::int64_t n = b.dims[b.rank - (turned_b ? 1 : 2)];
  if (b.dims[b.rank - (turned_b ? 2 : 1)] != k) return concat(both("a", a, "b", b), "; they have one k");
  if (y.rank != a.rank || y.last() != n || (a.rank > 1 && y.dims[y.rank - 2] != m))
    return concat(both("a", a, "b", b), ", and y ", shape_text(y), "; its last dimensions are ", m, " and ", n);
  for (std::uint32_t d = 0; d + 2 < a.rank; ++d) {
    if (y.dims[d] != a.dims[d]) return concat(both("a", a, "y", y), "; they have the same leading dimensions");
    if (d + b.rank < a.rank) continue;
    const std::uint32_t e = d + b.rank - a.rank;
    const std::int64_t groups = b.dims[e];
    const bool divides = is_ranged(a, d) || is_ranged(b, e) ? groups == 1 || (groups == a.dims[d] && is_ranged(a, d) == is_ranged(b, e))
                                                            : groups == a.dims[d] || (groups > 0 && a.dims[d] % groups == 0);
    if (!divides) return concat(both("a", a, "b", b), "; leading dimensions of b divide those of a");
  }
  return !bias.present() || (bias.rank == 1 && bias.dims[0] == n) ? "" : concat("bias is ", shape_text(bias), "; it is [", n, "]");
}

/// Of attention over dense keys: its mask broadcasts to scores in all but the keys.
inline std::string score_mask(const Call& call, const Tensor& mask) {
  const Tensor &q = call.input(0), &k = call.input(1);
  if (!mask.present()) return {};
  Tensor scores;
  scores.rank = 4;
  const std::int64_t dims[] = {q.dims[0], q.dims[2], q.dims[1], k.dims[1]};
  std::copy(std::begin(dims), std::end(dims), scores.dims);
  if (mask.rank >= 2 && broadcasts(mask, scores) && mask.last() == k.dims[1]) return {};
  return concat("mask is ", shape_text(mask), "; it broadcasts to batch, heads, queries and keys, [", dims[0], ", ", dims[1], ", ", dims[2],
                ", ", dims[3], "]");
}

inline std::string of(const Call& call) {
  switch (call.op) {
    case QUERN_OP_FILL: return whole_fill(call);
    case QUERN_OP_GLU: return glu(call.input(0), call.input(1).present(), "y", call.output(0));
    case QUERN_OP_GLU_BACKWARD: return glu(call.input(0), call.input(1).present(), "dy", call.input(2));
    case QUERN_OP_CONCAT: return join(call);
    case QUERN_OP_PAD: return pad(call);
    case QUERN_OP_REPEAT: return repeats("x", call.input(0), "y", call.output(0));
    case QUERN_OP_SUM_TO: return repeats("y", call.output(0), "x", call.input(0));
    case QUERN_OP_GET_ROWS:
      return (call.input(0).dtype == QUERN_I32) == (call.output(0).dtype == QUERN_I32)
                 ? ""
                 : concat(both("table", call.input(0), "y", call.output(0)), "; rows of i32 are i32");
    case QUERN_OP_SOFTMAX: return softmax(call);
    case QUERN_OP_ROPE_TABLE: return rope_table(call);
    case QUERN_OP_ROPE: return rope(call);
    case QUERN_OP_MATMUL: return matmul(call);
    case QUERN_OP_ATTENTION_DENSE: return score_mask(call, call.input(3));
    case QUERN_OP_ATTENTION_BACKWARD: return score_mask(call, call.input(6));
    case QUERN_OP_SGD:
      return !(call.real(QUERN_KEY_MOMENTUM) > 0) || call.output(1).present()
                 ? ""
                 : concat("momentum is ", call.real(QUERN_KEY_MOMENTUM), ", which needs the state momentum");
    default: return {};
  }
}

}  // namespace form_rule

/// Why a call is none of its op, by the table and by the rules beside it.
inline FormProblem form_problem(const Call& call) {
  FormProblem problem = Form(call).problem();
  if (problem.text.empty())
    if (const std::string text = form_rule::of(call); !text.empty()) problem.text = concat(find_op(call.op)->name, ": ", text);
  return problem;
}

}  // namespace sdk
}  // namespace quern

#endif
