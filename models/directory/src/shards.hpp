// The safetensors files of a directory: model.safetensors, or the shards that model.safetensors.index.json names.
#pragma once

#include "quern/models/safetensors.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace quern::directory {

struct StoredTensor {
  safetensors::TensorInfo info;
  std::uint32_t file = 0;  // of Shards::files
};

struct Shards {
  std::vector<std::string> files;  // paths
  std::vector<StoredTensor> tensors;
  std::vector<safetensors::File> readers;  // of the files: for small tensors that say how others lie
};

/// Reads the headers of all files. Throws Error as safetensors::File::open does, QUERN_BAD_MODEL for an index that does not fit the files,
/// QUERN_UNSUPPORTED for weights in another form.
Shards read_shards(const std::string& folder);

}  // namespace quern::directory
