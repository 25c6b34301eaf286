// The checks that rules share, and the words of their refusals.
#include "op_call.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace quern::graph {
namespace {

std::string names(Dtypes dtypes) {
  std::string text;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    if (i > 0) text += i + 1 == dtypes.size() ? " or " : ", ";
    text += dtype_name(dtypes.begin()[i]);
  }
  return text;
}

bool contains(Dtypes dtypes, quern_dtype dtype) { return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end(); }

}  // namespace

OpCall::OpCall(const Graph& graph, const OpInfo& op, const std::vector<ValueId>& inputs, const Attributes& attributes,
               const NodeOptions& options)
    : graph_(graph), op_(op), inputs_(inputs), attributes_(attributes), options_(options), outputs_(op.outputs.size()) {}

void OpCall::fail_with(const std::string& text) const {
  std::string where = op_.name;
  if (!options_.name.empty()) where += concat(" '", options_.name, "'");
  throw Error(QUERN_INVALID_ARGUMENT, concat(where, ": ", text));
}

const OpAttribute& OpCall::formal(std::uint32_t key) const {
  const OpAttribute* formal = op_.attribute(key);
  assert(formal && "a rule asks for an attribute that its op does not have");
  return *formal;
}

const std::string& OpCall::input_name(std::size_t i) const { return op_.inputs[std::min(i, op_.inputs.size() - 1)].name; }

std::string OpCall::text(std::size_t i) const { return concat(input_name(i), " is ", graph_.describe(inputs_[i])); }

std::int64_t OpCall::integer(std::uint32_t key) const {
  const Attribute* given = attributes_.find(key);
  return given ? given->i : formal(key).integer;
}

double OpCall::number(std::uint32_t key) const {
  const Attribute* given = attributes_.find(key);
  return given ? given->f : formal(key).number;
}

void OpCall::dtype(std::size_t i, Dtypes allowed) const {
  if (has(i) && !contains(allowed, in(i).dtype)) fail(text(i), "; it may be ", names(allowed));
}

void OpCall::dtype_as(std::size_t i, std::size_t j) const {
  if (has(i) && has(j) && in(i).dtype != in(j).dtype) fail(text(i), " but ", text(j), "; both need the same dtype");
}

void OpCall::rank_is(std::size_t i, std::size_t wanted) const {
  if (has(i) && rank(i) != wanted) fail(text(i), "; it needs ", wanted, " dimensions");
}

void OpCall::rank_at_least(std::size_t i, std::size_t wanted) const {
  if (has(i) && rank(i) < wanted) fail(text(i), "; it needs at least ", wanted, wanted == 1 ? " dimension" : " dimensions");
}

void OpCall::shape_is(std::size_t i, const Shape& wanted) const {
  if (has(i) && shape(i) != wanted) fail(text(i), "; it needs the shape ", graph_.describe(wanted));
}

void OpCall::same_shape(std::size_t i, std::size_t j) const {
  if (has(i) && has(j) && shape(i) != shape(j)) fail(text(i), " but ", text(j), "; both need the same shape");
}

void OpCall::same_dim(std::size_t i, std::size_t d, std::size_t j, std::size_t e) const {
  if (has(i) && has(j) && dim(i, d) != dim(j, e))
    fail(text(i), " but ", text(j), ": dimension ", d, " of ", input_name(i), " must equal dimension ", e, " of ", input_name(j));
}

void OpCall::broadcasts(std::size_t i, const Shape& to) const {
  if (!has(i)) return;
  bool fits = rank(i) <= to.size();
  for (std::size_t d = 0; fits && d < rank(i); ++d) {
    const Dim& mine = dim(i, d);
    fits = mine == Dim(1) || mine == to[to.size() - rank(i) + d];
  }
  if (!fits) fail(text(i), ", which does not broadcast to ", graph_.describe(to));
}

void OpCall::flag(std::uint32_t key) const {
  if (integer(key) != 0 && integer(key) != 1) fail(attribute_name(key), " is ", integer(key), "; it may be 0 or 1");
}

void OpCall::choice(std::uint32_t key, std::int64_t count) const {
  if (integer(key) < 0 || integer(key) >= count) fail(attribute_name(key), " is ", integer(key), "; it may be 0 to ", count - 1);
}

void OpCall::not_negative(std::uint32_t key) const {
  if (formal(key).type == QUERN_ATTR_I64) {
    if (integer(key) < 0) fail(attribute_name(key), " is ", integer(key), "; it may not be negative");
    return;
  }
  finite(key);
  if (number(key) < 0) fail(attribute_name(key), " is ", number(key), "; it may not be negative");
}

void OpCall::positive(std::uint32_t key) const {
  if (formal(key).type == QUERN_ATTR_I64) {
    if (integer(key) < 1) fail(attribute_name(key), " is ", integer(key), "; it must be at least 1");
    return;
  }
  finite(key);
  if (!(static_cast<float>(number(key)) > 0)) fail(attribute_name(key), " is ", number(key), "; it must be above 0");
}

void OpCall::finite(std::uint32_t key) const {
  if (!std::isfinite(static_cast<float>(number(key)))) fail(attribute_name(key), " is ", number(key), "; it must be a finite f32");
}

std::size_t OpCall::axis(std::uint32_t key, std::size_t i) const {
  const std::int64_t axis = integer(key);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank(i)))
    fail("axis is ", axis, " but ", text(i), "; it may be 0 to ", static_cast<std::int64_t>(rank(i)) - 1);
  return static_cast<std::size_t>(axis);
}

std::int64_t OpCall::fixed(std::size_t i, std::size_t d) const {
  if (dim(i, d).symbol != 0) fail(text(i), "; dimension ", d, " must have a fixed size");
  return dim(i, d).size;
}

void OpCall::out(std::size_t i, quern_dtype dtype, Shape shape) { outputs_[i] = Output{dtype, std::move(shape)}; }

quern_dtype OpCall::out_dtype(quern_dtype otherwise, Dtypes allowed) const {
  quern_dtype dtype = options_.output_dtype;
  if (dtype == QUERN_DTYPE_NONE && given(0)) dtype = graph_.value(given_id(0)).dtype;
  if (dtype == QUERN_DTYPE_NONE) dtype = otherwise;
  if (dtype == QUERN_DTYPE_NONE) fail("needs the dtype of its output ", op_.outputs[0].name);
  if (!contains(allowed, dtype))
    fail("the output ", op_.outputs[0].name, " is asked for as ", dtype_name(dtype), "; it may be ", names(allowed));
  return dtype;
}

const Shape& OpCall::out_shape(std::size_t i) const {
  if (given(i)) return graph_.value(given_id(i)).shape;
  return options_.output_shape;
}

ValueId OpCall::given_id(std::size_t i) const { return i < options_.outputs.size() ? options_.outputs[i] : no_value; }

bool OpCall::given(std::size_t i) const { return given_id(i) != no_value; }

const Value& OpCall::state(std::size_t i) {
  const std::string& name = op_.outputs[i].name;
  if (!given(i)) fail("works in place on ", name, "; give that value, of kind state, as the output");
  if (graph_.value(graph_.root(given_id(i))).kind != QUERN_VALUE_STATE)
    fail("works in place on ", name, ", so '", graph_.value(given_id(i)).name, "' must be of kind state");
  return graph_.value(given_id(i));
}

void OpCall::accumulates(std::initializer_list<std::size_t> outputs) {
  flag(QUERN_KEY_ACCUMULATE);
  if (integer(QUERN_KEY_ACCUMULATE) == 0) return;
  for (const std::size_t i : outputs)
    if (wanted(i)) state(i);
}

}  // namespace quern::graph
