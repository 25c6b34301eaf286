// Models that look tokens up by their text.
#include "word_models.hpp"

#include "unicode.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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
  std::vector<PrefixIndex::Entry> tokens;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const double score = scores_[static_cast<std::size_t>(id)];
    if (std::isnan(score)) throw Error(QUERN_BAD_MODEL, concat(field::scores, ": entry ", id, " is not a number"));
    if (!vocabulary.is_in_model(id)) continue;
    least = std::min(least, score);
    if (vocabulary.is_of_model(id) && !vocabulary.text(id).empty()) tokens.push_back({vocabulary.text(id), id});
  }
  constexpr double penalty = 10;
  unknown_score_ = least - penalty;
  tokens_ = PrefixIndex(std::move(tokens));
  for (unsigned byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary.find(byte_name(static_cast<unsigned char>(byte)));
}

void Unigram::encode(std::string_view piece, std::vector<Found>& found) const {
  found.clear();
  const std::vector<PathToken> path = best_path<double>(tokens_, piece, unknown_, unknown_score_, [&](std::int32_t id, std::size_t) {
    return scores_[static_cast<std::size_t>(id)];
  });
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i].id != unknown_) {
      found.push_back({path[i].id, path[i].begin});
      continue;
    }
    const std::uint32_t begin = path[i].begin;
    while (i + 1 < path.size() && path[i + 1].id == unknown_) ++i;
    add_unknown(piece.substr(begin, path[i].end - begin), begin, found);
  }
}

void Unigram::add_unknown(std::string_view text, std::uint32_t begin, std::vector<Found>& found) const {
  const auto id_of = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  const std::int32_t whole = find_of_model(vocabulary_, text);
  if (whole >= 0) {
    found.push_back({whole, begin});
  } else if (byte_fallback_ && std::ranges::all_of(text, [&](char c) { return id_of(c) >= 0; })) {
    for (std::uint32_t i = 0; i < text.size(); ++i) found.push_back({id_of(text[i]), begin + i});
  } else {
    found.push_back({unknown_, begin});
  }
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
