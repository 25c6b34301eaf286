// Graphs of ops over typed, ranged values, with every shape checked when a node is added.
//
// A Graph owns its values and nodes; view() gives the flat C view that a plugin reads. Value ids are stable and are
// the binding slots of the plan. The op functions (rms_norm, matmul, ...) are in ops.hpp, one source file an op.
#pragma once

#include "quern/graph/error.hpp"
#include "quern/quern_graph.h"
#include "quern/quern_ops.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::graph {

using ValueId = std::uint32_t;
using SymbolId = std::uint32_t;  // index + 1, so that 0 means "fixed", as in the ABI
inline constexpr ValueId no_value = QUERN_NONE;

/// One dimension: its size, or the largest size and the symbol that ranges below it.
struct Dim {
  std::int64_t size = 0;
  SymbolId symbol = 0;
  Dim(std::int64_t fixed) : size(fixed) {}  // NOLINT: a plain number is a fixed dimension
  Dim(std::int64_t max, SymbolId ranged) : size(max), symbol(ranged) {}
  bool operator==(const Dim&) const = default;
};
using Shape = std::vector<Dim>;

/// "[s1<=512, 576]" for a shape whose first dimension ranges under symbol 1. Graph::describe() knows the symbols' names.
std::string to_string(const Shape& shape);

struct Symbol {
  std::string name = {};
  std::int64_t min = 0;
  std::int64_t max = 0;
  std::int64_t multiple_of = 1;
  ValueId extent = no_value;  // i32 [1] state that holds the exact count on the device
};

struct Value {
  std::string name = {};
  std::uint32_t kind = QUERN_VALUE_INTERNAL;
  quern_dtype dtype = QUERN_F32;
  Shape shape = {};
  ValueId alias_of = no_value;  // a view: strides and offset are bytes into alias_of
  std::uint64_t alias_offset = 0;
  std::vector<std::int64_t> strides = {};  // bytes; empty: contiguous
  std::string layout = {};                 // key of a packed layout of the plugin; empty: canonical
};

struct Attribute {
  std::uint32_t key;
  std::uint32_t type;  // QUERN_ATTR_...
  std::int64_t i = 0;
  double f = 0;
};

/// Attributes as given; those equal to the op's default are dropped when the node is added.
class Attributes {
 public:
  Attributes& set(std::uint32_t key, std::int64_t value);
  Attributes& set(std::uint32_t key, int value) { return set(key, static_cast<std::int64_t>(value)); }
  Attributes& set(std::uint32_t key, double value);
  const Attribute* find(std::uint32_t key) const;
  const std::vector<Attribute>& all() const { return list_; }

 private:
  std::vector<Attribute> list_;
};

struct Node {
  std::uint32_t op = 0;
  std::uint32_t op_revision = 1;
  std::vector<ValueId> inputs;  // no_value where an optional input is absent
  std::vector<ValueId> outputs;
  Attributes attributes;
  ValueId predicate = no_value;
  std::uint32_t conversions = QUERN_CONVERT_NONE;
  std::uint32_t determinism = QUERN_DETERMINISM_INVARIANT;
  std::string name;
};

/// What add_node needs beyond inputs and attributes.
struct NodeOptions {
  std::string name = {};  // "blk.3.attn_norm"
  ValueId predicate = no_value;
  std::uint32_t conversions = QUERN_CONVERT_NONE;
  std::uint32_t determinism = QUERN_DETERMINISM_INVARIANT;
  quern_dtype output_dtype = QUERN_DTYPE_NONE;  // where the op leaves a choice (cast, matmul, get_rows); else the rule of the op
  Shape output_shape = {};                      // where the op leaves a choice (repeat, fill, top_k...)
  std::vector<ValueId> outputs = {};            // existing values to write (state in place, or an output); where the list ends or
                                                // holds no_value: a new internal value
  std::uint64_t skip_outputs = 0;               // bit i: the optional output i is not wanted
};

/// The flat view of a graph for the C ABI. Valid while it and the Graph live and the Graph is unchanged.
class GraphView {
 public:
  const quern_graph* get() const noexcept;
  GraphView(GraphView&&) noexcept;
  ~GraphView();

 private:
  friend class Graph;
  struct Storage;
  explicit GraphView(std::unique_ptr<Storage> storage);
  std::unique_ptr<Storage> storage_;
};

class Graph {
 public:
  explicit Graph(std::string name) : name_(std::move(name)) {}

  /// Throws Error(QUERN_INVALID_ARGUMENT) unless 0 <= min <= max, multiple_of >= 1 divides max, and extent is absent or an
  /// i32 [1] state.
  SymbolId add_symbol(Symbol symbol);

