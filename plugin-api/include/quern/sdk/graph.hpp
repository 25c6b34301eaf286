// A checked copy of a graph, and shapes: what compile() keeps, since the host's arrays live only during the call.
//
// Checks the form (ids, ranks, order); what a plugin can compute is its own question (refusals.hpp).
// Part of the plugin SDK (include quern/quern_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_GRAPH_HPP
#define QUERN_SDK_GRAPH_HPP

#include "quern/sdk/ops.hpp"

#include <vector>

namespace quern {
namespace sdk {

struct Node {
  quern_node fields;  ///< its lists point into the host's memory: use the members below
  std::vector<std::uint32_t> inputs;
  std::vector<std::uint32_t> outputs;
  std::string name;

  /// Value id of input i, or QUERN_NONE where the optional input is absent.
  std::uint32_t input(std::size_t i) const noexcept { return i < inputs.size() ? inputs[i] : QUERN_NONE; }
};

inline bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) noexcept { return !__builtin_mul_overflow(a, b, &product); }

/// Elements between neighbours of each dimension of a contiguous value. Throws where they do not fit 63 bits.
struct Steps {
  std::int64_t of[QUERN_MAX_DIMS] = {};
};
inline Steps contiguous_steps(const quern_value& value) {
  Steps steps;
  std::int64_t step = 1;
  for (std::uint32_t d = value.rank; d-- > 0;) {
    steps.of[d] = step;
    if (value.dims[d] != 0 && __builtin_mul_overflow(step, value.dims[d], &step)) {
      throw Failure(QUERN_INVALID_ARGUMENT, "a value has more elements than 63 bits hold");
    }
  }
  return steps;
}

/// Dtypes that are no block format.
struct PlainDtype {
  quern_dtype id;
  std::string_view name;
  std::uint64_t bytes;
};
inline constexpr PlainDtype plain_dtypes[] = {{QUERN_F32, "f32", 4}, {QUERN_F16, "f16", 2}, {QUERN_BF16, "bf16", 2}, {QUERN_I32, "i32", 4},
                                              {QUERN_I64, "i64", 8}, {QUERN_U32, "u32", 4}, {QUERN_U8, "u8", 1}};

/// Bytes of so many elements: of a block for a block format.
struct ElementSize {
  std::uint64_t elements;
  std::uint64_t bytes;
};
/// For kernels, which cannot throw: zeros for a dtype that is newer than this header.
inline ElementSize find_element_size(quern_dtype dtype) noexcept {
  for (const PlainDtype& plain : plain_dtypes)
    if (plain.id == dtype) return {1, plain.bytes};
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return {format.block_elements, format.block_bytes};
  return {};
}
inline ElementSize element_size(quern_dtype dtype) {
  if (const ElementSize size = find_element_size(dtype); size.bytes != 0) return size;
  throw Failure(QUERN_UNSUPPORTED, concat("element type ", dtype, " is newer than this plugin"), 4);
}

/// "f32", "q4_k"; words for a dtype that is newer than this header.
inline std::string_view dtype_name(quern_dtype dtype) noexcept {
  for (const PlainDtype& plain : plain_dtypes)
    if (plain.id == dtype) return plain.name;
  for (const quern_format& format : quern_formats)
    if (format.id == dtype) return {format.name.data, format.name.size};
  return dtype == QUERN_DTYPE_NONE ? "none" : "an unknown dtype";
}

class Graph {
 public:
  /// Copies and checks. Throws Failure(QUERN_INVALID_ARGUMENT) naming what is malformed.
  explicit Graph(const quern_graph* graph) {
    const quern_graph g = read(graph);
    for (const quern_value& v : List<quern_value>(g.values, "values")) add_value(v);
    for (const quern_symbol& s : List<quern_symbol>(g.symbols, "symbols")) add_symbol(s);
    for (std::size_t i = 0; i < values.size(); ++i) check_value(i);
    for (const quern_node& n : List<quern_node>(g.nodes, "nodes")) add_node(n);
    check_order();
    body_count = g.bodies.count;
  }

