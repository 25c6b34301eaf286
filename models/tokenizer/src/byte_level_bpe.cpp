// Byte-level BPE: bytes merge into tokens, the pair of the lowest rank first.
//
// A piece of n bytes takes n log n: the pairs wait in a heap, and an entry whose pair has changed since is
// dropped when it comes up. A byte that no token spells adds nothing, as in the models' own tokenizer; its
// neighbours then touch.
#include "byte_level_bpe.hpp"

#include "byte_alphabet.hpp"
#include "nfc.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>

namespace quern::tokenizer {
namespace {

constexpr std::uint32_t none = UINT32_MAX;

struct Symbol {
  std::int32_t id;  // -1 once merged into its left neighbour
  std::uint32_t previous, next;
  std::uint32_t byte;  // of the piece: its first one
};

struct Candidate {
  std::uint64_t order;  // rank, then place: the smallest first
  std::int32_t left, right;

  static bool later(const Candidate& a, const Candidate& b) noexcept { return a.order > b.order; }
  std::uint32_t place() const noexcept { return static_cast<std::uint32_t>(order); }
  std::uint32_t rank() const noexcept { return static_cast<std::uint32_t>(order >> 32); }
};

PreTokenizer require_pre_tokenizer(std::string_view name) {
  if (const auto known = find_pre_tokenizer(name)) return *known;
  const std::string found = name.empty() ? "is missing or empty" : concat("is ", in_quotes(name, 48), ", which is not known here");
  throw Error(QUERN_UNSUPPORTED, concat("tokenizer.ggml.pre ", found, "; known are ", known_pre_tokenizers(),
                                        "; another rule would give other tokens than the model was trained with"));
}

// True if the token stands for the bytes that its text spells: markers are spelled plainly, which differs
// beyond ASCII.
bool spells_bytes(const Vocabulary& vocabulary, std::int32_t id) noexcept {
  if (vocabulary.is_marker(id)) return false;
  if (vocabulary.type(id) == TokenType::normal) return true;
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  return vocabulary.type(id) == TokenType::user_defined && std::ranges::all_of(vocabulary.text(id), is_ascii);
}

}  // namespace

struct ByteLevelBpe::Scratch {
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::string spelled;
};

ByteLevelBpe::ByteLevelBpe(const Vocabulary& vocabulary, const VocabularyView& view)
    : vocabulary_(vocabulary), pre_tokenizer_(require_pre_tokenizer(view.pre_tokenizer)), merges_(vocabulary, view.merges) {
  if (!view.scores.empty() && view.scores.size() != view.tokens.size())
    throw Error(QUERN_BAD_MODEL, concat(field::scores, " has ", view.scores.size(), " entries for ", view.tokens.size(), " tokens"));
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::int32_t id = vocabulary.find(spell_byte(static_cast<unsigned char>(byte)));
    byte_ids_[byte] = id >= 0 && spells_bytes(vocabulary, id) ? id : -1;
  }
}

void ByteLevelBpe::encode(std::string_view text, std::span<const TextRange> /*foreign*/, std::uint64_t most, const TokenSink& found) const {
  std::string normalised;
  std::vector<std::size_t> origins;  // of each byte of `normalised`; empty where it is the text itself
  if (pre_tokenizer_.nfc && !is_trivially_nfc(text)) {
    normalised = found.places == nullptr ? normalise_nfc(text) : normalise_nfc(text, origins);
    text = normalised;
  }
  Scratch scratch;
  PieceReader pieces(pre_tokenizer_, text);
  for (std::string_view piece = pieces.next(); !piece.empty() && found.ids.size() <= most; piece = pieces.next()) {
    encode_piece(piece, scratch);
    const auto start = static_cast<std::size_t>(piece.data() - text.data());
    for (std::uint32_t place = 0; place < scratch.symbols.size(); place = scratch.symbols[place].next) {
      const std::size_t byte = start + scratch.symbols[place].byte;
      found.add(scratch.symbols[place].id, origins.empty() ? byte : origins[byte]);
    }
  }
}

std::int32_t ByteLevelBpe::whole_token(std::string_view piece, Scratch& scratch) const {
  if (piece.size() > vocabulary_.longest()) return -1;
  scratch.spelled.clear();
  for (const char c : piece) scratch.spelled += spell_byte(static_cast<unsigned char>(c));
  const std::int32_t id = vocabulary_.find(scratch.spelled);
  return id >= 0 && spells_bytes(vocabulary_, id) ? id : -1;
}

void ByteLevelBpe::encode_piece(std::string_view piece, Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  if (pre_tokenizer_.ignore_merges) {
    if (const std::int32_t id = whole_token(piece, scratch); id >= 0) {
      symbols.push_back({id, none, none, 0});
      return;
    }
  }
  auto& heap = scratch.heap;
  heap.clear();
  for (std::uint32_t byte = 0; byte < piece.size(); ++byte) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(piece[byte])];
    const auto place = static_cast<std::uint32_t>(symbols.size());
    if (id >= 0) symbols.push_back({id, place - 1, place + 1, byte});  // the first one's previous is none
  }
  if (symbols.empty()) return;
  symbols.back().next = none;

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
    if (left.id != best.left || left.next == none || symbols[left.next].id != best.right) continue;
    symbols[left.next].id = -1;
    left.id = merges_.merged(best.rank());
    left.next = symbols[left.next].next;
    if (left.next != none) {
      symbols[left.next].previous = best.place();
      push(best.place());
    }
    if (left.previous != none) push(left.previous);
  }
}

void ByteLevelBpe::append_bytes(std::int32_t id, std::string& out) const {
  const std::string_view text = vocabulary_.text(id);
  const TokenType type = vocabulary_.type(id);
  if (type == TokenType::byte) {
    out += static_cast<char>(vocabulary_.byte_of(id));
  } else if (type != TokenType::normal || !append_spelled_bytes(text, out)) {
    out += text;  // markers are spelled plainly
  }
}

}  // namespace quern::tokenizer
