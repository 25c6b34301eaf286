// The parts of decoder graphs: how rows belong to sequences, the values that follow from it, and a layer.
#pragma once

#include "graphs/graph_builder.hpp"

namespace quern::conformance {

/// The format of each weight of a layer, and of the table and the head.
struct WeightFormats {
  std::string name;                                           // "q4_k_m"
  quern_dtype query, value, output, gate, down, table, head;  // query: of k too; gate: of up too
};
/// One format for all matrices.
WeightFormats all_of(quern_dtype dtype);

/// The widths of a model, from the config.json that its maker published.
struct ModelShape {
  const char* name;
  std::int64_t hidden, ffn, heads, kv_heads, head, vocab;
  int layers;
  bool bias;      // of q, k and v
  int rope_mode;  // 0 norm, 1 neox
  double epsilon;
  bool tied;
};

/// Rows of a step and the sequences that they belong to.
struct Batch {
  const char* name;        // "decode", "batch8", "prefill"
  std::int64_t rows;       // most rows
  std::int64_t sequences;  // row r belongs to sequence r % sequences
  std::int64_t first;      // positions that each sequence holds already
  std::int64_t page = 16;
  std::int64_t capacity() const noexcept { return first + (rows + sequences - 1) / sequences; }
  std::int64_t pages_each() const noexcept { return (capacity() + page - 1) / page; }
};

/// What all layers of a graph read: positions, slots, the block table (pages shuffled), the rotations of each position.
struct RowValues {
  int position, slot, table, angles;
};
RowValues add_row_values(GraphBuilder& graph, const Batch& batch, std::int64_t head, double base);

/// The rotations of each position alone.
int add_angles(GraphBuilder& graph, std::string name, const Batch& batch, std::int64_t head, double base);

/// A cache whose earlier positions hold numbers and whose other slots hold NaN.
int add_cache(GraphBuilder& graph, std::string name, const Batch& batch, quern_dtype dtype, std::int64_t kv_heads, std::int64_t head);

/// Root of the mean square of a matrix's elements.
double root_mean_square(quern_dtype dtype);

/// f32 [n], such that x of unit variance times it, through a matrix of `dtype` with k columns, has about unit variance again.
/// `offset`: what the norm adds to it.
int add_norm_weight(GraphBuilder& graph, std::string name, std::int64_t n, quern_dtype dtype, double offset = 0);

struct Layer {
  const ModelShape& shape;
  const WeightFormats& formats;
  const Batch& batch;
  const RowValues& rows;
  quern_dtype cache = QUERN_F16;
  int window = 0;
  quern_dtype activations = QUERN_F32;
  int early_outputs = no_value;  // i32 [outputs_dim]: behind its attention the layer computes these rows alone
  std::int64_t dim_behind_attention() const noexcept { return early_outputs == no_value ? rows_dim : outputs_dim; }
};
/// norm, q, k, v, rotations, cache, attention, projection, residual; returns the sum. `prefix`: "blk.0".
int add_attention(GraphBuilder& graph, const Layer& layer, const std::string& prefix, int x);
/// norm, gate, up, SwiGLU, down, residual; returns the sum.
int add_feed_forward(GraphBuilder& graph, const Layer& layer, const std::string& prefix, int x);

/// i32 [rows_dim], below `vocab`.
int add_tokens(GraphBuilder& graph, std::int64_t vocab);
/// i32 [outputs_dim]: which rows of the step the outputs are of. Each run of the graph has the rows that its outputs name; a run with as many outputs as
/// rows names each once, not in their order. Only runs of the most rows may have more outputs than rows.
int add_output_rows(GraphBuilder& graph);
/// norm, head and the best token of x [outputs_dim, hidden]. `table`: the head, where it is tied; else no_value.
void add_head(GraphBuilder& graph, const ModelShape& m, const WeightFormats& formats, int x, int table);

/// Scale of attention for queries and keys of about unit variance: scores then spread over a few units.
double attention_scale(std::int64_t head);

}  // namespace quern::conformance
