// Where the ids of a text go, with their places in it where those are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quern::tokenizer {

struct TokenSink {
  std::vector<std::int32_t>& ids;
  std::vector<std::size_t>* places;  // null: not asked for
  std::size_t begin;                 // of the part at hand in the whole text

  /// `place` is counted from the start of the part.
  void add(std::int32_t id, std::size_t place) const {
    ids.push_back(id);
    if (places != nullptr) places->push_back(begin + place);
  }
  /// For a part of this part.
  TokenSink from(std::size_t place) const noexcept { return {ids, places, begin + place}; }
};

}  // namespace quern::tokenizer
