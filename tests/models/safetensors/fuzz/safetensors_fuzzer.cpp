// Fuzzes the reader of safetensors files. A file that opens has each of its tensors read; its bytes lie within the input, and none is
// there twice. A refusal is an Error(QUERN_BAD_MODEL); anything else that leaves the reader is a bug.
#include "quern/models/safetensors.hpp"

#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using quern::safetensors::File;
  try {
    const File file = File::from_memory(std::as_bytes(std::span(data, size)), "memory");
    std::uint64_t bytes = 0;
    for (const auto& info : file.tensors()) {
      if (file.read_bytes(info).size() != info.bytes || file.find(info.name) != &info) std::abort();
      bytes += info.bytes;
      if (quern::safetensors::float_type(info.dtype) != QUERN_DTYPE_NONE && file.read_f32(info).size() != info.elements()) std::abort();
    }
    if (bytes > size) std::abort();
  } catch (const quern::Error& error) {
    if (error.code() != QUERN_BAD_MODEL) std::abort();
  }
  return 0;
}
