// The tensors that a model of given hyperparameters must have, and no others.
#include "tensors.hpp"

#include "quern/graph/graph.hpp"

#include <cmath>
#include <cstring>
#include <unordered_set>
#include <vector>

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

  /// The weight of a product, and the order of its columns if it has another than its input.
  void product(const std::string& name, std::uint64_t rows, std::uint64_t columns) {
    matrix(concat(name, ".weight"), rows, columns);
    const gguf::TensorInfo* const order = file_.find_tensor(order_tensor(name));
    if (order == nullptr || file_.version() != 0) return;  // of a GGUF file it has no meaning
    if (order->n_dims != 1 || order->dims[0] != columns || order->dtype != QUERN_I32)
      throw file_.bad_tensor(order->name, concat("is ", graph::dtype_name(order->dtype), " ", shape_of(*order),
                                                 "; the order of these columns must be i32 [", columns, "]"));
    check_order(*order);
    known_.insert(order->name);
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
  /// Each column is there once.
  void check_order(const gguf::TensorInfo& order) const {
    const gguf::TensorBytes read = file_.read(order);
    std::vector<bool> seen(order.dims[0]);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      std::int32_t column = 0;
      std::memcpy(&column, read.bytes().data() + i * sizeof column, sizeof column);
      if (column < 0 || static_cast<std::uint64_t>(column) >= seen.size() || seen[static_cast<std::size_t>(column)])
        throw file_.bad_tensor(order.name,
                               concat("has the column ", column, " at index ", i, "; each of ", seen.size(), " must be there once"));
      seen[static_cast<std::size_t>(column)] = true;
    }
  }

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

std::string order_tensor(std::string_view product) { return concat(product, ".order"); }

bool has_tensor(const gguf::File& file, std::string_view name) { return file.find_tensor(name) != nullptr; }

void check_tensors(const gguf::File& file, const Hyperparameters& model) {
  const std::uint64_t q = std::uint64_t{model.heads} * model.head_size;
  const std::uint64_t k = std::uint64_t{model.kv_heads} * model.head_size;
  const std::uint64_t v = std::uint64_t{model.kv_heads} * model.value_size;
  const std::uint64_t joined = std::uint64_t{model.heads} * model.value_size;
  Checker check(file);
  check.matrix("token_embd.weight", model.vocabulary, model.hidden);
  check.vector("output_norm.weight", model.hidden);
  if (!model.tied_head) check.product("output", model.vocabulary, model.hidden);
  if (model.rope_factors) {
    check.vector("rope_freqs.weight", model.rope_size / 2);
    check_rope_factors(file);
  }
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    const auto name = [&](std::string_view suffix) { return layer_tensor(layer, suffix); };
    check.vector(name("attn_norm.weight"), model.hidden);
    check.product(name("attn_q"), q, model.hidden);
    check.product(name("attn_k"), k, model.hidden);
    check.product(name("attn_v"), v, model.hidden);
    check.product(name("attn_output"), model.hidden, joined);
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
    check.product(name("ffn_gate"), model.ffn, model.hidden);
    check.product(name("ffn_up"), model.ffn, model.hidden);
    check.product(name("ffn_down"), model.hidden, model.ffn);
  }
  check.no_others(model.architecture);
}

}  // namespace quern::models
