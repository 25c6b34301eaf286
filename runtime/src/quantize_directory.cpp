#include "quantize_directory.hpp"

#include "awq_scales.hpp"
#include "free_path.hpp"
#include "parallel.hpp"
#include "quantize_report.hpp"
#include "tensor_conversion.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/models/directory_writer.hpp"
#include "quern/models/encoding.hpp"
#include "quern/models/floats.hpp"
#include "quern/models/weight_codes.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace quern::runtime {
namespace {

using models::PackedForm;
using models::PackedKind;
using models::WeightCodes;

struct Kind {
  std::string_view name;
  PackedKind kind;
};
constexpr std::array<Kind, 4> kinds = {{{"awq", PackedKind::awq},
                                        {"compressed-tensors", PackedKind::integers},
                                        {"fp8", PackedKind::fp8_blocks},
                                        {"fp8-channel", PackedKind::fp8_rows}}};

PackedKind kind_of(const std::string& name) {
  const auto at = std::ranges::find(kinds, name, &Kind::name);
  if (at != kinds.end()) return at->kind;
  throw Error(QUERN_INVALID_ARGUMENT,
              concat("no directory is written as ", in_quotes(name, 48), "; awq, compressed-tensors, fp8 and fp8-channel are the forms"));
}

bool has_groups(PackedKind kind) { return kind == PackedKind::awq || kind == PackedKind::integers; }

bool is_layer_matrix(const gguf::TensorInfo& tensor) {
  return tensor.n_dims == 2 && tensor.name.starts_with("blk.") && tensor.name.ends_with(".weight");
}

/// The largest of 128, 64 and 32 that divides the rows of all weights, but for those that 32 does not divide.
std::uint64_t group_for(const gguf::File& file) {
  std::uint64_t group = 128;
  for (const gguf::TensorInfo& tensor : file.tensors())
    while (is_layer_matrix(tensor) && tensor.dims[0] % 32 == 0 && tensor.dims[0] % group != 0) group /= 2;
  return group;
}

class DirectoryQuantizer {
 public:
  DirectoryQuantizer(const gguf::File& file, const quantize::Importance* importance, const QuantizeOptions& options)
      : file_(file), importance_(importance), options_(options), threads_(std::max(1u, options.threads)) {
    packed_.kind = kind_of(options.to);
    if (packed_.kind == PackedKind::awq && importance == nullptr)
      throw Error(QUERN_INVALID_ARGUMENT, "awq scales columns by the size of their inputs; give an importance matrix of quern imatrix");
    packed_.group = has_groups(packed_.kind) ? group_for(file) : 0;
    const bool half = packed_.kind == PackedKind::awq ||
                      (packed_.kind != PackedKind::fp8_rows && file.require_tensor("token_embd.weight").dtype == QUERN_F16);
    packed_.scale = form_.dtype = half ? QUERN_F16 : QUERN_BF16;  // scales of rows are smaller than f16 has them
    packed_.takes = [this](const gguf::TensorInfo& tensor) { return takes(tensor); };
    packed_.encode = [this](const gguf::TensorInfo& tensor, std::span<const float> numbers) { return encode(tensor, numbers); };
    form_.shard_bytes = models::usual_shard_bytes;
    form_.packed = packed_;
    form_.type = [this](const gguf::TensorInfo& tensor) { return type_of(tensor); };
    form_.give = [this](const gguf::TensorInfo& tensor, quern_dtype dtype, const TakeBytes& take) { give(tensor, dtype, take); };
  }

  std::vector<QuantizedTensor> tensors() const {
    std::vector<QuantizedTensor> all;
    for (const gguf::TensorInfo& tensor : file_.tensors()) {
      const quern_dtype dtype = takes(tensor) ? read_as() : type_of(tensor);
      const std::uint64_t bytes = takes(tensor) ? models::packed_weight_bytes(packed_, tensor.dims[1], tensor.dims[0])
                                                : tensor.elements() * models::float_bytes(dtype);
      all.push_back({&tensor, dtype, dtype, bytes, takes(tensor) || dtype != tensor.dtype});
    }
    if (std::ranges::none_of(file_.tensors(), [this](const gguf::TensorInfo& tensor) { return takes(tensor); }))
      throw Error(QUERN_UNSUPPORTED,
                  concat(file_.name(), ": no weight has whole groups of ", group(), " columns",
                         packed_.kind == PackedKind::fp8_blocks ? " and rows" : "", ", so none can become ", options_.to));
    return all;
  }

