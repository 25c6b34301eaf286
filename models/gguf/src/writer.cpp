// See gguf_writer.hpp.
#include "ggml_types.hpp"
#include "parse.hpp"
#include "split.hpp"
#include "value_types.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/models/gguf_writer.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace quern::gguf {
namespace {

constexpr std::uint32_t version = 3;
constexpr std::uint32_t usual_alignment = 32;
constexpr std::string_view alignment_key = "general.alignment";

template <typename T>
void append_value(std::vector<std::byte>& to, T value) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span<const T>(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void append_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

void append_string(std::vector<std::byte>& to, std::string_view text) {
  append_value(to, std::uint64_t{text.size()});
  append_bytes(to, std::as_bytes(std::span(text)));
}

std::uint64_t align(std::uint64_t bytes, std::uint64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

Error refused(std::string_view kind, std::string_view name, std::string_view text) {
  return Error(QUERN_INVALID_ARGUMENT, concat(kind, " ", in_quotes(name), " cannot be written: ", text));
}

/// Bytes of a tensor, whose sizes are checked as the reader checks them.
std::uint64_t tensor_bytes(const TensorInfo& info, const GgmlType& type) {
  if (info.dims[0] % type.block_elements != 0)
    throw refused("tensor", info.name, concat("a row of ", info.dims[0], " is not whole blocks of ", type.block_elements, " elements"));
  constexpr auto most = static_cast<std::uint64_t>(INT64_MAX);
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : info.dims) {
    if (dim == 0 || dim > most / elements) throw refused("tensor", info.name, "a dimension is 0, or all are more than 2^63 elements");
    elements *= dim;
  }
  const std::uint64_t blocks = elements / type.block_elements;
  if (blocks > most / type.block_bytes) throw refused("tensor", info.name, "it has more than 2^63 bytes");
  return blocks * type.block_bytes;
}

}  // namespace

std::uint32_t ggml_type_of(quern_dtype dtype) {
  for (std::uint32_t id = 0; const GgmlType* type = find_ggml_type(id); ++id)
    if (dtype != QUERN_DTYPE_NONE && type->dtype == dtype) return id;
  throw Error(QUERN_INVALID_ARGUMENT, concat("type ", type_name(dtype).empty() ? std::to_string(dtype) : std::string(type_name(dtype)),
                                             " has no place in a GGUF file; these have: ", supported_ggml_types()));
}

std::string shard_path(const std::string& path, std::uint64_t no, std::uint64_t count) {
  if (count > max_shards)
    throw Error(QUERN_INVALID_ARGUMENT, concat(path, ": would be split into ", count, " files; at most ", max_shards, " are read"));
  constexpr std::string_view end = ".gguf";
  return shard_path({path.substr(0, path.ends_with(end) ? path.size() - end.size() : path.size()), no, count}, no);
}

Writer::Writer(std::uint32_t alignment) : alignment_(alignment) {
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > max_alignment)
    throw Error(QUERN_INVALID_ARGUMENT,
                concat("an alignment of ", alignment, " was asked for; it must be a power of two from 8 to ", max_alignment));
  if (alignment != usual_alignment) {
    keys_.push_back({std::string(alignment_key), ValueType::u32, {}});
    append_value(keys_.back().value, alignment);
  }
}

void Writer::require(Stage stage, std::string_view action) const {
  if (stage_ != stage) throw Error(QUERN_INVALID_ARGUMENT, concat(path_, ": ", action, " came out of turn while a GGUF file was written"));
}

void Writer::put(std::string_view key, ValueType type, std::vector<std::byte> value) {
  require(Stage::declaring, "a key");
  if (key.empty() || key.size() > max_key)
    throw refused("key", key, concat("its name has ", key.size(), " bytes; 1 to ", max_key, " are read"));
  if (key == alignment_key) throw refused("key", key, "the writer sets it from its own alignment");
  if (const auto at = std::ranges::find(keys_, key, &Key::name); at != keys_.end()) {
    at->type = type;
    at->value = std::move(value);
    return;
  }
  if (keys_.size() == max_keys) throw refused("key", key, concat("a file has ", max_keys, " keys at most"));
  keys_.push_back({std::string(key), type, std::move(value)});
}

void Writer::put_array(std::string_view key, ValueType element, std::uint64_t count, std::span<const std::byte> elements) {
  std::vector<std::byte> value;
  append_value(value, static_cast<std::uint32_t>(element));
  append_value(value, count);
  append_bytes(value, elements);
  put(key, ValueType::array, std::move(value));
}

void Writer::string(std::string_view key, std::string_view value) {
  std::vector<std::byte> bytes;
  append_string(bytes, value);
  put(key, ValueType::string, std::move(bytes));
}

void Writer::strings(std::string_view key, std::span<const std::string> values) {
  std::size_t bytes = 0;
  for (const std::string& value : values) bytes += sizeof(std::uint64_t) + value.size();
  std::vector<std::byte> elements;
  elements.reserve(bytes);
  for (const std::string& value : values) append_string(elements, value);
  put_array(key, ValueType::string, values.size(), elements);
}

