// The graph of one step: embedding, layers, head, sampler.
#include "decoder_layer.hpp"
#include "tensors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace quern::models {
namespace {

namespace ops = graph::ops;
using graph::Dim;
using graph::ValueId;

void check_options(const StepOptions& options) {
  const std::pair<const char*, std::uint32_t> counts[] = {{"max_tokens", options.max_tokens},
                                                          {"max_sequences", options.max_sequences},
                                                          {"max_outputs", options.max_outputs},
                                                          {"page_size", options.page_size},
                                                          {"pages", options.pages},
                                                          {"pages_per_sequence", options.pages_per_sequence},
                                                          {"rope_positions", options.rope_positions}};
  if (options.operand_sums && options.early_outputs)
    throw Error(QUERN_INVALID_ARGUMENT, "a step graph with operand_sums and early_outputs; the last layer's sums would lack rows");
  for (const auto& [name, count] : counts)
    if (count < 1 || count > 0x7fffffffu)
      throw Error(QUERN_INVALID_ARGUMENT, concat("a step graph with ", name, " = ", count, "; it must be 1 to 2147483647"));
}

/// A step graph under construction: attention over the pages of a cache.
class StepBuilder final : public LayerContext {
 public:
  StepBuilder(const Hyperparameters& m, const gguf::File& file, const StepOptions& o, StepGraph& s)
      : LayerContext(m, s.graph), options(o), step(s), file_(file) {}

  const StepOptions& options;
  StepGraph& step;

  ValueId weight(const std::string& tensor) override {
    const gguf::TensorInfo& info = file_.require_tensor(tensor);
    const ValueId value = graph.constant(tensor, info.dtype, tensor_shape(info));
    step.weights.push_back({value, tensor});
    return value;
  }

  /// One `take` for all products of x whose columns have the same order, as q, k and v often have.
  ValueId in_order(const std::string& product, ValueId x) override {
    const std::string order = order_tensor(product);
    const gguf::TensorInfo* const info = file_.find_tensor(order);
    if (info == nullptr) return x;
    const gguf::TensorBytes read = file_.read(*info);
    const std::span<const std::byte> columns = read.bytes();
    if (x != ordered_of_) ordered_.clear();
    ordered_of_ = x;
    for (const Ordered& made : ordered_)
      if (std::ranges::equal(made.columns, columns)) return made.y;
    const ValueId y = ops::take(graph, x, weight(order), node(concat(product, ".in_order")));
    ordered_.push_back({{columns.begin(), columns.end()}, y});
    return y;
  }

  graph::NodeOptions node(std::string name) const override {
    graph::NodeOptions node;
    node.name = std::move(name);
    node.conversions = options.conversions;
    node.determinism = options.determinism;
    return node;
  }

  ValueId attend(std::uint32_t layer, ValueId q, ValueId k, ValueId v) override {
    const ValueId k_cache = step.k_cache[layer], v_cache = step.v_cache[layer];
    ops::kv_write(graph, k, step.block_table, step.row_slot, step.position, k_cache, node(layer_tensor(layer, "k_cache")));
    ops::kv_write(graph, v, step.block_table, step.row_slot, step.position, v_cache, node(layer_tensor(layer, "v_cache")));
    const ops::AttentionInputs in = {.q = q,
                                     .k_cache = k_cache,
                                     .v_cache = v_cache,
                                     .block_table = step.block_table,
                                     .row_slot = step.row_slot,
                                     .position = step.position};
    ops::AttentionAttributes how = {.scale = 1 / std::sqrt(static_cast<double>(model.head_size))};
    how.window = model.sliding_window;
    return ops::attention(graph, in, how, node(layer_tensor(layer, "attention")));
  }

