// Fuzzes the reader of importance matrices, GGUF's and the older kind. A refusal is an Error(QUERN_BAD_MODEL). What is read has finite
// weights, and is the same when it was written and read.
#include "quern/models/importance.hpp"

#include "support/scratch_folder.hpp"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>

namespace {

using quern::quantize::Importance;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Nothing is refused any more.
void check(const Importance& read, const std::string& path) {
  for (const auto& [name, entry] : read.entries)
    for (const float weight : read.weights(name, entry.sums.size() / entry.counts.size(), entry.counts.size()))
      require(std::isfinite(weight) && weight >= 0);
  read.write(path);
  const Importance again = Importance::read(path);
  require(again.entries.size() == read.entries.size() && again.chunks == read.chunks && again.datasets == read.datasets);
}

/// Sums may leave f32.
void add_to_itself(const Importance& read) {
  Importance twice = read;
  twice.add(read);
  require(twice.entries.size() == read.entries.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const quern::test::ScratchFolder scratch;
  const std::string path = scratch.path("m");
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const Importance read = Importance::read(path);
    try {
      check(read, scratch.path("again"));
    } catch (const quern::Error&) { require(false); }
    add_to_itself(read);
  } catch (const quern::Error& error) { require(error.code() == QUERN_BAD_MODEL); }
  return 0;
}
