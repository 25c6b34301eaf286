// Architectures as graphs: from the metadata of a model file to the graph of one step.
//
// The step is token-major and ragged: rows of several sequences stand one after another, and all control values are inputs or
// state, so one graph serves prefill, decode and mixed batches.
#pragma once

#include "quern/graph/graph.hpp"
#include "quern/models/gguf.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace quern::models {

enum class RopePairing : std::uint8_t { interleaved, half_split };

/// What the file says of the model's shape, checked: every number is in a range that keeps later arithmetic exact.
struct Hyperparameters {
  std::string architecture;  // "llama"
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t ffn = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_size = 0;   // of queries and keys
  std::uint32_t value_size = 0;  // of values
  std::uint32_t rope_size = 0;   // elements of a head that are rotated
  std::uint32_t vocabulary = 0;
  std::uint32_t context = 0;  // that the model was trained for
  float norm_epsilon = 0;
  RopePairing pairing = RopePairing::interleaved;
  double rope_base = 10000;
  std::uint32_t rope_scaling = 0;  // as in rope_table
  double rope_factor = 1;
  std::uint32_t rope_original_context = 0;
  double rope_mscale = 1;
  double rope_beta_fast = 32, rope_beta_slow = 1;
  bool rope_factors = false;         // the file has rope_freqs.weight
  std::uint32_t sliding_window = 0;  // 0: none
  bool attention_bias = false;       // q, k and v have biases
  bool output_bias = false;          // so has the attention output
  bool qk_norm = false;
  bool tied_head = false;  // the embedding table is the head
};

/// Reads and checks the metadata and that every tensor of the architecture is there with the right shape. Throws
/// Error(QUERN_BAD_MODEL) naming file and key; an unknown architecture is refused with the list of known ones.
Hyperparameters read_hyperparameters(const gguf::File& file);

/// Of these checks the first alone, for a file that may hold no tensors: the name of its architecture.
void require_known_architecture(const gguf::File& file);

/// A product that adapters may change: y += scale * (x a^T) b^T.
struct AdaptedProduct {
  std::uint32_t layer = 0;
  std::string part;       // "attn_q", as in the names of tensors
  std::int64_t rank = 0;  // at most
  std::int64_t inputs = 0, outputs = 0;
};

/// How a step graph is to be built.
struct StepOptions {
  std::uint32_t max_tokens = 512;   // rows of a step
  std::uint32_t max_sequences = 8;  // slots
  std::uint32_t max_outputs = 8;    // rows whose logits are wanted
  std::uint32_t page_size = 64;     // positions in a KV page
  std::uint32_t pages = 0;          // of the whole cache
  std::uint32_t pages_per_sequence = 0;
  std::uint32_t rope_positions = 0;  // rows of the cos/sin table: the context
  quern_dtype kv_dtype = QUERN_F16;
  std::uint32_t conversions = QUERN_CONVERT_NONE;  // of activations; none is `exact`
  bool sampling = true;                            // with the sampler at the end
  std::uint32_t history = 0;                       // tokens of history a sequence keeps for penalties (the context)
  std::uint32_t max_biases = 512;
  bool hidden_output = false;                               // the host reads what the head reads
  std::uint32_t determinism = QUERN_DETERMINISM_INVARIANT;  // that every node asks for
  bool operand_sums = false;            // the host reads how large the operands of each product were; not with early_outputs
  bool early_outputs = false;           // behind its attention the last layer computes only rows whose logits are wanted
  std::vector<AdaptedProduct> adapted;  // each product once
  std::uint32_t adapters = 0;           // how many of them at a time, where products are adapted
};

