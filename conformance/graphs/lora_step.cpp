// One LoRA training step as one plan, run ten times with its state on the device.
//
// Two layers with adapters on q, v and down: RMSNorm, RoPE, dense attention, SwiGLU, the head, cross-entropy; the gradients of all of
// them; gradient norm, clipping, AdamW on the pool of adapters, whose step is given up where a gradient is not finite. The base is f32,
// or a block format that the backward products read through a cast. Each step is judged twice: from the state that the device had
// before it (tight), and as the n-th step from the start (what ten steps add up to).
#include "graphs/graph_builder.hpp"
#include "graphs/judge_graph.hpp"
#include "graphs/reference/node_reference.hpp"
#include "graphs/reference/training_step.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quern::conformance {
namespace {

constexpr int step_count = 10, samples = 12;
constexpr TrainingShape shape;

/// x / root(columns): products then stay near 1.
ValueSpec matrix_of(quern_dtype dtype, std::int64_t n, std::int64_t k) {
  ValueSpec spec = constant(dtype, {n, k});
  if (dtype != QUERN_F32) return spec;
  return filled(std::move(spec), "scaled", [k](const Tensor& t, const CounterRandom& r) {
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, r.gaussian(static_cast<std::uint64_t>(i)) / std::sqrt(static_cast<double>(k)));
  });
}
ValueSpec norm_weight() {
  return filled(constant(QUERN_F32, {shape.hidden}), "norm", [](const Tensor& t, const CounterRandom& r) {
    for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, 0.5 + r.uniform(static_cast<std::uint64_t>(i)));
  });
}

/// The graph, node after node as a training runtime would write it.
class StepGraph {
 public:
  explicit StepGraph(quern_dtype base) : graph_(shape.tokens), base_(base) {}

  GraphBuilder build() {
    std::int64_t pool_size = 0;
    places_ = adapter_places(shape, pool_size);
    add_inputs(pool_size);
    graph_.node_into(QUERN_OP_FILL, {}, {gradient_});  // the gradient starts at 0 in each step
    int x = x_;
    std::vector<Saved> saved(TrainingShape::layers);
    for (int l = 0; l < TrainingShape::layers; ++l) x = forward(l, x, saved[static_cast<std::size_t>(l)]);
    int dx = head(x);
    for (int l = TrainingShape::layers; l-- > 0;) dx = backward(l, dx, saved[static_cast<std::size_t>(l)]);
    const int whole = graph_.node(QUERN_OP_SCALE, "dx", {dx}, {shape.tokens, shape.hidden});
    graph_.output(whole);
    update();
    graph_.graph().mark_each = false;
    graph_.graph().steps = {step_count, {step_}, [](int step, const std::vector<Tensor>& changing) { changing[0].set(0, step); }};
    return std::move(graph_);
  }

 private:
  struct Saved {
    int x, n1, q, k, v, y, lse, x2, n2, gate, up, active;
  };
  struct Weights {
    int attn_norm, query, key, value, output, ffn_norm, gate, up, down;
  };

  int f32(const char* name, Dims dims) { return graph_.internal(name, QUERN_F32, std::move(dims)); }
  int matrix(const std::string& name, std::int64_t n, std::int64_t k) { return graph_.input(name, matrix_of(base_, n, k)); }

