#include "packed_weights.hpp"

#include "awq_words.hpp"

#include "quern/models/floats.hpp"

#include <cstring>

namespace quern::directory {
namespace {

using models::PackedForm;
using models::PackedKind;
using models::WeightCodes;
using safetensors::Dtype;

constexpr std::uint64_t in_word = 8;  // codes of four bits

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& numbers) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

/// [columns, rows / 8] of numbers in [rows, columns], a nibble each, in AWQ's order.
std::vector<std::uint32_t> awq_words(std::span<const std::uint8_t> numbers, std::uint64_t rows, std::uint64_t columns) {
  std::vector<std::uint32_t> words(columns * rows / rows_of_word);
  for (std::uint64_t row = 0; row < rows; ++row)
    for (std::uint64_t column = 0; column < columns; ++column)
      words[column * (rows / rows_of_word) + row / rows_of_word] |= std::uint32_t{numbers[row * columns + column]}
                                                                    << 4 * nibble_of_row[row % rows_of_word];
  return words;
}

/// Eight columns of a row in a word, lowest bits first.
std::vector<std::uint32_t> words_along_rows(std::span<const std::uint8_t> numbers) {
  std::vector<std::uint32_t> words(numbers.size() / in_word);
  for (std::uint64_t i = 0; i < numbers.size(); ++i) words[i / in_word] |= std::uint32_t{numbers[i]} << 4 * (i % in_word);
  return words;
}

std::vector<float> turned(std::span<const float> numbers, std::uint64_t rows, std::uint64_t columns) {
  std::vector<float> made(numbers.size());
  for (std::uint64_t row = 0; row < rows; ++row)
    for (std::uint64_t column = 0; column < columns; ++column) made[column * rows + row] = numbers[row * columns + column];
  return made;
}

void check_sizes(const PackedForm& form, std::uint64_t rows, std::uint64_t columns, const WeightCodes& codes) {
  const bool integers = form.kind == PackedKind::awq || form.kind == PackedKind::integers;
  const std::uint64_t scales = integers                              ? rows * (columns / form.group)
                               : form.kind == PackedKind::fp8_blocks ? (rows / models::fp8_block) * (columns / models::fp8_block)
                                                                     : rows;
  if (codes.codes.size() != rows * columns || codes.scales.size() != scales ||
      (form.kind == PackedKind::awq && codes.zeros.size() != scales))
    throw Error(QUERN_INVALID_ARGUMENT, concat(codes.codes.size(), " codes and ", codes.scales.size(), " scales are not those of ", rows,
                                               " rows of ", columns, " columns"));
}

void write_awq(const PackedForm& form, const std::vector<std::string>& plain, JsonWriter& json) {
  json.member("quant_method", "awq");
  json.member("bits", 4);
  json.member("group_size", form.group);
  json.member("zero_point", true);
  json.member("version", "gemm");
  json.member("modules_to_not_convert", plain);
}

/// Of compressed-tensors: the weights of all linear layers, and numbers as they are for the inputs.
void write_compressed(const PackedForm& form, const std::vector<std::string>& plain, JsonWriter& json) {
  const bool integers = form.kind == PackedKind::integers;
  const std::string_view format = integers ? "pack-quantized" : "float-quantized";
  json.member("quant_method", "compressed-tensors");
  json.member("format", format);
  json.member("quantization_status", "compressed");
  json.member("ignore", plain);
  json.key("config_groups");
  json.begin_object();
  json.key("group_0");
  json.begin_object();
  json.member("targets", std::vector<std::string_view>{"Linear"});
  json.key("weights");
  json.begin_object();
  json.member("num_bits", integers ? 4 : 8);
  json.member("type", integers ? "int" : "float");
  json.member("symmetric", true);
  json.member("strategy", integers ? "group" : "channel");
  json.member("group_size", integers ? std::optional(form.group) : std::nullopt);
  json.member("dynamic", false);
  json.end_object();
  json.member("input_activations", nullptr);
  json.member("output_activations", nullptr);
  json.end_object();
  json.end_object();
}

void write_fp8(const std::vector<std::string>& plain, JsonWriter& json) {
  json.member("quant_method", "fp8");
  json.member("fmt", "e4m3");
  json.member("activation_scheme", "dynamic");
  json.member("weight_block_size", std::vector<std::uint64_t>{models::fp8_block, models::fp8_block});
  json.member("modules_to_not_convert", plain);
}

}  // namespace

std::vector<StoredPart> packed_parts(const PackedForm& form, std::string_view front, std::uint64_t rows, std::uint64_t columns) {
  std::vector<StoredPart> parts;
  const auto part = [&](std::string_view name, Dtype dtype, std::vector<std::uint64_t> shape) {
    std::uint64_t bytes = safetensors::bits_of(dtype) / 8;
    for (const std::uint64_t size : shape) bytes *= size;
    parts.push_back({concat(front, name), dtype, std::move(shape), bytes});
  };
  switch (form.kind) {
    case PackedKind::awq:
      part("qweight", Dtype::i32, {columns, rows / rows_of_word});
      part("qzeros", Dtype::i32, {columns / form.group, rows / rows_of_word});
      part("scales", *safetensors::from_float_type(form.scale), {columns / form.group, rows});
      break;
    case PackedKind::integers:
      part("weight_shape", Dtype::i64, {2});
      part("weight_packed", Dtype::i32, {rows, columns / in_word});
      part("weight_scale", *safetensors::from_float_type(form.scale), {rows, columns / form.group});
      break;
    case PackedKind::fp8_blocks:
      part("weight_scale_inv", Dtype::f32, {rows / models::fp8_block, columns / models::fp8_block});
      part("weight", Dtype::f8_e4m3, {rows, columns});
      break;
    case PackedKind::fp8_rows:
      part("weight_scale", *safetensors::from_float_type(form.scale), {rows, 1});
      part("weight", Dtype::f8_e4m3, {rows, columns});
      break;
  }
  return parts;
}

std::vector<std::vector<std::byte>> packed_bytes(const PackedForm& form, std::uint64_t rows, std::uint64_t columns,
                                                 const WeightCodes& codes) {
  check_sizes(form, rows, columns, codes);
  switch (form.kind) {
    case PackedKind::awq: {
      const std::uint64_t groups = columns / form.group;
      return {bytes_of(awq_words(codes.codes, rows, columns)), bytes_of(awq_words(codes.zeros, rows, groups)),
              models::encode_floats(form.scale, turned(codes.scales, rows, groups))};
    }
    case PackedKind::integers:
      return {bytes_of(std::vector<std::uint64_t>{rows, columns}), bytes_of(words_along_rows(codes.codes)),
              models::encode_floats(form.scale, codes.scales)};
    case PackedKind::fp8_blocks: return {bytes_of(codes.scales), bytes_of(codes.codes)};
    default: return {models::encode_floats(form.scale, codes.scales), bytes_of(codes.codes)};
  }
}

void write_quantisation(const PackedForm& form, const std::vector<std::string>& plain, JsonWriter& json) {
  json.key("quantization_config");
  json.begin_object();
  if (form.kind == PackedKind::awq) write_awq(form, plain, json);
  else if (form.kind == PackedKind::fp8_blocks) write_fp8(plain, json);
  else write_compressed(form, plain, json);
  json.end_object();
}

}  // namespace quern::directory
