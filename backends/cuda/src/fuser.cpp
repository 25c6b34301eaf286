// See fuser.hpp.
#include "fuser.hpp"

#include "ops/experts.hpp"
#include "ops/experts_kquants.hpp"
#include "ops/norms.hpp"

#include <algorithm>
#include <utility>

namespace quern::cuda {

void Fuser::judge_products() {
  const auto why_not = [&](std::uint32_t n) -> Refusal {
    const Node& node = graph_.nodes[n];
    if (node.op != QUERN_OP_MATMUL) return "it is no product of two matrices";
    if (!joins(n)) return why_alone(n);
    const std::uint32_t a = node.inputs[0], y = node.outputs[0];
    if (!stable(a) || !stable(y)) return "its operand or its result is written in place";
    if (node.inputs.size() > 2 && !given(node.inputs[2])) return "its bias is made in the graph";
    if (node.inputs.size() > 3 && node.inputs[3] != none) return "it has an addend of its own";
    if (tensor(a).dtype != QUERN_F32 || tensor(y).dtype != QUERN_F32) return "its operand or its result is not f32";
    if (tensor(a).rank != 2) return "its operand is no matrix";
    if (const Refusal why = why_no_kernel(n); why != nullptr) return why;
    if (!tensor(node.inputs[1]).packed_layout && !is_contiguous(tensor(node.inputs[1]))) return "its weights are a strided view";
    if (!whole(a) || !whole(y)) return "its operand or its result is a part of a value or a strided view";
    for (const std::uint32_t key : {QUERN_KEY_TRANSPOSE_A, QUERN_KEY_TRANSPOSE_B})
      if (node.attributes->integer(key) != 0) return "an operand is transposed";
    return node.attributes->real(QUERN_KEY_ALPHA) != 1.0 ? "it has a factor" : nullptr;
  };
  products_.clear();
  for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) products_.push_back(why_not(n));
}

bool Fuser::only_products(std::uint32_t r, bool alike) const {
  return !kept(r) && !readers(r).empty() && std::ranges::all_of(readers(r), [&](std::uint32_t n) {
    return is_product(n) && root(graph_.nodes[n].inputs[0]) == r && (!alike || form_of(n) == form_of(readers(r).front()));
  });
}

Refusal Fuser::why_not_in_front(std::uint32_t n, bool alike, Refusal others) const {
  const Node& node = graph_.nodes[n];
  if (!joins(n)) return why_alone(n);
  if (node.inputs.size() < 2 || node.inputs[1] == none) return "it has no weight";
  if (!given(node.inputs[1])) return "its weight is made in the graph";
  const std::uint32_t x = node.inputs[0], y = node.outputs[0];
  if (kept(root(y)) || readers(root(y)).empty()) return "the host reads its result";
  if (!whole(x)) return "it reads a part of a value or a strided view";
  if (tensor(x).dtype != QUERN_F32) return "what it reads is not f32";
  if (!stable(x) || !stable(y)) return "what it reads or its result is written in place";  // its products read its input
  return only_products(root(y), alike) ? nullptr : others;
}

Fuser::Key Fuser::key_of(std::uint32_t product) const {
  const std::uint32_t a = root(graph_.nodes[product].inputs[0]), made_by = maker(a);
  if (made_by != none && in_front_[made_by]) return {root(graph_.nodes[made_by].inputs[0]), made_by, form_of(product), order_of(product)};
  return {a, none, form_of(product), order_of(product)};
}

void Fuser::find_norms() {
  for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n)
    in_front_[n] = (graph_.nodes[n].op == QUERN_OP_RMS_NORM || is_layer_norm(n)) && why_no_norm(n) == nullptr;
}

void Fuser::find_operands() {
  for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    if (!is_product(n)) continue;
    const Key key = key_of(n);
    if (operands_.contains(key)) continue;
    operands_[key] = {slot(operand_bytes_of(n, key.form)), tensor(graph_.nodes[n].inputs[0]).last(), key.form < 0, 1, key.order};
  }
}

