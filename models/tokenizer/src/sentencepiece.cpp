// SentencePiece's BPE: characters merge into tokens, the token of the highest score first, the leftmost of
// equals.
//
// A text of n characters takes n log n: pairs wait in a heap, and an entry whose two symbols have changed
// since is dropped when it comes up.
#include "sentencepiece.hpp"

#include "unicode.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace quern::tokenizer {
namespace {

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581, which stands for a space

std::string with_space_marks(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ') {
      out += space_mark;
    } else {
      out += c;
    }
  }
  return out;
}

// User-defined tokens as they look in a normalised text. Converters write some with plain spaces; where both
// spellings are there, the first token keeps the place.
std::vector<Marker> user_defined_markers(const Vocabulary& vocabulary) {
  std::vector<Marker> markers;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.type(id) == TokenType::user_defined && !vocabulary.text(id).empty())
      markers.push_back({with_space_marks(vocabulary.text(id)), id, true, !vocabulary.is_marker(id)});
  std::ranges::stable_sort(markers, {}, &Marker::text);
  const auto rest = std::ranges::unique(markers, {}, &Marker::text);
  markers.erase(rest.begin(), rest.end());
  return markers;
}

std::vector<float> narrowed(std::span<const double> scores) {
  std::vector<float> floats;
  floats.reserve(scores.size());
  for (const double score : scores) floats.push_back(static_cast<float>(score));
  return floats;
}

// All, or none: true if all 256 are there.
bool has_byte_tokens(const Vocabulary& vocabulary) {
  int present = 0, absent = -1;
  for (int byte = 0; byte < 256; ++byte) {
    if (vocabulary.byte_token(static_cast<unsigned char>(byte)) >= 0) {
      ++present;
    } else if (absent < 0) {
      absent = byte;
    }
  }
  if (present > 0 && absent >= 0)
    throw Error(QUERN_BAD_MODEL, concat(field::tokens, " has byte tokens for ", present,
                                        " of 256 bytes; the first that is absent is that of byte ", absent));
  return present == 256;
}

}  // namespace

SentencePiece::SentencePiece(const Vocabulary& vocabulary, const VocabularyView& view)
    : vocabulary_(vocabulary),
      scores_(narrowed(view.scores)),
      user_defined_(user_defined_markers(vocabulary)),
      space_prefix_(view.add_space_prefix.value_or(true)),
      prefix_at_start_only_(view.space_prefix_at_start_only),
      remove_extra_spaces_(view.remove_extra_whitespaces),
      byte_fallback_(has_byte_tokens(vocabulary)) {
  if (view.scores.size() != view.tokens.size())
    throw Error(QUERN_BAD_MODEL, concat(field::scores, " has ", view.scores.size(), " entries for ", view.tokens.size(), " tokens"));
  for (std::size_t id = 0; id < scores_.size(); ++id)
    if (std::isnan(scores_[id])) throw Error(QUERN_BAD_MODEL, concat(field::scores, ": entry ", id, " is not a number"));
  if (!byte_fallback_ && !vocabulary.unknown)
    throw Error(QUERN_BAD_MODEL, concat(field::tokens, " has neither byte tokens nor an unknown token, so that some texts have no tokens"));
}

