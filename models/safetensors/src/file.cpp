// The open file: its tensors, and their bytes when they are asked for.
#include "header.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/models/floats.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace quern::safetensors {

struct File::Contents {
  std::string name;
  base::OpenedFile file;             // no descriptor for bytes in memory
  std::span<const std::byte> bytes;  // of memory
  std::uint64_t size = 0;
  Header header;

  void read(std::uint64_t offset, std::span<std::byte> to) const {
    if (file.descriptor.get() >= 0) check_read(base::read_at(file.descriptor.get(), name, offset, to));
    else if (!to.empty()) std::memcpy(to.data(), bytes.data() + offset, to.size());
  }

  void read_header() {
    if (size < 8) throw Error(QUERN_BAD_MODEL, concat(name, ": has ", size, " bytes, too few for a safetensors file"));
    std::uint64_t length = 0;
    read(0, std::as_writable_bytes(std::span(&length, 1)));
    if (length > most_header_bytes)
      throw Error(QUERN_BAD_MODEL, concat(name, ": the header's length is ", length, " bytes; at most ", most_header_bytes,
                                          " are read, so this is probably not a safetensors file"));
    if (length > size - 8)
      throw Error(QUERN_BAD_MODEL, concat(name, ": the header's length is ", length, " bytes, but the file has ", size,
                                          "; the download is probably incomplete"));
    std::string text(static_cast<std::size_t>(length), '\0');
    read(8, std::as_writable_bytes(std::span(text)));
    header = parse_header(text, size - 8 - length, name);
  }
};

File::File(std::unique_ptr<Contents> contents) noexcept : contents_(std::move(contents)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

File File::open(const std::string& path) {
  auto contents = std::make_unique<Contents>();
  contents->name = path;
  check_read(base::open_file(path, contents->file));
  contents->size = static_cast<std::uint64_t>(std::max<off_t>(contents->file.status.st_size, 0));
  contents->read_header();
  return File(std::move(contents));
}

File File::from_memory(std::span<const std::byte> bytes, std::string name) {
  auto contents = std::make_unique<Contents>();
  contents->name = std::move(name);
  contents->bytes = bytes;
  contents->size = bytes.size();
  contents->read_header();
  return File(std::move(contents));
}

const std::string& File::name() const noexcept { return contents_->name; }
const std::map<std::string, std::string>& File::metadata() const noexcept { return contents_->header.metadata; }
const std::vector<TensorInfo>& File::tensors() const noexcept { return contents_->header.tensors; }

const TensorInfo* File::find(std::string_view tensor) const noexcept {
  const Header& header = contents_->header;
  const auto name_at = [&](std::uint32_t i) { return std::string_view(header.tensors[i].name); };
  const auto at = std::ranges::lower_bound(header.by_name, tensor, {}, name_at);
  return at != header.by_name.end() && name_at(*at) == tensor ? &header.tensors[*at] : nullptr;
}

const TensorInfo& File::require(std::string_view tensor) const {
  const TensorInfo* info = find(tensor);
  if (info == nullptr) throw Error(QUERN_NOT_FOUND, concat(name(), ": tensor ", in_quotes(tensor), " is missing"));
  return *info;
}

std::vector<std::byte> File::read_bytes(const TensorInfo& tensor) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes));
  contents_->read(tensor.offset, bytes);
  return bytes;
}

std::vector<float> File::read_f32(const TensorInfo& tensor) const {
  const quern_dtype type = float_type(tensor.dtype);
  if (type == QUERN_DTYPE_NONE)
    throw Error(QUERN_UNSUPPORTED, concat(name(), ": tensor ", in_quotes(tensor.name), ": is of type ", name_of(tensor.dtype),
                                          "; F32, F16 and BF16 are read as numbers"));
  return models::decode_floats(type, read_bytes(tensor));
}

Error File::bad_tensor(std::string_view tensor, std::string_view text) const {
  return Error(QUERN_BAD_MODEL, concat(name(), ": tensor ", in_quotes(tensor), ": ", text));
}

}  // namespace quern::safetensors
