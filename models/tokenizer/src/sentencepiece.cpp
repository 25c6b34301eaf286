// SentencePiece's BPE: characters merge into tokens, the token of the highest score first, the leftmost of
// equals. Its Unigram is best_path() with sums in f32, as the package has them.
//
// A text of n characters takes n log n: pairs wait in a heap, and an entry whose two symbols have changed
// since is dropped when it comes up.
#include "sentencepiece.hpp"

#include "unicode.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
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
std::vector<Marker> user_defined_markers(const Vocabulary& vocabulary, bool is_unigram) {
  std::vector<Marker> markers;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.text(id);
    if (vocabulary.type(id) != TokenType::user_defined || text.empty()) continue;
    // The others are part of the path there.
    if (!is_unigram || vocabulary.is_marker(id) || text.find(' ') != text.npos)
      markers.push_back({with_space_marks(text), id, true, !vocabulary.is_marker(id)});
  }
  std::ranges::stable_sort(markers, {}, &Marker::text);
  const auto rest = std::ranges::unique(markers, {}, &Marker::text);
  markers.erase(rest.begin(), rest.end());
  return markers;
}

PrefixIndex user_defined_index(const Vocabulary& vocabulary) {
  std::vector<PrefixIndex::Entry> entries;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.type(id) == TokenType::user_defined && !vocabulary.text(id).empty()) entries.push_back({vocabulary.text(id), id});
  return PrefixIndex(std::move(entries));
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
      charsmap_(view.charsmap.empty() ? std::nullopt : std::optional<Charsmap>(view.charsmap)),
      kept_(charsmap_ ? user_defined_index(vocabulary) : PrefixIndex()),
      user_defined_(user_defined_markers(vocabulary, view.model == "t5")),
      is_unigram_(view.model == "t5"),
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
  if (is_unigram_) index_for_unigram();
}

void SentencePiece::index_for_unigram() {
  std::vector<PrefixIndex::Entry> entries;
  float least = std::numeric_limits<float>::max();
  for (std::int32_t id = 0; id < vocabulary_.size(); ++id) {
    const std::string_view text = vocabulary_.text(id);
    const TokenType type = vocabulary_.type(id);
    if (type == TokenType::normal) least = std::min(least, scores_[id]);
    const bool in_path = type == TokenType::normal ||
                         (type == TokenType::user_defined && !vocabulary_.is_marker(id) && text.find(' ') == text.npos);
    if (in_path && !text.empty()) entries.push_back({text, id});
  }
  constexpr float penalty = 10;
  unigram_unknown_score_ = least - penalty;
  unigram_tokens_ = PrefixIndex(std::move(entries));
}

SentencePiece::Normalised SentencePiece::normalise_at(std::string_view text, std::size_t at, std::uint64_t& steps_left) const {
  if (charsmap_) {
    const std::string_view rest = text.substr(at);
    std::size_t kept = 0;
    kept_.each(rest, steps_left, [&](std::int32_t, std::size_t length) { kept = length; });
    if (kept > 0) return {rest.substr(0, kept), kept};
    if (const auto entry = charsmap_->longest(rest)) return {entry->replacement, entry->length};
  }
  const Char c = decode_char(text, at);
  return {c.valid ? text.substr(at, c.length) : replacement_character, c.length};
}

