#include "target_bits.hpp"

#include "parallel.hpp"
#include "type_budget.hpp"

#include "quern/models/encoding.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

namespace quern::runtime {
namespace {

using quantize::TensorChoice;

constexpr quern_dtype candidates[] = {QUERN_Q4_0, QUERN_Q4_K, QUERN_Q4_1, QUERN_Q5_0, QUERN_Q5_K,
                                      QUERN_Q5_1, QUERN_Q6_K, QUERN_Q8_0, QUERN_F16,  QUERN_BF16};
constexpr std::uint64_t most_rows = 128;

/// How much an error counts in a part of the model, by a piece of the tensor's name. The first one counts.
struct Reach {
  std::string_view piece;
  double weight;
};

/// How much the KL of the logits grows with the relative error of a tensor's products, as a share of that of a table that is the head too.
/// Geometric means of what SmolLM2-135M and the models of tests/data/training showed, with one part at a time in Q4_0. Layers share theirs.
constexpr Reach whole_model[] = {{"token_embd", 0.58}, {"output.weight", 0.42}};
constexpr Reach of_layers[] = {{"attn_qkv", 0.8},    {"attn_kv_b", 0.54}, {"attn_v", 0.54}, {"attn_k", 0.15},  {"attn_q", 0.115},
                               {"attn_output", 0.3}, {"ffn_gate", 0.2},   {"ffn_up", 0.28}, {"ffn_down", 0.28}};
constexpr double of_others = 0.3;
/// Errors of early layers go through more of the model: the first layer counts so much more than the mean, and the last one so much less.
constexpr double slope_of_depth = 0.6;

double weight_in(std::span<const Reach> parts, std::string_view name) {
  const auto found = std::ranges::find_if(parts, [&](const Reach& one) { return name.find(one.piece) != std::string_view::npos; });
  return found == parts.end() ? of_others : found->weight;
}

double reach_of(const gguf::File& file, std::string_view name) {
  const std::optional<std::uint64_t> layer = quantize::layer_of(name);
  if (!layer) {
    const bool tied = file.find_tensor("output.weight") == nullptr && name.starts_with("token_embd");
    return tied ? 1 : weight_in(whole_model, name);
  }
  const std::string architecture(file.find_string("general.architecture").value_or(""));
  const auto layers = static_cast<double>(std::max(*layer + 1, file.find_u64(architecture + ".block_count").value_or(1)));
  const double depth = (static_cast<double>(*layer) + 0.5) / layers;
  return weight_in(of_layers, name) / layers * (1 + slope_of_depth * (1 - 2 * depth));
}

/// The share of the weighted squares of some rows that a type leaves as error.
double error_of(const gguf::File& file, const gguf::TensorInfo& tensor, std::span<const float> weights, quern_dtype to) {
  const std::uint64_t columns = tensor.dims[0], rows = tensor.elements() / columns, count = std::min(rows, most_rows);
  const std::uint64_t row_bytes = quantize::encoded_bytes(tensor.dtype, columns);
  const gguf::TensorBytes bytes = file.read(tensor);
  std::vector<float> numbers(columns), found(columns);
  std::vector<std::byte> encoded(quantize::encoded_bytes(to, columns));
  double error = 0, whole = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t row = i * rows / count;
    const std::span<const float> w = weights.subspan(weights.size() == columns ? 0 : row / tensor.dims[1] * columns, columns);
    quantize::decode(tensor.dtype, bytes.bytes().subspan(row * row_bytes, row_bytes), numbers);
    quantize::encode_rows(to, numbers, w, encoded);
    quantize::decode(to, encoded, found);
    for (std::uint64_t c = 0; c < columns; ++c) {
      const double off = double{numbers[c]} - found[c];
      error += w[c] * off * off;
      whole += double{w[c]} * numbers[c] * numbers[c];
    }
  }
  return whole > 0 ? error / whole : 0;
}

bool may_become(const gguf::TensorInfo& tensor, quern_dtype dtype) {
  if (dtype == QUERN_BF16 || dtype == QUERN_F16) return (dtype == QUERN_BF16) == (tensor.dtype == QUERN_BF16);
  return tensor.dims[0] % quantize::block_elements(dtype) == 0;
}

std::vector<TypeOption> options_of(const gguf::File& file, const quantize::Importance* importance, const gguf::TensorInfo& tensor) {
  const std::uint64_t columns = tensor.dims[0];
  std::vector<float> weights;
  if (importance != nullptr) weights = importance->weights(tensor.name, columns, tensor.dims[2] * tensor.dims[3]);
  if (weights.empty()) weights.assign(columns, 1.0f);
  const double reach = reach_of(file, tensor.name);
  std::vector<TypeOption> all;
  for (const quern_dtype dtype : candidates)
    if (may_become(tensor, dtype))
      all.push_back({dtype, quantize::encoded_bytes(dtype, tensor.elements()), reach * error_of(file, tensor, weights, dtype)});
  return all;
}

}  // namespace

std::vector<TensorChoice> choose_by_error(const gguf::File& file, const quantize::Importance* importance, double bits,
                                          std::span<const TensorChoice> choices, std::uint32_t threads) {
  const std::vector<gguf::TensorInfo>& tensors = file.tensors();
  std::vector<std::vector<TypeOption>> options(tensors.size());
  in_parallel(threads, tensors.size(), [&](std::uint64_t i) {
    const quern_dtype dtype = choices[i].dtype;
    if (choices[i].free) options[i] = options_of(file, importance, tensors[i]);
    else options[i] = {{dtype, dtype == tensors[i].dtype ? tensors[i].bytes : quantize::encoded_bytes(dtype, tensors[i].elements()), 0}};
  });
  std::uint64_t least = 0, elements = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    elements += tensors[i].elements();
    least += std::ranges::min(options[i], {}, &TypeOption::bytes).bytes;
  }
  const double budget = bits / 8 * static_cast<double>(elements);
  if (static_cast<double>(least) > budget)
    throw Error(QUERN_INVALID_ARGUMENT, concat(file.name(), ": ", bits, " bits a weight were asked for, and the smallest types take ",
                                               8 * static_cast<double>(least) / static_cast<double>(elements)));
  const std::vector<std::size_t> taken = least_error(options, static_cast<std::uint64_t>(budget));
  std::vector<TensorChoice> made(choices.begin(), choices.end());
  for (std::size_t i = 0; i < made.size(); ++i)
    if (made[i].free) made[i].dtype = made[i].wanted = options[i][taken[i]].dtype;
  return made;
}

}  // namespace quern::runtime
