// A small random model as a session loads it: drawn shape, random weights in drawn formats, a GGUF file. The same for the same seed.
#pragma once

#include "data/counter_random.hpp"
#include "data/tensor.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace quern::conformance {

/// Draws one number after the other.
class Draws {
 public:
  explicit Draws(const CounterRandom& random) : random_(random) {}
  std::uint64_t below(std::uint64_t n) { return random_.below(next_++, n); }
  /// In [least, most].
  std::uint32_t between(std::uint32_t least, std::uint32_t most) { return least + static_cast<std::uint32_t>(below(most - least + 1)); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <class List>
  auto of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  CounterRandom random_;
  std::uint64_t next_ = 0;
};

struct ModelShape {
  std::string architecture;  // "llama", "qwen2", "qwen3"
  std::uint32_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0, rope_size = 0, ffn = 0, vocabulary = 0;
  std::uint32_t window = 0;  // of attention; 0: none
  bool tied = false;         // the head is the table of embeddings
  float epsilon = 0, rope_base = 0;
  quern_dtype format = 0;  // of its matrices, where a row is whole blocks

  bool pairs_half_apart() const { return architecture != "llama"; }
  bool biases() const { return architecture == "qwen2"; }
  bool norms_of_heads() const { return architecture == "qwen3"; }
  /// "llama of 3 layers, 96 wide, 6/2 heads of 16, q8_0"
  std::string words() const;
};

/// What a model of the n-th row of an audit is: few layers and many and all architectures in turn, other shapes and formats for each seed.
ModelShape draw_shape(std::uint32_t n, Draws& draws);
/// Of a model that keeps a processor busy for some hundredths of a second, whatever its kernels.
ModelShape busy_shape(Draws& draws);

/// A tensor of a model by its name in the file, with its elements.
struct ModelTensor {
  Tensor stored;
  std::vector<double> values;
  std::int64_t rows = 0, columns = 0;  // a vector has one row
};

class RandomModel {
 public:
  RandomModel(const ModelShape& shape, const CounterRandom& random);

  const ModelShape& shape() const noexcept { return shape_; }
  const ModelTensor& tensor(const std::string& name) const { return tensors_.at(name); }
  const ModelTensor& of_layer(std::uint32_t layer, const std::string& part) const {
    return tensor("blk." + std::to_string(layer) + "." + part);
  }
  /// The whole file.
  std::string gguf() const;
  /// Multiplications of one token.
  double products() const;

 private:
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns);
  void vector(const std::string& name, std::int64_t size, double middle, double spread);

  ModelShape shape_;
  CounterRandom random_;
  std::vector<std::string> order_;  // of the file
  std::map<std::string, ModelTensor> tensors_;
};

}  // namespace quern::conformance
