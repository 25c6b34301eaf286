// Finds tokens that are matched as whole words in a text.
#include "marker_matcher.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>

namespace quern::tokenizer {
namespace {

constexpr std::uint32_t root = 0;  // as a child it means "none": no edge leads to the root

}  // namespace

MarkerMatcher::MarkerMatcher(std::vector<Marker> markers) : markers_(std::move(markers)) {
  std::size_t total = 0;
  for (Marker& marker : markers_) {
    total += marker.text.size();
    std::ranges::reverse(marker.text);
  }
  if (total > max_total_bytes)
    throw Error(QUERN_BAD_MODEL, concat("tokenizer.ggml.token_type: the control and user-defined tokens have ", total,
                                        " bytes of text; at most ", max_total_bytes, " are accepted"));
  std::ranges::sort(markers_, {}, &Marker::text);
  build_trie();
  link_failures();
}

void MarkerMatcher::build_trie() {
  struct Range {
    std::uint32_t begin, end;  // the markers below a node
  };
  std::vector<Range> ranges{{0, static_cast<std::uint32_t>(markers_.size())}};
  std::vector<Range> next_ranges;
  nodes_.resize(1);
  bytes_.resize(1);
  std::uint32_t node = root;
  for (std::size_t depth = 0; !ranges.empty(); ++depth, ranges.swap(next_ranges)) {
    next_ranges.clear();
    for (auto [begin, end] : ranges) {
      nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
      if (begin < end && markers_[begin].text.size() == depth) {
        nodes_[node].best = static_cast<std::int32_t>(begin);
        if (markers_[begin].always) nodes_[node].best_always = static_cast<std::int32_t>(begin);
        if (markers_[begin].plain) nodes_[node].best_plain = static_cast<std::int32_t>(begin);
        ++begin;
      }
      while (begin < end) {
        const char byte = markers_[begin].text[depth];
        std::uint32_t same = begin + 1;
        while (same < end && markers_[same].text[depth] == byte) ++same;
        next_ranges.push_back({begin, same});
        nodes_.emplace_back();
        bytes_.push_back(static_cast<unsigned char>(byte));
        begin = same;
      }
      ++node;
    }
  }
  nodes_.push_back({.first_child = static_cast<std::uint32_t>(nodes_.size())});
  for (std::uint32_t c = nodes_[root].first_child; c < nodes_[root + 1].first_child; ++c) from_root_[bytes_[c]] = c;
}

void MarkerMatcher::link_failures() {
  for (std::uint32_t node = root; node + 1 < nodes_.size(); ++node) {
    for (std::uint32_t c = nodes_[node].first_child; c < nodes_[node + 1].first_child; ++c) {
      Node& link = nodes_[c];
      link.fail = node == root ? root : step(nodes_[node].fail, bytes_[c]);
      if (link.best < 0) link.best = nodes_[link.fail].best;
      if (link.best_always < 0) link.best_always = nodes_[link.fail].best_always;
      if (link.best_plain < 0) link.best_plain = nodes_[link.fail].best_plain;
    }
  }
}

std::uint32_t MarkerMatcher::child(std::uint32_t node, unsigned char byte) const noexcept {
  if (node == root) return from_root_[byte];
  const auto begin = bytes_.begin() + nodes_[node].first_child, end = bytes_.begin() + nodes_[node + 1].first_child;
  const auto found = std::lower_bound(begin, end, byte);
  return found != end && *found == byte ? static_cast<std::uint32_t>(found - bytes_.begin()) : root;
}

std::uint32_t MarkerMatcher::step(std::uint32_t node, unsigned char byte) const noexcept {
  for (;; node = nodes_[node].fail) {
    const std::uint32_t next = child(node, byte);
    if (next != root || node == root) return next;
  }
}

std::vector<MarkerMatcher::Match> MarkerMatcher::find(std::string_view text, bool all) const {
  std::vector<Match> matches;
  if (markers_.empty()) return matches;
  std::uint32_t node = root;
  for (std::size_t at = text.size(); at-- > 0;) {
    node = step(node, static_cast<unsigned char>(text[at]));
    const std::int32_t best = all ? nodes_[node].best : nodes_[node].best_always;
    if (best >= 0) matches.push_back({at, at + markers_[best].text.size(), markers_[best].id});
  }
  std::ranges::reverse(matches);
  std::size_t free_from = 0;
  std::erase_if(matches, [&](const Match& match) {
    if (match.begin < free_from) return true;
    free_from = match.end;
    return false;
  });
  return matches;
}

std::vector<MarkerMatcher::Match> MarkerMatcher::find(std::string_view text, std::span<const TextRange> foreign) const {
  if (foreign.empty()) return find(text, true);
  std::vector<Match> matches;
  if (markers_.empty()) return matches;

  struct Place {
    std::size_t at = 0;
    std::int32_t own = -1;    // the longest marker from here that ends before foreign text
    std::int32_t plain = -1;  // the longest plain one, wherever it ends
  };
  std::vector<Place> places;
  std::uint32_t own = root, anywhere = root;
  for (std::size_t at = text.size(), left = foreign.size(); at-- > 0;) {
    const auto byte = static_cast<unsigned char>(text[at]);
    for (; left > 0 && foreign[left - 1].begin > at; --left) own = root;  // nothing matches across its begin
    const bool is_foreign = left > 0 && foreign[left - 1].end > at;
    own = is_foreign ? root : step(own, byte);
    anywhere = step(anywhere, byte);
    const Place place{at, nodes_[own].best, nodes_[anywhere].best_plain};
    if (place.own >= 0 || place.plain >= 0) places.push_back(place);
  }
  std::ranges::reverse(places);

  // What the text between foreign ranges holds by itself, of markers that foreign text may not take away.
  std::vector<TextRange> guarded;
  std::size_t free_from = 0;
  for (const Place& place : places) {
    if (place.own < 0 || place.at < free_from) continue;
    free_from = place.at + length(place.own);
    if (!markers_[static_cast<std::size_t>(place.own)].plain) guarded.push_back({place.at, free_from});
  }

  free_from = 0;
  auto guard = guarded.begin();
  for (const Place& place : places) {
    if (place.at < free_from) continue;
    while (guard != guarded.end() && guard->end <= place.at) ++guard;
    std::int32_t best = place.own;
    const std::size_t plain_end = place.at + length(place.plain);
    const bool takes_of_guarded = guard != guarded.end() && guard->begin < plain_end;
    if (length(place.plain) > length(place.own) && !takes_of_guarded) best = place.plain;
    if (best < 0) continue;
    free_from = place.at + length(best);
    matches.push_back({place.at, free_from, markers_[static_cast<std::size_t>(best)].id});
  }
  return matches;
}

}  // namespace quern::tokenizer