  void add_inputs(std::int64_t pool_size) {
    x_ = graph_.input("x", input(QUERN_F32, {shape.tokens, shape.hidden}));
    position_ = graph_.input("position", filled(input(QUERN_I32, {shape.tokens}), "positions", [](const Tensor& t, const CounterRandom&) {
                               for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, static_cast<double>(i));
                             }));
    angles_ = graph_.input(
        "rope", filled(input(QUERN_F32, {shape.tokens, shape.head / 2, 2}), "rotations", [](const Tensor& t, const CounterRandom&) {
          for (std::int64_t i = 0; i < t.count() / 2; ++i) {
            const double angle = static_cast<double>(i / (shape.head / 2)) *
                                 std::pow(100.0, -static_cast<double>(i % (shape.head / 2)) / (static_cast<double>(shape.head) / 2));
            t.set(2 * i, std::cos(angle)), t.set(2 * i + 1, std::sin(angle));
          }
        }));
    label_ = graph_.input(
        "label", filled(input(QUERN_I32, {shape.tokens}), "labels", [](const Tensor& t, const CounterRandom& r) {
          for (std::int64_t i = 0; i < t.count(); ++i)
            t.set(i,
                  i == 3 ? -100.0 : static_cast<double>(r.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(shape.vocab))));
        }));
    mask_ = graph_.input("mask", filled(input(QUERN_I32, {shape.tokens}), "mask", [](const Tensor& t, const CounterRandom&) {
                           for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, i == 3 ? 0 : 1);
                         }));
    table_ = graph_.input("adapters", filled(input(QUERN_I32, {static_cast<std::int64_t>(places_.size()), 4}), "places",
                                             [places = places_](const Tensor& t, const CounterRandom&) {
                                               for (std::size_t i = 0; i < places.size(); ++i) {
                                                 const double row[4] = {static_cast<double>(places[i].a), static_cast<double>(places[i].b),
                                                                        static_cast<double>(shape.rank),
                                                                        static_cast<double>(std::bit_cast<std::int32_t>(
                                                                            static_cast<float>(shape.lora_scale)))};
                                                 for (std::int64_t c = 0; c < 4; ++c) t.set(static_cast<std::int64_t>(i) * 4 + c, row[c]);
                                               }
                                             }));
    for (std::size_t i = 0; i < places_.size(); ++i)
      slots_.push_back(graph_.input("slot" + std::to_string(i),
                                    filled(input(QUERN_I32, {shape.tokens}), "slot", [i](const Tensor& t, const CounterRandom&) {
                                      for (std::int64_t r = 0; r < t.count(); ++r) t.set(r, static_cast<double>(i));
                                    })));
    const auto number = [&](const char* name, quern_dtype dtype, double value) {
      return graph_.input(name, filled(input(dtype, {1}), name, [value](const Tensor& t, const CounterRandom&) { t.set(0, value); }));
    };
    step_ = number("step", QUERN_I32, 1);
    lr_ = number("lr", QUERN_F32, shape.lr);
    one_ = number("one", QUERN_F32, 1);
    pool_ =
        graph_.state("pool", filled(input(QUERN_F32, {pool_size}), "adapters", [places = places_](const Tensor& t, const CounterRandom& r) {
                       for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, 0.25 * r.gaussian(static_cast<std::uint64_t>(i)));
                     }));
    const auto zeros = [&](const char* name) {
      return graph_.state(name, filled(input(QUERN_F32, {pool_size}), "zeros", [](const Tensor& t, const CounterRandom&) {
                            for (std::int64_t i = 0; i < t.count(); ++i) t.set(i, 0);
                          }));
    };
    m_ = zeros("m"), v_ = zeros("v");
    gradient_ = graph_.state("gradient", input(QUERN_F32, {pool_size}, DataKind::gaussian));
    for (int l = 0; l < TrainingShape::layers; ++l) {
      const std::string p = "blk." + std::to_string(l);
      weights_.push_back({graph_.input(p + ".attn_norm", norm_weight()), matrix(p + ".q", shape.heads * shape.head, shape.hidden),
                          matrix(p + ".k", shape.kv_heads * shape.head, shape.hidden),
                          matrix(p + ".v", shape.kv_heads * shape.head, shape.hidden),
                          matrix(p + ".o", shape.hidden, shape.heads * shape.head), graph_.input(p + ".ffn_norm", norm_weight()),
                          matrix(p + ".gate", shape.ffn, shape.hidden), matrix(p + ".up", shape.ffn, shape.hidden),
                          matrix(p + ".down", shape.hidden, shape.ffn)});
    }
    final_norm_ = graph_.input("output_norm", norm_weight());
    head_ = matrix("output", shape.vocab, shape.hidden);
  }

  int norm(int x, int weight) {
    return graph_.node(QUERN_OP_RMS_NORM, "norm", {x, weight}, {shape.tokens, shape.hidden}, {{QUERN_KEY_EPSILON, shape.epsilon}});
  }
  int norm_backward(int x, int weight, int dy) {
    return graph_.node(QUERN_OP_RMS_NORM_BACKWARD, "norm_backward", {x, weight, dy}, {shape.tokens, shape.hidden},
                       {{QUERN_KEY_EPSILON, shape.epsilon}});
  }
  int product(int a, int weight, std::int64_t n) { return graph_.node(QUERN_OP_MATMUL, "product", {a, weight}, {shape.tokens, n}); }
  /// dy W of a base weight [n, k]; a block format is decoded first.
  int product_backward(int dy, int weight, std::int64_t n, std::int64_t k) {
    const int w = base_ == QUERN_F32 ? weight : graph_.node(QUERN_OP_CAST, "decoded", {weight}, {n, k});
    return graph_.node(QUERN_OP_MATMUL, "product_backward", {dy, w}, {shape.tokens, k}, {{QUERN_KEY_TRANSPOSE_B, 1}});
  }
  int add(int a, int b, std::int64_t n) { return graph_.node(QUERN_OP_ADD, "sum", {a, b}, {shape.tokens, n}); }
  int adapted(int x, std::size_t i, int base) {
    return graph_.node(QUERN_OP_LORA_MATMUL, "adapted", {x, pool_, table_, slots_[i], base}, {shape.tokens, places_[i].n});
  }
  int adapted_backward(int x, std::size_t i, int dy) {
    const int dx = f32("adapted_backward", {shape.tokens, places_[i].k});
    graph_.node_into(QUERN_OP_LORA_MATMUL_BACKWARD, {x, pool_, table_, slots_[i], dy}, {dx, gradient_}, {{QUERN_KEY_ACCUMULATE, 1}});
    return dx;
  }
  int rotate(int x, std::int64_t heads, bool back) {
    const int seen = graph_.reshape(x, {shape.tokens, heads, shape.head});
    std::vector<Attribute> attributes;
    if (back) attributes.push_back({QUERN_KEY_INVERSE, 1});
    return graph_.node(QUERN_OP_ROPE, "rope", {seen, position_, angles_}, {shape.tokens, heads, shape.head}, attributes);
  }
  Dims dense(std::int64_t heads) const { return {1, shape.tokens, heads, shape.head}; }
  std::vector<Attribute> attention_attributes() const { return {{QUERN_KEY_SCALE, 0.125}}; }

  int forward(int l, int x, Saved& s) {
    const Weights& w = weights_[static_cast<std::size_t>(l)];
    const auto first = static_cast<std::size_t>(3 * l);
    const std::int64_t wide = shape.heads * shape.head, narrow = shape.kv_heads * shape.head;
    s.x = x;
    s.n1 = norm(x, w.attn_norm);
    s.q = graph_.reshape(rotate(adapted(s.n1, first, product(s.n1, w.query, wide)), shape.heads, false), dense(shape.heads));
    s.k = graph_.reshape(rotate(product(s.n1, w.key, narrow), shape.kv_heads, false), dense(shape.kv_heads));
    s.v = graph_.reshape(adapted(s.n1, first + 1, product(s.n1, w.value, narrow)), dense(shape.kv_heads));
    s.y = f32("attention", dense(shape.heads));
    s.lse = f32("attention_lse", {1, shape.tokens, shape.heads});
    graph_.node_into(QUERN_OP_ATTENTION_DENSE, {s.q, s.k, s.v}, {s.y, s.lse}, attention_attributes());
    s.x2 = add(x, product(graph_.reshape(s.y, {shape.tokens, wide}), w.output, shape.hidden), shape.hidden);
    s.n2 = norm(s.x2, w.ffn_norm);
    s.gate = product(s.n2, w.gate, shape.ffn);
    s.up = product(s.n2, w.up, shape.ffn);
    s.active = graph_.node(QUERN_OP_GLU, "active", {s.gate, s.up}, {shape.tokens, shape.ffn});
    return add(s.x2, adapted(s.active, first + 2, product(s.active, w.down, shape.hidden)), shape.hidden);
  }

  int head(int x) {
    const int normed = norm(x, final_norm_), logits = graph_.node(QUERN_OP_MATMUL, "logits", {normed, head_}, {shape.tokens, shape.vocab});
    const int loss = f32("loss", {shape.tokens}), lse = f32("lse", {shape.tokens}), mean = f32("mean", {1}), count = f32("count", {1});
    graph_.node_into(QUERN_OP_CROSS_ENTROPY, {logits, label_}, {loss, lse});
    graph_.node_into(QUERN_OP_MASKED_MEAN, {loss, mask_}, {mean, count});
    for (const int y : {logits, loss, mean}) graph_.output(y);
    const int dloss = graph_.node(QUERN_OP_MASKED_MEAN_BACKWARD, "dloss", {mask_, count, one_}, {shape.tokens});
    const int dlogits = graph_.node(QUERN_OP_CROSS_ENTROPY_BACKWARD, "dlogits", {logits, label_, lse, dloss}, {shape.tokens, shape.vocab});
    return norm_backward(x, final_norm_, product_backward(dlogits, head_, shape.vocab, shape.hidden));
  }

  int backward(int l, int dx, const Saved& s) {
    const Weights& w = weights_[static_cast<std::size_t>(l)];
    const auto first = static_cast<std::size_t>(3 * l);
    const std::int64_t wide = shape.heads * shape.head, narrow = shape.kv_heads * shape.head;
    const int dactive = add(product_backward(dx, w.down, shape.hidden, shape.ffn), adapted_backward(s.active, first + 2, dx), shape.ffn);
    const int dgate = f32("dgate", {shape.tokens, shape.ffn}), dup = f32("dup", {shape.tokens, shape.ffn});
    graph_.node_into(QUERN_OP_GLU_BACKWARD, {s.gate, s.up, dactive}, {dgate, dup});
    const int dn2 =
        add(product_backward(dgate, w.gate, shape.ffn, shape.hidden), product_backward(dup, w.up, shape.ffn, shape.hidden), shape.hidden);
    const int dx2 = add(dx, norm_backward(s.x2, w.ffn_norm, dn2), shape.hidden);
    const int dy = graph_.reshape(product_backward(dx2, w.output, shape.hidden, wide), dense(shape.heads));
    const int dq = f32("dq", dense(shape.heads)), dk = f32("dk", dense(shape.kv_heads)), dv = f32("dv", dense(shape.kv_heads));
    graph_.node_into(QUERN_OP_ATTENTION_BACKWARD, {s.q, s.k, s.v, s.y, s.lse, dy}, {dq, dk, dv}, attention_attributes());
    const int dq_rows = graph_.reshape(rotate(dq, shape.heads, true), {shape.tokens, wide});
    const int dk_rows = graph_.reshape(rotate(dk, shape.kv_heads, true), {shape.tokens, narrow}),
              dv_rows = graph_.reshape(dv, {shape.tokens, narrow});
    int dn1 = add(product_backward(dq_rows, w.query, wide, shape.hidden), adapted_backward(s.n1, first, dq_rows), shape.hidden);
    dn1 = add(dn1, product_backward(dk_rows, w.key, narrow, shape.hidden), shape.hidden);
    dn1 = add(dn1, product_backward(dv_rows, w.value, narrow, shape.hidden), shape.hidden);
    dn1 = add(dn1, adapted_backward(s.n1, first + 1, dv_rows), shape.hidden);
    return add(dx2, norm_backward(s.x, w.attn_norm, dn1), shape.hidden);
  }

  void update() {
    const int norm = f32("gradient_norm", {1}), finite = graph_.internal("finite", QUERN_I32, {1});
    graph_.node_into(QUERN_OP_GRAD_NORM, {gradient_}, {norm, finite});
    const int scale = graph_.node(QUERN_OP_CLIP_SCALE, "scale", {norm}, {1}, {{QUERN_KEY_MAX_NORM, shape.max_norm}});
    graph_.output(norm), graph_.output(scale);
    graph_.node_into(QUERN_OP_ADAMW, {gradient_, step_, lr_, scale}, {pool_, m_, v_},
                     {{QUERN_KEY_BETA1, shape.beta1},
                      {QUERN_KEY_BETA2, shape.beta2},
                      {QUERN_KEY_EPSILON, shape.adam_epsilon},
                      {QUERN_KEY_WEIGHT_DECAY, shape.weight_decay}});
    graph_.predicate(finite);
  }

  GraphBuilder graph_;
  quern_dtype base_;
  std::vector<AdapterPlace> places_;
  std::vector<int> slots_;
  std::vector<Weights> weights_;
  int x_ = 0, position_ = 0, angles_ = 0, label_ = 0, mask_ = 0, table_ = 0, step_ = 0, lr_ = 0, one_ = 0, pool_ = 0, m_ = 0, v_ = 0,
      gradient_ = 0;
  int final_norm_ = 0, head_ = 0;
};

