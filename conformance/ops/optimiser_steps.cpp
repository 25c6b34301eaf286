// Ten steps of adamw and sgd by one plan whose states stay on the device: what one step stores is what the next one reads.
//
// Each step is judged against f64 from the states that the step before left on the device, so errors do not pile up; the bounds are those
// of a single step. Gradients and the step number change from run to run.
#include "ops/adamw.hpp"

#include "device_run/case_graph.hpp"
#include "device_run/prepared.hpp"
#include "device_run/script.hpp"
#include "judge/judge.hpp"
#include "worker/arena.hpp"

#include <algorithm>
#include <map>

namespace quern::conformance {
namespace {

constexpr int steps = 10;

/// The tensors of a case in memory of its own.
struct Tensors {
  explicit Tensors(const Case& c) : inputs(input_bytes(c)), data(map_data(c, inputs)) { fill_data(c, data); }
  std::vector<std::byte> inputs;
  CaseData data;
};

void run_steps(ScriptContext& t, Case c) {
  c.name = t.case_name();
  Tensors tensors(c);
  CaseData& data = tensors.data;
  Queue queue(t.device());
  const CaseGraph graph(c, 0);
  if (const SupportAnswer answer = support_of(t.device(), graph.graph()); answer.verdict != QUERN_ANSWER_YES) t.unsupported(answer.text);
  std::map<std::uint32_t, std::unique_ptr<Region>> regions;
  std::map<std::uint32_t, Region*> bindings;
  const auto place = [&](std::uint32_t id, const Tensor& tensor) {
    regions[id] = std::make_unique<Region>(t.device(), queue, tensor.bytes().size(), 0, false);
    regions[id]->write(tensor.bytes());
    bindings[id] = regions[id].get();
  };
  for (std::size_t i = 0; i < c.inputs.size(); ++i) place(graph.input_id(i), data.inputs[i]);
  for (std::size_t o = 0; o < c.outputs.size(); ++o) place(graph.output_id(o), data.states[o]);
  Prepared prepared(t.device(), queue, graph.graph(), bindings);
  for (int step = 1; step <= steps; ++step) {
    fill(data.inputs[0], DataKind::gaussian, CounterRandom::of(c.name).stream(static_cast<std::uint64_t>(100 + step)));
    regions[graph.input_id(0)]->write(data.inputs[0].bytes());
    if (c.op == QUERN_OP_ADAMW) {
      data.inputs[1].set(0, step);
      regions[graph.input_id(1)]->write(data.inputs[1].bytes());
    }
    const quern_run_status status = prepared.run(c.deadline_seconds);
    t.require(status.code == QUERN_OK && status.faults == 0, "step " + std::to_string(step) + " runs without a fault");
    Expected expected;
    expected.outputs.resize(c.outputs.size());
    c.reference({c, data.inputs, data.states}, expected);
    for (std::size_t o = 0; o < c.outputs.size(); ++o) {
      const std::vector<std::byte> after = regions[graph.output_id(o)]->read();
      t.require(after.size() == data.states[o].bytes().size(), "a state keeps its size");
      std::ranges::copy(after, data.states[o].bytes().begin());
      Verdict verdict = judge(expected.outputs[o], data.states[o], Numerics::exact);
      if (verdict.status != Status::pass)
        verdict.text = "step " + std::to_string(step) + ", state " + std::to_string(o) + ": " + verdict.text;
      t.merge(verdict);
    }
  }
}

ValueSpec zeros(ValueSpec v) {
  const auto count = static_cast<std::size_t>(element_count(v.dims));
  return given(std::move(v), "zeros", std::vector<double>(count, 0.0));
}

void add(CaseSink& sink, const std::string& name, Case c) {
  c.profile = Profile::quick;
  sink.add_script("optimiser.steps." + name, "optimiser", Profile::quick, level_training, [c](ScriptContext& t) { run_steps(t, c); });
}

void generate(CaseSink& sink) {
  const Dims dims = {17, 65};
  for (const quern_dtype w : {QUERN_F32, QUERN_BF16})
    for (const double decay : {0.0, 0.0625}) {
      const std::string name = dtype_name(w) + (decay == 0 ? "" : "_decay");
      Case adamw;
      adamw.op = QUERN_OP_ADAMW;
      adamw.inputs = {input(QUERN_F32, dims), number(QUERN_I32, 1, "step"), number(QUERN_F32, 0x1p-7, "lr"),
                      number(QUERN_F32, 0.5, "scale")};
      adamw.outputs = {state(w, dims), zeros(state(QUERN_F32, dims)), zeros(state(QUERN_F32, dims))};
      if (decay != 0) adamw.attributes.push_back({QUERN_KEY_WEIGHT_DECAY, decay});
      adamw.reference = adamw_reference;
      add(sink, "adamw_" + name, adamw);
      adamw.outputs.push_back(state(QUERN_F32, dims));
      add(sink, "adamw_master_" + name, adamw);
      Case sgd;
      sgd.op = QUERN_OP_SGD;
      sgd.inputs = {input(w, dims), number(QUERN_F32, 0x1p-5, "lr")};
      sgd.outputs = {state(w, dims)};
      if (decay != 0) sgd.attributes.push_back({QUERN_KEY_WEIGHT_DECAY, decay});
      sgd.reference = sgd_reference;
      add(sink, "sgd_" + name, sgd);
      sgd.outputs.push_back(zeros(state(w, dims)));
      sgd.attributes.push_back({QUERN_KEY_MOMENTUM, 0.875});
      add(sink, "sgd_momentum_" + name, sgd);
    }
}

}  // namespace

extern const Family optimiser_steps_family;
const Family optimiser_steps_family = {"optimiser_steps", generate};

}  // namespace quern::conformance
