// The merges of a byte-level BPE vocabulary: which pairs of tokens join, into what, and which pair goes
// first.
#pragma once

#include "vocabulary.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

class MergeTable {
 public:
  struct Merge {
    std::int32_t left = -1, right = -1;
    std::int32_t merged = -1;
  };

  /// A merge is two tokens with a space between them, or with a NUL where one of them has a space. What it makes is both together, without
  /// the `prefix` that the right one starts with. Throws Error(QUERN_BAD_MODEL) for a merge that is something else, or whose
  /// tokens or result are not in the vocabulary. Of a pair that is listed twice the later rank counts, as in
  /// the trainers' own library.
  MergeTable(const Vocabulary& vocabulary, std::span<const std::string_view> merges, std::string_view prefix = {});

  static constexpr std::uint32_t none = UINT32_MAX;
  /// The rank of the merge of two tokens, the lowest of which is applied first; none if they do not join.
  std::uint32_t rank(std::int32_t left, std::int32_t right) const noexcept;
  /// What the merge of this rank makes.
  std::int32_t merged(std::uint32_t rank) const noexcept { return merges_[rank].merged; }

 private:
  // Small, because nearly every look-up reads a slot that is not in the cache.
  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t rank = none;
  };
  std::uint64_t hash(std::int32_t left, std::int32_t right) const noexcept;
  void resolve(const Vocabulary& vocabulary, std::span<const std::string_view> merges, std::string_view prefix);
  void index(const Vocabulary& vocabulary);

  std::vector<Merge> merges_;  // by rank
  std::vector<Slot> slots_;    // a power of two, at most two thirds full
  std::uint64_t seed_;
};

}  // namespace quern::tokenizer
