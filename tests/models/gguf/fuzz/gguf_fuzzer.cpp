// Fuzzes the reader: one file from memory, one file mapped, and two files as the shards of a model.
//
// An input that starts with "SPLT" is two shards: four bytes of length, the first shard, the rest is the
// second. Any other input is a file as it is. A refusal is an Error(QUERN_BAD_MODEL); anything else that
// leaves the reader is a bug.
#include "../walk.hpp"

#include "quern/models/gguf.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <unistd.h>

namespace {

using quern::gguf::File;

/// A directory for one input, in memory where the system has one. It goes with the input, because libFuzzer
/// leaves without running destructors of statics.
class Scratch {
 public:
  Scratch() {
    const std::filesystem::path shared = "/dev/shm";
    const auto base = std::filesystem::exists(shared) ? shared : std::filesystem::temp_directory_path();
    path_ = base / ("quern_gguf_fuzz_" + std::to_string(::getpid()));
    std::filesystem::create_directories(path_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string write(const char* name, const std::uint8_t* data, std::size_t size) const {
    const auto path = path_ / name;
    std::ofstream(path, std::ios::binary | std::ios::trunc).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

template <typename Open>
void read_or_refuse(Open open) {
  try {
    quern::test::walk(open());
  } catch (const quern::Error& error) {
    if (error.code() != QUERN_BAD_MODEL && error.code() != QUERN_NOT_FOUND) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Scratch scratch;
  if (size >= 8 && std::memcmp(data, "SPLT", 4) == 0) {
    std::uint32_t length;
    std::memcpy(&length, data + 4, 4);
    const std::size_t first = std::min<std::size_t>(length, size - 8);
    const std::string path = scratch.write("m-00001-of-00002.gguf", data + 8, first);
    scratch.write("m-00002-of-00002.gguf", data + 8 + first, size - 8 - first);
    read_or_refuse([&] { return File::open(path); });
    return 0;
  }
  read_or_refuse([&] { return File::from_memory({reinterpret_cast<const std::byte*>(data), size}, "memory"); });
  const std::string path = scratch.write("whole.gguf", data, size);
  read_or_refuse([&] { return File::open(path); });
  return 0;
}