  ValueId adapt(std::uint32_t layer, std::string_view part, ValueId x, ValueId y) override {
    if (options.operand_sums) add_operand_sum(layer, part, x);
    const auto found = adapted_.find(layer_tensor(layer, part));
    if (found == adapted_.end()) return y;
    const StepGraph::Adapted& adapted = *found->second;
    const auto elements = static_cast<std::int64_t>(adapted.size() * options.adapters);
    const ops::LoraInputs in = {.x = x,
                                .pool = graph.view(step.adapter_pool, {elements}, {sizeof(float)}, adapted.pool_first * sizeof(float)),
                                .table = graph.view(step.adapter_table, {options.max_sequences, 4},
                                                    {4 * sizeof(std::int32_t), sizeof(std::int32_t)},
                                                    adapted.table_first * 4 * sizeof(std::int32_t)),
                                .slot = graph.value(x).shape[0].symbol == step.outputs ? step.output_adapter : step.row_adapter};
    graph::NodeOptions how = node(found->first + ".adapter");
    // An adapter has no weights of few bits, beside which activations in int8 are good enough.
    how.conversions &= QUERN_CONVERT_TF32 | QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
    return ops::lora_matmul(graph, in, y, adapted.product.outputs, 1, std::move(how));
  }

  void add_adapters() {
    if (options.adapted.empty()) return;
    constexpr std::uint64_t floats = 64, rows = 16;  // parts of both begin at multiples of 256 bytes
    std::uint64_t pool = 0, table = 0;
    for (const AdaptedProduct& product : options.adapted) {
      if (product.rank * (product.inputs + product.outputs) > std::numeric_limits<std::int32_t>::max() / std::int64_t{options.adapters})
        throw Error(QUERN_UNSUPPORTED, concat("adapters of rank ", product.rank, " for ", layer_tensor(product.layer, product.part), ", ",
                                              options.adapters, " at a time, have more than 2^31 numbers; load the model for fewer"));
      const StepGraph::Adapted& added = step.adapted.emplace_back(StepGraph::Adapted{product, pool, table});
      pool += (added.size() * options.adapters + floats - 1) / floats * floats;
      table += (options.max_sequences + rows - 1) / rows * rows;
    }
    for (const StepGraph::Adapted& adapted : step.adapted)
      adapted_.emplace(layer_tensor(adapted.product.layer, adapted.product.part), &adapted);
    step.row_adapter = graph.input("row_adapter", QUERN_I32, {Dim(options.max_tokens, step.tokens)});
    if (options.early_outputs) step.output_adapter = graph.input("output_adapter", QUERN_I32, {Dim(options.max_outputs, step.outputs)});
    step.adapter_pool = graph.state("adapters", QUERN_F32, {static_cast<std::int64_t>(pool)});
    step.adapter_table = graph.state("adapter_table", QUERN_I32, {static_cast<std::int64_t>(table), 4});
  }

  LayerRows behind_attention(std::uint32_t layer, LayerRows rows) override {
    if (!options.early_outputs || layer + 1 != model.layers) return rows;
    const ValueId heads = ops::get_rows(graph, rows.heads, step.output_row, node("output_heads"));
    return {heads, ops::get_rows(graph, rows.x, step.output_row, node("output_rows"))};
  }

 private:
  struct Ordered {
    std::vector<std::byte> columns;
    ValueId y;
  };

  void add_operand_sum(std::uint32_t layer, std::string_view part, ValueId x) {
    const std::string weight = layer_tensor(layer, concat(part, ".weight"));
    const graph::Dim columns = graph.value(x).shape.back();
    if (x != summed_) {
      graph::NodeOptions exact = node(weight + ".in_sum2");
      exact.conversions = QUERN_CONVERT_NONE;
      const ValueId squares = ops::sqr(graph, x, exact);
      const ValueId sums = ops::sum_to(graph, squares, {1, columns}, exact);
      graph.mark_output(sums, weight + ".in_sum2");
      step.operand_sums.push_back({sums, static_cast<std::uint64_t>(columns.size), weight});
      summed_ = x;
    } else {
      step.operand_sums.push_back({step.operand_sums.back().value, static_cast<std::uint64_t>(columns.size), weight});
    }
  }