/// Value ids of the graph that the session binds. The symbols are "tokens" (T), "outputs" (O).
struct StepGraph {
  explicit StepGraph(graph::Graph g) : graph(std::move(g)) {}
  graph::Graph graph;
  graph::SymbolId tokens = 0, outputs = 0;
  // inputs, i32
  graph::ValueId token;                          // [T]
  graph::ValueId position;                       // [T], -1: padding
  graph::ValueId row_slot;                       // [T] sequence slot of the row
  graph::ValueId block_table;                    // [max_sequences, pages_per_sequence]; state
  graph::ValueId output_row;                     // [O] rows whose logits are wanted
  graph::ValueId output_slot;                    // [O] their sequence slots
  graph::ValueId rope_table;                     // state [rope_positions, rope_size / 2, 2] f32, filled once by the rope graph
  std::vector<graph::ValueId> k_cache, v_cache;  // state, per layer: [pages, kv_heads, page_size, size]
  graph::ValueId logits;                         // output [O, vocabulary] f32, before penalties
  graph::ValueId hidden = graph::no_value;       // with hidden_output: output [O, hidden] f32, after the final norm
  // with sampling: state [max_sequences, ...] gathered by output_slot, and the drawn token
  graph::ValueId sampler_params = graph::no_value;  // f32 [O, 8], input
  graph::ValueId sampler_seed = graph::no_value;    // u32 [O, 2], input
  graph::ValueId sampler_step = graph::no_value;    // i32 [O], input
  graph::ValueId history = graph::no_value;         // i32 [O, history], input
  graph::ValueId history_len = graph::no_value;     // i32 [O], input
  graph::ValueId bias_token = graph::no_value;      // i32 [O, max_biases], input
  graph::ValueId bias_value = graph::no_value;      // f32 [O, max_biases], input
  graph::ValueId sampled = graph::no_value;         // i32 [O], output
  graph::ValueId logprob = graph::no_value;         // f32 [O], output
  // with adapted products
  graph::ValueId row_adapter = graph::no_value;     // i32 [T], input: the sequence whose adapter changes the row, or -1
  graph::ValueId output_adapter = graph::no_value;  // i32 [O], input: the same for rows whose logits are wanted; with early_outputs
  graph::ValueId adapter_pool = graph::no_value;    // f32, state: of each product room for all adapters, one behind the other
  graph::ValueId adapter_table = graph::no_value;   // i32 [.., 4], state: of each product a row for each sequence, as lora_matmul takes it
  struct Adapted {
    AdaptedProduct product;
    std::uint64_t pool_first = 0;  // its first element of the pool; offsets in its rows of the table count from there
    std::uint64_t table_first = 0;
    /// Elements of an adapter.
    std::uint64_t size() const noexcept {
      return static_cast<std::uint64_t>(product.rank) * static_cast<std::uint64_t>(product.inputs + product.outputs);
    }
  };
  std::vector<Adapted> adapted;
  /// With operand_sums: of each product within a layer, the squares of its rows summed column by column. Products of one operand, which
  /// stand side by side, have one value.
  struct OperandSum {
    graph::ValueId value;  // output [1, columns] f32
    std::uint64_t columns;
    std::string weight;  // the tensor of the file
  };
  std::vector<OperandSum> operand_sums;
  /// Constants: the tensor of the file that each is bound to.
  struct Weight {
    graph::ValueId value;
    std::string tensor;
  };
  std::vector<Weight> weights;
  /// The first node of each layer, and of what is behind the last: so layers + 1 of them.
  std::vector<std::uint32_t> layer_nodes;
};

StepGraph build_step(const Hyperparameters& model, const gguf::File& file, const StepOptions& options);

/// A graph with one rope_table node; its output is the table that build_step takes. `factors` is a constant bound to
/// "rope_freqs.weight", or no_value.
struct RopeGraph {
  explicit RopeGraph(graph::Graph g) : graph(std::move(g)) {}
  graph::Graph graph;
  graph::ValueId table;
  graph::ValueId factors = graph::no_value;
};
RopeGraph build_rope(const Hyperparameters& model, std::uint32_t positions);

}  // namespace quern::models