void Fuser::find_attention() {
  for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    if (graph_.nodes[n].op != QUERN_OP_ATTENTION) continue;
    Refusal why = nullptr;
    auto found = attention_at(n, &why);
    if (found) why = why_no_attention(n, *found);
    if (const Refusal of_others = why != nullptr ? why : found->why_no_norms; of_others != nullptr) refuse_attention(n, of_others);
    if (why != nullptr) continue;
    for (const std::uint32_t taken : found->nodes) done_[taken] = true;
    attention_[n] = std::move(*found);
  }
}

void Fuser::find_sums() {
  for (std::uint32_t add = 0; add < graph_.nodes.size(); ++add)
    if (const auto sum = normed_sum_at(add); sum && serves_rows(graph_.nodes[add].outputs[0])) {
      done_[sum->norm] = true;
      sums_[add] = *sum;
    }
}

Fuser::Residuals Fuser::take_residuals(std::uint32_t node, std::size_t most) {
  Residuals taken;
  taken.stored = graph_.nodes[node].outputs[0];
  for (std::uint32_t at = node; taken.nodes.size() < most;) {
    std::uint32_t other = none;
    const std::uint32_t add = add_of(at, node, stored_, other);
    if (add == none || sums_.contains(add)) break;
    (taken.nodes.empty() ? taken.first : taken.second) = other;
    taken.stored = graph_.nodes[add].outputs[0];
    taken.nodes.push_back(add);
    done_[add] = true;
    stored_[add] = node;
    at = add;
  }
  return taken;
}

Fuser::Norm Fuser::norm_of(std::uint32_t n) const {
  if (n == none) return {};
  const Node& node = graph_.nodes[n];
  const bool layer = is_layer_norm(n);
  return {node.inputs[1], layer && node.inputs.size() > 2 ? node.inputs[2] : none, layer ? 0.0f : real_of(node, QUERN_KEY_WEIGHT_OFFSET),
          real_of(node, QUERN_KEY_EPSILON), layer};
}

Step& Fuser::add_step(std::uint32_t first, std::vector<std::uint32_t> nodes, std::string kernel, std::vector<std::uint32_t> reads) {
  Step& step = schedule_.steps.emplace_back();
  step.first_node = first;
  step.nodes = std::move(nodes);
  step.kernel = std::move(kernel);
  step.reads = std::move(reads);
  return step;
}

Step& Fuser::add_row(const Row& row, std::function<void(RowParams&, const StepContext&, std::int64_t)> also) {
  const Norm norm = norm_of(row.norm);
  const std::uint32_t x = graph_.nodes[row.norm].inputs[0], result = graph_.nodes[row.node].outputs[0];
  std::vector<std::uint32_t> nodes{row.node};
  if (row.norm != row.node) nodes.push_back(row.norm);
  if (row.next != none) nodes.push_back(row.next);
  Step& step = add_step(row.node, std::move(nodes),
                        concat(norm.layer ? "layer_norm" : "norm", row.other == none ? "" : ".add", row.next == none ? "" : ".norm",
                               row.out == none ? "" : row.made, ".cuda"),
                        {x, norm.weight, norm.bias, row.other, row.next_weight});
  if (row.store) step.writes = {result};
  if (row.out != none) step.extras = {row.out};
  step.emit = [=, other = row.other, store = row.store, also = std::move(also)](const StepContext& context, Launcher& launcher) {
    const Tensor& rows = context.tensor(x);
    RowParams p{};
    p.x = rows.data;
    p.weight = context.address(norm.weight);
    p.bias = context.address(norm.bias);
    p.layer = norm.layer ? 1 : 0;
    p.offset = norm.offset;
    p.epsilon = norm.epsilon;
    p.added = context.address(other);
    if (store) p.y = context.tensor(result).data;
    p.h = static_cast<int>(rows.last());
    also(p, context, rows.dims[0]);
    launch_norm_row(p, rows.dims[0], launcher);
  };
  return step;
}