std::string SentencePiece::normalise(std::string_view text, bool prefixed, std::vector<TextRange>& foreign,
                                     std::vector<std::size_t>* origins) const {
  std::size_t removed = 0;
  if (remove_extra_spaces_) removed = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(removed);
  std::string out;
  if (text.empty()) return out;
  out.reserve(text.size() + text.size() / 4 + space_mark.size());
  if (prefixed) out += space_mark;
  if (origins != nullptr) origins->assign(out.size(), removed);
  bool after_space = false;
  std::size_t bound = 0;  // of the bounds of all ranges in their order; those at the start stay in front of the prefix
  const auto move_bounds = [&](std::size_t at, std::size_t to) {
    for (; bound < 2 * foreign.size(); ++bound) {
      std::size_t& place = bound % 2 == 0 ? foreign[bound / 2].begin : foreign[bound / 2].end;
      if (place > at + removed) break;
      place = to;
    }
  };
  for (std::size_t at = 0; at < text.size();) {
    move_bounds(at, at == 0 ? 0 : out.size());
    const Char c = decode_char(text, at);
    if (!c.valid) {
      out += replacement_character;
    } else if (c.code != ' ') {
      out += text.substr(at, c.length);
    } else if (!after_space || !remove_extra_spaces_) {
      out += space_mark;
    }
    if (origins != nullptr) {
      const std::size_t character = origins->size();
      for (std::size_t byte = character; byte < out.size(); ++byte)
        origins->push_back(removed + at + (c.valid && c.code != ' ' ? byte - character : 0));
    }
    after_space = c.valid && c.code == ' ';
    at += c.length;
  }
  if (remove_extra_spaces_)
    while (out.ends_with(space_mark)) out.resize(out.size() - space_mark.size());
  move_bounds(text.size(), out.size());
  for (TextRange& range : foreign) range = {std::min(range.begin, out.size()), std::min(range.end, out.size())};
  return out;
}

// Of the tokens that text can become: not control, unknown or byte tokens, which only rules may produce.
std::int32_t SentencePiece::find_piece(std::string_view text) const noexcept {
  const std::int32_t id = vocabulary_.find(text);
  if (id < 0) return -1;
  const TokenType type = vocabulary_.type(id);
  const bool spellable = type == TokenType::normal || type == TokenType::unused ||
                         (type == TokenType::user_defined && !vocabulary_.is_marker(id));
  return spellable ? id : -1;
}

// The symbols of one normalised text while they merge.
struct SentencePiece::Merger {
  static constexpr std::uint32_t none = UINT32_MAX;

  struct Symbol {
    std::uint32_t begin, length;  // length 0 once merged into the left neighbour
    std::uint32_t previous, next;
    std::int32_t whole;  // the user-defined token that it is; such a symbol never merges
  };
  struct Candidate {
    float score;
    std::uint32_t left, right;
    std::uint32_t length;  // of both together when it was made

    static bool later(const Candidate& a, const Candidate& b) noexcept {
      return a.score < b.score || (a.score == b.score && a.left > b.left);
    }
  };

  const SentencePiece& model;
  std::string_view text;
  std::span<const TextRange> foreign;
  const TokenSink& found;
  const std::vector<std::size_t>& origins;  // of each byte of `text`; empty where nobody asks for places
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::unordered_map<std::int32_t, std::uint32_t> splits;  // of an unused token: the length of its left part

