// See quantize.hpp.
#include "quantize.hpp"

#include "free_path.hpp"
#include "parallel.hpp"
#include "quantize_directory.hpp"
#include "quantize_report.hpp"
#include "target_bits.hpp"

#include "quern/models/directory.hpp"
#include "quern/models/encoding.hpp"
#include "quern/models/gguf_writer.hpp"
#include "quern/models/importance.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace quern::runtime {
namespace {

using quantize::encoded_bytes;
using quantize::TensorChoice;

/// Numbers that a thread decodes at a time, at least a row, and such pieces for each thread between two writes.
constexpr std::uint64_t piece_numbers = 1 << 16, pieces_of_a_thread = 16;

struct Source {
  const gguf::File& file;
  std::optional<quantize::Importance> importance;
  std::uint32_t threads;
};

/// Some rows of one matrix, decoded and encoded.
void encode_piece(const gguf::TensorInfo& tensor, std::span<const std::byte> from, quern_dtype to, std::span<const float> weights,
                  std::uint64_t rows, std::span<std::byte> out) {
  std::vector<float> numbers(rows * tensor.dims[0]);
  quantize::decode(tensor.dtype, from, numbers);
  quantize::encode_rows(to, numbers, weights, out);
}

/// Gives the tensor in its new type to take(bytes), some rows at a time.
template <typename Take>
void encode_tensor(const Source& source, const gguf::TensorInfo& tensor, quern_dtype to, const Take& take) {
  const std::uint64_t columns = tensor.dims[0], rows = tensor.elements() / columns, matrices = tensor.dims[2] * tensor.dims[3];
  const std::uint64_t rows_of_matrix = tensor.dims[1];
  std::vector<float> weights;
  if (source.importance) weights = source.importance->weights(tensor.name, columns, matrices);
  const bool weighted = !weights.empty();
  if (!weighted) weights.assign(columns, 1.0f);
  const gguf::TensorBytes read = source.file.read(tensor);
  const std::uint64_t row_in = encoded_bytes(tensor.dtype, columns), row_out = encoded_bytes(to, columns);
  const std::uint64_t piece = std::max<std::uint64_t>(1, piece_numbers / columns), most = piece * pieces_of_a_thread * source.threads;
  std::vector<std::byte> out;
  for (std::uint64_t matrix = 0; matrix < rows / rows_of_matrix; ++matrix) {
    const std::span<const float> columns_of_matrix = std::span(weights).subspan(weighted ? matrix * columns : 0, columns);
    for (std::uint64_t row = 0; row < rows_of_matrix; row += most) {
      const std::uint64_t first = matrix * rows_of_matrix + row, count = std::min(most, rows_of_matrix - row);
      out.resize(count * row_out);
      in_parallel(source.threads, (count + piece - 1) / piece, [&](std::uint64_t i) {
        const std::uint64_t at = i * piece, here = std::min(piece, count - at);
        encode_piece(tensor, read.bytes().subspan((first + at) * row_in, here * row_in), to, columns_of_matrix, here,
                     std::span(out).subspan(at * row_out, here * row_out));
      });
      take(std::span<const std::byte>(out));
    }
  }
}

std::vector<QuantizedTensor> tensors_of(const gguf::File& file, std::span<const TensorChoice> choices) {
  std::vector<QuantizedTensor> all;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const gguf::TensorInfo& tensor = file.tensors()[i];
    const TensorChoice& choice = choices[i];
    const bool changes = choice.dtype != tensor.dtype;
    all.push_back({&tensor, choice.dtype, choice.wanted, changes ? encoded_bytes(choice.dtype, tensor.elements()) : tensor.bytes, changes});
  }
  return all;
}

/// The type of most of the numbers that are quantised.
quern_dtype most_used(std::span<const QuantizedTensor> tensors) {
  std::map<quern_dtype, std::uint64_t> elements;
  for (const QuantizedTensor& one : tensors)
    if (one.tensor->n_dims > 1 && quantize::block_elements(one.dtype) != 0) elements[one.dtype] += one.tensor->elements();
  const auto most = std::ranges::max_element(elements, {}, [](const auto& entry) { return entry.second; });
  return most == elements.end() ? quern_dtype{QUERN_F32} : most->first;
}