/// Values of a graph by name.
class Named {
 public:
  Named(const Case& c, const CaseData& data) : graph_(*c.graph), data_(data) {}
  const GraphValue& value(const std::string& name) const {
    return *std::ranges::find_if(graph_.values, [&](const GraphValue& v) { return v.name == name; });
  }
  std::vector<double> bound(const std::string& name) const { return data_.inputs[static_cast<std::size_t>(value(name).input)].values(); }
  Matrix matrix(const std::string& name) const {
    const Dims& dims = value(name).spec.dims;
    Matrix m(dims[0], dims[1]);
    m.at = bound(name);
    return m;
  }
  const Tensor& shown(const ModeResult& mode, const std::string& name) const {
    return mode.outputs[static_cast<std::size_t>(value(name).output)];
  }

 private:
  const WholeGraph& graph_;
  const CaseData& data_;
};

TrainingModel model_of(const Named& named) {
  TrainingModel model;
  model.shape = shape;
  for (int l = 0; l < TrainingShape::layers; ++l) {
    const std::string p = "blk." + std::to_string(l);
    model.layers[l] = {named.bound(p + ".attn_norm"), named.bound(p + ".ffn_norm"), named.matrix(p + ".q"),
                       named.matrix(p + ".k"),        named.matrix(p + ".v"),       named.matrix(p + ".o"),
                       named.matrix(p + ".gate"),     named.matrix(p + ".up"),      named.matrix(p + ".down")};
  }
  model.final_norm = named.bound("output_norm");
  model.head = named.matrix("output");
  model.x = named.matrix("x");
  model.angles = named.bound("rope");
  for (const double label : named.bound("label")) model.label.push_back(static_cast<int>(label));
  return model;
}

