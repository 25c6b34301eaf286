// Cases for the shape rules: per op what is accepted, with the outputs that follow, and what is refused, in which words.
#pragma once

#include "quern/graph/ops.hpp"

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace quern::test {

namespace ops = graph::ops;
using graph::Dim;
using graph::no_value;
using graph::Shape;
using graph::ValueId;

/// A graph to add one node to, with the symbols tokens <= 16 and outputs <= 4.
struct Bench {
  Bench();
  graph::Graph g{"bench"};
  Dim t, o;
  ValueId in(quern_dtype dtype, Shape shape) { return g.input("in", dtype, std::move(shape)); }
  ValueId f32(Shape shape) { return in(QUERN_F32, std::move(shape)); }
  ValueId f16(Shape shape) { return in(QUERN_F16, std::move(shape)); }
  ValueId i32(Shape shape) { return in(QUERN_I32, std::move(shape)); }
  ValueId u32(Shape shape) { return in(QUERN_U32, std::move(shape)); }
  ValueId weight(quern_dtype dtype, Shape shape) { return g.constant("weight", dtype, std::move(shape)); }
  ValueId state(quern_dtype dtype, Shape shape) { return g.state("state", dtype, std::move(shape)); }
};

struct RuleCase {
  std::uint32_t op;
  std::string name;                   // what is accepted or refused, in CamelCase
  std::function<void(Bench&)> build;  // adds the node
  std::string outputs;                // accepted: "f32 [tokens<=16, 8]; i32 [4]", "-" for an absent one; refused: empty
  std::vector<std::string> words;     // refused: what the error says, beside the op and the name of the node
};

/// Options of a node that will be refused: its name is looked for in the error.
inline graph::NodeOptions here(quern_dtype dtype = QUERN_DTYPE_NONE) {
  graph::NodeOptions options;
  options.name = "here";
  options.output_dtype = dtype;
  return options;
}

inline void PrintTo(const RuleCase& one, std::ostream* out) { *out << one.name; }

std::vector<RuleCase> elementwise_cases();
std::vector<RuleCase> activation_cases();
std::vector<RuleCase> copy_cases();
std::vector<RuleCase> rows_cases();
std::vector<RuleCase> norm_cases();
std::vector<RuleCase> softmax_cases();
std::vector<RuleCase> rope_cases();
std::vector<RuleCase> matmul_cases();
std::vector<RuleCase> attention_cases();
std::vector<RuleCase> sampling_cases();
std::vector<RuleCase> training_cases();
std::vector<RuleCase> reduction_cases();

}  // namespace quern::test
