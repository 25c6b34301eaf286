// Fuzzes the reader of safetensors files, in memory and on disk. A file that opens has each of its tensors read; its bytes lie within the
// input, and none is there twice. A refusal is an Error(QUERN_BAD_MODEL), the same one for both; anything else that leaves the reader is a bug.
#include "support/scratch_folder.hpp"

#include "quern/models/floats.hpp"
#include "quern/models/safetensors.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>

namespace {

using quern::Error;
using quern::safetensors::File;
using quern::safetensors::TensorInfo;

void require(bool holds) {
  if (!holds) std::abort();
}

void write(const std::string& path, std::span<const char> bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), std::ssize(bytes));
}

/// f32 from numbers, or a refusal of any other type. What it gives is what the bytes say.
void check_numbers(const File& file, const TensorInfo& info) {
  const quern_dtype type = quern::safetensors::float_type(info.dtype);
  try {
    const std::vector<float> numbers = file.read_f32(info.name);
    require(type != QUERN_DTYPE_NONE && numbers.size() == info.elements());
    require(quern::safetensors::from_float_type(type) == info.dtype);
    const bool are_all_numbers = std::ranges::none_of(numbers, [](float number) { return number != number; });
    if (are_all_numbers) require(quern::models::encode_floats(type, numbers) == file.read_bytes(info));
  } catch (const Error& error) { require(error.code() == QUERN_UNSUPPORTED && type == QUERN_DTYPE_NONE); }
}

void check(const File& file, std::uint64_t most) {
  std::uint64_t bytes = 0;
  for (const TensorInfo& info : file.tensors()) {
    require(file.read_bytes(info).size() == info.bytes && file.find(info.name) == &info);
    bytes += info.bytes;
    check_numbers(file, info);
  }
  require(bytes <= most);
  for (const auto& [key, text] : file.metadata()) require(key.size() + text.size() <= most);
  try {
    file.require("\xff");  // no name: names are UTF-8
    require(false);
  } catch (const Error& error) { require(error.code() == QUERN_NOT_FOUND); }
}

/// "" where the file opened.
template <typename Open>
std::string refusal(std::uint64_t size, const Open& open) {
  try {
    check(open(), size);
    return {};
  } catch (const Error& error) {
    require(error.code() == QUERN_BAD_MODEL);
    return error.what();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const quern::test::ScratchFolder scratch;
  static const std::string path = scratch.path("fuzz.safetensors");
  const std::span<const std::uint8_t> input(data, size);
  write(path, {reinterpret_cast<const char*>(data), size});
  const std::string in_memory = refusal(size, [&] { return File::from_memory(std::as_bytes(input), path); });
  require(refusal(size, [] { return File::open(path); }) == in_memory);
  return 0;
}
