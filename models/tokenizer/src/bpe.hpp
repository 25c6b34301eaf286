// Byte-pair encoding: bytes or characters merge into tokens, the pair of the lowest rank first.
#pragma once

#include "merge_table.hpp"
#include "vocabulary.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

/// A token of a piece, with the first byte of the piece that it stands for.
struct Found {
  std::int32_t id;
  std::uint32_t byte;
};

struct BpeOptions {
  bool bytes = true;           // pieces are bytes, which tokens spell by the byte alphabet; else characters
  bool ignore_merges = false;  // a piece that is a token is taken whole, whatever the merges say
  // Of characters alone:
  bool byte_fallback = false;  // <0xNN> for the bytes of a character that is no token
  bool fuse_unknown = false;   // neighbours that are unknown are one unknown token
  std::int32_t unknown = -1;   // -1: what is unknown adds nothing
  std::string prefix, suffix;  // of characters behind the first, and of the last
};

class Bpe {
 public:
  /// Keeps a reference to `vocabulary`. Throws Error(QUERN_BAD_MODEL) for malformed merges.
  Bpe(const Vocabulary& vocabulary, BpeOptions options, std::span<const std::string_view> merges);

  /// Working memory of encode(), for many pieces.
  struct Scratch;
  /// Leaves the tokens of the piece in `scratch`. Merges make no markers.
  void encode(std::string_view piece, Scratch& scratch) const;

  /// Whether each byte of a text comes back as part of a token.
  bool keeps_every_byte() const noexcept {
    return options_.bytes && std::ranges::all_of(byte_ids_, [](std::int32_t id) { return id >= 0; });
  }

 private:
  struct Symbol;
  std::int32_t whole_token(std::string_view piece, std::string& spelled) const;
  void add_bytes(std::string_view piece, std::vector<Symbol>& symbols) const;
  void add_characters(std::string_view piece, Scratch& scratch) const;
  bool add_byte_tokens(std::string_view text, std::uint32_t byte, std::vector<Symbol>& symbols) const;
  std::int32_t spelled_token(std::string_view text) const noexcept;
  void merge(Scratch& scratch) const;

  const Vocabulary& vocabulary_;
  BpeOptions options_;
  MergeTable merges_;
  std::array<std::int32_t, 256> byte_ids_;  // -1 for a byte that no token spells; of characters: of <0xNN>
};

struct Bpe::Symbol {
  std::int32_t id;  // -1 once merged into its left neighbour
  std::uint32_t previous, next;
  std::uint32_t byte;  // of the piece: its first one
};

struct Bpe::Scratch {
  struct Candidate {
    std::uint64_t order;  // rank, then place: the smallest first
    std::int32_t left, right;

    static bool later(const Candidate& a, const Candidate& b) noexcept { return a.order > b.order; }
    std::uint32_t place() const noexcept { return static_cast<std::uint32_t>(order); }
    std::uint32_t rank() const noexcept { return static_cast<std::uint32_t>(order >> 32); }
  };
  std::vector<Symbol> symbols;  // the first, and those that follow it by `next`, are the tokens
  std::vector<Candidate> heap;
  std::string spelled;

  /// Calls add(id, byte) for each token.
  template <typename Add>
  void each(const Add& add) const {
    for (std::uint32_t place = 0; place < symbols.size(); place = symbols[place].next) add(symbols[place].id, symbols[place].byte);
  }
};

}  // namespace quern::tokenizer