  std::vector<quern_value> values;  ///< strings and data cleared: they are the host's
  std::vector<std::string> value_names;
  std::vector<quern_symbol> symbols;
  std::vector<Node> nodes;
  std::uint64_t body_count = 0;

  bool is_slot(std::uint32_t value) const noexcept { return values[value].kind != QUERN_VALUE_INTERNAL; }

  bool same_shape(std::uint32_t a, std::uint32_t b) const noexcept {
    const quern_value& x = values[a];
    const quern_value& y = values[b];
    bool same = x.rank == y.rank;
    for (std::uint32_t d = 0; same && d < x.rank; ++d) same = x.dims[d] == y.dims[d] && x.symbols[d] == y.symbols[d];
    return same;
  }

  /// Whether `small` broadcasts to `large`: equal dimensions, dimensions of 1, fewer leading dimensions.
  bool broadcasts(std::uint32_t small, std::uint32_t large) const noexcept {
    const quern_value& s = values[small];
    const quern_value& l = values[large];
    if (s.rank > l.rank) return false;
    for (std::uint32_t d = 0; d < s.rank; ++d) {
      const std::uint32_t e = d + l.rank - s.rank;
      const bool one = s.dims[d] == 1 && s.symbols[d] == 0;
      if (!one && (s.dims[d] != l.dims[e] || s.symbols[d] != l.symbols[e])) return false;
    }
    return true;
  }

  /// A scalar, or [1].
  bool is_one(std::uint32_t value) const noexcept {
    const quern_value& v = values[value];
    return v.rank == 0 || (v.rank == 1 && v.dims[0] == 1 && v.symbols[0] == 0);
  }

  /// Each symbol's largest value.
  std::vector<std::int64_t> widest() const {
    std::vector<std::int64_t> upper;
    for (const quern_symbol& s : symbols) upper.push_back(s.max);
    return upper;
  }