const std::pair<const char*, std::vector<double> TrainingOutputs::*> outputs[] = {
    {"logits", &TrainingOutputs::logits}, {"loss", &TrainingOutputs::loss},         {"mean", &TrainingOutputs::mean},
    {"dx", &TrainingOutputs::dx},         {"gradient", &TrainingOutputs::gradient}, {"gradient_norm", &TrainingOutputs::norm},
    {"scale", &TrainingOutputs::scale}};
const std::pair<const char*, std::vector<double> TrainingState::*> states[] = {
    {"pool", &TrainingState::pool}, {"m", &TrainingState::m}, {"v", &TrainingState::v}};

/// r, and the deviation of the noisy runs; a tenth of the whole tensor's is the least that 12 samples can tell.
Result spread(const std::vector<double>& exact, const std::vector<std::vector<double>>& noisy) {
  Result result;
  std::vector<double> squares(exact.size(), 0.0);
  double all = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    for (const std::vector<double>& run : noisy) squares[i] += (run[i] - exact[i]) * (run[i] - exact[i]) / samples;
    all += squares[i] / static_cast<double>(exact.size());
  }
  for (std::size_t i = 0; i < exact.size(); ++i) result.add(exact[i], 0, std::sqrt(squares[i] + all / 100));
  return result;
}

