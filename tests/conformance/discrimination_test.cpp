// The cases tell right from wrong: for each op, each attribute, each operand, what each state held and the predicate, at least one quick
// case fails a plugin that does not look at it and is otherwise perfect.
//
// What such a plugin takes instead: an attribute's default, or half as much again where there is none; nothing for an operand that may be
// left out; zeros for any other, and for what a state held; a predicate of ones.
#include "case_table/case_table.hpp"
#include "judge/judge.hpp"
#include "ops/attention_reference.hpp"
#include "worker/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

namespace quern::conformance {
namespace {

/// A row of ops.def.
struct OpRow {
  std::uint32_t id;
  std::string name;
  std::vector<std::string> inputs, outputs, attributes;
};

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> list;
  for (std::string word; in >> word;) list.push_back(word);
  return list;
}

const std::vector<OpRow>& op_rows() {
  static const std::vector<OpRow> rows = {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) \
  {id, #name, words(inputs), words(outputs), words(attributes)},
#include "quern/ops.def"
#undef QUERN_OP
  };
  return rows;
}

std::string key_name(std::uint32_t key) {
  switch (key) {
#define QUERN_KEY(id, NAME, name, type) \
  case id: \
    return #name;
#include "quern/keys.def"
#undef QUERN_KEY
    default: return {};
  }
}

/// "x" of "x", "x?" and "*x".
std::string bare(const std::string& word) {
  return word.substr(word[0] == '*' ? 1 : 0, word.find_first_of("?=") - (word[0] == '*' ? 1 : 0));
}
bool is_variadic(const std::string& word) { return word[0] == '*'; }

/// Optional operands that a node with these outputs or attributes cannot be without.
const std::set<std::string> needed = {"glu: input up", "glu_backward: input up", "matmul_id_backward: input b", "attention: input kv_len",
                                      "rope_table: input position_count"};

/// What no case needs to tell, because something else says it too: a plugin that does not look is right, or has no place to write to.
const std::map<std::string, const char*> shown_otherwise = {
    {"attention_backward: input sinks", "lse holds what they take"},
    {"moe_router_backward: input bias", "id holds what it chose"},
    {"concat: attribute axis", "the dimension of y that is longer"},
    {"pad: attribute axis", "the dimension of y that is longer"},
    {"top_k: attribute k", "the last dimension of the outputs"},
    {"moe_router: attribute used", "the last dimension of the outputs"},
    {"moe_router_backward: attribute used", "the last dimension of id and dweight"},
};

/// The case as a plugin takes it that does not look at one thing.
struct Blind {
  std::string what;
  Case seen;
  std::vector<Tensor> inputs, states;
};

class BlindReadings {
 public:
  BlindReadings(const OpRow& op, const Case& c, const CaseData& data) : op_(op), case_(c), data_(data) {
    for (std::size_t a = 0; a < c.attributes.size(); ++a) add_attribute(a);
    for (std::size_t i = 0; i < c.inputs.size(); ++i) add_input(i);
    for (std::size_t o = 0; o < c.outputs.size(); ++o) add_state(o);
  }
  std::vector<Blind> all;

 private:
  Blind& add(const std::string& what) { return all.emplace_back(Blind{op_.name + ": " + what, case_, data_.inputs, data_.states}); }

  void add_attribute(std::size_t a) {
    const std::uint32_t key = case_.attributes[a].key;
    const std::string name = key_name(key);
    if (key == QUERN_KEY_TRANSPOSE_A && !is_square(0)) return;  // else the shapes show it
    if (key == QUERN_KEY_TRANSPOSE_B && !is_square(1)) return;
    Blind& b = add("attribute " + name);
    const bool required = std::ranges::find(op_.attributes, name) != op_.attributes.end();
    if (key == QUERN_KEY_BEFORE || key == QUERN_KEY_AFTER) swap_sides(b.seen);  // their sum is in the shapes
    else if (required) b.seen.attributes[a].value *= 1.5;
    else b.seen.attributes.erase(b.seen.attributes.begin() + static_cast<std::ptrdiff_t>(a));
  }
  bool is_square(std::size_t input) const {
    const Dims& dims = case_.inputs[input].dims;
    return dims.size() >= 2 && dims.back() == dims[dims.size() - 2];
  }
  static void swap_sides(Case& pad) {
    for (Attribute& a : pad.attributes)
      if (a.key == QUERN_KEY_BEFORE || a.key == QUERN_KEY_AFTER) a.key = QUERN_KEY_BEFORE + QUERN_KEY_AFTER - a.key;
  }
  void add_input(std::size_t i) {
    if (case_.inputs[i].absent()) return;
    if (case_.predicated && i + 1 == case_.inputs.size()) {
      Blind& b = add("predicate");
      b.inputs[i] = Tensor(case_.inputs[i].dtype, case_.inputs[i].dims);
      for (std::int64_t e = 0; e < b.inputs[i].count(); ++e) b.inputs[i].set(e, 1);
      return;
    }
    const std::string& word = op_.inputs[is_variadic(op_.inputs[0]) ? 0 : i];
    Blind& b = add("input " + bare(word));
    if (word.ends_with("?") && !needed.contains(b.what)) b.inputs[i] = {}, b.seen.inputs[i] = {};
    else b.inputs[i] = Tensor(case_.inputs[i].dtype, case_.inputs[i].dims);
  }
  void add_state(std::size_t o) {
    if (data_.states[o].absent()) return;
    add("state " + bare(op_.outputs[o])).states[o] = Tensor(case_.outputs[o].dtype, case_.outputs[o].dims);
  }

