#include "awq_scales.hpp"

#include "parallel.hpp"

#include "quern/models/encoding.hpp"
#include "quern/models/floats.hpp"
#include "quern/models/weight_codes.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace quern::runtime {
namespace {

constexpr std::uint64_t powers = 20, most_rows = 128;
constexpr float least_scale = 1.0f / 64, most_scale = 64;

/// Products of one input, and what gives it: a norm, or a product whose rows are their columns.
struct SharedInput {
  std::string_view giver, bias;
  std::array<std::string_view, 3> takers;
};
constexpr SharedInput shared_inputs[] = {
    {"attn_norm.weight", "", {"attn_q.weight", "attn_k.weight", "attn_v.weight"}},
    {"attn_v.weight", "attn_v.bias", {"attn_output.weight"}},
    {"ffn_norm.weight", "", {"ffn_gate.weight", "ffn_up.weight"}},
    {"ffn_up.weight", "", {"ffn_down.weight"}},
};

/// Some rows of a weight, evenly spread, and how much an error in each column counts.
struct Sample {
  std::vector<float> rows, weights;
};

Sample sample_of(const gguf::File& file, const gguf::TensorInfo& tensor, std::vector<float> weights) {
  const std::uint64_t columns = tensor.dims[0], rows = tensor.dims[1], count = std::min(rows, most_rows);
  const std::uint64_t row_bytes = quantize::encoded_bytes(tensor.dtype, columns);
  const gguf::TensorBytes bytes = file.read(tensor);
  Sample sample{std::vector<float>(count * columns), std::move(weights)};
  for (std::uint64_t i = 0; i < count; ++i)
    quantize::decode(tensor.dtype, bytes.bytes().subspan(i * rows / count * row_bytes, row_bytes),
                     std::span(sample.rows).subspan(i * columns, columns));
  return sample;
}

/// The mean size of each input to a power, with 1 in the middle of the least and the largest.
std::vector<float> scales_of(std::span<const float> squares, double power) {
  std::vector<float> scales;
  for (const float square : squares) scales.push_back(static_cast<float>(std::pow(std::max(1e-8, double{square}), power / 2)));
  const auto [least, most] = std::ranges::minmax(scales);
  const float middle = std::sqrt(least * most);
  for (float& scale : scales) scale = std::clamp(scale / middle, least_scale, most_scale);
  return scales;
}

/// What the codes of the scaled rows leave of the product's error.
double error_of(const Sample& sample, std::span<const float> scales, std::uint64_t group) {
  const std::size_t columns = sample.weights.size();
  std::vector<float> rows(sample.rows), weights(sample.weights);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] *= scales[i % columns];
  for (std::size_t c = 0; c < columns; ++c) weights[c] /= scales[c] * scales[c];
  std::vector<std::uint8_t> codes(rows.size()), zeros(rows.size() / group);
  std::vector<float> steps(rows.size() / group);
  quantize::encode_groups({group, true, QUERN_F16}, rows, weights, {codes, steps, zeros});
  double error = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double off = double{steps[i / group]} * (codes[i] - zeros[i / group]) - rows[i];
    error += weights[i % columns] * off * off;
  }
  return error;
}

/// Empty where no power is better than 0.
std::vector<float> best_scales(std::span<const Sample> samples, std::uint64_t group, std::uint32_t threads) {
  std::vector<double> errors(powers);
  const auto at_power = [&](std::uint64_t i) {
    return scales_of(samples.front().weights, static_cast<double>(i) / static_cast<double>(powers));
  };
  in_parallel(threads, powers, [&](std::uint64_t i) {
    const std::vector<float> scales = at_power(i);
    for (const Sample& sample : samples) errors[i] += error_of(sample, scales, group);
  });
  const auto best = static_cast<std::uint64_t>(std::ranges::min_element(errors) - errors.begin());
  return best == 0 ? std::vector<float>() : at_power(best);
}

/// A norm is stored as f16: the scales become those that its rounded numbers have.
void follow_norm(const gguf::File& file, const gguf::TensorInfo& norm, std::vector<float>& scales) {
  const gguf::TensorBytes bytes = file.read(norm);
  const std::vector<float> numbers = models::decode_floats(norm.dtype, bytes.bytes());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const float wanted = numbers[i] / scales[i];
    const float stored =
        std::abs(wanted) < 65504 ? models::decode_floats(QUERN_F16, models::encode_floats(QUERN_F16, std::span(&wanted, 1)))[0] : 0;
    scales[i] = stored == 0 ? 1 : numbers[i] / stored;
  }
}

void add_foldings(const gguf::File& file, const quantize::Importance& importance, std::uint64_t group, std::uint32_t threads,
                  std::string_view front, const SharedInput& shared, Foldings& to) {
  const gguf::TensorInfo* const giver = file.find_tensor(concat(front, shared.giver));
  const gguf::TensorInfo* const first = file.find_tensor(concat(front, shared.takers[0]));
  if (giver == nullptr || first == nullptr) return;
  const bool norm = giver->n_dims == 1;
  const std::uint64_t columns = first->dims[0];
  if (giver->dims[norm ? 0 : 1] != columns || columns % group != 0) return;  // heads of v may have several takers each
  std::vector<Sample> samples;
  for (const std::string_view name : shared.takers) {
    const gguf::TensorInfo* const taker = name.empty() ? nullptr : file.find_tensor(concat(front, name));
    if (taker == nullptr) continue;
    std::vector<float> weights = importance.weights(taker->name, columns, 1);
    if (weights.empty()) return;
    samples.push_back(sample_of(file, *taker, std::move(weights)));
  }
  std::vector<float> scales = best_scales(samples, group, threads);
  if (scales.empty()) return;
  if (norm) follow_norm(file, *giver, scales);
  to[giver->name].rows = scales;
  if (const std::string bias = concat(front, shared.bias); !shared.bias.empty() && file.find_tensor(bias) != nullptr)
    to[bias].rows = scales;
  for (const std::string_view name : shared.takers)
    if (!name.empty()) to[concat(front, name)].columns = scales;
}

}  // namespace

void fold(const Folding& folding, const gguf::TensorInfo& tensor, std::vector<float>& numbers) {
  const std::size_t columns = tensor.n_dims == 1 ? 1 : tensor.dims[0];
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!folding.columns.empty()) numbers[i] *= folding.columns[i % columns];
    if (!folding.rows.empty()) numbers[i] /= folding.rows[i / columns];
  }
}

Foldings awq_scales(const gguf::File& file, const quantize::Importance& importance, std::uint64_t group, std::uint32_t threads) {
  Foldings made;
  for (std::uint64_t layer = 0; file.find_tensor(concat("blk.", layer, ".attn_norm.weight")) != nullptr; ++layer)
    for (const SharedInput& shared : shared_inputs)
      add_foldings(file, importance, group, threads, concat("blk.", layer, "."), shared, made);
  return made;
}

}  // namespace quern::runtime