  void write(const std::string& out) {
    for (const gguf::TensorInfo& tensor : file_.tensors()) total_ += tensor.bytes;
    if (packed_.kind == PackedKind::awq) foldings_ = awq_scales(file_, *importance_, packed_.group, threads_);
    models::write_directory(file_, out, form_);
  }

 private:
  std::uint64_t group() const { return has_groups(packed_.kind) ? packed_.group : models::fp8_block; }

  /// The block format that the weights have when they are read.
  quern_dtype read_as() const {
    if (!has_groups(packed_.kind)) return QUERN_F8_128;
    return packed_.group == 128 ? QUERN_Q4_Z128 : packed_.group == 64 ? QUERN_Q4_Z64 : QUERN_Q4_Z32;
  }

  bool takes(const gguf::TensorInfo& tensor) const {
    const std::uint64_t rows_at_once = packed_.kind == PackedKind::fp8_blocks ? models::fp8_block : 8;
    return is_layer_matrix(tensor) && tensor.dims[1] % rows_at_once == 0 && tensor.dims[0] % group() == 0;
  }

  quern_dtype type_of(const gguf::TensorInfo& tensor) const {
    if (tensor.n_dims > 1 || foldings_.contains(tensor.name)) return form_.dtype;
    const gguf::TensorBytes bytes = file_.read(tensor);
    return holds_all(form_.dtype, models::decode_floats(tensor.dtype, bytes.bytes())) ? form_.dtype : quern_dtype{QUERN_F32};
  }

  std::vector<float> numbers_of(const gguf::TensorInfo& tensor) const {
    const std::uint64_t columns = tensor.dims[0], rows = tensor.elements() / columns;
    const std::uint64_t row_bytes = quantize::encoded_bytes(tensor.dtype, columns);
    std::vector<float> numbers(tensor.elements());
    const gguf::TensorBytes bytes = file_.read(tensor);
    in_parallel(threads_, rows, [&](std::uint64_t row) {
      quantize::decode(tensor.dtype, bytes.bytes().subspan(row * row_bytes, row_bytes), std::span(numbers).subspan(row * columns, columns));
    });
    if (const auto at = foldings_.find(tensor.name); at != foldings_.end()) fold(at->second, tensor, numbers);
    return numbers;
  }

  void give(const gguf::TensorInfo& tensor, quern_dtype dtype, const TakeBytes& take) {
    try {
      take(models::encode_floats(dtype, numbers_of(tensor)));
    } catch (const Error& error) {
      if (error.code() != QUERN_INVALID_ARGUMENT) throw;
      throw file_.bad_tensor(tensor.name, error.what());
    }
    file_.drop_pages(tensor);
    done_ += tensor.bytes;
    if (options_.progress && !options_.progress(done_, total_))
      throw Error(QUERN_CANCELLED, concat(file_.name(), ": quantising was cancelled"));
  }

  WeightCodes encode(const gguf::TensorInfo& tensor, std::span<const float> numbers) const {
    try {
      return has_groups(packed_.kind)                 ? groups(tensor, numbers)
             : packed_.kind == PackedKind::fp8_blocks ? blocks(tensor, numbers)
                                                      : rows(tensor, numbers);
    } catch (const Error& error) {
      if (error.code() != QUERN_INVALID_ARGUMENT) throw;
      throw file_.bad_tensor(tensor.name, error.what());
    }
  }

  /// How much an error in each column of the scaled weight counts.
  std::vector<float> weights_of(const gguf::TensorInfo& tensor) const {
    std::vector<float> weights;
    if (importance_ != nullptr) weights = importance_->weights(tensor.name, tensor.dims[0], 1);
    if (weights.empty()) return std::vector<float>(tensor.dims[0], 1.0f);
    if (const auto at = foldings_.find(tensor.name); at != foldings_.end() && !at->second.columns.empty())
      for (std::size_t c = 0; c < weights.size(); ++c) weights[c] /= at->second.columns[c] * at->second.columns[c];
    return weights;
  }

