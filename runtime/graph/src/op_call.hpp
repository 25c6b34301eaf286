// One call of an op under check: what a rule reads, and what it states.
//
// A rule is a function void rules::<op>(OpCall&), one file an op in src/ops/. It refuses what breaks the contract with
// fail() or a check below, and states each output with out(). Graph::add_node then makes the values.
#pragma once

#include "quern/graph/graph.hpp"
#include "quern/graph/op_info.hpp"
#include "quern/quern_formats.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace quern::graph {

using Dtypes = std::initializer_list<quern_dtype>;

class OpCall {
 public:
  OpCall(const Graph& graph, const OpInfo& op, const std::vector<ValueId>& inputs, const Attributes& attributes,
         const NodeOptions& options);

  /// Throws the Error that names op, node and the given words.
  template <typename... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    fail_with(concat(parts...));
  }

  // Inputs, by their place in ops.def.
  std::size_t count() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != no_value; }
  const Value& in(std::size_t i) const { return graph_.value(inputs_[i]); }
  ValueId id(std::size_t i) const { return inputs_[i]; }
  const Shape& shape(std::size_t i) const { return in(i).shape; }
  std::size_t rank(std::size_t i) const { return in(i).shape.size(); }
  const Dim& dim(std::size_t i, std::size_t d) const { return in(i).shape[d]; }
  /// The kind of the memory behind an input: that of the value that it is a view of.
  std::uint32_t root_kind(std::size_t i) const { return graph_.value(graph_.root(inputs_[i])).kind; }
  const Dim& last(std::size_t i) const { return in(i).shape.back(); }
  /// "x": its name in ops.def.
  const std::string& input_name(std::size_t i) const;
  /// "x is f32 [tokens<=512, 576]".
  std::string text(std::size_t i) const;
  std::string text(const Shape& shape) const { return graph_.describe(shape); }

  // Attributes: given, or the default.
  std::int64_t integer(std::uint32_t key) const;
  double number(std::uint32_t key) const;

  // Checks. Each throws with the shapes it found; an absent optional input passes.
  void dtype(std::size_t i, Dtypes allowed) const;
  void dtype_as(std::size_t i, std::size_t j) const;
  void rank_is(std::size_t i, std::size_t rank) const;
  void rank_at_least(std::size_t i, std::size_t rank) const;
  void shape_is(std::size_t i, const Shape& wanted) const;
  void same_shape(std::size_t i, std::size_t j) const;
  void same_dim(std::size_t i, std::size_t d, std::size_t j, std::size_t e) const;
  /// Input i broadcasts to `to`: each of its dimensions, counted from the last, is 1 or equal.
  void broadcasts(std::size_t i, const Shape& to) const;
  void flag(std::uint32_t key) const;                        // 0 or 1
  void choice(std::uint32_t key, std::int64_t count) const;  // 0 to count - 1
  void not_negative(std::uint32_t key) const;                // finite and >= 0; integers too
  void positive(std::uint32_t key) const;                    // > 0 and finite, as f32 too; integers too
  void finite(std::uint32_t key) const;                      // as f32 too
  /// An axis of input i.
  std::size_t axis(std::uint32_t key, std::size_t i) const;
  /// A size that an op needs to know when it is compiled.
  std::int64_t fixed(std::size_t i, std::size_t d) const;

  // Outputs.
  /// States an output: its dtype and shape.
  void out(std::size_t i, quern_dtype dtype, Shape shape);
  /// The dtype asked for, one of `allowed`; `otherwise` where the caller leaves it to the op.
  quern_dtype out_dtype(quern_dtype otherwise, Dtypes allowed) const;
  /// The shape asked for, by output_shape or by the value given for output i.
  const Shape& out_shape(std::size_t i) const;
  bool given(std::size_t i) const;
  bool wanted(std::size_t i) const { return !(options_.skip_outputs >> i & 1u); }
  /// The value that the caller gave for output i, which must be state: the op works in place on it.
  const Value& state(std::size_t i);
  ValueId given_id(std::size_t i) const;
  /// With accumulate set, the outputs are added to, so those wanted must be given as state.
  void accumulates(std::initializer_list<std::size_t> outputs);

  struct Output {
    quern_dtype dtype;
    Shape shape;
  };
  const std::vector<std::optional<Output>>& outputs() const { return outputs_; }

 private:
  [[noreturn]] void fail_with(const std::string& text) const;
  const OpAttribute& formal(std::uint32_t key) const;

  const Graph& graph_;
  const OpInfo& op_;
  const std::vector<ValueId>& inputs_;
  const Attributes& attributes_;
  const NodeOptions& options_;
  std::vector<std::optional<Output>> outputs_;
};

inline constexpr Dtypes floats = {QUERN_F32, QUERN_F16, QUERN_BF16};
#define QUERN_GRAPH_FORMAT(FORMAT, format, with) QUERN_##FORMAT,
inline constexpr Dtypes block_formats = {QUERN_EACH_FORMAT(QUERN_GRAPH_FORMAT, )};
/// "all" of OPS.md.
inline constexpr Dtypes all_types = {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_I32, QUERN_EACH_FORMAT(QUERN_GRAPH_FORMAT, )};
/// Weights of a product: "all" without integers.
inline constexpr Dtypes weight_types = {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_EACH_FORMAT(QUERN_GRAPH_FORMAT, )};
#undef QUERN_GRAPH_FORMAT
/// What a KV cache may hold.
inline constexpr Dtypes cache_types = {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0};
inline constexpr Dtypes index_types = {QUERN_I32, QUERN_I64};
inline constexpr Dtypes i32_only = {QUERN_I32};
inline constexpr Dtypes f32_only = {QUERN_F32};

using Rule = void (*)(OpCall&);
/// The rule of an op of ops.def.
Rule find_rule(std::uint32_t op);

/// One declaration an op; each is defined in src/ops/.
namespace rules {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) void name(OpCall& call);
#include "quern/ops.def"
#undef QUERN_OP
}  // namespace rules

}  // namespace quern::graph
