// Where the internal values of a graph lie in scratch: those whose lives do not meet share bytes.
//
// Part of the plugin SDK (include quern/quern_device_plugin.hpp); C++17, not part of the ABI.
#ifndef QUERN_SDK_SCRATCH_HPP
#define QUERN_SDK_SCRATCH_HPP

#include "quern/sdk/resolved.hpp"

#include <map>

namespace quern {
namespace sdk {

/// Free ranges of memory that grows at its end; the smallest that fits is taken, else the last one grows.
class FreeRanges {
 public:
  std::uint64_t take(std::uint64_t bytes) {
    auto best = ranges_.end();
    for (auto it = ranges_.begin(); it != ranges_.end(); ++it)
      if (it->second >= bytes && (best == ranges_.end() || it->second < best->second)) best = it;
    if (best == ranges_.end()) {
      std::uint64_t from = end_;
      if (!ranges_.empty()) {
        const auto tail = std::prev(ranges_.end());
        if (tail->first + tail->second == end_) {
          from = tail->first;
          ranges_.erase(tail);
        }
      }
      end_ = from + bytes;
      return from;
    }
    const std::uint64_t at = best->first, size = best->second;
    ranges_.erase(best);
    if (size > bytes) ranges_[at + bytes] = size - bytes;
    return at;
  }
  void give(std::uint64_t at, std::uint64_t bytes) {
    auto next = ranges_.lower_bound(at);
    if (next != ranges_.end() && at + bytes == next->first) {
      bytes += next->second;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == at) {
        before->second += bytes;
        return;
      }
    }
    ranges_[at] = bytes;
  }
  std::uint64_t end() const noexcept { return end_; }
  /// Whether a range that was given back holds so much; then take() does not grow.
  bool fits(std::uint64_t bytes) const noexcept {
    for (const auto& range : ranges_)
      if (range.second >= bytes) return true;
    return false;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;
  std::uint64_t end_ = 0;
};

/// What one step of a schedule touches.
struct StepMemory {
  std::vector<std::uint32_t> values;  ///< read or written; QUERN_NONE is passed over
  std::vector<std::uint32_t> extras;  ///< slots of further memory
  std::uint64_t scratch = 0;          ///< bytes for the time of the step alone
};

struct ScratchLayout {
  std::vector<std::uint64_t> value_offset, extra_offset;
  std::uint64_t scratch_offset = 0, bytes = 0;
};

/// `extras`: bytes of each extra slot. Every place is a multiple of `alignment`. `bytes_of` gives the bytes of a value: of an instance's
/// bounds, where an instance has a layout of its own.
template <class BytesOf>
ScratchLayout lay_out_scratch(const ResolvedGraph& graph, const std::vector<StepMemory>& steps, const std::vector<std::uint64_t>& extras,
                              std::uint64_t alignment, const BytesOf& bytes_of) {
  struct Life {
    std::size_t first = SIZE_MAX, last = 0;
    void touch(std::size_t step) {
      if (first == SIZE_MAX) first = step;
      last = step;
    }
  };
  const auto round_up = [alignment](std::uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  std::vector<Life> values(graph.values.size()), slots(extras.size());
  std::uint64_t scratch = 0;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const std::uint32_t v : steps[s].values)
      if (v != QUERN_NONE) values[graph.values[v].root].touch(s);
    for (const std::uint32_t e : steps[s].extras) slots[e].touch(s);
    scratch = std::max(scratch, steps[s].scratch);
  }
  struct Piece {
    std::uint64_t* offset;
    std::uint64_t bytes;
  };
  ScratchLayout layout;
  layout.value_offset.assign(graph.values.size(), 0);
  layout.extra_offset.assign(extras.size(), 0);
  std::vector<std::vector<Piece>> begins(steps.size()), ends(steps.size());
  const auto live = [&](const Life& life, std::uint64_t& offset, std::uint64_t bytes) {
    if (life.first == SIZE_MAX) return;
    begins[life.first].push_back({&offset, bytes});
    ends[life.last].push_back({&offset, bytes});
  };
  for (std::uint32_t v = 0; v < values.size(); ++v)
    if (graph.internal(v)) live(values[v], layout.value_offset[v], round_up(std::max<std::uint64_t>(1, bytes_of(v))));
  for (std::size_t e = 0; e < slots.size(); ++e) live(slots[e], layout.extra_offset[e], round_up(extras[e]));
  FreeRanges free;
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const Piece& piece : begins[s]) *piece.offset = free.take(piece.bytes);
    for (const Piece& piece : ends[s]) free.give(*piece.offset, piece.bytes);
  }
  layout.scratch_offset = free.end();
  layout.bytes = layout.scratch_offset + round_up(scratch);
  return layout;
}
/// The same at the largest dims.
inline ScratchLayout lay_out_scratch(const ResolvedGraph& graph, const std::vector<StepMemory>& steps,
                                     const std::vector<std::uint64_t>& extras = {}, std::uint64_t alignment = 256) {
  return lay_out_scratch(graph, steps, extras, alignment, [&graph](std::uint32_t v) { return graph.values[v].bytes; });
}

}  // namespace sdk
}  // namespace quern

#endif
