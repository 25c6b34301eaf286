// What layers of all families are made of. Each family has a file of its own beside this one and a row in layers.def.
//
// A step is rows of x, some layers, a norm and a small head. Its shapes come twice: tiny ones, whose values the suite judges, and usual
// ones, for which plugins have their fast kernels and whose kernels tools count (conformance/tools/layer_kernels.cpp).
#pragma once

#include "graphs/decoder_parts.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace quern::conformance {

struct LayerWidths {
  std::int64_t hidden, ffn, heads, kv_heads, head;
  std::int64_t turned = 0;  // elements of a head that rope turns; 0: all
  std::int64_t experts = 0, used = 0;
  std::int64_t head_outputs = 48;
};

/// Joins: a product with its bias, as families say it.
enum class Bias { none, f32 };

class LayerStep {
 public:
  /// `counts`: with how many rows it runs; the most is batch.rows.
  LayerStep(const LayerWidths& widths, quern_dtype format, const Batch& batch, const std::vector<std::int64_t>& counts,
            std::uint32_t conversions);

  GraphBuilder graph;
  const LayerWidths w;
  const quern_dtype format;
  const Batch batch;
  const RowValues rows;
  std::string prefix;           // "blk.0"
  std::int64_t dim = rows_dim;  // of products and norms: behind the layers outputs_dim, if the graph has it

  std::int64_t queries() const noexcept { return w.heads * w.head; }
  std::int64_t keys() const noexcept { return w.kv_heads * w.head; }
  std::string name(const char* part) const { return prefix + "." + part; }

  // Each returns the id of its result.
  int matrix(const char* part, std::int64_t n, std::int64_t k) { return graph.weight(name(part) + ".weight", format, {n, k}); }
  /// [rows, n] of a [rows, k].
  int product(const char* part, int a, std::int64_t n, std::int64_t k, Bias bias = Bias::none);
  /// The norm before products: rows of unit variance times its weight, through a matrix, have about unit variance again.
  int norm(const char* part, int x, double weight_offset = 0);
  int layer_norm(const char* part, int x);
  /// A norm of `dims`, the last of them its row, whose weights are about 1: of queries and keys, and behind products.
  int unit_norm(const char* part, int x, Dims dims, double weight_offset = 0);
  int add(const char* part, int a, int b, double alpha = 1);
  int split(int x, std::int64_t heads) { return graph.reshape(x, {rows_dim, heads, w.head}); }
  int rope(const char* part, int x, std::int64_t heads, int mode, int angles = no_value);

  /// What attention has beside queries and keys.
  struct Attending {
    int window = 0;
    double softcap = 0;
    double scale = 0;  // of dot products; 0: one over the root of a head's elements
    int sinks = no_value;
  };
  /// Cache writes and attention of rotated q and k [rows, heads, head]; returns [rows, queries()].
  int attend(int q, int k, int v, const Attending& how);
  int attend(int q, int k, int v) { return attend(q, k, v, Attending()); }
  /// gate, up, GLU and down of a normed x, and the sum with the residual left to the caller.
  int gated(int x, int glu_kind);

 private:
  int norm_weight(const char* part, std::int64_t n, double offset);
};

/// Products, rotations and attention of a plain decoder layer from normed rows: q, k, v with or without bias, rope of all heads, projection.
int plain_attention(LayerStep& s, int normed, Bias bias, int rope_mode, const LayerStep::Attending& how = LayerStep::Attending());

/// A softmax over experts, the `used` best of them, their GLU and the weighted sum; `normed` [rows, hidden]. The ids become an output.
struct Experts {
  bool biases = false;         // of the router and of each expert's matrices
  std::vector<Attribute> glu;  // of the GLU
};
int add_experts(LayerStep& s, int normed, const Experts& how);

struct LayerFamily {
  const char* name;
  LayerWidths tiny, usual;
  /// The layer of this index behind x; the prefix is set.
  int (*add)(LayerStep& s, int x, int index);
  /// What comes behind the head's product; null: nothing.
  int (*behind_head)(LayerStep& s, int logits) = nullptr;
  /// A block format whose rows all tiny widths are multiples of, when those of 256 do not fit.
  quern_dtype block = QUERN_Q4_K;
  /// What rows of the table of embeddings become before the first layer; null: they are its input.
  int (*of_embeddings)(LayerStep& s, int x) = nullptr;
  /// The block format of the usual widths, whose kernels are counted.
  quern_dtype usual_block = QUERN_Q4_K;
};

/// Every row of layers.def, in its order.
std::span<const LayerFamily* const> layer_families();

/// Rows of x through `layers` layers of the family; the last norm and the head of all of them, or of those whose outputs the graph has.
void add_layers(LayerStep& s, const LayerFamily& family, int layers);

}  // namespace quern::conformance
