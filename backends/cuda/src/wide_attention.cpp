// See wide_attention.hpp.
#include "wide_attention.hpp"

#include "ops/attention.hpp"
#include "wide_products.hpp"

#include <algorithm>

namespace quern::cuda {

WideAttention::WideAttention(const Graph& graph, const Node& node, const Uses::Attention& of)
    : graph_(&graph), call_(graph, node), of_(of) {}

Refusal WideAttention::why_no_kernel(const Graph& graph, const Node& node, const Uses::Attention& what) {
  const auto in = [&](std::size_t i) -> const Tensor& { return graph.values[node.inputs[i]].tensor; };
  const Tensor &q = in(0), &k = in(1), &v = in(2);
  if (q.dims[1] % k.dims[1] != 0 || k.last() != v.last() || k.last() % 8 != 0 || (k.dtype != QUERN_F16 && k.dtype != QUERN_BF16))
    return "no kernel of many rows takes heads of this size in this cache";
  if (!(k.dtype == QUERN_F16 ? node.f16_allowed() : node.bf16_allowed())) return "its numerics allow no 16-bit queries";
  for (std::size_t i = 6; i < node.inputs.size(); ++i)
    if (node.inputs[i] != QUERN_NONE) return "it has sinks or a mask";
  if (!(node.attributes->real(QUERN_KEY_SCALE) > 0) || node.attributes->real(QUERN_KEY_MAX_BIAS) != 0)
    return "it has a bias by distance or no positive scale";
  if (graph.values[node.outputs[0]].tensor.dtype != QUERN_F32) return "its result is not f32";
  return rope_kv_serves(k, v, graph.values[what.table].tensor) ? nullptr
                                                               : "no kernel rotates heads of this size and writes them to this cache";
}

std::pair<Step, Step> WideAttention::steps(std::uint32_t n, const std::vector<std::uint32_t>& weights_of_norms,
                                           const CardFacts& card) const {
  const Node& node = call_.node();
  const auto largest = [&](std::uint32_t v) -> const Tensor& { return graph_->values[v].tensor; };
  Step write, step;
  write.first_node = of_.nodes.front();
  write.nodes = of_.nodes;
  write.kernel = of_.norm_q == QUERN_NONE ? "rope.kv_write.16.cuda" : "norm.rope.kv_write.16.cuda";
  write.reads = {node.inputs[1], node.inputs[2], node.inputs[3], node.inputs[4], node.inputs[5], of_.table};
  for (const BiasAt& bias : biases) write.reads.push_back(bias.value);
  write.reads.insert(write.reads.end(), weights_of_norms.begin(), weights_of_norms.end());
  write.extras = {buffer, queries};
  if (mixed)
    write.idle = [one = alone, norms = of_.norm_rows, cache = largest(node.inputs[1]), heads = largest(node.inputs[0]).dims[1],
                  table = largest(of_.table), card](std::int64_t rows) {
      return (one && rows == 1) || (!norms && attention_batch_serves(cache, rows, heads, table, card));
    };
  write.emit = [own = *this](const StepContext& context, Launcher& launcher) { own.write(context, launcher); };
  step.first_node = n;
  step.nodes = {n};
  step.kernel = "attention.16.cuda";
  step.reads = write.reads;
  step.extras = {queries, buffer};
  if (to == QUERN_NONE) step.writes = node.outputs;
  else step.extras.push_back(to);
  std::vector<Tensor> storage;
  const Call described = graph_->describe(node, storage);
  step.scratch = std::max(attention_scratch(described), attention_rows_scratch(described, mixed && to != QUERN_NONE));
  step.emit = [own = *this](const StepContext& context, Launcher& launcher) mutable { own.attend(context, launcher); };
  return {std::move(write), std::move(step)};
}

Pages WideAttention::pages(const StepContext& context, std::size_t cache) const {
  return pages_for(input(context, cache), input(context, 3), input(context, 4), input(context, 5));
}

bool WideAttention::rows_apart(const StepContext& context, std::int64_t m) const {
  if (!matrices) return true;
  if (m >= least_attention_rows) return false;
  const std::int64_t wanted = outputs == QUERN_NONE ? m : context.tensor(outputs).dims[0];
  return m == 1 || (wanted > 1 && 4 * wanted > m);
}

bool WideAttention::is_batch(const StepContext& context, const CardFacts& card) const {
  const Tensor& rows = input(context, 0);
  return mixed && rows_apart(context, rows.dims[0]) && !of_.norm_rows &&
         attention_batch_serves(input(context, 1), rows.dims[0], rows.dims[1], context.tensor(of_.table), card);
}

template <class Params>
void WideAttention::set_buffer(Params& p, const StepContext& context) const {
  const Tensor& rows = input(context, 0);
  const Address size = x16 ? 2 : 4;
  p.q = context.extra(buffer);
  p.keys = p.q + static_cast<Address>(rows.dims[1] * rows.dims[2]) * size;
  p.values = p.keys + static_cast<Address>(p.k.kv_heads * p.k.d) * size;
  p.bias_q = biases[0].in(context);
  p.bias_k = biases[1].in(context);
  p.bias_v = biases[2].in(context);
  p.norms = Uses::head_norms(of_, *graph_, context);
}

template <class Params>
void WideAttention::set_node(Params& p, const StepContext& context) const {
  const Tensor& rows = input(context, 0);
  const sdk::Attributes& attributes = *call_.node().attributes;
  p.k = pages(context, 1);
  p.v = pages(context, 2);
  p.rows = static_cast<int>(rows.dims[0]);
  p.heads = static_cast<int>(rows.dims[1]);
  p.window = static_cast<int>(attributes.integer(QUERN_KEY_WINDOW));
  p.scale = static_cast<float>(attributes.real(QUERN_KEY_SCALE));
  p.softcap = static_cast<float>(attributes.real(QUERN_KEY_SOFTCAP));
  p.y = result(context);
  p.y_columns = to == QUERN_NONE ? 0 : room_of(mixed, rows.dims[0]);
  p.y_places = context.order(order).places;
}

Address WideAttention::result(const StepContext& context) const {
  return to == QUERN_NONE ? context.tensor(call_.node().outputs[0]).data : context.extra(to);
}

void WideAttention::write(const StepContext& context, Launcher& launcher) const {
  const Tensor &rows = input(context, 0), &keys = input(context, 1);
  if ((alone && rows.dims[0] == 1) || is_batch(context, launcher.gpu().facts())) return;  // attention does it
  RopeKvParams p{};
  p.x16 = x16 ? 1 : 0;
  p.k = pages(context, 1);
  p.v = pages(context, 2);
  set_buffer(p, context);
  p.q_row = p.k_row = p.v_row = (rows.dims[1] + 2 * keys.dims[1]) * keys.last();
  p.q_out = context.extra(queries);
  p.q_dtype = p.k.dtype;
  p.heads = static_cast<int>(rows.dims[1]);
  launch_rope_kv(p, context.tensor(of_.table), static_cast<int>(of_.mode), rows.dims[0], launcher);
}

void WideAttention::attend_in_batch(const StepContext& context, Launcher& launcher) const {
  const Tensor &rows = input(context, 0), &keys = input(context, 1);
  AttentionBatchParams p{};
  set_node(p, context);
  set_buffer(p, context);
  p.row = (rows.dims[1] + 2 * keys.dims[1]) * keys.last();
  Uses::set_rotation(p, of_, context.tensor(of_.table));
  p.y_dtype = to == QUERN_NONE ? QUERN_F32 : half ? QUERN_F16 : QUERN_BF16;
  p.early = batch_early ? 1 : 0;
  launch_attention_batch(p, launcher);
}

void WideAttention::attend(const StepContext& context, Launcher& launcher) {
  const std::int64_t m = input(context, 0).dims[0];
  if (is_batch(context, launcher.gpu().facts())) return attend_in_batch(context, launcher);
  // Of many sequences each row has its own keys. Both kinds of kernels are asked, and each takes the rows that are for it.
  const bool apart = rows_apart(context, m),
             many = apart || (m >= least_attention_rows && outputs != QUERN_NONE && 4 * context.tensor(outputs).dims[0] > m);
  if (many) {
    AttentionParams p = attention_params(call_.in(context), launcher);
    p.q = context.extra(queries);
    p.q_dtype = p.k.dtype;
    p.y = result(context);
    p.y_dtype = to == QUERN_NONE ? QUERN_F32 : half ? QUERN_F16 : QUERN_BF16;
    if (to != QUERN_NONE) p.y_columns = room_of(mixed, m);
    p.y_places = context.order(order).places;
    if (alone && m == 1) {
      const Tensor& rows = input(context, 0);
      p.q = context.extra(buffer);
      p.q_dtype = QUERN_F32;
      p.new_k = p.q + static_cast<Address>(rows.dims[1] * rows.dims[2]) * 4;
      p.new_v = p.new_k + static_cast<Address>(p.k.kv_heads * p.k.d) * 4;
      Uses::set_rotation(p, of_, context.tensor(of_.table));
      p.norms = Uses::head_norms(of_, *graph_, context);
      p.early = early ? 1 : 0;
    }
    if (!apart) p.least_runs = most_attention_runs;
    launch_attention(p, m, launcher);
    if (apart) return;
  }
  AttentionRowsParams p{};
  set_node(p, context);
  p.most_runs = many ? most_attention_runs : 0;
  p.q16 = context.extra(queries);
  p.y16 = to == QUERN_NONE ? 0 : p.y;
  p.half = half;
  p.faults = launcher.faults();
  launch_attention_rows(p, context.scratch(), launcher);
}

}  // namespace quern::cuda
