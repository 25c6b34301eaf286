// Byte-pair encoding.
//
// A piece of n bytes takes n log n: the pairs wait in a heap, and an entry whose pair has changed since is
// dropped when it comes up. A byte that no token spells adds nothing, as in the models' own tokenizer; its
// neighbours then touch.
#include "bpe.hpp"

#include "byte_alphabet.hpp"
#include "unicode.hpp"

#include "quern/graph/error.hpp"

#include <utility>

namespace quern::tokenizer {
namespace {

constexpr std::uint32_t no_symbol = UINT32_MAX;

// True if the token stands for the bytes that its text spells: markers are spelled plainly, which differs
// beyond ASCII.
bool spells_bytes(const Vocabulary& vocabulary, std::int32_t id) noexcept {
  if (vocabulary.is_marker(id)) return false;
  if (vocabulary.type(id) == TokenType::normal) return true;
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  return vocabulary.type(id) == TokenType::user_defined && std::ranges::all_of(vocabulary.text(id), is_ascii);
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, BpeOptions options, std::span<const std::string_view> merges)
    : vocabulary_(vocabulary), options_(std::move(options)), merges_(vocabulary, merges, options_.prefix) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<unsigned char>(byte);
    if (options_.bytes) {
      const std::int32_t id = vocabulary.find(spell_byte(value));
      byte_ids_[byte] = id >= 0 && spells_bytes(vocabulary, id) ? id : -1;
    } else {
      byte_ids_[byte] = vocabulary.find(byte_name(value));
    }
  }
}

std::int32_t Bpe::spelled_token(std::string_view text) const noexcept {
  const std::int32_t id = vocabulary_.find(text);
  return id >= 0 && vocabulary_.is_of_model(id) ? id : -1;
}

void Bpe::encode(std::string_view piece, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  if (options_.ignore_merges) {
    const std::int32_t id = options_.bytes ? whole_token(piece, scratch.spelled) : spelled_token(piece);
    if (id >= 0) {
      symbols.push_back({id, no_symbol, no_symbol, 0});
      return;
    }
  }
  if (options_.bytes) add_bytes(piece, symbols);
  else add_characters(piece, scratch);
  if (symbols.empty()) return;
  symbols.back().next = no_symbol;
  merge(scratch);
}

std::int32_t Bpe::whole_token(std::string_view piece, std::string& spelled) const {
  if (piece.size() > vocabulary_.longest()) return -1;
  spelled.clear();
  for (const char c : piece) spelled += spell_byte(static_cast<unsigned char>(c));
  const std::int32_t id = vocabulary_.find(spelled);
  return id >= 0 && spells_bytes(vocabulary_, id) ? id : -1;
}

void Bpe::add_bytes(std::string_view piece, std::vector<Symbol>& symbols) const {
  for (std::uint32_t byte = 0; byte < piece.size(); ++byte) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(piece[byte])];
    const auto place = static_cast<std::uint32_t>(symbols.size());
    if (id >= 0) symbols.push_back({id, place - 1, place + 1, byte});  // the first one's previous is none
  }
}

/// All bytes of a character, or none where one of them has no token.
bool Bpe::add_byte_tokens(std::string_view text, std::uint32_t byte, std::vector<Symbol>& symbols) const {
  const auto id_of = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  if (!std::ranges::all_of(text, [&](char c) { return id_of(c) >= 0; })) return false;
  for (const char c : text) {
    const auto place = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({id_of(c), place - 1, place + 1, byte});
  }
  return true;
}

void Bpe::add_characters(std::string_view piece, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  bool after_unknown = false;
  const auto add = [&](std::int32_t id, std::size_t byte) {
    const auto place = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({id, place - 1, place + 1, static_cast<std::uint32_t>(byte)});
  };
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t end = at + decode_char(piece, at).length;
    std::string_view text = piece.substr(at, end - at);
    if ((at > 0 && !options_.prefix.empty()) || (end == piece.size() && !options_.suffix.empty())) {
      scratch.spelled = at > 0 ? options_.prefix : std::string();
      scratch.spelled += text;
      if (end == piece.size()) scratch.spelled += options_.suffix;
      text = scratch.spelled;
    }
    if (const std::int32_t id = spelled_token(text); id >= 0) {
      add(id, at);
      after_unknown = false;
    } else if (options_.byte_fallback && add_byte_tokens(text, static_cast<std::uint32_t>(at), symbols)) {
      // An unknown character in front of them stays open for the next one, as in the package tokenizers.
    } else if (options_.unknown >= 0) {
      if (!(after_unknown && options_.fuse_unknown)) add(options_.unknown, at);
      after_unknown = true;
    }
    at = end;
  }
}

void Bpe::merge(Scratch& scratch) const {
  using Candidate = Scratch::Candidate;
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  const auto candidate = [&](std::uint32_t place, Candidate& made) {
    const std::int32_t left = symbols[place].id, right = symbols[symbols[place].next].id;
    const std::uint32_t rank = merges_.rank(left, right);
    made = {std::uint64_t{rank} << 32 | place, left, right};
    return rank != MergeTable::none;
  };
  Candidate made{};
  for (std::uint32_t place = 0; place + 1 < symbols.size(); ++place)
    if (candidate(place, made)) heap.push_back(made);
  std::ranges::make_heap(heap, Candidate::later);
  const auto push = [&](std::uint32_t place) {
    if (!candidate(place, made)) return;
    heap.push_back(made);
    std::ranges::push_heap(heap, Candidate::later);
  };

  while (!heap.empty()) {
    std::ranges::pop_heap(heap, Candidate::later);
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = symbols[best.place()];
    if (left.id != best.left || left.next == no_symbol || symbols[left.next].id != best.right) continue;
    symbols[left.next].id = -1;
    left.id = merges_.merged(best.rank());
    left.next = symbols[left.next].next;
    if (left.next != no_symbol) {
      symbols[left.next].previous = best.place();
      push(best.place());
    }
    if (left.previous != no_symbol) push(left.previous);
  }
}

}  // namespace quern::tokenizer