std::optional<Fuser::Experts> Fuser::experts_at(std::uint32_t combine, Refusal* why) const {
  const auto no = [&](Refusal reason) -> std::optional<Experts> {
    if (why != nullptr) *why = reason;
    return {};
  };
  if (!experts_kquants_serve(card_)) return no("the card has no bulk copies, which kernels of whole layers of experts need");
  const std::uint32_t down = expert_product_of(combine, why);
  if (down == none) return {};
  const std::uint32_t value = graph_.nodes[down].inputs[0], activation = maker(root(value));
  if (activation == none || graph_.nodes[activation].op != QUERN_OP_GLU) return no("its product is not of a gated activation");
  const auto glu = expert_glu_at(activation, why);
  if (!glu) return {};
  if (!whole(value) || !only_reader(root(value), down)) return no("the gated activation of experts is read by another node too");
  if (graph_.nodes[glu->gate].inputs[2] != graph_.nodes[down].inputs[2]) return no("gate and down are products of different experts");
  std::vector<Tensor> storage;
  for (const std::uint32_t product : {glu->gate, glu->up, down}) {
    if (tensor(graph_.nodes[product].inputs[1]).dims[1] % 8 != 0) return no("its weights have a number of rows that is no multiple of 8");
    if (const Refusal reason = why_no_experts_kquants(graph_.describe(graph_.nodes[product], storage)); reason != nullptr)
      return no(reason);
  }
  const Tensor &gates = tensor(graph_.nodes[glu->gate].inputs[1]), &ups = tensor(graph_.nodes[glu->up].inputs[1]);
  if (gates.dtype != ups.dtype) return no("gate and up have weights in different formats");
  return Experts{*glu, activation, down};
}

void Fuser::find_experts() {
  for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n)
    if (const auto experts = experts_at(n)) {
      expert_layers_.emplace(n, *experts);
      for (const std::uint32_t part : {experts->glu.gate, experts->glu.up, experts->activation, experts->down}) done_[part] = true;
    }
  for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    if (const auto glu = expert_glu_at(n); glu && !done_[n] && why_no_experts(glu->gate) == nullptr) {
      expert_glus_[n] = *glu;
      done_[glu->gate] = done_[glu->up] = true;
    }
    if (const std::uint32_t down = expert_product_of(n); down != none && !done_[down] && why_no_experts(down) == nullptr) {
      expert_sums_[n] = down;
      done_[down] = true;
    }
  }
}

bool Fuser::emit_experts(std::uint32_t n) {
  if (expert_layers_.contains(n)) emit_expert_layer(n);
  else if (expert_glus_.contains(n)) emit_expert_glu(n);
  else if (expert_sums_.contains(n)) emit_expert_sum(n);
  else return false;
  return true;
}

void Fuser::emit_expert_layer(std::uint32_t n) {
  const Experts& experts = expert_layers_.at(n);
  const Node &gate = graph_.nodes[experts.glu.gate], &down = graph_.nodes[experts.down];
  const std::uint32_t up = graph_.nodes[experts.glu.up].inputs[1], weight = graph_.nodes[n].inputs[1];
  const Residuals sum = take_residuals(n, 1);
  Step& step = add_step(experts.glu.gate, {experts.glu.gate, experts.glu.up, experts.activation, experts.down, n},
                        sum.nodes.empty() ? "experts.cuda" : "experts.add.cuda", gate.inputs);
  step.nodes.insert(step.nodes.end(), sum.nodes.begin(), sum.nodes.end());
  step.reads.insert(step.reads.end(), {up, down.inputs[1], weight, sum.first});
  step.writes = {sum.stored};
  std::vector<Tensor> of_gate, of_down;
  step.scratch = expert_layer_scratch(graph_.describe(gate, of_gate), graph_.describe(down, of_down));
  step.emit = [gate = NodeCall(graph_, gate), down = NodeCall(graph_, down), up, weight, residual = sum.first, stored = sum.stored,
               activation = activation_of(experts.activation)](const StepContext& context, Launcher& launcher) mutable {
    launch_expert_layer({gate.in(context), down.in(context), context.tensor(up), context.tensor(weight), activation,
                         context.address(residual), context.tensor(stored).data, context.counters()},
                        context.scratch(), launcher);
  };
}

