// The merges of a byte-level BPE vocabulary.
#include "merge_table.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"
#include "quern/models/string_hash.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

namespace quern::tokenizer {
namespace {

constexpr std::size_t block = 64;  // merges whose memory is fetched together

struct Pair {
  std::string_view left, right;
};

[[noreturn]] void refuse(std::size_t index, std::string_view merge, std::string_view why) {
  throw Error(QUERN_BAD_MODEL, concat(field::merges, ": entry ", index, " ", in_quotes(merge, 48), " ", why));
}

Pair parse(std::size_t index, std::string_view merge) {
  const std::size_t nul = merge.find('\0');
  const char between = nul == std::string_view::npos ? ' ' : '\0';
  const std::size_t space = nul == std::string_view::npos ? merge.find(' ') : nul;
  if (space == std::string_view::npos || space == 0 || space + 1 == merge.size() ||
      merge.find(between, space + 1) != std::string_view::npos)
    refuse(index, merge, "is not two tokens with one space between them");
  return {merge.substr(0, space), merge.substr(space + 1)};
}

std::int32_t require(std::int32_t id, std::size_t index, std::string_view merge, std::string_view token) {
  if (id < 0) refuse(index, merge, concat("names ", in_quotes(token, 48), ", which is not in ", field::tokens));
  return id;
}

bool is_joined(std::string_view whole, const Pair& pair) noexcept {
  return whole.size() == pair.left.size() + pair.right.size() && whole.starts_with(pair.left) && whole.ends_with(pair.right);
}

}  // namespace

MergeTable::MergeTable(const Vocabulary& vocabulary, std::span<const std::string_view> merges, std::string_view prefix)
    : seed_(process_seed()) {
  if (merges.size() > max_merges)
    throw Error(QUERN_BAD_MODEL, concat(field::merges, " has ", merges.size(), " entries; at most ", max_merges, " are accepted"));
  resolve(vocabulary, merges, prefix);
  index(vocabulary);
}

void MergeTable::resolve(const Vocabulary& vocabulary, std::span<const std::string_view> merges, std::string_view prefix) {
  merges_.resize(merges.size());
  std::array<std::string_view, 2 * block> texts;
  std::array<std::int32_t, 2 * block> ids;
  std::string joined;
  std::int32_t guess = 0;
  for (std::size_t first = 0; first < merges.size(); first += block) {
    const std::size_t count = std::min(block, merges.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const Pair pair = parse(first + i, merges[first + i]);
      texts[2 * i] = pair.left;
      texts[2 * i + 1] = pair.right;
    }
    vocabulary.find_all(std::span(texts).first(2 * count), ids);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view merge = merges[first + i];
      const Pair pair{texts[2 * i], texts[2 * i + 1]};
      const std::int32_t left = require(ids[2 * i], first + i, merge, pair.left);
      const std::int32_t right = require(ids[2 * i + 1], first + i, merge, pair.right);
      const std::string_view continuing = pair.right.starts_with(prefix) ? pair.right.substr(prefix.size()) : pair.right;
      // Trainers number tokens in the order of their merges, so the next id is nearly always right and saves
      // a look-up.
      std::int32_t merged = guess;
      if (!vocabulary.contains(guess) || !is_joined(vocabulary.text(guess), {pair.left, continuing})) {
        joined.assign(pair.left).append(continuing);
        merged = require(vocabulary.find(joined), first + i, merge, joined);
      }
      guess = merged + 1;
      merges_[first + i] = {left, right, merged};
    }
  }
}

void MergeTable::index(const Vocabulary& vocabulary) {
  slots_.resize(std::bit_ceil(merges_.size() + merges_.size() / 2 + 1));
  const std::size_t mask = slots_.size() - 1;
  std::array<std::uint64_t, block> hashes;
  for (std::size_t first = 0; first < merges_.size(); first += block) {
    const std::size_t count = std::min(block, merges_.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      hashes[i] = hash(merges_[first + i].left, merges_[first + i].right);
      __builtin_prefetch(&slots_[hashes[i] & mask], 1);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Merge& merge = merges_[first + i];
      if (vocabulary.is_marker(merge.merged)) continue;  // made of the whole of its text alone
      const auto tag = static_cast<std::uint32_t>(hashes[i] >> 32);
      const auto is_same = [&](const Slot& slot) {
        return slot.tag == tag && merges_[slot.rank].left == merge.left && merges_[slot.rank].right == merge.right;
      };
      std::size_t at = hashes[i] & mask;
      while (slots_[at].rank != none && !is_same(slots_[at])) at = (at + 1) & mask;
      slots_[at] = {tag, static_cast<std::uint32_t>(first + i)};
    }
  }
}

std::uint64_t MergeTable::hash(std::int32_t left, std::int32_t right) const noexcept {
  return hash_pair(static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right), seed_);
}

std::uint32_t MergeTable::rank(std::int32_t left, std::int32_t right) const noexcept {
  const std::uint64_t hashed = hash(left, right);
  const auto tag = static_cast<std::uint32_t>(hashed >> 32);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hashed & mask; slots_[at].rank != none; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.tag == tag && merges_[slot.rank].left == left && merges_[slot.rank].right == right) return slot.rank;
  }
  return none;
}

}  // namespace quern::tokenizer