  const gguf::File& file_;
  ValueId summed_ = graph::no_value;      // the last operand whose squares were summed
  ValueId ordered_of_ = graph::no_value;  // the last x of in_order(), and what was made of it
  std::vector<Ordered> ordered_;
  std::map<std::string, const StepGraph::Adapted*> adapted_;
};

void add_inputs(StepBuilder& builder) {
  const StepOptions& options = builder.options;
  const Hyperparameters& model = builder.model;
  StepGraph& step = builder.step;
  graph::Graph& graph = step.graph;
  step.tokens = graph.add_symbol({.name = "tokens", .min = 1, .max = options.max_tokens});
  step.outputs = graph.add_symbol({.name = "outputs", .min = 0, .max = options.max_outputs});
  const Dim t(options.max_tokens, step.tokens);
  const Dim o(options.max_outputs, step.outputs);
  step.token = graph.input("token", QUERN_I32, {t});
  step.position = graph.input("position", QUERN_I32, {t});
  step.row_slot = graph.input("row_slot", QUERN_I32, {t});
  step.block_table = graph.state("block_table", QUERN_I32, {options.max_sequences, options.pages_per_sequence});
  step.output_row = graph.input("output_row", QUERN_I32, {o});
  step.output_slot = graph.input("output_slot", QUERN_I32, {o});
  step.rope_table = graph.state("rope", QUERN_F32, {options.rope_positions, model.rope_size / 2, 2});
  builder.position = step.position;
  builder.rope_table = step.rope_table;
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    const auto cache = [&](const char* name, std::int64_t size) {
      return graph.state(layer_tensor(layer, name), options.kv_dtype, {options.pages, model.kv_heads, options.page_size, size});
    };
    step.k_cache.push_back(cache("k_cache", model.head_size));
    step.v_cache.push_back(cache("v_cache", model.value_size));
  }
  builder.add_adapters();
}

/// Penalties, biases, filters and the draw, on what add_head gave.
void add_sampler(StepBuilder& builder) {
  const StepOptions& options = builder.options;
  StepGraph& step = builder.step;
  graph::Graph& graph = step.graph;
  const Dim o(options.max_outputs, step.outputs);
  step.sampler_params = graph.input("sampler_params", QUERN_F32, {o, 8});
  step.sampler_seed = graph.input("sampler_seed", QUERN_U32, {o, 2});
  step.sampler_step = graph.input("sampler_step", QUERN_I32, {o});
  step.history = graph.input("history", QUERN_I32, {o, options.history});
  step.history_len = graph.input("history_len", QUERN_I32, {o});
  step.bias_token = graph.input("bias_token", QUERN_I32, {o, options.max_biases});
  step.bias_value = graph.input("bias_value", QUERN_F32, {o, options.max_biases});
  ValueId x = ops::penalize(graph, step.logits, step.history, step.history_len, step.sampler_params, builder.node("penalize"));
  x = ops::logit_bias(graph, x, step.bias_token, step.bias_value, builder.node("logit_bias"));
  const ops::Sampled drawn = ops::sample(graph, x, step.sampler_params, step.sampler_seed, step.sampler_step, builder.node("sample"));
  step.sampled = drawn.token;
  step.logprob = drawn.logprob;
  graph.mark_output(step.sampled, "sampled");
  graph.mark_output(step.logprob, "logprob");
}

}  // namespace

StepGraph build_step(const Hyperparameters& model, const gguf::File& file, const StepOptions& options) {
  check_options(options);
  StepGraph step{graph::Graph("step")};
  StepBuilder builder(model, file, options, step);
  graph::Graph& graph = step.graph;
  add_inputs(builder);
  const ValueId table = builder.weight("token_embd.weight");
  graph::NodeOptions embed = builder.node("token_embd");
  embed.output_dtype = QUERN_F32;
  ValueId x = ops::get_rows(graph, table, step.token, std::move(embed));
  const auto mark = [&] { step.layer_nodes.push_back(static_cast<std::uint32_t>(graph.nodes().size())); };
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    mark();
    x = add_decoder_layer(builder, layer, x);
  }
  mark();
  // Only rows whose logits are wanted go through the head.
  if (!options.early_outputs) x = ops::get_rows(graph, x, step.output_row, builder.node("output_rows"));
  const ValueId normed =
      ops::rms_norm(graph, x, builder.weight("output_norm.weight"), {.epsilon = model.norm_epsilon}, builder.node("output_norm"));
  if (options.hidden_output) {
    step.hidden = normed;
    graph.mark_output(normed, "hidden");
  }
  const ValueId head = model.tied_head ? table : builder.weight("output.weight");
  const ValueId ordered = model.tied_head ? normed : builder.in_order("output", normed);
  step.logits = ops::matmul(graph, ordered, head, builder.node("output"));
  graph.mark_output(step.logits, "logits");
  if (options.sampling) add_sampler(builder);
  return step;
}

}  // namespace quern::models
