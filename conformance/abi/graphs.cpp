// Graphs: malformed ones are refused naming what is wrong [C26]; what a plugin cannot know is answered no [C4 C20 C21]; well-formed ones
// of every kind of value run.
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include <functional>

namespace quern::conformance::abi {
namespace {

struct Spoil {
  const char* what;
  std::function<void(Graph&)> apply;
};

/// x [4, 2] -> y [4, 2] with a state of one i32 beside them: ids 0, 1, 2.
Graph sound() {
  Graph g;
  const std::uint32_t x = g.input({4, 2}), y = g.output({4, 2});
  g.state({1}, QUERN_I32);
  g.copy(x, y);
  return g;
}

std::vector<std::uint32_t> ids;  // of spoiled lists: they outlive the call

void node_inputs(Graph& g, std::vector<std::uint32_t> list) {
  ids = std::move(list);
  g.nodes[0].inputs = array_of(ids);
}
void node_outputs(Graph& g, std::vector<std::uint32_t> list) {
  ids = std::move(list);
  g.nodes[0].outputs = array_of(ids);
}

const std::vector<Spoil>& spoils() {
  static const std::vector<Spoil> list = {
      {"an input id behind the values", [](Graph& g) { node_inputs(g, {17}); }},
      {"an output id behind the values", [](Graph& g) { node_outputs(g, {17}); }},
      {"a list of ids at null", [](Graph& g) { g.nodes[0].inputs.data = nullptr; }},
      {"a list of ids with a stride of 0", [](Graph& g) { g.nodes[0].inputs.stride = 0; }},
      {"a list of 2^60 ids", [](Graph& g) { g.nodes[0].inputs.count = std::uint64_t{1} << 60; }},
      {"a copy without an input", [](Graph& g) { g.nodes[0].inputs = {}; }},
      {"a copy whose required input is absent", [](Graph& g) { node_inputs(g, {QUERN_NONE}); }},
      {"a copy without an output", [](Graph& g) { g.nodes[0].outputs = {}; }},
      {"a copy of two inputs",
       [](Graph& g) {
         node_inputs(g, {0, 0});
       }},
      {"a value of 7 dimensions", [](Graph& g) { g.values[0].rank = 7; }},
      {"a value of 2^32 - 1 dimensions", [](Graph& g) { g.values[0].rank = 0xffffffffu; }},
      {"a value of an unknown kind", [](Graph& g) { g.values[0].kind = 9; }},
      {"a negative dimension", [](Graph& g) { g.values[0].dims[0] = -4; }},
      {"dimensions whose product overflows", [](Graph& g) { g.values[0].dims[0] = g.values[1].dims[0] = INT64_MAX; }},
      {"a symbol that is not there", [](Graph& g) { g.range(0, 0, 3); }},
      {"a symbol whose largest value is not the dimension", [](Graph& g) { g.range(0, 0, g.symbol(0, 9)), g.range(1, 0, 0); }},
      {"a symbol with min above max", [](Graph& g) { g.range(0, 0, g.symbol(5, 4)), g.range(1, 0, 0); }},
      {"a symbol with a negative min", [](Graph& g) { g.range(0, 0, g.symbol(-1, 4)), g.range(1, 0, 0); }},
      {"an extent that is not there", [](Graph& g) { g.range(0, 0, g.symbol(0, 4, 40)), g.range(1, 0, 0); }},
      {"an extent that is no integer", [](Graph& g) { g.range(0, 0, g.symbol(0, 4, 0)), g.range(1, 0, 0); }},
      {"an alias of itself", [](Graph& g) { g.values[1].uses |= QUERN_VALUE_USES_ALIAS, g.values[1].alias_of = 1; }},
      {"an alias of a value that is not there", [](Graph& g) { g.values[1].uses |= QUERN_VALUE_USES_ALIAS, g.values[1].alias_of = 40; }},
      {"a node that writes its input", [](Graph& g) { node_outputs(g, {0}); }},
      {"a node that writes a constant", [](Graph& g) { g.values[1].kind = QUERN_VALUE_CONSTANT; }},
      {"a node that reads an internal value before it is made", [](Graph& g) { g.values[0].kind = QUERN_VALUE_INTERNAL; }},
      {"a predicate that is not there", [](Graph& g) { Graph::predicate(g.nodes[0], 40); }},
  };
  return list;
}

void malformed_are_refused(ScriptContext& t) {
  const DeviceRef device = t.device();
  for (const Spoil& spoil : spoils()) {
    Graph g = sound();
    spoil.apply(g);
    const quern_graph* graph = g.get();
    quern_compile_options options = compile_options();
    quern_plan* plan = nullptr;
    AbiError error;
    const quern_status status = device.api().compile(device.handle(), graph, &options, &plan, error.get());
    // An enumerator that the plugin does not know is UNSUPPORTED by C3; all else is the host's mistake.
    const quern_status also = spoil.what == std::string("a value of an unknown kind") ? QUERN_UNSUPPORTED : QUERN_INVALID_ARGUMENT;
    check_refused(t, status, error, {QUERN_INVALID_ARGUMENT, also}, std::string("compile refuses ") + spoil.what + " [C26]");
    if (status == QUERN_OK && plan != nullptr) device.api().plan_destroy(plan, nullptr);
    std::vector<quern_answer> answers(g.nodes.size(), made<quern_answer>(QUERN_TYPE_ANSWER));
    AbiError asked;
    const quern_status answered = device.api().support(device.handle(), graph, nullptr, answers.data(), asked.get());
    const bool refused = answered == QUERN_INVALID_ARGUMENT || answered == also ||
                         (answered == QUERN_OK && answers[0].verdict == QUERN_ANSWER_NO);
    // The order of nodes is compile's question; support answers each node for itself.
    const bool order = std::string(spoil.what).find("before it is made") != std::string::npos ||
                       std::string(spoil.what).find("that writes") != std::string::npos;
    t.check(refused || order, std::string("support refuses or answers no to ") + spoil.what + " [C26]");
  }
  Graph g = sound();
  t.check(ask(device, g.get())[0].verdict != QUERN_ANSWER_NO, "the graph that was spoiled is sound itself [C26]");
}

/// Two views of each other, and a chain that is long but sound.
void alias_rings_are_refused(ScriptContext& t) {
  const DeviceRef device = t.device();
  Graph g;
  const std::uint32_t x = g.input({2}), y = g.output({2}), a = g.internal({2}), b = g.internal({2});
  g.values[a].uses = g.values[b].uses = QUERN_VALUE_USES_ALIAS;
  g.values[a].alias_of = b;
  g.values[b].alias_of = a;
  g.copy(x, y);
  quern_compile_options options = compile_options();
  quern_plan* plan = nullptr;
  AbiError error;
  const quern_status status = device.api().compile(device.handle(), g.get(), &options, &plan, error.get());
  check_refused(t, status, error, {QUERN_INVALID_ARGUMENT}, "two values that are views of each other are refused [C26]");
  if (status == QUERN_OK && plan != nullptr) device.api().plan_destroy(plan, nullptr);
}

/// In place only where OPS.md says so: neither copy nor matmul does.
void in_place_is_no(ScriptContext& t) {
  Graph copy;
  const std::uint32_t x = copy.state({8}), half = copy.internal({4}), shifted = copy.internal({4});
  for (const std::uint32_t v : {half, shifted}) copy.values[v].uses = QUERN_VALUE_USES_ALIAS, copy.values[v].alias_of = x;
  copy.values[shifted].alias_offset = 8;
  copy.copy(half, shifted);
  check_no(t, copy, "a copy between views that overlap [C26]");
  Graph product;
  const std::uint32_t a = product.state({4, 4}), b = product.constant({4, 4}), y = product.internal({4, 4});
  product.values[y].uses = QUERN_VALUE_USES_ALIAS;
  product.values[y].alias_of = a;
  product.matmul(a, b, y);
  check_no(t, product, "a product over its own input [C26]");
}

void unknown_meanings_are_no(ScriptContext& t) {
  const auto no = [&](const char* what, const std::function<void(Graph&)>& spoil) {
    Graph g = sound();
    spoil(g);
    check_no(t, g, what);
  };
  no("an op that no op set has [C4]", [](Graph& g) { g.nodes[0].op = 3999; });
  no("a later revision of an op [C4]", [](Graph& g) { g.nodes[0].op_revision = 2; });
  no("the latest revision [C4]", [](Graph& g) { g.nodes[0].op_revision = 0xffffffffu; });
  static const quern_attribute unknown = integer(9999, 1), other_ops = real(QUERN_KEY_EPSILON, 1);
  no("an attribute key that is not known [C4]", [](Graph& g) { g.nodes[0].attributes = {&unknown, 1, sizeof unknown}; });
  no("an attribute of another op [C4]", [](Graph& g) { g.nodes[0].attributes = {&other_ops, 1, sizeof other_ops}; });
  no("an element type that is not known [C4]", [](Graph& g) { g.values[0].dtype = g.values[1].dtype = 250; });
  static const quern_attribute wrong_type = real(QUERN_KEY_TRANSPOSE_B, 1);
  static const quern_attribute twice[] = {integer(QUERN_KEY_TRANSPOSE_B, 1), integer(QUERN_KEY_TRANSPOSE_B, 0)};
  const auto product = [&](const char* what, const quern_attribute* attributes, std::uint64_t count) {
    Graph g;
    const std::uint32_t a = g.input({4, 4}), b = g.input({4, 4}), y = g.output({4, 4});
    g.matmul(a, b, y).attributes = {attributes, count, sizeof(quern_attribute)};
    check_no(t, g, what);
  };
  product("an attribute of another type than its key's [C4]", &wrong_type, 1);
  product("an attribute that comes twice [C4]", twice, 2);
}

void lowest_revision_is_taken(ScriptContext& t) {
  Graph g = sound();
  t.check(ask(t.device(), g.get())[0].verdict != QUERN_ANSWER_NO, "revision 1 without attributes is taken [C4]");
}

void named_ops_are_taken(ScriptContext& t) {
  Graph g;
  const std::uint32_t a = g.input({4, 4}), b = g.constant({4, 4}), y = g.output({4, 4}), z = g.output({4, 4});
  g.matmul(a, b, y);
  g.copy(a, z);
  for (const Answer& answer : ask(t.device(), g.get()))
    t.check(answer.verdict != QUERN_ANSWER_NO, "copy and matmul of f32 are taken [C21]: " + answer.text);
}

void ops_of_others_are_no(ScriptContext& t) {
  Graph g = sound();
  g.nodes[0].op = QUERN_OP_PRIVATE_FROM + 4711;
  check_no(t, g, "a private op of another author [C21]");
  Graph zero = sound();
  zero.nodes[0].op = 0;
  check_no(t, zero, "op 0 [C21]");
}

void shapes_that_do_not_fit_are_no(ScriptContext& t) {
  Graph g;
  const std::uint32_t a = g.input({4, 8}), b = g.constant({5, 7}), y = g.output({4, 5});
  g.matmul(a, b, y);
  check_no(t, g, "a product of rows of 8 with rows of 7 [C21]");
  Graph copy;
  const std::uint32_t x = copy.input({4, 2}), z = copy.output({2, 4});
  copy.copy(x, z);
  check_no(t, copy, "a copy into another shape [C21]");
}

void foreign_formats_are_no(ScriptContext& t) {
  for (const quern_dtype dtype : {QUERN_Q8_0, QUERN_Q4_K}) {
    const auto product = [&](const char* what, const std::function<void(quern_value&)>& spoil) {
      Graph g;
      const std::uint32_t a = g.input({2, 256}), b = g.constant({3, 256}, dtype), y = g.output({2, 3});
      spoil(g.values[b]);
      g.matmul(a, b, y);
      check_no(t, g, what);
    };
    product("a block format under another hash [C20]", [](quern_value& v) { v.format_hash ^= 1; });
    product("a block format without its hash [C20]", [](quern_value& v) { v.uses &= ~QUERN_VALUE_USES_FORMAT, v.format_hash = 0; });
  }
}

void known_formats_are_taken(ScriptContext& t) {
  Graph g;
  const std::uint32_t a = g.input({2, 256}), b = g.constant({3, 256}, QUERN_Q8_0), y = g.output({2, 3});
  g.matmul(a, b, y);
  const Answer answer = ask(t.device(), g.get())[0];
  t.check(answer.verdict != QUERN_ANSWER_NO, "a product with q8_0 under the hash of the format table is taken [C20]: " + answer.text);
}

/// Every kind of value in one plan: constant, state, input, output, internal, and a view of an internal one.
void every_kind_of_value(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  Graph g;
  const std::uint32_t x = g.input({2, 4}), w = g.constant({3, 4}), kept = g.state({2, 4}), middle = g.internal({2, 4});
  const std::uint32_t row = g.internal({1, 4}), y = g.output({2, 3}), z = g.output({1, 4});
  g.values[row].uses = QUERN_VALUE_USES_ALIAS;
  g.values[row].alias_of = middle;
  g.values[row].alias_offset = 16;
  g.copy(x, middle);
  g.copy(middle, kept);
  g.matmul(middle, w, y);
  g.copy(row, z);
  const std::vector<float> xs = counting(8, -3), ws = counting(12, -6);
  Floats at_x(device, queue, xs), at_w(device, queue, ws), at_kept(device, queue, std::vector<float>(8, -1)),
      at_y(device, queue, std::vector<float>(6, -1)), at_z(device, queue, std::vector<float>(4, -1));
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan, {{x, at_x.span()}, {w, at_w.span()}, {kept, at_kept.span()}, {y, at_y.span()}, {z, at_z.span()}});
  t.check(ready.go().code == QUERN_OK, "the run ends well [C26]");
  t.check(at_y.read() == product(xs, ws, 2, 3, 4), "the product of the internal value is right [C26]");
  t.check(at_kept.read() == xs, "the state was written [C26]");
  t.check(at_z.read() == std::vector<float>(xs.begin() + 4, xs.end()), "the view of the internal value is its second row [C26]");
  t.check(at_x.read() == xs && at_w.read() == ws, "input and constant are as they were [C26]");
  t.check(at_x.intact() && at_w.intact() && at_kept.intact() && at_y.intact() && at_z.intact() && ready.scratch().canary_damage().empty(),
          "nothing is written beside the values [C26]");
}

/// The host's arrays live only during the call: all of them are overwritten as soon as compile returns.
void the_graph_is_copied(ScriptContext& t) {
  const DeviceRef device = t.device();
  Queue queue(device);
  auto g = std::make_unique<Graph>();
  const std::uint32_t x = g->input({3}), y = g->output({3});
  g->copy(x, y);
  const Plan plan(device, g->get());
  for (quern_value& v : g->values) v = quern_value{};
  for (quern_node& n : g->nodes) n = quern_node{};
  g.reset();
  Floats at_x(device, queue, {5, 6, 7}), at_y(device, queue, {0, 0, 0});
  Ready ready(device, queue, plan, {{x, at_x.span()}, {y, at_y.span()}});
  t.check(ready.go().code == QUERN_OK && at_y.read() == std::vector<float>{5, 6, 7}, "a plan keeps nothing of the host's graph [C26]");
}

}  // namespace

void graphs_scripts(CaseSink& sink) {
  add(sink, "graphs.malformed_are_refused", malformed_are_refused);
  add(sink, "graphs.alias_rings_are_refused", alias_rings_are_refused);
  add(sink, "graphs.in_place_is_no", in_place_is_no);
  add(sink, "graphs.unknown_meanings_are_no", unknown_meanings_are_no);
  add(sink, "graphs.lowest_revision_is_taken", lowest_revision_is_taken);
  add(sink, "graphs.named_ops_are_taken", named_ops_are_taken);
  add(sink, "graphs.ops_of_others_are_no", ops_of_others_are_no);
  add(sink, "graphs.shapes_that_do_not_fit_are_no", shapes_that_do_not_fit_are_no);
  add(sink, "graphs.foreign_formats_are_no", foreign_formats_are_no);
  add(sink, "graphs.known_formats_are_taken", known_formats_are_taken, level_inference);
  add(sink, "graphs.every_kind_of_value", every_kind_of_value);
  add(sink, "graphs.the_graph_is_copied", the_graph_is_copied);
}

}  // namespace quern::conformance::abi
