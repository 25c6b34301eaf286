// The graph of a training step: rows of whole examples in, the sum of their losses and gradients of what is trained out.
//
// It is built from the layers of the inference step, with attention over the rows themselves in place of a cache. All trained numbers lie in
// one flat f32 state, as their gradients do; tensors and adapters are views of it.
#pragma once

#include "quern/graph/differentiate.hpp"
#include "quern/models/architecture.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace quern::models {

/// A low-rank change of one product: y += scale * (x a^T) b^T.
struct AdapterPlace {
  std::uint32_t layer = 0;
  std::string part;  // "attn_q", as in the names of tensors
  std::int64_t rank = 0, inputs = 0, outputs = 0;
  double scale = 1;
  std::uint32_t salt = 0;  // of its dropout mask
  std::uint64_t a = 0;     // first element of a [rank, inputs] in the flat state
  std::uint64_t b = 0;     // and of b [outputs, rank], rows in the file's order
};

/// A tensor of the file that is itself trained, decoded to f32.
struct TrainedTensor {
  std::string tensor;
  std::uint64_t first = 0, elements = 0;  // in the flat state
};

/// What is trained, and where it lies.
struct TrainedLayout {
  std::vector<AdapterPlace> adapters;
  std::vector<TrainedTensor> tensors;
  std::uint64_t elements = 0;  // of the flat state; parts begin at multiples of 64
  std::uint64_t decayed = 0;   // how many of them, from the first, weight decay applies to; a multiple of 64
};

/// One place for each layer and part, A behind B, in the order of layers and of `parts` ("attn_q", ...). `alpha` / rank is the scale, or
/// alpha / sqrt(rank) with `rank_stabilised`. Throws Error(QUERN_INVALID_ARGUMENT) for a part or layer that the model does not have.
TrainedLayout adapter_layout(const Hyperparameters& model, const std::vector<std::uint32_t>& layers, const std::vector<std::string>& parts,
                             std::int64_t rank, double alpha, bool rank_stabilised);

/// These places, whose a and b it sets.
TrainedLayout adapter_layout(std::vector<AdapterPlace> places);

/// All tensors of the file: matrices, which decay, before norms and biases, which do not.
TrainedLayout full_layout(const Hyperparameters& model, const gguf::File& file);

struct TrainingOptions {
  std::uint32_t max_tokens = 512;   // rows of a micro-batch
  std::uint32_t chunk_labels = 64;  // rows that go through the head at once
  std::uint32_t chunks = 1;         // how many such parts a micro-batch may need
  std::uint32_t rope_positions = 0;
  quern_dtype activations = QUERN_F32;  // or bf16, f16: of rows, and of the copies of what is trained that products read
  std::uint32_t determinism = QUERN_DETERMINISM_REPEATABLE;
  double dropout = 0;    // of the adapters' input
  bool backward = true;  // false: the losses alone, without dropout, for an evaluation
  bool logits = false;   // the host reads the logits of the first chunk
  bool ragged = true;    // attention_ragged; false: attention_dense under a mask of all pairs of rows, for devices without it
  graph::OpSet2 backward_may_use = {};
  graph::Checkpointing checkpointing = graph::Checkpointing::none;
};

/// Rows of the head that lie in `bytes` of logits: a power of two, and at least 1.
std::uint32_t labels_of_chunk(std::uint32_t vocabulary, std::uint64_t bytes = std::uint64_t{256} << 20);

struct TrainingGraph {
  explicit TrainingGraph(graph::Graph g) : graph(std::move(g)) {}
  graph::Graph graph;
  graph::SymbolId tokens = 0;         // T
  graph::ValueId token, position;     // i32 [T], inputs; the position in the row's own example
  graph::SymbolId starts = 0;         // S + 1; 0 with a mask
  graph::ValueId start;               // i32 [S + 1], input: the first row of each example, and T; no_value with a mask
  graph::ValueId mask;                // f32 [T, T], input: 0 where a row may see the other, minus infinity elsewhere; no_value with `start`
  graph::ValueId rope_table;          // as in StepGraph
  graph::ValueId loss;                // f32 [1], state: the sum of weight times loss is added to it
  graph::ValueId trained;             // f32 [elements], state; no_value where nothing is trained
  graph::ValueId gradient;            // the same, state: gradients are added to it; no_value without `backward`
  graph::ValueId seed, dropout_step;  // u32 [2] and i32 [1], inputs; no_value without dropout
  graph::ValueId loss_scale;          // f32 [1], input: gradients are multiplied by it; no_value unless activations are f16
  graph::ValueId logits;              // f32 [L, vocabulary], output of the first chunk; no_value unless asked for
  struct Chunk {
    graph::SymbolId labels = 0;         // L
    graph::ValueId row, label, weight;  // i32, i32 and f32 [L], inputs
  };
  std::vector<Chunk> chunks;
  std::vector<StepGraph::Weight> weights;
};

/// Throws what `differentiate` throws, and Error(QUERN_INVALID_ARGUMENT) for sizes out of range.
TrainingGraph build_training(const Hyperparameters& model, const gguf::File& file, const TrainedLayout& layout,
                             const TrainingOptions& options);

/// The update of what is trained, once a batch.
struct UpdateOptions {
  bool sgd = false;  // instead of AdamW
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0, momentum = 0;
  double max_norm = 0;            // of all gradients; 0: they are not clipped
  bool scales_gradients = false;  // as TrainingGraph::loss_scale did
};
struct UpdateGraph {
  explicit UpdateGraph(graph::Graph g) : graph(std::move(g)) {}
  graph::Graph graph;
  graph::ValueId trained, gradient;                                                // f32 [elements], state; the gradient is 0 afterwards
  graph::ValueId first_moment = graph::no_value, second_moment = graph::no_value;  // of AdamW; the momentum of SGD is the first
  graph::ValueId step, rate;                                                       // i32 [1] from 1, f32 [1]; inputs
  graph::ValueId loss_scale = graph::no_value;  // f32 [1], input: what the gradients were multiplied by; its norm has the factor still
  graph::ValueId norm, finite;  // f32 [1] before clipping, i32 [1]; outputs. Nothing changes unless all gradients are finite.
};
UpdateGraph build_update(const TrainedLayout& layout, const UpdateOptions& options);

}  // namespace quern::models