  /// Lowers `upper` by a list of bounds. Throws on an unknown symbol, a bound given twice, above what it was or below the
  /// symbol's min. Allocates nothing.
  void apply_bounds(const quern_array& bounds, std::vector<std::int64_t>& upper) const {
    const List<quern_bound> list(bounds, "bounds");
    if (list.size() > symbols.size()) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat(list.size(), " bounds for ", symbols.size(), " symbols"), 11);
    }
    for (const quern_bound& bound : list) {
      if (bound.symbol >= symbols.size()) {
        throw Failure(QUERN_INVALID_ARGUMENT, concat("a bound names symbol ", bound.symbol, " of ", symbols.size()), 11);
      }
      if (bound.upper < symbols[bound.symbol].min || bound.upper > upper[bound.symbol]) {
        throw Failure(QUERN_INVALID_ARGUMENT,
                      concat("symbol ", bound.symbol, " is bounded by ", bound.upper, ", it goes from ", symbols[bound.symbol].min, " to ",
                             upper[bound.symbol]),
                      11);
      }
      upper[bound.symbol] = bound.upper;
    }
  }

  /// Dimension d of a value under the given bounds.
  std::int64_t extent(std::uint32_t value, std::uint32_t d, const std::vector<std::int64_t>& upper) const noexcept {
    const std::uint32_t symbol = values[value].symbols[d];
    return symbol == 0 ? values[value].dims[d] : upper[symbol - 1];
  }

  /// Elements from the first to the last one used, under the given bounds; steps are those of the largest dims.
  std::uint64_t elements(std::uint32_t value, const std::vector<std::int64_t>& upper) const {
    const Steps steps = contiguous_steps(values[value]);
    std::uint64_t count = 1;
    for (std::uint32_t d = 0; d < values[value].rank; ++d) {
      const std::int64_t n = extent(value, d, upper);
      if (n == 0) return 0;
      count += static_cast<std::uint64_t>(n - 1) * static_cast<std::uint64_t>(steps.of[d]);
    }
    return count;
  }

  /// Bytes of a value under the given bounds, from its first to its last element. Throws on an unknown element type.
  std::uint64_t bytes(std::uint32_t value, const std::vector<std::int64_t>& upper) const {
    const quern_value& v = values[value];
    const ElementSize size = element_size(v.dtype);
    if ((v.uses & QUERN_VALUE_USES_STRIDES) != 0) return strided_bytes(value, upper, size);
    const std::uint64_t count = elements(value, upper);
    if (count % size.elements != 0) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat("value ", value, " has ", count, " elements, its blocks hold ", size.elements));
    }
    std::uint64_t result = 0;
    if (!multiply(count / size.elements, size.bytes, result)) {
      throw Failure(QUERN_INVALID_ARGUMENT, concat("value ", value, " has more bytes than 64 bits hold"));
    }
    return result;
  }

  /// "[4, 576]", for messages.
  std::string shape(std::uint32_t value) const {
    std::string text = "[";
    for (std::uint32_t d = 0; d < values[value].rank; ++d) {
      text += concat(d == 0 ? "" : ", ", values[value].symbols[d] == 0 ? "" : "up to ", values[value].dims[d]);
    }
    return text + "]";
  }

 private:
  [[noreturn]] static void refuse(std::string text) { throw Failure(QUERN_INVALID_ARGUMENT, std::move(text)); }

  std::uint64_t strided_bytes(std::uint32_t value, const std::vector<std::int64_t>& upper, ElementSize size) const {
    const quern_value& v = values[value];
    std::int64_t last = 0;
    for (std::uint32_t d = 0; d < v.rank; ++d) {
      std::int64_t n = extent(value, d, upper);
      if (d + 1 == v.rank) n /= static_cast<std::int64_t>(size.elements);
      if (n == 0) return 0;
      std::int64_t reach = 0;
      if (v.strides[d] < 0 || __builtin_mul_overflow(n - 1, v.strides[d], &reach) || __builtin_add_overflow(last, reach, &last)) {
        refuse(concat("value ", value, ": dimension ", d, " has the stride ", v.strides[d]));
      }
    }
    return static_cast<std::uint64_t>(last) + size.bytes;
  }

  void add_value(quern_value v) {
    value_names.emplace_back(view(v.name));
    v.name = v.layout = quern_string{nullptr, 0};
    v.data = nullptr;
    v.header.next = nullptr;
    values.push_back(v);
  }

  void add_symbol(quern_symbol s) {
    s.name = quern_string{nullptr, 0};
    if (s.min < 0 || s.max < s.min) refuse(concat("symbol ", symbols.size(), " goes from ", s.min, " to ", s.max));
    if (s.extent != QUERN_NONE && (s.extent >= values.size() || values[s.extent].kind != QUERN_VALUE_STATE ||
                                   values[s.extent].dtype != QUERN_I32 || values[s.extent].rank > 1)) {
      refuse(concat("symbol ", symbols.size(), ": its extent ", s.extent, " is not a state value of one i32"));
    }
    symbols.push_back(s);
  }

  void check_value(std::size_t id) const {
    const quern_value& v = values[id];
    if (v.rank > QUERN_MAX_DIMS) refuse(concat("value ", id, " has ", v.rank, " dimensions, at most ", QUERN_MAX_DIMS));
    if (v.kind > QUERN_VALUE_OUTPUT) refuse(concat("value ", id, " is of the unknown kind ", v.kind));
    for (std::uint32_t d = 0; d < v.rank; ++d) {
      if (v.dims[d] < 0) refuse(concat("value ", id, ": dimension ", d, " is ", v.dims[d]));
      const std::uint32_t symbol = v.symbols[d];
      if (symbol == 0) continue;
      if ((v.uses & QUERN_VALUE_USES_SYMBOLS) == 0) refuse(concat("value ", id, " has symbols and does not say so in uses"));
      if (symbol > symbols.size()) refuse(concat("value ", id, " names symbol ", symbol - 1, " of ", symbols.size()));
      if (v.dims[d] != symbols[symbol - 1].max) {
        refuse(concat("value ", id, ": dimension ", d, " is ", v.dims[d], ", its symbol goes to ", symbols[symbol - 1].max));
      }
    }
    contiguous_steps(v);
    // Each alias names an earlier value, so that chains end.
    if ((v.uses & QUERN_VALUE_USES_ALIAS) != 0 && v.alias_of >= id) {
      refuse(concat("value ", id, " is an alias of ", v.alias_of, ", which is no earlier value"));
    }
  }

  std::vector<std::uint32_t> ids(const quern_array& array, const char* what) const {
    const List<std::uint32_t> list(array, what);
    if (list.size() > values.size() + 64) refuse(concat("a node has ", list.size(), " ", what));
    std::vector<std::uint32_t> result;
    for (const std::uint32_t id : list) {
      if (id != QUERN_NONE && id >= values.size()) {
        refuse(concat("node ", nodes.size(), ": ", what, " names value ", id, " of ", values.size()));
      }
      result.push_back(id);
    }
    return result;
  }

  void check_present(std::string_view names, const std::vector<std::uint32_t>& list) const {
    std::size_t i = 0;
    for (std::string_view word = next_word(names); !word.empty() && i < list.size(); word = next_word(names), ++i) {
      if (word.back() != '?' && list[i] == QUERN_NONE) {
        refuse(concat("node ", nodes.size(), " lacks '", word, "', which is not optional"));
      }
    }
  }

  void add_node(const quern_node& n) {
    Node node{n, ids(n.inputs, "inputs"), ids(n.outputs, "outputs"), std::string(view(n.name))};
    if ((n.uses & QUERN_NODE_USES_PREDICATE) != 0 && n.predicate >= values.size()) {
      refuse(concat("node ", nodes.size(), ": its predicate is value ", n.predicate, " of ", values.size()));
    }
    if (const OpRow* op = find_op(n.op)) {
      const Arity in = arity(op->inputs), out = arity(op->outputs);
      if (node.inputs.size() < in.least || node.inputs.size() > in.most || node.outputs.size() < out.least ||
          node.outputs.size() > out.most) {
        refuse(concat("node ", nodes.size(), ": ", op->name, " takes (", op->inputs, ") and makes (", op->outputs, "), it has ",
                      node.inputs.size(), " inputs and ", node.outputs.size(), " outputs"));
      }
      check_present(op->inputs, node.inputs);
      check_present(op->outputs, node.outputs);
    }
    nodes.push_back(std::move(node));
  }

  void check_order() const {
    std::vector<bool> made(values.size(), false);
    for (std::size_t v = 0; v < values.size(); ++v) {
      made[v] = values[v].kind != QUERN_VALUE_INTERNAL || (values[v].uses & QUERN_VALUE_USES_ALIAS) != 0;
    }
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const bool predicated = (nodes[n].fields.uses & QUERN_NODE_USES_PREDICATE) != 0;
      if (predicated && !made[nodes[n].fields.predicate]) refuse(concat("node ", n, " reads its predicate before it is made"));
      for (const std::uint32_t v : nodes[n].inputs) {
        if (v != QUERN_NONE && !made[v]) refuse(concat("node ", n, " reads value ", v, " before it is made"));
      }
      for (const std::uint32_t v : nodes[n].outputs) {
        if (v == QUERN_NONE) continue;
        if (values[v].kind == QUERN_VALUE_CONSTANT || values[v].kind == QUERN_VALUE_INPUT) {
          refuse(concat("node ", n, " writes value ", v, ", which is not to be written"));
        }
        made[v] = true;
      }
    }
  }
};

}  // namespace sdk
}  // namespace quern

#endif
