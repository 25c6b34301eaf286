#include "convert.hpp"

#include "free_path.hpp"
#include "tensor_conversion.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/models/architecture.hpp"
#include "quern/models/directory.hpp"
#include "quern/models/directory_writer.hpp"
#include "quern/models/floats.hpp"
#include "quern/models/gguf_writer.hpp"

#include <unistd.h>

#include <algorithm>

namespace quern::runtime {
namespace {

using Devices = std::vector<std::shared_ptr<MemoryBudget>>;

bool is_matrix(const gguf::TensorInfo& tensor) { return tensor.n_dims > 1 && tensor.name.ends_with(".weight"); }

quern_dtype type_in_gguf(const gguf::TensorInfo& tensor, const ConvertOptions& options) {
  // Blocks of directories are decoded; f16 has the bits that their packers' own decoders give.
  if (options.type == QUERN_DTYPE_NONE) return gguf::has_ggml_type(tensor.dtype) ? tensor.dtype : quern_dtype{QUERN_F16};
  return is_matrix(tensor) ? options.type : quern_dtype{QUERN_F32};
}

/// general.file_type as llama.cpp numbers it.
std::uint32_t file_type_of(quern_dtype dtype) { return dtype == QUERN_F32 ? 0 : dtype == QUERN_F16 ? 1 : 32; }

void write_type_keys(const gguf::File& file, bool is_directory, const ConvertOptions& options, gguf::Writer& keys) {
  const gguf::TensorInfo* const table = file.find_tensor("token_embd.weight");
  if (table == nullptr || (!is_directory && options.type == QUERN_DTYPE_NONE)) return;  // keys of a GGUF file say it
  keys.u32("general.file_type", file_type_of(type_in_gguf(*table, options)));
  keys.u32("general.quantization_version", 2);
}

/// The tensors of each file, in their order.
std::vector<std::vector<const gguf::TensorInfo*>> split(const gguf::File& file, const ConvertOptions& options) {
  std::vector<std::vector<const gguf::TensorInfo*>> parts(1);
  if (options.vocabulary_only) return parts;
  std::uint64_t bytes = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const quern_dtype type = type_in_gguf(tensor, options);
    const std::uint64_t size = type == tensor.dtype ? tensor.bytes : tensor.elements() * models::float_bytes(type);
    if (options.shard_bytes != 0 && !parts.back().empty() && size > options.shard_bytes - std::min(bytes, options.shard_bytes)) {
      parts.emplace_back();
      bytes = 0;
    }
    parts.back().push_back(&tensor);
    bytes += size;
  }
  return parts;
}

void write_gguf(const Devices& devices, const gguf::File& file, bool is_directory, const std::string& to, const ConvertOptions& options) {
  const auto parts = split(file, options);
  std::vector<std::string> paths;
  for (std::uint64_t no = 1; no <= parts.size(); ++no) {
    paths.push_back(parts.size() == 1 ? to : gguf::shard_path(to, no, parts.size()));
    require_free(paths.back());
  }
  std::vector<gguf::Writer> writers(parts.size());
  writers.front().copy_keys(file);
  write_type_keys(file, is_directory, options, writers.front());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    gguf::Writer& writer = writers[i];
    if (parts.size() > 1) {
      writer.u16("split.no", static_cast<std::uint16_t>(i));
      writer.u16("split.count", static_cast<std::uint16_t>(parts.size()));
      writer.i32("split.tensors.count", static_cast<std::int32_t>(file.tensors().size()));
    }
    for (const gguf::TensorInfo* tensor : parts[i])
      writer.tensor(tensor->name, {tensor->dims, tensor->dims + tensor->n_dims}, type_in_gguf(*tensor, options));
    writer.begin(paths[i]);
    for (const gguf::TensorInfo* tensor : parts[i])
      convert_tensor(devices, file, *tensor, type_in_gguf(*tensor, options),
                     [&](std::span<const std::byte> bytes) { writer.append(bytes); });
  }
  std::size_t done = 0;
  try {
    for (; done < writers.size(); ++done) writers[done].commit();
  } catch (...) {
    for (std::size_t i = 0; i < done; ++i) ::unlink(paths[i].c_str());
    throw;
  }
}

/// Whether a type holds each number of a tensor.
bool holds(const gguf::File& file, const gguf::TensorInfo& tensor, quern_dtype dtype) {
  if (models::float_bytes(tensor.dtype) == 0) return false;
  const gguf::TensorBytes bytes = file.read(tensor);
  return holds_all(dtype, models::decode_floats(tensor.dtype, bytes.bytes()));
}

void write_folder(const Devices& devices, const gguf::File& file, const std::string& to, const ConvertOptions& options) {
  const auto type_of_matrix = [&](const gguf::TensorInfo& tensor) {
    if (options.type != QUERN_DTYPE_NONE) return options.type;
    return models::float_bytes(tensor.dtype) == 0 ? quern_dtype{QUERN_BF16} : tensor.dtype;
  };
  const quern_dtype usual = type_of_matrix(file.require_tensor("token_embd.weight"));
  models::DirectoryForm form;
  form.dtype = usual;
  form.shard_bytes = options.shard_bytes == 0 ? models::usual_shard_bytes : options.shard_bytes;
  form.type = [&](const gguf::TensorInfo& tensor) {
    if (is_matrix(tensor)) return type_of_matrix(tensor);
    return holds(file, tensor, usual) ? usual : quern_dtype{QUERN_F32};  // what was widened is narrowed without loss
  };
  form.give = [&](const gguf::TensorInfo& tensor, quern_dtype dtype, const TakeBytes& take) {
    convert_tensor(devices, file, tensor, dtype, take);
  };
  models::write_directory(file, to, form);
}

}  // namespace

void convert(Runtime& runtime, const std::string& from, const std::string& to, const ConvertOptions& options) {
  if (options.type != QUERN_DTYPE_NONE && models::float_bytes(options.type) == 0)
    throw Error(QUERN_INVALID_ARGUMENT, concat(to, ": type ", options.type, " was asked for; models are converted to f32, f16 and bf16"));
  const bool to_gguf = to.ends_with(".gguf");
  if (options.vocabulary_only && !to_gguf)
    throw Error(QUERN_INVALID_ARGUMENT, concat(to, ": a vocabulary alone is written as a GGUF file; give a name that ends with .gguf"));
  require_free(to);
  const gguf::File file = models::open_model(from);
  if (!to_gguf) return write_folder(runtime.devices(), file, to, options);
  const bool is_directory = models::is_model_directory(from);
  if (is_directory) models::read_hyperparameters(file);  // all tensors of the family are there
  write_gguf(runtime.devices(), file, is_directory, to, options);
}

}  // namespace quern::runtime
