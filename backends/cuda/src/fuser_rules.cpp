// The rules of the schedules that fuse, as a table: which ops each is for, and why it does not take a node.
#include "fuser.hpp"

#include <algorithm>

namespace quern::cuda {

// Of rows for one op the nearest stands first.
const sdk::fusion::Rule<Fuser> Fuser::rules[] = {
    {QUERN_OP_MATMUL, "product", &Fuser::why_no_product},
    {QUERN_OP_LORA_MATMUL, "adapters", &Fuser::why_no_adapters},
    {QUERN_OP_TAKE, "order", &Fuser::why_no_order},
    {QUERN_OP_RMS_NORM, "attention", &Fuser::why_not_with_attention, &Fuser::is_refused_by_attention},
    {QUERN_OP_RMS_NORM, "norm and sum", &Fuser::why_no_sum_behind, &Fuser::is_summed},
    {QUERN_OP_RMS_NORM, "norm", &Fuser::why_no_norm},
    {QUERN_OP_RMS_NORM, "operand", &Fuser::why_no_operand},
    {QUERN_OP_LAYER_NORM, "operand", &Fuser::why_no_operand},
    {QUERN_OP_LAYER_NORM, "norm", &Fuser::why_no_norm},
    {QUERN_OP_ATTENTION, "attention", &Fuser::why_no_attention_at},
    {QUERN_OP_ROPE, "attention", &Fuser::why_not_with_attention},
    {QUERN_OP_KV_WRITE, "attention", &Fuser::why_not_with_attention},
    {QUERN_OP_GLU, "experts", &Fuser::why_no_expert_layer, &Fuser::gates_experts},
    {QUERN_OP_GLU, "experts of few pairs", &Fuser::why_no_few_experts, &Fuser::gates_experts},
    {QUERN_OP_GLU, "glu", &Fuser::why_no_gated},
    {QUERN_OP_GELU, "activation", &Fuser::why_no_end},
    {QUERN_OP_SILU, "activation", &Fuser::why_no_end},
    {QUERN_OP_RELU, "activation", &Fuser::why_no_end},
    {QUERN_OP_ADD, "norm and sum", &Fuser::why_no_normed_sum, &Fuser::sums_a_norm},
    {QUERN_OP_ADD, "residual", &Fuser::why_no_residual},
    {QUERN_OP_MATMUL_ID, "experts", &Fuser::why_no_expert_layer},
    {QUERN_OP_MATMUL_ID, "experts of few pairs", &Fuser::why_no_few_experts},
    {QUERN_OP_MOE_COMBINE, "experts", &Fuser::why_no_expert_layer},
    {QUERN_OP_MOE_COMBINE, "experts of few pairs", &Fuser::why_no_few_experts},
};

sdk::Alone Fuser::why_left(std::uint32_t n) const { return sdk::fusion::why_left(*this, rules, graph_.nodes[n].op, n); }

bool Fuser::reads_from(std::uint32_t n, std::uint32_t op) const {
  return std::ranges::any_of(graph_.nodes[n].inputs, [&](std::uint32_t v) {
    const std::uint32_t made_by = v == none ? none : maker(root(v));
    return made_by != none && made_by < n && graph_.nodes[made_by].op == op;
  });
}
bool Fuser::sums_a_norm(std::uint32_t add) const { return reads_from(add, QUERN_OP_RMS_NORM); }
bool Fuser::is_summed(std::uint32_t norm) const {
  const auto& users = readers(root(graph_.nodes[norm].outputs[0]));
  return users.size() == 1 && graph_.nodes[users.front()].op == QUERN_OP_ADD;
}
bool Fuser::gates_experts(std::uint32_t glu) const { return reads_from(glu, QUERN_OP_MATMUL_ID); }
/// Whether the step of this node may end with residual sums.
bool Fuser::ends_with_sums(std::uint32_t n) const { return is_product(n) || expert_layers_.contains(n) || expert_sums_.contains(n); }

Refusal Fuser::why_no_normed_sum(std::uint32_t add) const {
  Refusal why = nullptr;
  if (!normed_sum_at(add, &why)) return why;
  return serves_rows(graph_.nodes[add].outputs[0]) ? nullptr : "this schedule's kernels are for another number of rows";
}
Refusal Fuser::why_no_sum_behind(std::uint32_t norm) const {
  const std::uint32_t add = readers(root(graph_.nodes[norm].outputs[0])).front();
  if (const Refusal why = why_no_normed_sum(add); why != nullptr) return why;
  return normed_sum_at(add)->norm == norm ? nullptr : "the sum behind it takes the norm of its other operand";
}

Refusal Fuser::why_no_residual(std::uint32_t add) const {
  Refusal nearest = "no operand is the result of a product that is fused";
  for (const std::uint32_t v : graph_.nodes[add].inputs) {
    const std::uint32_t made_by = v == none ? none : maker(root(v));
    if (made_by == none || made_by >= add) continue;
    std::uint32_t other = none;
    if (stored_[made_by] != made_by) nearest = "its product ends with as many sums as its kernel makes";
    else if (ends_with_sums(made_by) && add_of(made_by, made_by, stored_, other, &nearest) != none) {
      if (groups_[made_by].size == 1) return nullptr;
      nearest = "its product shares a kernel with others that read the same value";
    }
  }
  return nearest;
}

Refusal Fuser::why_no_gated(std::uint32_t glu) const {
  const Node& node = graph_.nodes[glu];
  const bool one = node.inputs.size() < 2 || node.inputs[1] == none;  // which has both halves
  const std::uint32_t gate = maker(root(node.inputs[0])), up = one ? gate : maker(root(node.inputs[1]));
  for (const std::uint32_t part : {gate, up}) {
    if (part == none || graph_.nodes[part].op != QUERN_OP_MATMUL) return "gate and up are no two products";
    if (!is_product(part)) return why_no_product(part);
  }
  return why_no_glu(glu, gate, up);
}

Refusal Fuser::why_no_end(std::uint32_t activation) const {
  const std::uint32_t product = maker(root(graph_.nodes[activation].inputs[0]));
  if (product == none || graph_.nodes[product].op != QUERN_OP_MATMUL) return "what it reads is the result of no product";
  if (!is_product(product)) return why_no_product(product);
  Refusal why = nullptr;
  return activation_behind(product, &why) == activation ? why_no_activation(activation, product) : why;
}

Refusal Fuser::why_no_expert_layer(std::uint32_t n) const {
  // From gate or up, their activation or down to the weighted sum, each for what is behind it alone.
  for (const std::uint32_t op : {QUERN_OP_GLU, QUERN_OP_MATMUL_ID, QUERN_OP_MOE_COMBINE}) {
    const auto& users = readers(root(graph_.nodes[n].outputs[0]));
    if (!users.empty() && graph_.nodes[users.front()].op == op) n = users.front();
  }
  if (graph_.nodes[n].op != QUERN_OP_MOE_COMBINE) return "no weighted sum of experts is behind it";
  Refusal why = nullptr;
  return experts_at(n, &why) ? nullptr : why;
}
Refusal Fuser::why_no_few_experts(std::uint32_t n) const {
  Refusal why = nullptr;
  if (graph_.nodes[n].op == QUERN_OP_GLU) {
    const auto glu = expert_glu_at(n, &why);
    return glu ? why_no_experts(glu->gate) : why;
  }
  if (graph_.nodes[n].op == QUERN_OP_MOE_COMBINE) {
    const std::uint32_t down = expert_product_of(n, &why);
    return down != none ? why_no_experts(down) : why;
  }
  const auto& users = readers(root(graph_.nodes[n].outputs[0]));
  const std::uint32_t behind = users.empty() ? none : users.front(), op = behind == none ? none : graph_.nodes[behind].op;
  const bool joins_others = op == QUERN_OP_GLU || op == QUERN_OP_MOE_COMBINE;
  return joins_others ? why_no_few_experts(behind) : "neither a gated activation nor a weighted sum reads it";
}

}  // namespace quern::cuda
