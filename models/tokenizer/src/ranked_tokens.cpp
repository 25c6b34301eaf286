// Ranked tokens as merges.
#include "quern/models/ranked_tokens.hpp"

#include "byte_alphabet.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"
#include "quern/models/string_hash.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quern {
namespace {

using tokenizer::hash_bytes;

// The longest tokens of published vocabularies have 128 bytes, and all of one together less than 2 MiB.
constexpr std::size_t most_token_bytes = 256, most_bytes = std::size_t{4} << 20;

constexpr std::uint32_t none = UINT32_MAX;

std::string spelled(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += tokenizer::spell_byte(static_cast<unsigned char>(c));
  return text;
}

/// Ranks by bytes.
class RankTable {
 public:
  explicit RankTable(std::span<const std::string> tokens) : tokens_(tokens), slots_(std::bit_ceil(2 * tokens.size() + 1)) {
    for (std::uint32_t rank = 0; rank < tokens.size(); ++rank) {
      if (tokens[rank].empty()) continue;
      const std::uint64_t hash = hash_bytes(tokens[rank], seed_);
      Slot& slot = slot_of(tokens[rank], hash);
      if (slot.rank != none)
        throw Error(QUERN_BAD_MODEL, concat("ranks ", slot.rank, " and ", rank, " are both ", in_quotes(spelled(tokens[rank]), 48)));
      slot = {tag_of(hash), rank};
      if (tokens[rank].size() == 2) pairs_[pair_of(tokens[rank])] = rank;
    }
  }
  std::uint32_t rank(std::string_view bytes) {
    if (bytes.size() == 2) return pairs_[pair_of(bytes)];
    return bytes.size() > most_token_bytes ? none : slot_of(bytes, hash_bytes(bytes, seed_)).rank;
  }

 private:
  static std::size_t pair_of(std::string_view bytes) noexcept {
    return std::size_t{static_cast<unsigned char>(bytes[0])} << 8 | static_cast<unsigned char>(bytes[1]);
  }
  /// Most look-ups find nothing: with a part of the hash in the slot, they read no token.
  struct Slot {
    std::uint32_t tag = 0, rank = none;
  };
  static std::uint32_t tag_of(std::uint64_t hash) noexcept { return static_cast<std::uint32_t>(hash >> 32); }
  Slot& slot_of(std::string_view bytes, std::uint64_t hash) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at].rank != none && (slots_[at].tag != tag_of(hash) || tokens_[slots_[at].rank] != bytes)) at = (at + 1) & mask;
    return slots_[at];
  }

  std::span<const std::string> tokens_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> pairs_ = std::vector<std::uint32_t>(std::size_t{1} << 16, none);  // half of all look-ups are of two bytes
  std::uint64_t seed_ = tokenizer::process_seed();
};

/// Where the last merge of these bytes cuts them; nothing where they do not become one token.
class Splitter {
 public:
  explicit Splitter(RankTable& ranks) : ranks_(ranks) {}

  std::optional<std::size_t> last_cut(std::string_view bytes) {
    starts_.clear();
    for (std::size_t at = 0; at <= bytes.size(); ++at) starts_.push_back({at, none});
    for (std::size_t i = 0; i + 2 < starts_.size(); ++i) update(bytes, i);
    while (starts_.size() > 3) {
      const auto best = std::ranges::min_element(starts_, {}, &Start::rank);
      if (best->rank == none) return std::nullopt;
      const auto i = static_cast<std::size_t>(best - starts_.begin());
      starts_.erase(best + 1);
      update(bytes, i);
      if (i > 0) update(bytes, i - 1);
    }
    return starts_[0].rank == none ? std::nullopt : std::optional(starts_[1].at);
  }

 private:
  struct Start {
    std::size_t at;
    std::uint32_t rank;  // of the part that begins here and the next one together
  };
  void update(std::string_view bytes, std::size_t i) {
    starts_[i].rank = i + 2 < starts_.size() ? ranks_.rank(bytes.substr(starts_[i].at, starts_[i + 2].at - starts_[i].at)) : none;
  }

  RankTable& ranks_;
  std::vector<Start> starts_;  // of the parts, and the end
};

void check(std::span<const std::string> tokens) {
  std::size_t total = 0;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    total += tokens[rank].size();
    if (tokens[rank].size() > most_token_bytes)
      throw Error(QUERN_BAD_MODEL,
                  concat("the token of rank ", rank, " has ", tokens[rank].size(), " bytes; at most ", most_token_bytes, " are read"));
  }
  if (total > most_bytes)
    throw Error(QUERN_BAD_MODEL, concat("the tokens have ", total, " bytes together; at most ", most_bytes, " are read"));
}

}  // namespace

RankedBpe bpe_of_ranks(std::span<const std::string> tokens) {
  check(tokens);
  RankTable ranks(tokens);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<char>(byte);
    if (ranks.rank({&value, 1}) == none)
      throw Error(QUERN_BAD_MODEL, concat("has no token for byte ", byte, ", so that some texts have none"));
  }
  Splitter splitter(ranks);
  RankedBpe made;
  made.texts.reserve(tokens.size());
  made.merges.reserve(tokens.size());
  for (const std::string& token : tokens) {
    made.texts.push_back(spelled(token));
    if (token.size() < 2) continue;
    const std::string_view bytes = token;
    if (const auto cut = splitter.last_cut(bytes))
      made.merges.push_back(concat(spelled(bytes.substr(0, *cut)), " ", spelled(bytes.substr(*cut))));
  }
  return made;
}

}  // namespace quern