void Fuser::emit_expert_glu(std::uint32_t n) {
  const ExpertGlu glu = expert_glus_.at(n);
  const Node &gate = graph_.nodes[glu.gate], &node = graph_.nodes[n];
  const std::uint32_t up = graph_.nodes[glu.up].inputs[1];
  Step& step = add_step(glu.gate, {glu.gate, glu.up, n}, "matmul_id.glu.cuda", gate.inputs);
  step.reads.push_back(up);
  step.writes = node.outputs;
  step.emit = [gate = NodeCall(graph_, gate), up, y = node.outputs[0], activation = activation_of(n)](const StepContext& context,
                                                                                                      Launcher& launcher) mutable {
    launch_expert_glu(gate.in(context), context.tensor(up), activation, context.tensor(y), launcher);
  };
}

void Fuser::emit_expert_sum(std::uint32_t n) {
  const std::uint32_t product = expert_sums_.at(n), weight = graph_.nodes[n].inputs[1];
  const Node& down = graph_.nodes[product];
  const Residuals sum = take_residuals(n, 1);
  Step& step = add_step(product, {product, n}, sum.nodes.empty() ? "matmul_id.combine.cuda" : "matmul_id.combine.add.cuda", down.inputs);
  step.nodes.insert(step.nodes.end(), sum.nodes.begin(), sum.nodes.end());
  step.reads.insert(step.reads.end(), {weight, sum.first});
  step.writes = {sum.stored};
  step.emit = [down = NodeCall(graph_, down), weight, residual = sum.first, stored = sum.stored](const StepContext& context,
                                                                                                 Launcher& launcher) mutable {
    launch_expert_sum(down.in(context), context.tensor(weight), context.address(residual), context.tensor(stored).data, launcher);
  };
}

std::vector<std::uint32_t> Fuser::weights_of_norms(const Attention& what) const {
  std::vector<std::uint32_t> weights;
  for (const std::uint32_t norm : {what.norm_q, what.norm_k})
    if (norm != none) weights.push_back(graph_.nodes[norm].inputs[1]);
  return weights;
}

bool Fuser::is_given(const Attention& what, const Node& node) const {
  return given(what.table) && given(node.inputs[3]) && given(node.inputs[4]) && given(node.inputs[5]);
}

Schedule Fuser::emit_all() {
  Schedule general = general_schedule(adapted_.host());
  std::vector<std::uint32_t> left;
  for (std::uint32_t n = 0; n < graph_.nodes.size(); ++n) {
    if (done_[n]) continue;
    const std::size_t first = schedule_.steps.size();
    if (emit(n)) {
      for (std::size_t s = first; s < schedule_.steps.size(); ++s) {
        Step& step = schedule_.steps[s];
        step.first_node = adapted_.in_host(step.first_node);
        step.nodes = adapted_.in_host(step.nodes);
      }
      continue;
    }
    if (adapted_.order_of(n) != none)
      throw Failure(QUERN_INTERNAL, "a product was joined with the order of its operand, and no step has it");
    left.push_back(n);
    for (const std::uint32_t of_host : adapted_.in_host(std::vector{n})) schedule_.steps.push_back(std::move(general.steps[of_host]));
  }
  for (const std::uint32_t n : left) schedule_.alone.push_back(why_left(n));
  schedule_.alone = adapted_.in_host(std::move(schedule_.alone));
  return std::move(schedule_);
}

}  // namespace quern::cuda
