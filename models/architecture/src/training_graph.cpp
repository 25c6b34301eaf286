// See training_graph.hpp.
#include "quern/models/training_graph.hpp"

#include "decoder_layer.hpp"
#include "tensors.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <map>

namespace quern::models {
namespace {

namespace ops = graph::ops;
using graph::Dim;
using graph::no_value;
using graph::ValueId;

void check_options(const TrainingOptions& options) {
  const std::pair<const char*, std::uint32_t> counts[] = {{"max_tokens", options.max_tokens},
                                                          {"chunk_labels", options.chunk_labels},
                                                          {"chunks", options.chunks},
                                                          {"rope_positions", options.rope_positions}};
  for (const auto& [name, count] : counts)
    if (count < 1 || count > 0x7fffffffu)
      throw Error(QUERN_INVALID_ARGUMENT, concat("a training graph with ", name, " = ", count, "; it must be 1 to 2147483647"));
  if (options.activations != QUERN_F32 && options.activations != QUERN_BF16 && options.activations != QUERN_F16)
    throw Error(QUERN_INVALID_ARGUMENT,
                concat("a training graph of ", graph::dtype_name(options.activations), "; it is of f32, bf16 or f16"));
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw Error(QUERN_INVALID_ARGUMENT, concat("a dropout of ", options.dropout, "; it must be 0 to below 1"));
}

/// A training graph under construction: attention over the rows themselves, adapters behind products, trained tensors in place of constants.
class TrainingBuilder final : public LayerContext {
 public:
  TrainingBuilder(const Hyperparameters& m, const gguf::File& file, const TrainedLayout& layout, const TrainingOptions& o, TrainingGraph& t)
      : LayerContext(m, t.graph), options(o), training(t), file_(file), layout_(layout) {
    for (const AdapterPlace& adapter : layout.adapters) adapters_.emplace(layer_tensor(adapter.layer, adapter.part), &adapter);
    for (const TrainedTensor& tensor : layout.tensors) tensors_.emplace(tensor.tensor, &tensor);
  }

  const TrainingOptions& options;
  TrainingGraph& training;

  ValueId weight(const std::string& tensor) override {
    const gguf::TensorInfo& info = file_.require_tensor(tensor);
    if (const auto trained = tensors_.find(tensor); trained != tensors_.end()) {
      const ValueId view = trained_view(trained->second->first, tensor_shape(info));
      return info.n_dims == 1 ? view : rounded(view, tensor);
    }
    const ValueId value = graph.constant(tensor, info.dtype, tensor_shape(info));
    training.weights.push_back({value, tensor});
    return value;
  }

  graph::NodeOptions node(std::string name) const override {
    graph::NodeOptions node;
    node.name = std::move(name);
    node.conversions = options.activations == QUERN_BF16  ? QUERN_CONVERT_BF16
                       : options.activations == QUERN_F16 ? QUERN_CONVERT_F16
                                                          : QUERN_CONVERT_NONE;
    node.determinism = options.determinism;
    return node;
  }

  ValueId attend(std::uint32_t layer, ValueId q, ValueId k, ValueId v) override {
    const double scale = 1 / std::sqrt(static_cast<double>(model.head_size));
    graph::NodeOptions attention = node(layer_tensor(layer, "attention"));
    if (training.start != no_value)
      return ops::attention_ragged(graph, {q, k, v, training.start}, {.scale = scale, .window = model.sliding_window}, std::move(attention))
          .y;
    const auto batched = [&](ValueId x) {
      const graph::Shape shape = graph.value(x).shape;
      return graph.reshape(x, {1, shape[0], shape[1], shape[2]});
    };
    ops::AttentionDenseAttributes how = {.scale = scale};
    how.window = model.sliding_window;
    const ValueId y =
        ops::attention_dense(graph, {.q = batched(q), .k = batched(k), .v = batched(v), .mask = training.mask}, how, std::move(attention))
            .y;
    const graph::Shape shape = graph.value(y).shape;
    return graph.reshape(y, {shape[1], shape[2], shape[3]});
  }

  ValueId adapt(std::uint32_t layer, std::string_view part, ValueId x, ValueId y) override {
    const auto found = adapters_.find(layer_tensor(layer, part));
    if (found == adapters_.end()) return y;
    const AdapterPlace& adapter = *found->second;
    if (training.seed != no_value)
      x = ops::dropout(graph, x, training.seed, training.dropout_step, options.dropout, adapter.salt, node(found->first + ".dropout"));
    const std::string name_a = found->first + ".lora_a", name_b = found->first + ".lora_b";
    const ValueId a = rounded(trained_view(adapter.a, {adapter.rank, adapter.inputs}), name_a);
    const ValueId b = rounded(trained_view(adapter.b, {adapter.outputs, adapter.rank}), name_b);
    return ops::matmul(graph, ops::matmul(graph, x, a, node(name_a)), b, no_value, y, {.alpha = adapter.scale}, node(name_b));
  }

