// The cases tell right from wrong: for each op, each attribute, each optional input and the predicate, at least one quick case fails a
// plugin that ignores it and is otherwise perfect.
#include "case_table/case_table.hpp"
#include "judge/judge.hpp"
#include "worker/arena.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace quern::conformance {
namespace {

/// A word for each thing that a plugin may ignore.
struct Ignored {
  std::string what;
  Case wrong;                        // the case as such a plugin takes it
  std::optional<std::size_t> input;  // which input it does not read
};

/// "x weight? dy": the indices of the optional inputs of an op, as ops.def has them.
std::vector<std::size_t> optional_inputs(std::uint32_t op) {
  std::string words;
  switch (op) {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) \
  case id:                                                                     \
    words = inputs;                                                            \
    break;
#include "quern/ops.def"
#undef QUERN_OP
    default:
      break;
  }
  std::istringstream stream(words);
  std::vector<std::size_t> found;
  std::string word;
  for (std::size_t i = 0; stream >> word; ++i)
    if (word.back() == '?') found.push_back(i);
  return found;
}

std::vector<Ignored> ways_to_ignore(const Case& c) {
  std::vector<Ignored> ways;
  for (std::size_t a = 0; a < c.attributes.size(); ++a) {
    const std::uint32_t key = c.attributes[a].key;
    if (key == QUERN_KEY_USED || key == QUERN_KEY_K || key == QUERN_KEY_AXIS || key == QUERN_KEY_BEFORE || key == QUERN_KEY_AFTER)
      continue;  // shapes show them
    if (key == QUERN_KEY_TRANSPOSE_A || key == QUERN_KEY_TRANSPOSE_B) continue;
    Ignored way{op_name(c.op) + ": attribute " + std::to_string(key), c, std::nullopt};
    const bool required = key == QUERN_KEY_MAX_NORM ||
                          (key == QUERN_KEY_SCALE && c.op >= QUERN_OP_ATTENTION && c.op <= QUERN_OP_ATTENTION_BACKWARD) ||
                          (key == QUERN_KEY_EPSILON && c.op != QUERN_OP_ADAMW);
    if (required)
      way.wrong.attributes[a].value *= 1.5;
    else
      way.wrong.attributes.erase(way.wrong.attributes.begin() + static_cast<std::ptrdiff_t>(a));
    ways.push_back(std::move(way));
  }
  for (const std::size_t i : optional_inputs(c.op)) {
    // An input that another needs, and one that changes how the outputs look: db alone has no b.
    if (c.op == QUERN_OP_MATMUL_ID_BACKWARD || c.op == QUERN_OP_MOE_ROUTER_BACKWARD || i >= c.inputs.size() || c.inputs[i].absent())
      continue;
    if (c.op == QUERN_OP_ATTENTION && i == 6) continue;  // kv_len: without causal there is no reading without it
    if (c.op == QUERN_OP_ATTENTION_BACKWARD && i == 7) continue;  // sinks: lse has them
    if (c.predicated && i + 1 == c.inputs.size()) continue;
    Ignored way{op_name(c.op) + ": input " + std::to_string(i), c, i};
    way.wrong.inputs[i] = {};
    ways.push_back(std::move(way));
  }
  if (c.predicated) {
    Ignored way{op_name(c.op) + ": predicate", c, c.inputs.size() - 1};
    way.wrong.inputs.pop_back();
    way.wrong.predicated = false;
    ways.push_back(std::move(way));
  }
  return ways;
}

Expected expected_of(const Case& c, const std::vector<Tensor>& inputs, const std::vector<Tensor>& states) {
  Expected expected;
  expected.outputs.resize(c.outputs.size());
  c.reference({c, inputs, states}, expected);
  return expected;
}

/// Whether an output that follows `wrong` fails what is `right`.
bool told_apart(const Case& c, const Expected& right, const Expected& wrong) {
  for (std::size_t o = 0; o < c.outputs.size(); ++o) {
    const ExpectedOutput &r = right.outputs[o], &w = wrong.outputs[o];
    if (c.outputs[o].absent() || format_of(c.outputs[o].dtype) != nullptr || !r.index.empty()) continue;
    const Tensor y(c.outputs[o].dtype, c.outputs[o].dims);
    if (w.rule == Rule::bits)
      std::copy(w.bytes.begin(), w.bytes.end(), y.bytes().begin());
    else
      for (std::size_t i = 0; i < w.value.size(); ++i)
        y.set(static_cast<std::int64_t>(i), static_cast<double>(static_cast<float>(w.value[i])));
    if (y.count() > 0 && judge(r, y, Numerics::exact).status == Status::fail) return true;
  }
  return false;
}

TEST(Cases, FailAPluginThatIgnoresAnAttributeAnInputOrThePredicate) {
  const CaseTable table;
  std::map<std::string, bool> caught;
  for (const Case* c : table.of(Profile::quick)) {
    // The ops whose references take any subset of their optional operands; the others' are shown by the mutants of the self-test.
    const bool taken = (c->op >= QUERN_OP_MATMUL && c->op <= QUERN_OP_MOE_ROUTER_BACKWARD) ||
                       (c->op >= QUERN_OP_CROSS_ENTROPY && c->op <= QUERN_OP_DROPOUT);
    if (c->predicated && c->op < QUERN_OP_CROSS_ENTROPY) continue;  // their references take the predicate for granted (variants.cpp)
    if (!taken || c->group == "onnx" || c->script || c->graph || c->faults != 0 || input_bytes(*c) > 1 << 19) continue;
    std::vector<Ignored> open = ways_to_ignore(*c);
    std::erase_if(open, [&](const Ignored& way) { return caught[way.what]; });
    if (open.empty()) continue;
    std::vector<std::byte> arena(input_bytes(*c));
    const CaseData data = map_data(*c, arena);
    fill_data(*c, data);
    const Expected right = expected_of(*c, data.inputs, data.states);
    for (const Ignored& way : open) {
      std::vector<Tensor> inputs = data.inputs;
      if (way.input) inputs[*way.input] = {};
      if (c->predicated && !way.wrong.predicated) inputs.pop_back();
      try {
        caught[way.what] = told_apart(*c, right, expected_of(way.wrong, inputs, data.states));
      } catch (const std::logic_error&) {
        caught[way.what] = true;  // the wrong reading meets the NaN of what nobody sees
      }
    }
  }
  EXPECT_GT(caught.size(), 40u);
  for (const auto& [what, is_caught] : caught) EXPECT_TRUE(is_caught) << what << " may be ignored: no quick case sees it";
}

}  // namespace
}  // namespace quern::conformance
