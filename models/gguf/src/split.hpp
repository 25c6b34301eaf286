// Models split into shards "name-00001-of-00003.gguf", each a GGUF file with the keys split.no, split.count
// and split.tensors.count.
#pragma once

#include "contents.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::gguf {

constexpr std::uint64_t max_shards = 1024;

/// "dir/name-00002-of-00003.gguf": stem "dir/name", no 2, count 3.
struct ShardName {
  std::string stem;
  std::uint64_t no = 0;
  std::uint64_t count = 0;
};

/// Nothing if `path` does not end as a shard's name does.
std::optional<ShardName> parse_shard_name(std::string_view path);

/// The path of shard `no`, from 1.
std::string shard_path(const ShardName& name, std::uint64_t no);

/// A model from one file or all of its shards, merged: keys of the first, tensors of all.
struct SplitParts {
  std::vector<Shard> shards;
  std::uint32_t version = 0;
  std::uint64_t file_bytes = 0;
  EntryTable entries;
  std::vector<TensorInfo> tensors;
};

/// Opens `path` and, if it is a shard, all others of its model. Throws Error as File::open does.
SplitParts open_parts(const std::string& path);

/// Throws Error(QUERN_BAD_MODEL) if the keys are those of a shard of several.
void refuse_split(const EntryTable& entries, std::span<const std::byte> bytes, const std::string& name);

}  // namespace quern::gguf