std::string SentencePiece::normalise(std::string_view text, bool prefixed, std::vector<TextRange>& foreign,
                                     std::vector<std::size_t>* origins) const {
  std::uint64_t steps_left = most_steps(text);
  std::size_t at = 0;
  while (remove_extra_spaces_ && at < text.size()) {
    const Normalised next = normalise_at(text, at, steps_left);
    if (next.bytes != " ") break;
    at += next.length;
  }
  std::string out;
  const std::size_t begin = at;
  if (begin == text.size()) return out;
  out.reserve(text.size() + text.size() / 4 + space_mark.size());
  if (prefixed) out += space_mark;
  if (origins != nullptr) origins->assign(out.size(), begin);
  bool after_space = remove_extra_spaces_;
  std::size_t bound = 0;  // of the bounds of all ranges in their order; those at the start stay in front of the prefix
  const auto move_bounds = [&](std::size_t from, std::size_t to) {
    for (; bound < 2 * foreign.size(); ++bound) {
      std::size_t& place = bound % 2 == 0 ? foreign[bound / 2].begin : foreign[bound / 2].end;
      if (place > from) break;
      place = to;
    }
  };
  while (at < text.size()) {
    move_bounds(at, at == begin ? 0 : out.size());
    const Normalised next = normalise_at(text, at, steps_left);
    std::string_view bytes = next.bytes;
    while (after_space && bytes.starts_with(' ')) bytes.remove_prefix(1);
    if (!bytes.empty()) after_space = remove_extra_spaces_ && bytes.ends_with(' ');
    const bool unchanged = next.bytes.data() == text.data() + at;
    for (const char& byte : bytes) {
      if (byte == ' ') out += space_mark;
      else out += byte;
      const std::size_t place = unchanged ? static_cast<std::size_t>(&byte - text.data()) : at;
      if (origins != nullptr) origins->resize(out.size(), place);
    }
    at += next.length;
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

// Where the tokens of one normalised text go.
struct SentencePiece::Output {
  const SentencePiece& model;
  const TokenSink& found;
  const std::vector<std::size_t>& origins;  // of each byte of the text; empty where nobody asks for places
  bool after_unknown = false;

  void add(std::int32_t id, std::size_t byte) {
    found.add(id, origins.empty() ? 0 : origins[byte]);
    after_unknown = false;
  }

  void add_unknown(std::string_view part, std::size_t byte) {
    if (model.byte_fallback_) {
      for (std::size_t i = 0; i < part.size(); ++i) add(model.vocabulary_.byte_token(static_cast<unsigned char>(part[i])), byte + i);
    } else if (!after_unknown) {
      add(*model.vocabulary_.unknown, byte);  // one for a whole run
    }
    after_unknown = true;
  }
};

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
  Output& output;
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

  // An unused token is taken apart again as it was put together, down to parts that are in use.
  void append(std::string_view piece) {
    std::vector<std::string_view> parts{piece};
    while (!parts.empty()) {
      const std::string_view part = parts.back();
      parts.pop_back();
      const std::int32_t id = model.find_piece(part);
      const auto begin = static_cast<std::size_t>(part.data() - text.data());
      const auto split = id >= 0 && model.vocabulary_.type(id) == TokenType::unused ? splits.find(id) : splits.end();
      if (split != splits.end()) {
        parts.push_back(part.substr(split->second));
        parts.push_back(part.substr(0, split->second));
      } else if (id >= 0) {
        output.add(id, begin);
      } else {
        output.add_unknown(part, begin);
      }
    }
  }
};

void SentencePiece::encode_merging(std::string_view text, std::span<const TextRange> foreign, std::uint64_t most, Output& output) const {
  Merger merger{*this, text, foreign, output, {}, {}, {}};
  merger.split_into_symbols();
  merger.merge_all();
  for (std::uint32_t place = 0; place != Merger::none && output.found.ids.size() <= most; place = merger.symbols[place].next) {
    const Merger::Symbol& symbol = merger.symbols[place];
    if (symbol.whole >= 0) output.add(symbol.whole, symbol.begin);
    else merger.append(text.substr(symbol.begin, symbol.length));
  }
}

void SentencePiece::encode_unigram(std::string_view text, std::span<const TextRange> foreign, std::uint64_t most, Output& output) const {
  // A user-defined token has a tenth for each byte but the first, as measured of the package (0.2.3).
  const auto score_of = [&](std::int32_t id, std::size_t length) {
    if (vocabulary_.type(id) != TokenType::user_defined) return scores_[id];
    return static_cast<float>(0.1 * static_cast<double>(length) - 0.1);
  };
  std::size_t at = 0;
  const auto encode_part = [&](std::size_t end) {
    if (output.found.ids.size() > most) return;
    const std::string_view part = text.substr(at, end - at);
    constexpr std::int32_t none = -2;
    for (const PathToken& token : best_path<float>(unigram_tokens_, part, none, unigram_unknown_score_, score_of)) {
      if (token.id != none) output.add(token.id, at + token.begin);
      else output.add_unknown(part.substr(token.begin, token.end - token.begin), at + token.begin);
    }
  };
  for (const MarkerMatcher::Match& match : user_defined_.find(text, foreign)) {
    encode_part(match.begin);
    output.add(match.id, match.begin);
    at = match.end;
  }
  encode_part(text.size());
}

void SentencePiece::encode(std::string_view text, std::span<const TextRange> foreign, bool /*parse_special*/, std::uint64_t most,
                           const TokenSink& found) const {
  std::vector<TextRange> moved(foreign.begin(), foreign.end());
  std::vector<std::size_t> origins;
  const std::string normalised =
      normalise(text, space_prefix_ && (!prefix_at_start_only_ || found.begin == 0), moved, found.places == nullptr ? nullptr : &origins);
  if (normalised.empty()) return;
  Output output{*this, found, origins};
  if (is_unigram_) encode_unigram(normalised, moved, most, output);
  else encode_merging(normalised, moved, most, output);
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