void Writer::booleans(std::string_view key, const std::vector<bool>& values) {
  std::vector<std::byte> elements;
  for (const bool value : values) elements.push_back(std::byte{value});
  put_array(key, ValueType::boolean, values.size(), elements);
}

void Writer::copy(const File& file, std::string_view key) {
  const std::span<const std::byte> value = file.value_bytes(key);
  put(key, *file.type_of(key), {value.begin(), value.end()});
}

void Writer::copy_keys(const File& file) {
  for (const std::string_view key : file.keys())
    if (key != alignment_key && !key.starts_with("split.")) copy(file, key);
}

void Writer::remove(std::string_view key) {
  require(Stage::declaring, "a key");
  std::erase_if(keys_, [&](const Key& one) { return one.name == key && key != alignment_key; });
}

void Writer::tensor(std::string name, std::vector<std::uint64_t> dims, quern_dtype dtype) {
  require(Stage::declaring, "a tensor");
  if (name.empty() || name.size() > max_tensor_name)
    throw refused("tensor", name, concat("its name has ", name.size(), " bytes; 1 to ", max_tensor_name, " are read"));
  if (dims.empty() || dims.size() > 4) throw refused("tensor", name, concat("it has ", dims.size(), " dimensions; 1 to 4 are read"));
  if (tensors_.size() == max_tensors) throw refused("tensor", name, concat("a file has ", max_tensors, " tensors at most"));
  TensorInfo info;
  info.name = std::move(name);
  info.n_dims = static_cast<std::uint32_t>(dims.size());
  std::ranges::copy(dims, info.dims);
  info.dtype = dtype;
  info.ggml_type = ggml_type_of(dtype);
  info.bytes = tensor_bytes(info, *find_ggml_type(info.ggml_type));
  tensors_.push_back(std::move(info));
}

std::vector<std::byte> Writer::head(std::span<const TensorInfo> tensors) const {
  std::vector<std::byte> bytes;
  append_bytes(bytes, std::as_bytes(std::span("GGUF", 4)));
  append_value(bytes, version);
  append_value(bytes, std::uint64_t{tensors.size()});
  append_value(bytes, std::uint64_t{keys_.size()});
  for (const Key& key : keys_) {
    append_string(bytes, key.name);
    append_value(bytes, static_cast<std::uint32_t>(key.type));
    append_bytes(bytes, key.value);
  }
  for (const TensorInfo& info : tensors) {
    append_string(bytes, info.name);
    append_value(bytes, info.n_dims);
    for (std::uint32_t i = 0; i < info.n_dims; ++i) append_value(bytes, info.dims[i]);
    append_value(bytes, info.ggml_type);
    append_value(bytes, info.offset);
  }
  bytes.resize(align(bytes.size(), alignment_));
  return bytes;
}

std::vector<std::byte> Writer::bytes_of_keys() const { return head({}); }

void Writer::begin(const std::string& path) {
  require(Stage::declaring, "the start");
  path_ = path;
  std::vector<std::string_view> names;
  for (const TensorInfo& info : tensors_) names.emplace_back(info.name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) throw refused("tensor", *twice, "it is there twice");
  std::uint64_t end = 0;  // of the tensors so far, from the start of the data
  for (TensorInfo& info : tensors_) {
    info.offset = align(end, alignment_);
    if (info.bytes > static_cast<std::uint64_t>(INT64_MAX) / 2 - info.offset)
      throw refused("tensor", info.name, "the file would be too large");
    end = info.offset + info.bytes;
  }
  const std::vector<std::byte> bytes = head(tensors_);
  for (TensorInfo& info : tensors_) info.offset += bytes.size();
  check_written(base::NewFile::create(path, file_));
  check_written(file_.reserve(bytes.size() + align(end, alignment_)));
  check_written(file_.append(bytes));
  at_ = bytes.size();
  stage_ = Stage::appending;
}

void Writer::fill_up() {
  const std::vector<std::byte> zeros(static_cast<std::size_t>(align(at_, alignment_) - at_));
  check_written(file_.append(zeros));
  at_ += zeros.size();
}

void Writer::append(std::span<const std::byte> bytes) {
  require(Stage::appending, "bytes");
  while (!bytes.empty()) {
    if (current_ == tensors_.size())
      throw Error(QUERN_INVALID_ARGUMENT, concat(path_, ": ", bytes.size(), " bytes more were to be written than the tensors have"));
    const std::uint64_t piece = std::min<std::uint64_t>(bytes.size(), tensors_[current_].bytes - done_);
    check_written(file_.append(bytes.first(static_cast<std::size_t>(piece))));
    bytes = bytes.subspan(static_cast<std::size_t>(piece));
    at_ += piece;
    done_ += piece;
    if (done_ < tensors_[current_].bytes) continue;
    fill_up();
    ++current_;
    done_ = 0;
  }
}

void Writer::commit() {
  require(Stage::appending, "the end");
  if (current_ < tensors_.size())
    throw Error(QUERN_INVALID_ARGUMENT, concat(path_, ": the bytes of ", tensors_.size() - current_, " tensors were not written"));
  stage_ = Stage::done;
  check_written(file_.commit());
}

}  // namespace quern::gguf
