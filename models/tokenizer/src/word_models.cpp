// Models that look tokens up by their text.
#include "word_models.hpp"

#include "unicode.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace quern::tokenizer {
namespace {

std::int32_t find_of_model(const Vocabulary& vocabulary, std::string_view text) noexcept {
  const std::int32_t id = vocabulary.find(text);
  return id >= 0 && vocabulary.is_of_model(id) ? id : -1;
}

}  // namespace

Unigram::Unigram(const Vocabulary& vocabulary, std::span<const double> scores, std::int32_t unknown, bool byte_fallback)
    : vocabulary_(vocabulary), scores_(scores.begin(), scores.end()), unknown_(unknown), byte_fallback_(byte_fallback) {
  if (scores.size() != static_cast<std::size_t>(vocabulary.size()))
    throw Error(QUERN_BAD_MODEL, concat(field::scores, " has ", scores.size(), " entries for ", vocabulary.size(), " tokens"));
  double least = std::numeric_limits<double>::infinity();
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const double score = scores_[static_cast<std::size_t>(id)];
    if (std::isnan(score)) throw Error(QUERN_BAD_MODEL, concat(field::scores, ": entry ", id, " is not a number"));
    if (!vocabulary.is_in_model(id)) continue;
    least = std::min(least, score);
    if (vocabulary.is_of_model(id) && !vocabulary.text(id).empty()) sorted_.push_back(id);
  }
  constexpr double penalty = 10;
  unknown_score_ = least - penalty;
  std::ranges::sort(sorted_, {}, [&](std::int32_t id) { return vocabulary.text(id); });
  for (unsigned byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary.find(byte_name(static_cast<unsigned char>(byte)));
}

void Unigram::encode(std::string_view piece, std::vector<Found>& found) const {
  struct Best {
    double score = 0;
    std::int32_t id = -1;  // of the token that ends here
    std::uint32_t start = 0;
  };
  found.clear();
  std::vector<Best> best(piece.size() + 1);
  const auto offer = [&](std::size_t start, std::size_t end, std::int32_t id, double score) {
    const double sum = best[start].score + score;
    if (best[end].id < 0 || sum > best[end].score) best[end] = {sum, id, static_cast<std::uint32_t>(start)};
  };
  std::uint64_t steps_left = 256 * std::uint64_t{piece.size()} + (1 << 20);
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t next = at + decode_char(piece, at).length;
    bool is_token = false;
    // The tokens that start as the text does lie side by side; each byte narrows them.
    auto first = sorted_.begin(), last = sorted_.end();
    for (std::size_t end = at; end < piece.size() && first != last;) {
      const std::size_t depth = end - at;
      const auto byte_at = [&](std::int32_t id) {
        const std::string_view text = vocabulary_.text(id);
        return depth < text.size() ? static_cast<unsigned char>(text[depth]) : -1;
      };
      const int byte = static_cast<unsigned char>(piece[end]);
      const auto narrowed = std::ranges::equal_range(first, last, byte, {}, byte_at);
      first = narrowed.begin();
      last = narrowed.end();
      ++end;
      if (steps_left-- == 0) throw Error(QUERN_UNSUPPORTED, "the tokens are so long and so alike that a text takes too many steps");
      if (first == last || vocabulary_.text(*first).size() != end - at) continue;
      offer(at, end, *first, scores_[static_cast<std::size_t>(*first)]);
      is_token = is_token || end == next;
    }
    if (!is_token) offer(at, next, unknown_, unknown_score_);
    at = next;
  }
  // From the end to the start; neighbours that are unknown are one.
  std::optional<std::size_t> unknown_end;
  const auto add_unknown = [&](std::size_t start) {
    const std::string_view text = piece.substr(start, *unknown_end - start);
    const auto id_of = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
    const std::int32_t whole = find_of_model(vocabulary_, text);
    if (whole >= 0) {
      found.push_back({whole, static_cast<std::uint32_t>(start)});
    } else if (byte_fallback_ && std::ranges::all_of(text, [&](char c) { return id_of(c) >= 0; })) {
      for (std::size_t i = text.size(); i-- > 0;) found.push_back({id_of(text[i]), static_cast<std::uint32_t>(start + i)});
    } else {
      found.push_back({unknown_, static_cast<std::uint32_t>(start)});
    }
    unknown_end.reset();
  };
  for (std::size_t end = piece.size(); end > 0; end = best[end].start) {
    if (best[end].id == unknown_) {
      if (!unknown_end) unknown_end = end;
    } else {
      if (unknown_end) add_unknown(end);
      found.push_back({best[end].id, best[end].start});
    }
  }
  if (unknown_end) add_unknown(0);
  std::ranges::reverse(found);
}

void WordPiece::encode(std::string_view piece, std::vector<Found>& found) const {
  found.clear();
  std::uint64_t characters = 0;
  for (std::size_t at = 0; at < piece.size(); at += decode_char(piece, at).length) ++characters;
  const auto fail = [&] { found.assign(1, {unknown_, 0}); };
  if (characters > most_characters_) return fail();
  std::string spelled;
  for (std::size_t at = 0; at < piece.size();) {
    std::size_t end = piece.size();
    std::int32_t id = -1;
    for (; end > at; end = previous_char(piece, end)) {
      spelled = at > 0 ? prefix_ : std::string();
      spelled += piece.substr(at, end - at);
      if (id = find_of_model(vocabulary_, spelled); id >= 0) break;
    }
    if (id < 0) return fail();
    found.push_back({id, static_cast<std::uint32_t>(at)});
    at = end;
  }
}

void WordLevel::encode(std::string_view piece, std::vector<Found>& found) const {
  const std::int32_t id = find_of_model(vocabulary_, piece);
  found.assign(1, {id >= 0 ? id : unknown_, 0});
}

}  // namespace quern::tokenizer