  WeightCodes groups(const gguf::TensorInfo& tensor, std::span<const float> numbers) const {
    const std::uint64_t columns = tensor.dims[0], in_row = columns / packed_.group;
    const std::vector<float> weights = weights_of(tensor);
    WeightCodes made;
    made.codes.resize(numbers.size());
    made.scales.resize(numbers.size() / packed_.group);
    made.zeros.resize(made.scales.size());
    const quantize::GroupForm form{packed_.group, packed_.kind == PackedKind::awq, packed_.scale};
    in_parallel(threads_, tensor.dims[1], [&](std::uint64_t row) {
      quantize::encode_groups(form, numbers.subspan(row * columns, columns), weights,
                              {std::span(made.codes).subspan(row * columns, columns), std::span(made.scales).subspan(row * in_row, in_row),
                               std::span(made.zeros).subspan(row * in_row, in_row)});
    });
    return made;
  }

  WeightCodes blocks(const gguf::TensorInfo& tensor, std::span<const float> numbers) const {
    constexpr std::uint64_t side = models::fp8_block;
    const std::uint64_t columns = tensor.dims[0], across = columns / side;
    WeightCodes made{std::vector<std::uint8_t>(numbers.size()), {}, std::vector<float>(numbers.size() / (side * side))};
    in_parallel(threads_, made.scales.size(), [&](std::uint64_t block) {
      const std::uint64_t first = block / across * side * columns + block % across * side;
      float largest = 0;
      for (std::uint64_t row = 0; row < side; ++row)
        largest = std::max(largest, quantize::largest_magnitude(numbers.subspan(first + row * columns, side)));
      const float scale = made.scales[block] = quantize::e4m3_scale(largest);
      for (std::uint64_t row = 0; row < side; ++row)
        quantize::encode_e4m3(numbers.subspan(first + row * columns, side), scale,
                              std::span(made.codes).subspan(first + row * columns, side));
    });
    return made;
  }

  WeightCodes rows(const gguf::TensorInfo& tensor, std::span<const float> numbers) const {
    const std::uint64_t columns = tensor.dims[0];
    WeightCodes made{std::vector<std::uint8_t>(numbers.size()), {}, std::vector<float>(tensor.dims[1])};
    in_parallel(threads_, tensor.dims[1], [&](std::uint64_t row) {
      const std::span<const float> from = numbers.subspan(row * columns, columns);
      const float exact = quantize::e4m3_scale(quantize::largest_magnitude(from));
      made.scales[row] = models::decode_floats(packed_.scale, models::encode_floats(packed_.scale, std::span(&exact, 1)))[0];
      quantize::encode_e4m3(from, made.scales[row], std::span(made.codes).subspan(row * columns, columns));
    });
    return made;
  }

  const gguf::File& file_;
  const quantize::Importance* importance_;
  const QuantizeOptions& options_;
  std::uint32_t threads_;
  PackedForm packed_;
  models::DirectoryForm form_;
  Foldings foldings_;
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace

std::string quantize_to_directory(const gguf::File& file, const quantize::Importance* importance, const std::string& out,
                                  const QuantizeOptions& options) {
  if (!options.type.empty() || !options.tensor_types.empty() || !options.output_type.empty() || !options.embedding_type.empty() ||
      options.pure)
    throw Error(QUERN_INVALID_ARGUMENT, concat("types of tensors are those of GGUF files; a directory of ", options.to, " has its own"));
  DirectoryQuantizer quantizer(file, importance, options);
  const std::vector<QuantizedTensor> tensors = quantizer.tensors();
  if (!options.allow_requantize) refuse_blocks(file, tensors);
  if (options.dry_run) return quantize_report(options.to, tensors);
  require_free(out);
  quantizer.write(out);
  return quantize_report(options.to, tensors);
}

}  // namespace quern::runtime
