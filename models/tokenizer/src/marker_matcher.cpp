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
    throw Error(QUERN_BAD_MODEL,
                concat("tokenizer.ggml.token_type: the control and user-defined tokens have ", total,
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
  for (std::uint32_t c = nodes_[root].first_child; c < nodes_[root + 1].first_child; ++c)
    from_root_[bytes_[c]] = c;
}

void MarkerMatcher::link_failures() {
  for (std::uint32_t node = root; node + 1 < nodes_.size(); ++node) {
    for (std::uint32_t c = nodes_[node].first_child; c < nodes_[node + 1].first_child; ++c) {
      Node& link = nodes_[c];
      link.fail = node == root ? root : step(nodes_[node].fail, bytes_[c]);
      if (link.best < 0) link.best = nodes_[link.fail].best;
      if (link.best_always < 0) link.best_always = nodes_[link.fail].best_always;
    }
  }
}

std::uint32_t MarkerMatcher::child(std::uint32_t node, unsigned char byte) const noexcept {
  if (node == root) return from_root_[byte];
  const auto begin = bytes_.begin() + nodes_[node].first_child,
             end = bytes_.begin() + nodes_[node + 1].first_child;
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

}  // namespace quern::tokenizer
