// Finds tokens that are matched as whole words in a text: control and user-defined ones.
//
// At each place the longest token wins, places from left to right, in time linear in the text whatever the
// tokens are: an Aho-Corasick automaton over the reversed tokens reads the text backwards, and its state at a
// place knows the longest token that starts there.
#pragma once

#include "quern/models/tokenizer.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

struct Marker {
  std::string text;  // not empty
  std::int32_t id = 0;
  bool always = false;  // a user-defined token: also matched where special tokens are not parsed
  bool plain = false;   // a user-defined token that is a word of plain text: also matched in foreign text
};

class MarkerMatcher {
 public:
  struct Match {
    std::size_t begin = 0, end = 0;
    std::int32_t id = 0;
  };

  /// More text than this in all markers together is refused: the automaton takes about 25 bytes for each byte
  /// of it.
  static constexpr std::size_t max_total_bytes = std::size_t{2} << 20;

  /// The texts must differ. Throws Error(QUERN_BAD_MODEL) beyond max_total_bytes.
  explicit MarkerMatcher(std::vector<Marker> markers);

  bool empty() const noexcept { return markers_.empty(); }

  /// All matches in order, none overlapping another. Without `all`, of those that match always.
  std::vector<Match> find(std::string_view text, bool all) const;

  /// All matches in order, none overlapping another, in a text of which `foreign` (sorted, disjoint) came from
  /// elsewhere. A marker matches where it lies between two foreign ranges and touches neither; an empty range
  /// is a place across which none matches. Plain markers match anywhere, but where one reaches from foreign
  /// text into the rest, it takes no byte of a marker there.
  std::vector<Match> find(std::string_view text, std::span<const TextRange> foreign) const;

 private:
  // Numbered breadth first, so that the children of a node are consecutive, in the order of their bytes.
  struct Node {
    std::uint32_t first_child = 0;  // the children end where those of the next node begin
    std::uint32_t fail = 0;         // the longest proper suffix that is a node
    std::int32_t best = -1;         // index of the longest marker that ends here, of all
    std::int32_t best_always = -1;  // of those that match always
    std::int32_t best_plain = -1;   // and of those that are plain text
  };

  void build_trie();
  void link_failures();
  std::uint32_t child(std::uint32_t node, unsigned char byte) const noexcept;
  std::uint32_t step(std::uint32_t node, unsigned char byte) const noexcept;
  std::size_t length(std::int32_t marker) const noexcept { return marker < 0 ? 0 : markers_[static_cast<std::size_t>(marker)].text.size(); }

  std::vector<Marker> markers_;  // sorted by reversed text, each stored reversed
  std::vector<Node> nodes_;      // one more than there are, to end the last node's children
  std::vector<unsigned char> bytes_;
  std::array<std::uint32_t, 256> from_root_{};
};

}  // namespace quern::tokenizer
