// See fusion.hpp.
#include "fusion.hpp"

#include "ops/attention.hpp"

#include <algorithm>
#include <cmath>

namespace quern::vulkan {

Fusion::Fusion(const sdk::ResolvedGraph& graph, const CardFacts& card, Tier tier)
    : Patterns(graph), card_(card), tier_(tier), products_of_(graph.values.size()) {
  const auto count = static_cast<std::uint32_t>(graph.nodes.size());
  for (std::uint32_t n = 0; n < count; ++n) {
    stored_.push_back(n), latest_.push_back(n);
    if (is_product(n)) products_of_[root(graph.nodes[n].inputs[0])].push_back(n);
  }
  for (std::uint32_t n = 0; n < count; ++n) find_rotation(n), find_pair(n), find_draw(n);
  for (std::uint32_t n = 0; n < count; ++n)  // products of one row read what a norm or an activation before them reads
    if (quantises(n))
      for (const std::uint32_t product : products_of_[root(graph.nodes[n].outputs[0])]) latest_[n] = std::max(latest_[n], latest_[product]);
}

/// Whether what node n reads is the same still where another one does its work.
bool Fusion::inputs_stay(std::uint32_t n, std::uint32_t until) const {
  return std::ranges::all_of(graph_.nodes[n].inputs, [&](std::uint32_t v) { return steady(v, n, until); });
}
bool Fusion::unread(std::uint32_t v, std::uint32_t from, std::uint32_t to) const {
  return std::ranges::none_of(readers(root(v)), [&](std::uint32_t n) { return n > from && n < to; });
}
/// Whether what node n stores may be there as early as the step of node `at`: no step reads or writes then what was there before.
bool Fusion::may_be_early(std::uint32_t v, std::uint32_t at, std::uint32_t n) const {
  return std::ranges::none_of(readers(root(v)), [&](std::uint32_t r) { return r < n && latest_[r] >= at; }) &&
         std::ranges::none_of(writers(root(v)), [&](std::uint32_t w) { return w < n && w != at && latest_[w] >= at; });
}

Refusal Fusion::why_no_product(std::uint32_t n) const {
  const sdk::ResolvedNode& node = graph_.nodes[n];
  if (node.op != QUERN_OP_MATMUL) return "it is no product of two matrices";
  if (!joins(n)) return why_alone(n);
  if (!given(node.inputs[1])) return "its weights are made in the graph";
  if (input(n, 3) != none) return "it has an addend of its own";
  const Tensor &a = tensor(node.inputs[0]), &b = tensor(node.inputs[1]);
  if (a.dtype != QUERN_F32 || tensor(node.outputs[0]).dtype != QUERN_F32) return "its operand or its result is not f32";
  if (!whole(node.inputs[0]) || !whole(node.outputs[0])) return "its operand or its result is a part of a value or a strided view";
  if (a.rank != 2 || (a.ranged & ~1u) != 0) return "its operand is no matrix";
  const bool f16 = b.dtype == QUERN_F16, floats = wants_floats(static_cast<int>(b.dtype));
  if (f16 && !alone_f16(n)) return "a product of quantised weights reads the same value";
  if (tier_ < Tier::dot) return "the device has no integer dot products, or an option leaves them out";
  if (floats && tier_ < Tier::matrices)
    return f16 ? "the device or an option has no cooperative matrices for weights of f16"
               : "the device or an option has no cooperative matrices for codes that stand for floats";
  if (!floats && !node.int8_allowed()) return "its numerics allow no int8 activations";
  if (floats && !node.f16_allowed()) return "its numerics allow no f16 activations";
  if (floats && !all_take_f16(n)) return "a product that allows no f16 activations reads the same value";
  if (!b.packed_layout && !is_contiguous(b)) return "its weights are a strided view";
  // Rows of a larger matrix are weights as others are, where a row lies as it does in the file.
  const bool as_in_file = f16 || b.dtype == QUERN_Q4_K || b.dtype == QUERN_Q5_K;
  if (as_in_file ? b.packed_layout || graph_.values[node.inputs[1]].offset % 16 != 0 : !b.packed_layout)
    return "no kernel takes its weights' dtype and layout";
  if (b.rank != 2 || b.ranged != 0 || b.dims[1] % 64 != 0 || b.dims[1] >= std::int64_t{1} << 24)
    return "its weights have columns that are no multiple of 64, or are no matrix";
  if (const std::uint32_t bias = input(n, 2); bias != none && !is_contiguous(tensor(bias))) return "its bias is a strided view";
  if (node.attributes->integer(QUERN_KEY_TRANSPOSE_A) || node.attributes->integer(QUERN_KEY_TRANSPOSE_B)) return "an operand is transposed";
  return node.attributes->real(QUERN_KEY_ALPHA) != 1.0 ? "it has a factor" : nullptr;
}

/// Whether no product of quantised weights reads what this product of weights of f16 reads: activations of f16 lie in another order for them.
bool Fusion::alone_f16(std::uint32_t n) const {
  const std::uint32_t a = root(graph_.nodes[n].inputs[0]);
  return std::ranges::all_of(readers(a), [&](std::uint32_t user) {
    const sdk::ResolvedNode& node = graph_.nodes[user];
    return node.op != QUERN_OP_MATMUL || root(node.inputs[0]) != a || !is_block(tensor(node.inputs[1]).dtype);
  });
}
/// Whether each product of quantised weights of the value that this one reads allows f16: rows of codes that stand for floats are nothing else.
bool Fusion::all_take_f16(std::uint32_t n) const {
  const std::uint32_t a = root(graph_.nodes[n].inputs[0]);
  return std::ranges::all_of(readers(a), [&](std::uint32_t user) {
    const sdk::ResolvedNode& node = graph_.nodes[user];
    return node.op != QUERN_OP_MATMUL || root(node.inputs[0]) != a || node.f16_allowed();
  });
}
bool Fusion::has_float_weights(std::uint32_t r) const {
  return std::ranges::any_of(products_of_[r],
                             [&](std::uint32_t n) { return wants_floats(static_cast<int>(tensor(graph_.nodes[n].inputs[1]).dtype)); });
}
bool Fusion::has_f16_weights(std::uint32_t r) const {
  return std::ranges::any_of(products_of_[r], [&](std::uint32_t n) { return tensor(graph_.nodes[n].inputs[1]).dtype == QUERN_F16; });
}
bool Fusion::has_room(std::int64_t k, std::uint32_t r) const {
  return card_.shuffles && card_.group_limit >= 256 && std::ranges::all_of(products_of_[r], [&](std::uint32_t n) {
           return one_row_bytes(static_cast<int>(tensor(graph_.nodes[n].inputs[1]).dtype), k) <= card_.shared_limit;
         });
}
/// Whether a value is nothing but the activations of products.
bool Fusion::only_products_read(std::uint32_t value) const {
  const std::size_t products = products_of_[root(value)].size();
  return !kept(root(value)) && is_f32(value) && products > 0 && products == readers(root(value)).size();
}

Halves Fusion::halves_of(std::uint32_t n) const {
  if (input(n, 1) != none) return {input(n, 0), input(n, 1)};
  const auto half = static_cast<std::uint64_t>(tensor(graph_.nodes[n].outputs[0]).last()) * 4;
  const bool swapped = graph_.nodes[n].attributes->integer(QUERN_KEY_SWAPPED) != 0;
  return {input(n, 0), input(n, 0), swapped ? half : 0, swapped ? 0 : half};
}
/// Why the kernels do not compute a gated activation of rows of f32.
Refusal Fusion::why_no_activation(std::uint32_t n) const {
  const sdk::ResolvedNode& node = graph_.nodes[n];
  if (node.attributes->real(QUERN_KEY_ALPHA) != 1.0 || !std::isinf(node.attributes->real(QUERN_KEY_LIMIT)))
    return "its activation has a limit or a factor";
  if (node.attributes->integer(QUERN_KEY_KIND) != 0) return "its activation is not SiLU";
  const Halves halves = halves_of(n);
  return is_rows(halves.gate) && is_rows(halves.up) ? nullptr : "gate or up is no packed part of each row of f32";
}
Refusal Fusion::why_not_quantised(std::uint32_t n) const {
  const sdk::ResolvedNode& node = graph_.nodes[n];
  if (node.op != QUERN_OP_RMS_NORM && node.op != QUERN_OP_GLU) return "it is no norm and no gated activation";
  if (!joins(n)) return why_alone(n);
  const std::uint32_t y = node.outputs[0];
  if (kept(root(y))) return "the host reads its result";
  if (!only_products_read(y)) return "its result is read by a node that is no fused product";
  if (tensor(y).rank != 2) return "its result is no matrix";
  if (node.op == QUERN_OP_GLU) {
    if (const Refusal why = why_no_activation(n); why != nullptr) return why;
  } else {
    if (input(n, 1) == none) return "it has no weight";
    if (!is_f32(input(n, 1))) return "its weight is not f32, a part of a value or a strided view";
    if (!is_rows(node.inputs[0])) return "it reads no packed part of each row of f32";
  }
  // Products of one row read it.
  return inputs_stay(n, products_of_[root(y)].back()) ? nullptr : "what it reads is written before the last product behind it";
}

/// Why gate and up of a gated activation are no one product of one row; null: they are `pair`.
Refusal Fusion::why_no_pair(std::uint32_t n, Pair& pair) const {
  const sdk::ResolvedNode& node = graph_.nodes[n];
  if (node.op != QUERN_OP_GLU) return "it is no gated activation";
  if (!joins(n)) return why_alone(n);
  if (const Refusal why = why_no_activation(n); why != nullptr) return why;
  if (!only_products_read(node.outputs[0])) return "its result is read by a node that is no fused product";
  const Halves halves = halves_of(n);
  const std::int64_t width = tensor(node.outputs[0]).last();
  if (!has_room(width, root(node.outputs[0]))) return "a workgroup has no room for a row of its result";
  const std::uint32_t gate = maker(root(halves.gate)), up = maker(root(halves.up));
  if (gate == none || up == none) return "gate and up are no two products";
  for (const std::uint32_t product : {gate, up}) {
    if (const Refusal why = why_no_product(product); why != nullptr) return why;
    const std::uint32_t y = root(graph_.nodes[product].outputs[0]);
    if (!only_reader(y, n)) return "gate or up is read by another node too";
    if (writers(y).size() != 1) return "gate or up is written in place";
    if (tensor(y).rank != 2) return "gate or up is no matrix";
    if (input(product, 2) != none) return "gate or up has a bias";
  }
  const std::uint32_t a = graph_.nodes[gate].inputs[0], other_a = graph_.nodes[up].inputs[0];
  if (root(a) != root(other_a) || version(a, gate) != version(other_a, up)) return "gate and up are products of different operands";
  const Tensor &b = tensor(graph_.nodes[gate].inputs[1]), &other = tensor(graph_.nodes[up].inputs[1]);
  if (b.dtype != other.dtype || b.dims[0] != other.dims[0]) return "the weights of gate and up differ in dtype or rows";
  if (!has_room(b.dims[1], root(a))) return "a workgroup has no room for a row of their operand";
  pair = {gate, up, 0, 0, halves.gate, halves.gate_from, width};
  if (gate != up) return is_f32(halves.gate) && is_f32(halves.up) ? nullptr : "gate or up is a part of a product or a strided view";
  // In one product each half has rows of the weights.
  const auto first = columns_of(halves.gate), second = columns_of(halves.up);
  const auto from = [&](std::int64_t row, std::uint64_t begin) {
    return static_cast<std::uint64_t>(row * b.strides[0]) + begin / 4 * static_cast<std::uint64_t>(b.strides[0]);
  };
  if (!first || !second || b.dims[0] != 2 * width) return "gate and up are not the two halves of a product's columns";
  if (b.packed_layout) return "the rows of its weights do not lie as in the file, one behind the other";
  pair.gate_from = from(first->first, halves.gate_from), pair.up_from = from(second->first, halves.up_from);
  return nullptr;
}
void Fusion::find_pair(std::uint32_t n) {
  if (graph_.nodes[n].op != QUERN_OP_GLU) return;
  Pair pair{};
  if (const Refusal why = why_no_pair(n, pair); why != nullptr) {
    no_pair_[n] = why;
    return;
  }
  pairs_[pair.gate] = pairs_[pair.up] = pair;
  latest_[pair.gate] = latest_[pair.up] = std::max(pair.gate, pair.up);
}
Refusal Fusion::why_no_pair_at(std::uint32_t glu) const {
  const auto refused = no_pair_.find(glu);
  return refused == no_pair_.end() ? nullptr : refused->second;
}

std::uint32_t Fusion::add_of(std::uint32_t product, std::uint32_t& other, Refusal* why) const {
  const auto no = [&](Refusal reason) {
    if (why != nullptr) *why = reason;
    return none;
  };
  std::uint32_t operand = none;
  const std::uint32_t n = sum_of(product, operand, why);
  if (n == none) return none;
  if (graph_.source.values[root(operand)].kind == QUERN_VALUE_STATE)  // which a node in between may write
    return no("its other operand is a state");
  const std::uint32_t made = maker(root(operand));
  if (made != none && stored_[made] > product) return no("its other operand is made behind the product");
  if (!may_be_early(graph_.nodes[n].outputs[0], product, n))
    return no("the memory of its result is read or written between the product and it");
  other = operand;
  return n;
}

/// A rotation of f32 to f32 by the positions of an attention node; or none.
std::uint32_t Fusion::rope_of(std::uint32_t value, std::uint32_t attention, Refusal& why) const {
  const std::uint32_t n = rotation_of(value, graph_.nodes[attention].inputs[5], &why);
  if (n == none || tensor(value).dtype == QUERN_F32) return n;
  why = "its queries or keys are not f32";
  return none;
}
/// The node before an attention node that writes a cache, and through the view that attention has of it; or none.
std::uint32_t Fusion::writer_of(std::uint32_t cache, std::uint32_t attention, Refusal& why) const {
  const std::uint32_t w = cache_write_of(cache, attention, &why);
  if (w == none) return none;
  const sdk::ResolvedValue &written = graph_.values[graph_.nodes[w].outputs[0]], &read = graph_.values[cache];
  if (written.offset == read.offset && sdk::same_shape(written.tensor, read.tensor) &&
      std::ranges::equal(written.tensor.strides, read.tensor.strides))
    return w;
  why = "a cache is written through another view";
  return none;
}

/// Why the rotations and writes before an attention node are no one step; null: they are `r`.
Refusal Fusion::why_no_rotation(std::uint32_t n, Rotation& r) const {
  const sdk::ResolvedNode& node = graph_.nodes[n];
  Refusal why = nullptr;
  if (root(node.inputs[1]) == root(node.inputs[2])) return "keys and values lie in one cache";
  if (!sdk::is_float(tensor(node.inputs[1]).dtype) || !sdk::is_float(tensor(node.inputs[2]).dtype)) return "its cache is not of floats";
  if (tensor(node.inputs[0]).rank != 3 || (tensor(node.inputs[0]).ranged & ~1u) != 0) return "its queries are no heads of ranged rows";
  if ((r.rope_q = rope_of(node.inputs[0], n, why)) == none) return why;
  if ((r.write_k = writer_of(node.inputs[1], n, why)) == none || (r.write_v = writer_of(node.inputs[2], n, why)) == none) return why;
  const std::uint32_t keys = graph_.nodes[r.write_k].inputs[0], values = graph_.nodes[r.write_v].inputs[0];
  if ((r.rope_k = rope_of(keys, n, why)) == none) return why;
  if (tensor(values).dtype != QUERN_F32) return "its values are not f32";
  if (!in_rows(values)) return "what is written to the cache is no packed part of each row";
  if (!only_reader(root(keys), r.write_k) || readers(root(keys)).size() != 1) return "rotated keys are read by another node too";
  const sdk::ResolvedNode &rope_q = graph_.nodes[r.rope_q], &rope_k = graph_.nodes[r.rope_k];
  if (rope_q.inputs[2] != rope_k.inputs[2] || rope_q.attributes->integer(QUERN_KEY_MODE) != rope_k.attributes->integer(QUERN_KEY_MODE))
    return "queries and keys are rotated by two tables or in two modes";
  // Nobody else looks between the first of these nodes and the last at what they write.
  r.last = std::ranges::max(r.nodes());
  r.attention = n;
  for (const std::uint32_t made : {node.inputs[0], node.inputs[1], node.inputs[2]})
    if (std::ranges::any_of(readers(root(made)), [&](std::uint32_t user) { return user < r.last; }))
      return "another node before it reads its queries or its cache";
  if (std::ranges::any_of(r.nodes(), [&](std::uint32_t taken) { return latest_[taken] != taken || rotations_.contains(taken); }))
    return "another attention takes the same rotations or writes";
  const auto stay = [&](std::uint32_t until) {
    return std::ranges::all_of(r.nodes(), [&](std::uint32_t taken) { return inputs_stay(taken, until); });
  };
  if (!stay(r.last)) return "what rotations and writes read is written in between";
  r.packed = whole(rope_q.inputs[0]) && whole(rope_k.inputs[0]) && whole(values);
  r.attends = is_attention(n) && !kept(root(node.inputs[0])) && readers(root(node.inputs[0])).size() == 1 && stay(n) &&
              unread(node.inputs[1], r.last, n) && unread(node.inputs[2], r.last, n);
  return r.packed || r.attends ? nullptr : "queries, keys and values are columns of a product, and more than attention reads them";
}

void Fusion::find_rotation(std::uint32_t n) {
  if (graph_.nodes[n].op != QUERN_OP_ATTENTION) return;
  Rotation r{};
  const Refusal why = why_no_rotation(n, r);
  refuse_attention(n, why != nullptr ? why : "attention's kernels make no norms of queries and keys");
  if (why != nullptr) return;
  rotations_[r.last] = r;
  if (r.attends) attending_[n] = r;
  for (const std::uint32_t taken : r.nodes()) stored_[taken] = r.last, latest_[taken] = r.attends ? n : r.last;
}

Refusal Fusion::why_no_attention(std::uint32_t n) const {
  const sdk::ResolvedNode& node = graph_.nodes[n];
  if (node.op != QUERN_OP_ATTENTION) return "it is no attention";
  if (!joins(n)) return why_alone(n);
  if (!is_f32(node.inputs[0]) || !is_f32(node.outputs[0]))
    return "its queries or its result are not f32, a part of a value or a strided view";
  for (const std::uint32_t cache : {node.inputs[1], node.inputs[2]})
    if (graph_.values[cache].offset % 16 != 0) return "its cache does not begin at a multiple of 16 bytes";
  std::vector<Tensor> storage;
  return fused_attention_serves(graph_.describe(node, storage), card_) ? nullptr : "no kernel takes its heads, cache and attributes";
}

/// The node that makes a value that node n alone reads, in whole rows; none where it has another op, or stands alone.
std::uint32_t Fusion::maker_for(std::uint32_t n, std::uint32_t v, std::uint32_t op, Refusal& why) const {
  const std::uint32_t made = maker(root(v));
  if (made == none || graph_.nodes[made].op != op) why = "penalties, biases and the draw do not follow one another";
  else if (!joins(made)) why = why_alone(made);
  else if (!is_f32(v)) why = "what it reads is not f32, a part of a value or a strided view";
  else if (readers(root(v)).size() != 1 || readers(root(v)).front() != n) why = "what it reads is read by another node too";
  else return made;
  return none;
}
/// Why penalties, biases and the draw of a node are no one step; null: they are `draw`.
Refusal Fusion::why_no_draw(std::uint32_t n, Draw& draw) const {
  if (graph_.nodes[n].op != QUERN_OP_SAMPLE) return "it draws nothing";
  if (!joins(n)) return why_alone(n);
  Refusal why = nullptr;
  if ((draw.bias = maker_for(n, graph_.nodes[n].inputs[0], QUERN_OP_LOGIT_BIAS, why)) == none) return why;
  if ((draw.penalize = maker_for(draw.bias, graph_.nodes[draw.bias].inputs[0], QUERN_OP_PENALIZE, why)) == none) return why;
  if (kept(root(graph_.nodes[draw.bias].inputs[0]))) return "the host reads the logits behind the penalties";
  if (!is_f32(graph_.nodes[draw.penalize].inputs[0])) return "its logits are not f32, a part of a value or a strided view";
  const bool stay = inputs_stay(draw.penalize, n) && inputs_stay(draw.bias, n);
  return stay ? nullptr : "what penalties or biases read is written in between";
}
void Fusion::find_draw(std::uint32_t n) {
  Draw draw{};
  if (why_no_draw(n, draw) != nullptr) return;
  draws_[n] = draw;
  for (const std::uint32_t taken : {draw.penalize, draw.bias}) stored_[taken] = latest_[taken] = n;
}
/// Of the draw behind a node.
Refusal Fusion::why_not_drawn(std::uint32_t n) const {
  for (const std::uint32_t op : {QUERN_OP_LOGIT_BIAS, QUERN_OP_SAMPLE}) {
    const auto& users = readers(root(graph_.nodes[n].outputs[0]));
    if (!users.empty() && graph_.nodes[users.front()].op == op) n = users.front();
  }
  Draw draw{};
  return graph_.nodes[n].op == QUERN_OP_SAMPLE ? why_no_draw(n, draw) : "penalties, biases and the draw do not follow one another";
}

Refusal Fusion::why_no_residual(std::uint32_t add) const {
  Refusal nearest = "no operand is the result of a product that is fused";
  for (const std::uint32_t v : graph_.nodes[add].inputs) {
    const std::uint32_t product = v == none ? none : maker(root(v));
    std::uint32_t other = none;
    if (product == none || product >= add || !is_product(product)) continue;
    if (add_of(product, other, &nearest) != none) return nullptr;
  }
  return nearest;
}

// Of rows for one op the nearest stands first.
const sdk::fusion::Rule<Fusion> Fusion::rules[] = {
    {QUERN_OP_MATMUL, "product", &Fusion::why_no_product},
    {QUERN_OP_RMS_NORM, "attention", &Fusion::why_not_with_attention, &Fusion::is_refused_by_attention},
    {QUERN_OP_RMS_NORM, "norm", &Fusion::why_not_quantised},
    {QUERN_OP_GLU, "glu", &Fusion::why_not_quantised},
    {QUERN_OP_ATTENTION, "attention", &Fusion::why_no_attention},
    {QUERN_OP_ROPE, "attention", &Fusion::why_not_with_attention},
    {QUERN_OP_KV_WRITE, "attention", &Fusion::why_not_with_attention},
    {QUERN_OP_ADD, "residual", &Fusion::why_no_residual},
    {QUERN_OP_SAMPLE, "draw", &Fusion::why_not_drawn},
    {QUERN_OP_LOGIT_BIAS, "draw", &Fusion::why_not_drawn},
    {QUERN_OP_PENALIZE, "draw", &Fusion::why_not_drawn},
};

sdk::Alone Fusion::why_left(std::uint32_t n) const { return sdk::fusion::why_left(*this, rules, graph_.nodes[n].op, n); }

}  // namespace quern::vulkan
