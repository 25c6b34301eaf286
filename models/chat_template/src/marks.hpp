// Which bytes of a text came from outside the template: from a message, a variable, or a number.
//
// A text of the template itself may become special tokens and a foreign one may not, so what is not known is
// foreign. Foreign ranges are sorted and do not touch. An empty one is a seam: something foreign was there and
// is gone, and what is left and right of it never counts as one piece of the template.
#pragma once

#include "quern/models/chat_template.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace quern::jinja {

class Marks {
 public:
  /// Nothing is foreign.
  Marks() noexcept = default;
  static Marks all_foreign() noexcept {
    Marks marks;
    marks.all_ = true;
    return marks;
  }
  /// `ranges` as render_marked() gives them, of a text of `size` bytes.
  static Marks of(std::vector<ForeignRange> ranges, std::size_t size) {
    if (ranges.size() == 1 && ranges[0].begin == 0 && ranges[0].end == size) return all_foreign();
    Marks marks;
    marks.ranges_ = std::move(ranges);
    return marks;
  }

  bool none() const noexcept { return !all_ && ranges_.empty(); }
  bool all() const noexcept { return all_; }
  /// Without those of a text that is foreign as a whole.
  std::span<const ForeignRange> ranges() const noexcept { return ranges_; }
  std::uint64_t bytes() const noexcept { return ranges_.capacity() * sizeof(ForeignRange); }

  /// The first range that ends at or after `offset`.
  std::span<const ForeignRange> ranges_from(std::size_t offset) const noexcept {
    const auto first =
        std::lower_bound(ranges_.begin(), ranges_.end(), offset, [](const ForeignRange& range, std::size_t at) { return range.end < at; });
    return {first, ranges_.end()};
  }

 private:
  bool all_ = false;
  std::vector<ForeignRange> ranges_;
};

}  // namespace quern::jinja
