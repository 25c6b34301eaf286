// Writes a file aside and renames it.
#include "dtypes.hpp"
#include "header.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace quern::safetensors {
namespace {

/// Later types first, which keeps all aligned, then by name.
bool before(const TensorInfo& a, const TensorInfo& b) { return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name; }

}  // namespace

void Writer::require(Stage stage, std::string_view action) const {
  if (stage_ != stage) throw Error(QUERN_INVALID_ARGUMENT, concat(path_, ": ", action, " came out of turn while tensors were written"));
}

void Writer::metadata(std::string_view key, std::string_view text) {
  require(Stage::declaring, "metadata");
  metadata_[std::string(key)] = text;
}

void Writer::tensor(std::string name, Dtype dtype, std::vector<std::uint64_t> shape) {
  require(Stage::declaring, "a tensor");
  if (name.empty() || name == "__metadata__")
    throw Error(QUERN_INVALID_ARGUMENT, concat("a tensor to write is called ", in_quotes(name), "; the format has no such tensor"));
  const std::optional<std::uint64_t> bytes = byte_count(dtype, shape);
  if (!bytes || shape.size() > most_dimensions)
    throw Error(QUERN_INVALID_ARGUMENT, concat("tensor ", in_quotes(name), ": its shape is more than a file holds"));
  tensors_.push_back({std::move(name), dtype, std::move(shape), 0, *bytes});
}

void Writer::begin(const std::string& path, Order order) {
  require(Stage::declaring, "the start");
  path_ = path;
  if (order == Order::by_type) std::ranges::sort(tensors_, before);
  std::vector<std::string_view> names;
  for (const TensorInfo& info : tensors_) names.emplace_back(info.name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    throw Error(QUERN_INVALID_ARGUMENT, concat(path, ": tensor ", in_quotes(*twice), " is to be written twice"));
  for (TensorInfo& info : tensors_) {
    info.offset = left_;
    if (info.bytes > static_cast<std::uint64_t>(INT64_MAX) - most_header_bytes - 8 - left_)
      throw Error(QUERN_INVALID_ARGUMENT, concat(path, ": the tensors to write are more than a file holds"));
    left_ += info.bytes;
  }
  const std::string header = header_text(metadata_, tensors_);
  if (header.size() > most_header_bytes)
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(path, ": the header takes ", header.size(), " bytes; at most ", most_header_bytes, " are read back"));
  const std::uint64_t length = header.size();
  for (TensorInfo& info : tensors_) info.offset += 8 + length;
  check_written(base::NewFile::create(path, file_));
  check_written(file_.reserve(8 + length + left_));
  check_written(file_.append(std::as_bytes(std::span(&length, 1))));
  check_written(file_.append(header));
  stage_ = Stage::appending;
}

void Writer::append(std::span<const std::byte> bytes) {
  require(Stage::appending, "bytes");
  if (bytes.size() > left_)
    throw Error(QUERN_INVALID_ARGUMENT,
                concat(path_, ": ", bytes.size(), " bytes were to be written, but the tensors have ", left_, " left"));
  check_written(file_.append(bytes));
  left_ -= bytes.size();
}

void Writer::commit() {
  require(Stage::appending, "the end");
  if (left_ != 0) throw Error(QUERN_INVALID_ARGUMENT, concat(path_, ": ", left_, " bytes of the tensors were not written"));
  stage_ = Stage::done;
  check_written(file_.commit());
}

void write(const std::string& path, std::span<const NewTensor> tensors, const std::map<std::string, std::string>& metadata) {
  Writer writer;
  for (const auto& [key, text] : metadata) writer.metadata(key, text);
  std::map<std::string_view, std::span<const std::byte>> bytes;
  for (const NewTensor& tensor : tensors) {
    writer.tensor(tensor.name, tensor.dtype, tensor.shape);
    bytes[tensor.name] = tensor.bytes;
    if (tensor.bytes.size() != byte_count(tensor.dtype, tensor.shape))
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("tensor ", in_quotes(tensor.name), ": ", tensor.bytes.size(), " bytes are not those of its shape"));
  }
  writer.begin(path);
  for (const TensorInfo& info : writer.order()) writer.append(bytes.at(info.name));
  writer.commit();
}

}  // namespace quern::safetensors