  void split_into_symbols() {
    const auto add = [&](std::size_t begin, std::size_t end, std::int32_t whole) {
      const auto place = static_cast<std::uint32_t>(symbols.size());
      symbols.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end - begin), place - 1, place + 1, whole});
    };
    std::size_t at = 0;
    const auto add_characters = [&](std::size_t end) {
      while (at < end) {
        const std::size_t next = at + decode_char(text, at).length;
        add(at, next, -1);
        at = next;
      }
    };
    for (const auto& match : model.user_defined_.find(text, foreign)) {
      add_characters(match.begin);
      add(match.begin, match.end, match.id);
      at = match.end;
    }
    add_characters(text.size());
    symbols.back().next = none;
  }

  void offer(std::uint32_t left) {
    const std::uint32_t right = symbols[left].next;
    if (right == none || symbols[left].whole >= 0 || symbols[right].whole >= 0) return;
    const std::uint32_t length = symbols[left].length + symbols[right].length;
    const std::int32_t id = model.find_piece(text.substr(symbols[left].begin, length));
    if (id < 0) return;
    heap.push_back({model.scores_[id], left, right, length});
    std::ranges::push_heap(heap, Candidate::later);
    if (model.vocabulary_.type(id) == TokenType::unused) splits[id] = symbols[left].length;
  }

  void merge_all() {
    for (std::uint32_t left = 0; left + 1 < symbols.size(); ++left) offer(left);
    while (!heap.empty()) {
      std::ranges::pop_heap(heap, Candidate::later);
      const Candidate best = heap.back();
      heap.pop_back();
      Symbol& left = symbols[best.left];
      Symbol& right = symbols[best.right];
      if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) continue;
      left.length = best.length;
      right.length = 0;
      left.next = right.next;
      if (right.next != none) symbols[right.next].previous = best.left;
      if (left.previous != none) offer(left.previous);
      offer(best.left);
    }
  }

  void add(std::int32_t id, std::size_t byte) const { found.add(id, origins.empty() ? 0 : origins[byte]); }

  void append_part(std::string_view part, bool& after_unknown) const {
    const auto begin = static_cast<std::size_t>(part.data() - text.data());
    const std::int32_t id = model.find_piece(part);
    if (id >= 0) {
      add(id, begin);
    } else if (model.byte_fallback_) {
      for (std::size_t i = 0; i < part.size(); ++i) add(model.vocabulary_.byte_token(static_cast<unsigned char>(part[i])), begin + i);
    } else if (!after_unknown) {
      add(*model.vocabulary_.unknown, begin);  // one for a whole run
    }
    after_unknown = id < 0;
  }

  // An unused token is taken apart again as it was put together, down to parts that are in use.
  void append(std::string_view piece, bool& after_unknown) const {
    std::vector<std::string_view> parts{piece};
    while (!parts.empty()) {
      const std::string_view part = parts.back();
      parts.pop_back();
      const std::int32_t id = model.find_piece(part);
      const auto split = id >= 0 && model.vocabulary_.type(id) == TokenType::unused ? splits.find(id) : splits.end();
      if (split == splits.end()) {
        append_part(part, after_unknown);
      } else {
        parts.push_back(part.substr(split->second));
        parts.push_back(part.substr(0, split->second));
      }
    }
  }
};

void SentencePiece::encode(std::string_view text, std::span<const TextRange> foreign, bool /*parse_special*/, std::uint64_t most,
                           const TokenSink& found) const {
  std::vector<TextRange> moved(foreign.begin(), foreign.end());
  std::vector<std::size_t> origins;
  const std::string normalised =
      normalise(text, space_prefix_ && (!prefix_at_start_only_ || found.begin == 0), moved, found.places == nullptr ? nullptr : &origins);
  if (normalised.empty()) return;
  Merger merger{*this, normalised, moved, found, origins, {}, {}, {}};
  merger.split_into_symbols();
  merger.merge_all();
  bool after_unknown = false;
  for (std::uint32_t place = 0; place != Merger::none && found.ids.size() <= most; place = merger.symbols[place].next) {
    const Merger::Symbol& symbol = merger.symbols[place];
    if (symbol.whole >= 0) {
      merger.add(symbol.whole, symbol.begin);
      after_unknown = false;
    } else {
      merger.append(merger.text.substr(symbol.begin, symbol.length), after_unknown);
    }
  }
}

std::string SentencePiece::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  for (const std::int32_t id : ids) append_bytes(id, out);
  if (drops_first_space() && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

void SentencePiece::append_bytes(std::int32_t id, std::string& out) const {
  if (vocabulary_.type(id) == TokenType::byte) {
    out += static_cast<char>(vocabulary_.byte_of(id));
    return;
  }
  std::string_view text = vocabulary_.text(id);
  for (std::size_t mark; (mark = text.find(space_mark)) != std::string_view::npos;) {
    out.append(text.substr(0, mark)).append(1, ' ');
    text.remove_prefix(mark + space_mark.size());
  }
  out += text;
}

}  // namespace quern::tokenizer
