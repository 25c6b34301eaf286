// See layer_split.hpp.
#include "layer_split.hpp"

#include <algorithm>

namespace quern::runtime {

LayerSplit::Range LayerSplit::range(std::uint32_t device) const {
  std::uint32_t first = 0;  // the devices behind it come first
  for (std::size_t d = device + 1; d < layers.size(); ++d) first += layers[d];
  return {first, first + layers[device]};
}

std::uint32_t LayerSplit::device_of(std::uint32_t layer) const {
  std::uint32_t d = 0;
  while (d + 1 < layers.size() && layer < range(d).first) ++d;
  return d;
}

std::uint32_t LayerSplit::tail_device() const {
  std::uint32_t d = 0;
  while (d + 1 < layers.size() && layers[d] == 0) ++d;
  return d;
}

LayerSplit split_layers(const LayerBytes& bytes, const std::vector<std::optional<std::uint64_t>>& available) {
  LayerSplit split;
  std::size_t left = bytes.layers.size();
  std::uint64_t tail = bytes.tail;
  for (std::size_t d = 0; d + 1 < available.size(); ++d) {
    const std::uint64_t room = available[d].value_or(UINT64_MAX);
    std::uint32_t taken = 0;
    if (bytes.shared <= room && tail <= room - bytes.shared) {
      for (std::uint64_t free = room - bytes.shared - tail; left > 0 && bytes.layers[left - 1] <= free; ++taken)
        free -= bytes.layers[--left];
    }
    if (taken > 0) tail = 0;
    split.layers.push_back(taken);
  }
  split.layers.push_back(static_cast<std::uint32_t>(left));
  return split;
}

std::uint32_t layers_to_move(const LayerBytes& bytes, LayerSplit::Range range, std::uint64_t lack) {
  std::uint32_t count = 0;
  for (std::uint64_t left = lack; left > 0 && range.first + count < range.end; ++count)
    left -= std::min(left, bytes.layers[range.first + count]);
  return std::max(1u, (count + 1) / 2);
}

std::string limit_text(std::uint64_t bytes) {
  for (const auto& [letter, shift] : {std::pair{'G', 30}, {'M', 20}, {'K', 10}}) {
    const std::uint64_t unit = std::uint64_t{1} << shift, whole = bytes / unit + (bytes % unit != 0 ? 1 : 0);
    if (whole <= UINT64_MAX / unit && whole * unit - bytes <= bytes / 100) return std::to_string(whole) + letter;
  }
  return std::to_string(bytes);
}

}  // namespace quern::runtime
