// Which device takes which layers of a model that does not fit the first one. Pure arithmetic: what a layer takes is the caller's to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quern::runtime {

/// What the parts of a step take of a device, in bytes.
struct LayerBytes {
  std::vector<std::uint64_t> layers;  // of each layer: its weights, keys and values
  std::uint64_t tail = 0;             // of what comes behind the last layer: norm, head, sampler
  std::uint64_t shared = 0;           // for any number of layers: scratch, inputs, tables
};

/// How many layers each device has, by index. The last device has the first layers and what comes before them, device 0 the last layers
/// and the tail: so a step crosses once from each device to the one before it.
struct LayerSplit {
  std::vector<std::uint32_t> layers;
  std::uint32_t device_of(std::uint32_t layer) const;
  /// Where the last layer is.
  std::uint32_t tail_device() const;
  /// Layers [first, end) of a device.
  struct Range {
    std::uint32_t first, end;
  };
  Range range(std::uint32_t device) const;
};

/// As many whole layers as fit go to device 0, with the tail; then to device 1, and so on; all that is left to the last device, whatever
/// it has. `available`: bytes of each device, nothing where unknown, which counts as enough.
LayerSplit split_layers(const LayerBytes& bytes, const std::vector<std::optional<std::uint64_t>>& available);

/// How many of the layers of `range` to take from a device that lacks `lack` bytes, before asking again what it then needs. Half of those
/// that hold so much, since each may free more than its own; at least one. So the number of questions goes by the logarithm of the layers.
std::uint32_t layers_to_move(const LayerBytes& bytes, LayerSplit::Range range, std::uint64_t lack);

/// Bytes as a user writes a limit: the smallest of 17K, 17M and 17G that holds them and is at most 1 % larger, else the number.
std::string limit_text(std::uint64_t bytes);

}  // namespace quern::runtime