  const OpRow& op_;
  const Case& case_;
  const CaseData& data_;
};

Expected expected_of(const Case& c, const std::vector<Tensor>& inputs, const std::vector<Tensor>& states) {
  Expected expected;
  expected.outputs.resize(c.outputs.size());
  c.reference({c, inputs, states}, expected);
  return expected;
}

void put(const ExpectedOutput& e, const Tensor& y) {
  if (e.rule == Rule::bits) std::ranges::copy(e.bytes, y.bytes().begin());
  for (std::size_t i = 0; i < e.value.size(); ++i)
    y.set(e.index.empty() ? static_cast<std::int64_t>(i) : e.index[i], static_cast<double>(static_cast<float>(e.value[i])));
}

/// Whether an output that follows `wrong` fails what is `right`.
bool told_apart(const Case& c, const Expected& right, const Expected& wrong) {
  for (std::size_t o = 0; o < c.outputs.size(); ++o) {
    if (c.outputs[o].absent()) continue;
    const Tensor y(c.outputs[o].dtype, c.outputs[o].dims);
    const ExpectedOutput &r = right.outputs[o], &w = wrong.outputs[o];
    if (w.rule == Rule::bits ? w.bytes.size() != y.bytes().size() : format_of(y.dtype()) != nullptr) continue;
    if (y.count() == 0 || (w.rule != Rule::bits && w.index.empty() && w.value.size() != static_cast<std::size_t>(y.count()))) continue;
    if (!w.index.empty()) put(r, y);  // what is not judged is right
    put(w, y);
    if (judge(r, y, Numerics::exact).status == Status::fail) return true;
  }
  return false;
}

bool is_plain(const Case& c) {
  return !c.script && !c.graph && c.group != "onnx" && c.faults == 0 && !c.every_kernel && input_bytes(c) <= 1 << 19;
}

/// What a quick case found out, for each thing that an op can be blind to.
std::map<std::string, bool> findings(const CaseTable& table) {
  std::map<std::uint32_t, const OpRow*> rows;
  std::map<std::string, bool> seen;
  for (const OpRow& row : op_rows()) rows[row.id] = &row;
  for (const Case* c : table.of(Profile::quick)) {
    if (!is_plain(*c)) continue;
    std::vector<std::byte> arena(input_bytes(*c));
    const CaseData data = map_data(*c, arena);
    BlindReadings readings(*rows.at(c->op), *c, data);
    std::erase_if(readings.all, [&](const Blind& b) { return shown_otherwise.contains(b.what) || seen[b.what]; });
    if (readings.all.empty()) continue;
    fill_data(*c, data);
    const Expected right = expected_of(*c, data.inputs, data.states);
    for (const Blind& b : readings.all) {
      try {
        seen[b.what] = told_apart(*c, right, expected_of(b.seen, b.inputs, b.states));
      } catch (const UnseenRead&) {
        seen[b.what] = true;               // the outputs of such a plugin are NaN
      } catch (const std::logic_error&) {  // the reference refuses what it was given: no proof
      }
    }
  }
  return seen;
}

TEST(Cases, FailAPluginThatDoesNotLookAtAnAttributeAnOperandAStateOrThePredicate) {
  constexpr std::uint32_t first_collective = QUERN_OP_ALL_REDUCE;
  const CaseTable table;
  const std::map<std::string, bool> seen = findings(table);
  for (const auto& [what, is_seen] : seen) EXPECT_TRUE(is_seen) << what << " may be ignored: no quick case sees it";
  for (const OpRow& op : op_rows()) {
    if (op.id >= first_collective) continue;
    std::vector<std::string> wanted;
    for (const std::string& word : op.inputs) wanted.push_back(op.name + ": input " + bare(word));
    for (const std::string& word : op.attributes) wanted.push_back(op.name + ": attribute " + bare(word));
    for (const std::string& what : wanted)
      EXPECT_NE(seen.contains(what), shown_otherwise.contains(what)) << what << ": either a case sees it or something else shows it";
  }
}

}  // namespace
}  // namespace quern::conformance