void put_keys(gguf::Writer& writer, const Source& source, const quantize::Mix& mix) {
  writer.copy_keys(source.file);
  writer.u32("general.quantization_version", 2);
  writer.u32("general.file_type", mix.file_type);
  if (!source.importance) return;
  writer.string("quantize.imatrix.file", source.importance->path);
  if (!source.importance->datasets.empty()) writer.string("quantize.imatrix.dataset", source.importance->datasets.front());
  writer.u32("quantize.imatrix.entries_count", static_cast<std::uint32_t>(source.importance->entries.size()));
  writer.u32("quantize.imatrix.chunks_count", source.importance->chunks);
}

}  // namespace

std::string quantize(const std::string& in, const std::string& out, const QuantizeOptions& options) {
  std::optional<quantize::Importance> importance;
  if (!options.importance.empty()) importance = quantize::Importance::read(options.importance);
  if (!options.to.empty()) return quantize_to_directory(models::open_model(in), importance ? &*importance : nullptr, out, options);
  const bool by_error = options.target_bits > 0;
  if (by_error && (!options.type.empty() || options.pure))
    throw Error(QUERN_INVALID_ARGUMENT,
                "one type for all tensors is given, and their types are to follow from their errors; give one of both");
  const quantize::Mix& mix = quantize::mix_of(by_error ? "Q8_0" : options.type);
  quantize::MixOptions chosen;
  for (const std::string& text : options.tensor_types) chosen.rules.push_back(quantize::tensor_rule(text));
  if (!options.output_type.empty()) chosen.output = quantize::tensor_type_of("the type of the output", options.output_type);
  if (!options.embedding_type.empty()) chosen.embedding = quantize::tensor_type_of("the type of the embedding", options.embedding_type);
  chosen.pure = options.pure;
  const gguf::File file = models::open_model(in);
  const Source source{file, std::move(importance), std::max(1u, options.threads)};
  chosen.importance = source.importance.has_value();
  std::vector<TensorChoice> choices = choose_types(file, mix, chosen);
  if (by_error)
    choices = choose_by_error(file, source.importance ? &*source.importance : nullptr, options.target_bits, choices, source.threads);
  const std::string name = by_error ? concat(options.target_bits, " bits") : std::string(mix.name);
  const std::vector<QuantizedTensor> tensors = tensors_of(file, choices);
  if (!options.allow_requantize) refuse_blocks(file, tensors);
  if (options.dry_run) return quantize_report(name, tensors);
  require_free(out);

  gguf::Writer writer;
  put_keys(writer, source, by_error ? quantize::mix_with_base(most_used(tensors)) : mix);
  std::uint64_t total = 0, done = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const gguf::TensorInfo& tensor = file.tensors()[i];
    writer.tensor(tensor.name, {tensor.dims, tensor.dims + tensor.n_dims}, choices[i].dtype);
    total += tensor.bytes;
  }
  writer.begin(out);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const gguf::TensorInfo& tensor = file.tensors()[i];
    const std::uint64_t begun = done, whole = encoded_bytes(choices[i].dtype, tensor.elements());
    std::uint64_t written = 0;
    const auto take = [&](std::span<const std::byte> bytes) {
      writer.append(bytes);
      written += bytes.size();
      done = begun + (whole == 0 ? 0
                                 : static_cast<std::uint64_t>(static_cast<double>(tensor.bytes) * static_cast<double>(written) /
                                                              static_cast<double>(whole)));
      if (options.progress && !options.progress(done, total)) throw Error(QUERN_CANCELLED, concat(in, ": quantising was cancelled"));
    };
    if (choices[i].dtype == tensor.dtype) {
      const gguf::TensorBytes kept = file.read(tensor);
      writer.append(kept.bytes());
    } else {
      try {
        encode_tensor(source, tensor, choices[i].dtype, take);
      } catch (const Error& error) {
        if (error.code() != QUERN_INVALID_ARGUMENT) throw;
        throw file.bad_tensor(tensor.name, error.what());
      }
    }
    done = begun + tensor.bytes;
    file.drop_pages(tensor);
  }
  writer.commit();
  return quantize_report(name, tensors);
}

}  // namespace quern::runtime
