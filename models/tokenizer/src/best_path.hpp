// The tokens whose scores add up to most, by Viterbi's method: what the Unigram models of two packages share.
#pragma once

#include "unicode.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::tokenizer {

/// Texts with their ids, sorted. Those that a text starts with lie side by side, and each byte narrows them.
class PrefixIndex {
 public:
  struct Entry {
    std::string_view text;  // not empty
    std::int32_t id;
  };

  PrefixIndex() = default;
  explicit PrefixIndex(std::vector<Entry> entries) : entries_(std::move(entries)) { std::ranges::sort(entries_, {}, &Entry::text); }

  bool empty() const noexcept { return entries_.empty(); }

  /// Calls visit(id, length) for each entry that `text` starts with, the shortest first. `steps_left` goes down with each byte.
  template <typename Visit>
  void each(std::string_view text, std::uint64_t& steps_left, const Visit& visit) const {
    auto first = entries_.begin(), last = entries_.end();
    for (std::size_t depth = 0; depth < text.size() && first != last;) {
      const auto byte_at = [&](const Entry& entry) {
        return depth < entry.text.size() ? static_cast<unsigned char>(entry.text[depth]) : -1;
      };
      const auto narrowed = std::ranges::equal_range(first, last, int{static_cast<unsigned char>(text[depth])}, {}, byte_at);
      first = narrowed.begin();
      last = narrowed.end();
      ++depth;
      if (steps_left-- == 0) throw Error(QUERN_UNSUPPORTED, "the tokens are so long and so alike that a text takes too many steps");
      if (first != last && first->text.size() == depth) visit(first->id, depth);
    }
  }

 private:
  std::vector<Entry> entries_;
};

/// How many bytes of tokens may be looked at for a text.
inline std::uint64_t most_steps(std::string_view text) noexcept { return 256 * std::uint64_t{text.size()} + (1 << 20); }

/// A token of the path, with its bytes in the text.
struct PathToken {
  std::int32_t id;
  std::uint32_t begin, end;
};

/// Scores and sums are of type Sum. A character that is no token by itself is `unknown` too, at `unknown_score`. Of equal sums the first counts, which is
/// that of the token that starts first.
template <typename Sum, typename ScoreOf>
std::vector<PathToken> best_path(const PrefixIndex& tokens, std::string_view text, std::int32_t unknown, Sum unknown_score,
                                 const ScoreOf& score_of) {
  struct Best {
    Sum sum = 0;
    std::int32_t id = 0;  // of the token that ends here
    std::uint32_t begin = 0;
    bool reached = false;
  };
  std::vector<Best> best(text.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, std::int32_t id, Sum sum) {
    if (!best[end].reached || sum > best[end].sum) best[end] = {sum, id, static_cast<std::uint32_t>(begin), true};
  };
  std::uint64_t steps_left = most_steps(text);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t character = decode_char(text, at).length;
    bool is_token = false;
    tokens.each(text.substr(at), steps_left, [&](std::int32_t id, std::size_t length) {
      offer(at, at + length, id, score_of(id, length) + best[at].sum);
      is_token = is_token || length == character;
    });
    if (!is_token) offer(at, at + character, unknown, unknown_score + best[at].sum);
    at += character;
  }
  std::vector<PathToken> path;
  for (auto end = static_cast<std::uint32_t>(text.size()); end > 0; end = best[end].begin)
    path.push_back({best[end].id, best[end].begin, end});
  std::ranges::reverse(path);
  return path;
}

}  // namespace quern::tokenizer
