// The tensors that a model of given hyperparameters must have, and no others.
#include "tensors.hpp"

#include "quern/graph/graph.hpp"

#include <cmath>
#include <cstring>
#include <unordered_set>

namespace quern::models {
namespace {

std::string shape_of(const gguf::TensorInfo& tensor) {
  std::string text = "[";
  for (std::uint32_t d = tensor.n_dims; d-- > 0;) text += std::to_string(tensor.dims[d]) + (d > 0 ? ", " : "]");
  return text;
}

/// Weights of a product: floats and block formats.
bool is_weight(quern_dtype dtype) {
  return dtype == QUERN_F32 || dtype == QUERN_F16 || dtype == QUERN_BF16 || graph::is_block_format(dtype);
}

class Checker {
 public:
  explicit Checker(const gguf::File& file) : file_(file) {}

  void matrix(const std::string& name, std::uint64_t rows, std::uint64_t columns) {
    const gguf::TensorInfo& tensor = file_.require_tensor(name);
    if (tensor.n_dims != 2 || tensor.dims[0] != columns || tensor.dims[1] != rows)
      throw file_.bad_tensor(name, concat("has the shape ", shape_of(tensor), "; the metadata asks for [", rows, ", ", columns, "]"));
    if (!is_weight(tensor.dtype))
      throw file_.bad_tensor(name, concat("is ", graph::dtype_name(tensor.dtype), ", which cannot hold weights"));
    known_.insert(tensor.name);
  }

  void vector(const std::string& name, std::uint64_t size) {
    const gguf::TensorInfo& tensor = file_.require_tensor(name);
    if (tensor.n_dims != 1 || tensor.dims[0] != size)
      throw file_.bad_tensor(name, concat("has the shape ", shape_of(tensor), "; the metadata asks for [", size, "]"));
    if (tensor.dtype != QUERN_F32)
      throw file_.bad_tensor(name, concat("is ", graph::dtype_name(tensor.dtype), "; norms, biases and factors must be f32"));
    known_.insert(tensor.name);
  }

  /// A name that the graph does not use would change the result if it meant something.
  void no_others(const std::string& architecture) const {
    for (const gguf::TensorInfo& tensor : file_.tensors())
      if (!known_.contains(tensor.name))
        throw file_.bad_tensor(tensor.name, concat("is not part of the architecture ", architecture,
                                                   " as the metadata describes it, so the model would compute something else"));
  }

 private:
  const gguf::File& file_;
  std::unordered_set<std::string_view> known_;
};

void check_rope_factors(const gguf::File& file) {
  const gguf::TensorInfo& tensor = file.require_tensor("rope_freqs.weight");
  const gguf::TensorBytes read = file.read(tensor);
  const std::span<const std::byte> bytes = read.bytes();
  for (std::size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    float factor = 0;
    std::memcpy(&factor, bytes.data() + i, sizeof factor);
    if (!std::isfinite(factor) || !(factor > 0))
      throw file.bad_tensor(tensor.name, concat("has the factor ", factor, " at index ", i / sizeof(float),
                                                "; a factor divides a frequency and must be above 0"));
  }
}

}  // namespace

std::string layer_tensor(std::uint32_t layer, std::string_view suffix) { return concat("blk.", layer, ".", suffix); }

bool has_tensor(const gguf::File& file, std::string_view name) { return file.find_tensor(name) != nullptr; }

void check_tensors(const gguf::File& file, const Hyperparameters& model) {
  const std::uint64_t q = std::uint64_t{model.heads} * model.head_size;
  const std::uint64_t k = std::uint64_t{model.kv_heads} * model.head_size;
  const std::uint64_t v = std::uint64_t{model.kv_heads} * model.value_size;
  const std::uint64_t joined = std::uint64_t{model.heads} * model.value_size;
  Checker check(file);
  check.matrix("token_embd.weight", model.vocabulary, model.hidden);
  check.vector("output_norm.weight", model.hidden);
  if (!model.tied_head) check.matrix("output.weight", model.vocabulary, model.hidden);
  if (model.rope_factors) {
    check.vector("rope_freqs.weight", model.rope_size / 2);
    check_rope_factors(file);
  }
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    const auto name = [&](std::string_view suffix) { return layer_tensor(layer, suffix); };
    check.vector(name("attn_norm.weight"), model.hidden);
    check.matrix(name("attn_q.weight"), q, model.hidden);
    check.matrix(name("attn_k.weight"), k, model.hidden);
    check.matrix(name("attn_v.weight"), v, model.hidden);
    check.matrix(name("attn_output.weight"), model.hidden, joined);
    if (model.attention_bias) {
      check.vector(name("attn_q.bias"), q);
      check.vector(name("attn_k.bias"), k);
      check.vector(name("attn_v.bias"), v);
    }
    if (model.output_bias) check.vector(name("attn_output.bias"), model.hidden);
    if (model.qk_norm) {
      check.vector(name("attn_q_norm.weight"), model.head_size);
      check.vector(name("attn_k_norm.weight"), model.head_size);
    }
    check.vector(name("ffn_norm.weight"), model.hidden);
    check.matrix(name("ffn_gate.weight"), model.ffn, model.hidden);
    check.matrix(name("ffn_up.weight"), model.ffn, model.hidden);
    check.matrix(name("ffn_down.weight"), model.hidden, model.ffn);
  }
  check.no_others(model.architecture);
}

}  // namespace quern::models