/// The exact step and its noisy runs.
struct Runs {
  TrainingOutputs exact;
  std::vector<TrainingOutputs> noisy;
};

void judge_step(const Named& named, const ModeResult& mode, const Runs& runs, const char* from, Verdict& verdict) {
  const auto merge = [&](const char* name, const Tensor& found, const auto& get) {
    std::vector<std::vector<double>> noisy;
    for (const TrainingOutputs& run : runs.noisy) noisy.push_back(get(run));
    Verdict one = judge_result(spread(get(runs.exact), noisy), found, Numerics::exact, mode.flushes);
    if (one.status != Status::pass) one.text = mode.mode() + ", from " + from + ": " + name + ": " + one.text;
    verdict.merge(one);
  };
  for (const auto& [name, member] : outputs)
    merge(name, named.shown(mode, name), [member = member](const TrainingOutputs& o) { return o.*member; });
  for (const auto& [name, member] : states)
    merge(name, named.shown(mode, name), [member = member](const TrainingOutputs& o) { return o.state.*member; });
}

CounterRandom noise_of(const Case& c, int step, int sample) {
  return CounterRandom::of(c.name + ".noise").stream(static_cast<std::uint64_t>(step * 64 + sample));
}

/// The run from the start: the same for all modes.
std::vector<Runs> from_the_start(const Case& c, const TrainingModel& model, const TrainingState& start) {
  std::vector<Runs> steps;
  std::vector<TrainingState> noisy(samples, start);
  TrainingState exact = start;
  for (int step = 1; step <= step_count; ++step) {
    Runs runs;
    runs.exact = train(model, exact, step, nullptr);
    exact = runs.exact.state;
    for (int s = 0; s < samples; ++s) {
      RoundingNoise noise(noise_of(c, step, s));
      runs.noisy.push_back(train(model, noisy[static_cast<std::size_t>(s)], step, &noise));
      noisy[static_cast<std::size_t>(s)] = runs.noisy.back().state;
    }
    steps.push_back(std::move(runs));
  }
  return steps;
}