  /// A contiguous part of the trained state; its gradient is wanted in the same part of the gradient.
  ValueId trained_view(std::uint64_t first, graph::Shape shape) {
    std::vector<std::int64_t> strides(shape.size(), sizeof(float));
    for (std::size_t d = shape.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * shape[d + 1].size;
    const ValueId value = graph.view(training.trained, shape, strides, first * sizeof(float));
    if (training.gradient != no_value) wanted.push_back({value, graph.view(training.gradient, shape, strides, first * sizeof(float))});
    return value;
  }

  std::vector<graph::GradientWanted> wanted;

 private:
  /// As products read it beside activations: what is trained itself is f32.
  ValueId rounded(ValueId trained, const std::string& name) {
    return options.activations == QUERN_F32 ? trained : ops::cast(graph, trained, options.activations, node(name + ".rounded"));
  }

  const gguf::File& file_;
  const TrainedLayout& layout_;
  std::map<std::string, const AdapterPlace*> adapters_;
  std::map<std::string, const TrainedTensor*> tensors_;
};

void add_inputs(TrainingBuilder& builder) {
  const TrainingOptions& options = builder.options;
  TrainingGraph& training = builder.training;
  graph::Graph& graph = training.graph;
  training.tokens = graph.add_symbol({.name = "tokens", .min = 1, .max = options.max_tokens});
  const Dim t(options.max_tokens, training.tokens);
  builder.position = training.position = graph.input("position", QUERN_I32, {t});
  training.token = graph.input("token", QUERN_I32, {t});
  if (options.ragged) {
    training.starts = graph.add_symbol({.name = "starts", .min = 2, .max = std::int64_t{options.max_tokens} + 1});
    training.start = graph.input("start", QUERN_I32, {Dim(std::int64_t{options.max_tokens} + 1, training.starts)});
  } else {
    training.mask = graph.input("mask", QUERN_F32, {t, t});
  }
  builder.rope_table = training.rope_table = graph.state("rope", QUERN_F32, {options.rope_positions, builder.model.rope_size / 2, 2});
  training.loss = graph.state("loss", QUERN_F32, {1});
  for (std::uint32_t chunk = 0; chunk < options.chunks; ++chunk) {
    const std::string number = std::to_string(chunk);
    TrainingGraph::Chunk& added = training.chunks.emplace_back();
    added.labels = graph.add_symbol({.name = "labels_" + number, .min = 0, .max = options.chunk_labels});
    const Dim l(options.chunk_labels, added.labels);
    added.row = graph.input("label_row_" + number, QUERN_I32, {l});
    added.label = graph.input("label_" + number, QUERN_I32, {l});
    added.weight = graph.input("label_weight_" + number, QUERN_F32, {l});
  }
}

void add_trained(TrainingGraph& training, const TrainedLayout& layout, const TrainingOptions& options) {
  if (layout.elements == 0) return;
  const auto elements = static_cast<std::int64_t>(layout.elements);
  training.trained = training.graph.state("trained", QUERN_F32, {elements});
  if (options.backward) training.gradient = training.graph.state("gradient", QUERN_F32, {elements});
  if (options.backward && options.activations == QUERN_F16) training.loss_scale = training.graph.input("loss_scale", QUERN_F32, {1});
  if (!options.backward || options.dropout == 0) return;
  training.seed = training.graph.input("seed", QUERN_U32, {2});
  training.dropout_step = training.graph.input("dropout_step", QUERN_I32, {1});
}

/// Only rows with a label go through the norm and the head, a chunk of them at a time, so that its logits can give way to the next one's.
std::vector<graph::GradientSeed> add_losses(TrainingBuilder& builder, ValueId x, ValueId table) {
  TrainingGraph& training = builder.training;
  graph::Graph& graph = training.graph;
  const ValueId norm = builder.weight("output_norm.weight");
  const ValueId head = builder.model.tied_head ? table : builder.weight("output.weight");
  std::vector<graph::GradientSeed> seeds;
  for (const TrainingGraph::Chunk& chunk : training.chunks) {
    const ValueId rows = ops::get_rows(graph, x, chunk.row, builder.node("label_rows"));
    const ValueId normed = ops::rms_norm(graph, rows, norm, {.epsilon = builder.model.norm_epsilon}, builder.node("output_norm"));
    graph::NodeOptions output = builder.node("output");
    output.output_dtype = QUERN_F32;
    const ValueId logits = ops::matmul(graph, normed, head, std::move(output));
    if (builder.options.logits && &chunk == training.chunks.data()) {
      training.logits = logits;
      graph.mark_output(logits, "logits");
    }
    const ValueId loss = ops::cross_entropy(graph, logits, chunk.label, {}, builder.node("cross_entropy")).loss;
    const ValueId weighted = ops::mul(graph, loss, chunk.weight, builder.node("weighted_loss"));
    const ValueId sum = ops::sum(graph, weighted, builder.node("loss_of_chunk"));
    graph::NodeOptions into = builder.node("loss");
    into.outputs = {training.loss};
    ops::add(graph, training.loss, sum, 1, std::move(into));
    const ValueId seed =
        training.loss_scale == no_value ? chunk.weight : ops::mul(graph, chunk.weight, training.loss_scale, builder.node("scaled_weight"));
    seeds.push_back({loss, seed});
  }
  return seeds;
}

}  // namespace

std::uint32_t labels_of_chunk(std::uint32_t vocabulary, std::uint64_t bytes) {
  const std::uint64_t rows = bytes / (std::uint64_t{std::max(vocabulary, 1u)} * sizeof(float));
  return static_cast<std::uint32_t>(std::bit_floor(std::clamp<std::uint64_t>(rows, 1, 1u << 30)));
}

TrainingGraph build_training(const Hyperparameters& model, const gguf::File& file, const TrainedLayout& layout,
                             const TrainingOptions& options) {
  check_options(options);
  TrainingGraph training{graph::Graph(options.backward ? "training step" : "evaluation")};
  training.start = training.mask = no_value;
  training.trained = training.gradient = training.seed = training.dropout_step = training.loss_scale = training.logits = no_value;
  TrainingBuilder builder(model, file, layout, options, training);
  graph::Graph& graph = training.graph;
  add_inputs(builder);
  add_trained(training, layout, options);
  const ValueId table = builder.weight("token_embd.weight");
  graph::NodeOptions embed = builder.node("token_embd");
  embed.output_dtype = options.activations;
  ValueId x = ops::get_rows(graph, table, training.token, std::move(embed));
  graph::DifferentiateOptions how;
  how.checkpointing = options.checkpointing;
  how.may_use = options.backward_may_use;
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    how.segments.push_back(static_cast<std::uint32_t>(graph.nodes().size()));
    x = add_decoder_layer(builder, layer, x);
  }
  how.segments.push_back(static_cast<std::uint32_t>(graph.nodes().size()));
  const std::vector<graph::GradientSeed> seeds = add_losses(builder, x, table);
  if (!builder.wanted.empty()) graph::differentiate(graph, seeds, builder.wanted, how);
  return training;
}

UpdateGraph build_update(const TrainedLayout& layout, const UpdateOptions& options) {
  UpdateGraph update{graph::Graph("update")};
  graph::Graph& graph = update.graph;
  const auto elements = static_cast<std::int64_t>(layout.elements);
  const auto state = [&](const char* name) { return graph.state(name, QUERN_F32, {elements}); };
  update.trained = state("trained");
  update.gradient = state("gradient");
  if (!options.sgd || options.momentum > 0) update.first_moment = state(options.sgd ? "momentum" : "first_moment");
  if (!options.sgd) update.second_moment = state("second_moment");
  update.step = graph.input("step", QUERN_I32, {1});
  update.rate = graph.input("rate", QUERN_F32, {1});
  const ops::GradNorm norm = ops::grad_norm(graph, {update.gradient}, {.name = "gradient_norm"});
  update.norm = norm.norm;
  update.finite = norm.finite;
  graph.mark_output(update.norm, "norm");
  graph.mark_output(update.finite, "finite");
  if (options.scales_gradients) update.loss_scale = graph.input("loss_scale", QUERN_F32, {1});
  const bool clips = options.max_norm > 0;
  const double most = clips ? options.max_norm : std::numeric_limits<float>::max();
  const ValueId scale = clips || options.scales_gradients ? ops::clip_scale(graph, norm.norm, update.loss_scale, most, {.name = "clip"})
                                                          : no_value;
  // What decays and what does not is one contiguous part each.
  const auto part = [&](ValueId of, std::uint64_t first, std::uint64_t count) {
    if (of == no_value || count == layout.elements) return of;
    return graph.view(of, {static_cast<std::int64_t>(count)}, {sizeof(float)}, first * sizeof(float));
  };
  const auto change = [&](std::uint64_t first, std::uint64_t count, double decay, const char* name) {
    if (count == 0) return;
    const ValueId g = part(update.gradient, first, count), w = part(update.trained, first, count);
    const ValueId m = part(update.first_moment, first, count), v = part(update.second_moment, first, count);
    const graph::NodeOptions node = {.name = name, .predicate = update.finite};
    if (options.sgd) {
      ops::sgd(graph, {.gradient = g, .lr = update.rate, .scale = scale}, {.w = w, .momentum = m},
               {.momentum = options.momentum, .weight_decay = decay}, node);
    } else {
      ops::adamw(graph, {.gradient = g, .step = update.step, .lr = update.rate, .scale = scale}, {.w = w, .m = m, .v = v},
                 {.beta1 = options.beta1, .beta2 = options.beta2, .epsilon = options.epsilon, .weight_decay = decay}, node);
    }
  };
  change(0, layout.decayed, options.weight_decay, "update");
  change(layout.decayed, layout.elements - layout.decayed, 0, "update_without_decay");
  ops::fill(graph, {elements}, QUERN_F32, 0, {.name = "forget_gradient", .outputs = {update.gradient}});
  return update;
}

}  // namespace quern::models
