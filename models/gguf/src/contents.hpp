// What an open File holds.
#pragma once

#include "mapping.hpp"
#include "parse.hpp"

#include "quern/models/gguf.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace quern::gguf {

struct Shard {
  std::string name;
  Mapping mapping;
};

struct File::Contents {
  std::string name;           ///< as given
  std::vector<Shard> shards;  ///< at least one; the keys are those of the first
  std::uint32_t version = 0;
  std::uint64_t file_bytes = 0;
  EntryTable entries;
  std::vector<TensorInfo> tensors;
  std::vector<std::uint32_t> tensors_by_name;
  std::vector<std::byte> made_keys;  ///< of an assembly; its first shard has none
  struct Origin {
    std::uint64_t bytes = 0;
    TensorChange change;
    std::vector<LyingPiece> further;
  };
  std::vector<Note> notes;
  std::vector<Origin> origins;  ///< of an assembly, one for each tensor

  /// Null for a tensor of a GGUF file. `tensor` is one of tensors.
  const Origin* origin_of(const TensorInfo& tensor) const noexcept {
    return origins.empty() ? nullptr : &origins[static_cast<std::size_t>(&tensor - tensors.data())];
  }
  std::span<const std::byte> first_piece(const TensorInfo& tensor) const noexcept {
    const Origin* const origin = origin_of(tensor);
    return shards[tensor.shard].mapping.bytes().subspan(tensor.offset, origin == nullptr ? tensor.bytes : origin->bytes);
  }
  std::span<const std::byte> key_bytes() const noexcept {
    return made_keys.empty() ? shards.front().mapping.bytes() : std::span<const std::byte>(made_keys);
  }
};

/// Fills tensors_by_name. Throws Error(QUERN_BAD_MODEL) if a name is there twice, in one shard or two.
/// (file.cpp)
void index_tensors(const std::vector<Shard>& shards, const std::vector<TensorInfo>& tensors, std::vector<std::uint32_t>& by_name);

}  // namespace quern::gguf