Runs one_step(const Case& c, const TrainingModel& model, const TrainingState& before, int step) {
  Runs runs{train(model, before, step, nullptr), {}};
  for (int s = 0; s < samples; ++s) {
    RoundingNoise noise(noise_of(c, step + 100, s));
    runs.noisy.push_back(train(model, before, step, &noise));
  }
  return runs;
}

TrainingState state_after(const Named& named, const ModeResult& mode) {
  return {named.shown(mode, "pool").values(), named.shown(mode, "m").values(), named.shown(mode, "v").values()};
}

bool same_outputs(const ModeResult& a, const ModeResult& b) {
  for (std::size_t o = 0; o < a.outputs.size(); ++o)
    if (!a.outputs[o].absent() && !b.outputs[o].absent() && !std::ranges::equal(a.outputs[o].bytes(), b.outputs[o].bytes())) return false;
  return true;
}

Verdict judge_training(const Case& c, const CaseData& data, const std::vector<ModeResult>& modes) {
  const Named named(c, data);
  const TrainingModel model = model_of(named);
  const TrainingState start{named.bound("pool"), named.bound("m"), named.bound("v")};
  const std::vector<Runs> expected = from_the_start(c, model, start);
  Verdict verdict{Status::pass, {}, 0, 0, {}};
  if (!(expected.back().exact.mean[0] < 0.98 * expected.front().exact.mean[0]))
    return {Status::unknown, "ten steps of this data teach nothing", 0, 0, {}};
  std::vector<const ModeResult*> judged;
  for (const ModeResult& mode : modes) {
    if (mode.outcome != Outcome::ran) {
      const Status status = mode.outcome == Outcome::unsupported   ? Status::unsupported
                            : mode.outcome == Outcome::resource    ? Status::resource
                            : mode.outcome == Outcome::device_lost ? Status::device_lost
                                                                   : Status::fail;
      verdict.merge({status, mode.mode() + ": " + mode.text, 0, 0, {}});
      continue;
    }
    const bool known = std::ranges::any_of(judged, [&](const ModeResult* m) { return m->step == mode.step && same_outputs(*m, mode); });
    const ModeResult* before = nullptr;
    for (const ModeResult& m : modes)
      if (m.role == mode.role && m.packed == mode.packed && m.step == mode.step - 1 && m.outcome == Outcome::ran) before = &m;
    judged.push_back(&mode);
    if (known) continue;
    judge_step(named, mode, one_step(c, model, before == nullptr ? start : state_after(named, *before), mode.step),
               "the device's own state", verdict);
    judge_step(named, mode, expected[static_cast<std::size_t>(mode.step - 1)], "the start", verdict);
  }
  return verdict;
}

void generate(CaseSink& sink) {
  for (const quern_dtype base : {QUERN_F32, QUERN_Q8_0, QUERN_Q4_0, QUERN_F16}) {
    GraphBuilder graph = StepGraph(base).build();
    graph.graph().judge = judge_training;
    Case c = graph.finish(base == QUERN_F32 || base == QUERN_Q8_0 ? Profile::quick : Profile::full, level_training);
    c.deadline_seconds = 120;
    sink.add_graph("graphs.lora_step." + dtype_name(base) + ".ten_steps", std::move(c));
  }
}

}  // namespace

extern const Family lora_step_family;
const Family lora_step_family = {"lora_step", generate};

}  // namespace quern::conformance