  /// Adds a value as it is described. Throws Error(QUERN_INVALID_ARGUMENT) for an unknown kind or dtype, more than
  /// QUERN_MAX_DIMS dimensions, a ranged dimension whose size is not its symbol's largest, a size that overflows 63 bits, or
  /// strides that do not fit.
  ValueId add_value(Value value);
  ValueId constant(std::string name, quern_dtype dtype, Shape shape);
  ValueId state(std::string name, quern_dtype dtype, Shape shape);
  ValueId input(std::string name, quern_dtype dtype, Shape shape);

  /// A view of `of`: the same memory with another shape; strides in bytes, offset in bytes. Checked to stay inside.
  /// The view's kind is internal and its alias_of is never itself a view. It keeps every ranged dimension of `of` with that
  /// dimension's stride, so that no run reads beyond the exact extent.
  ValueId view(ValueId of, Shape shape, std::vector<std::int64_t> strides, std::uint64_t offset);
  /// A contiguous value under another shape with the same number of elements.
  ValueId reshape(ValueId of, Shape shape);

  /// Says that a constant's memory is packed under a plugin's layout key. Throws Error(QUERN_INVALID_ARGUMENT) for another kind.
  void set_layout(ValueId value, std::string layout);

  /// Turns an internal value into an output that the host reads.
  void mark_output(ValueId value, std::string name);

  /// Adds a node and returns its outputs. Throws Error(QUERN_INVALID_ARGUMENT) naming the op, the node and the shapes
  /// found if an input, attribute, dtype or shape breaks the op's contract.
  std::vector<ValueId> add_node(std::uint32_t op, std::vector<ValueId> inputs, Attributes attributes, NodeOptions options);

  const std::string& name() const { return name_; }
  const Value& value(ValueId id) const { return values_.at(id); }
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }

  /// "[tokens<=512, 576]": a shape with the names of its symbols, as in every message.
  std::string describe(const Shape& shape) const;
  /// "f32 [tokens<=512, 576]".
  std::string describe(ValueId id) const;
  /// Strides in bytes, those of a contiguous value included (rows lie at the largest extents).
  std::vector<std::int64_t> strides(ValueId id) const;
  /// The value whose memory this one is: itself, or what it is a view of.
  ValueId root(ValueId id) const;

  GraphView view_for_plugin() const;

  /// Cuts out the given nodes (in order). Values that cross the cut become inputs and outputs of the part; constants, state and
  /// inputs keep their kind. `whole[id]` is the id in this graph of value id of the part.
  struct Part;
  Part part(const std::vector<std::uint32_t>& node_ids, std::string name) const;
  /// As part(), of several lists of nodes. The time goes by the graph and by what the parts hold together, however many they are.
  std::vector<Part> parts(const std::vector<std::vector<std::uint32_t>>& node_ids, const std::string& name) const;

 private:
  friend class GraphView;
  /// `what` names the value, where it is refused.
  void check_shape(const std::function<std::string()>& what, quern_dtype dtype, const Shape& shape) const;
  void check_view(const Value& view) const;
  std::string name_;
  std::vector<Value> values_;
  enum Written : std::uint8_t { not_written, in_part, in_full };  // in_part: only views of it are written
  std::vector<Written> written_;                                  // by value
  std::vector<Node> nodes_;
  std::vector<Symbol> symbols_;
};

struct Graph::Part {
  Graph graph;
  std::vector<ValueId> whole;
};

/// Bytes of a contiguous value of this dtype and shape, symbols at their maximum; checked: throws on overflow and on a
/// last dimension that is not whole blocks.
std::uint64_t byte_size(quern_dtype dtype, const Shape& shape);
/// Elements and bytes of a block: (1, 4) for f32, (32, 18) for q4_0.
struct BlockSize {
  std::int64_t elements;
  std::int64_t bytes;
};
BlockSize block_size(quern_dtype dtype);
/// Whether numbers lie in blocks under a descriptor of quern_formats.h.
bool is_block_format(quern_dtype dtype);
/// The descriptor's hash; 0 for a plain type.
std::uint64_t format_hash(quern_dtype dtype);
/// "f32", "q4_0"; "dtype 99" for an unknown id.
std::string dtype_name(quern_dtype dtype);
std::optional<quern_dtype> dtype_from_name(std::string_view name);
/// "rms_norm"; "op 4711" for an unknown id.
std::string op_name(std::uint32_t op);

}  // namespace quern::graph
