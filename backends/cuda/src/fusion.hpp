// What schedules that fuse ask of a graph: who makes and who reads a value, and where attention stands with its rotations and writes.
#pragma once

#include "graph.hpp"

#include <optional>

namespace quern::cuda {

class Uses {
 public:
  static constexpr std::uint32_t none = QUERN_NONE;

  explicit Uses(const Graph& graph);

  std::uint32_t root(std::uint32_t v) const { return graph_.values[v].root; }
  const Tensor& tensor(std::uint32_t v) const { return graph_.values[v].tensor; }
  /// A view of all of its root's memory, packed.
  bool whole(std::uint32_t v) const;
  /// Whether the host can see it: then it must be written.
  bool kept(std::uint32_t r) const { return !graph_.internal(r); }
  bool only_user(std::uint32_t r, std::uint32_t node) const;
  /// Nodes that read a root.
  const std::vector<std::uint32_t>& users(std::uint32_t r) const { return users_[r]; }
  /// The last node that writes a root, or none.
  std::uint32_t maker(std::uint32_t r) const { return maker_[r]; }

  /// An attention node whose queries and keys are rotated for it alone, by one table, and whose keys and values are written to the cache
  /// just before it: it and these four nodes can run as one or two kernels.
  struct Attention {
    std::uint32_t q, k, v, table, mode;  // f32 values before rotation
    std::vector<std::uint32_t> nodes;    // the rotations and the writes
  };
  std::optional<Attention> attention_at(std::uint32_t node) const;
  /// The glu node (SwiGLU without limits) whose gate and up are these two products, and nothing else reads them; or none.
  std::uint32_t glu_of(std::uint32_t gate, std::uint32_t up) const;
  /// The add node that sums the product with a value `other` that is there already; or none.
  std::uint32_t add_of(std::uint32_t product, std::uint32_t& other) const;

 protected:
  const Graph& graph_;

 private:
  std::vector<std::vector<std::uint32_t>> users_;
  std::vector<std::uint32_t> maker_;
  std::vector<std::vector<std::uint32_t>> cache_writers_;  // kv_writes of a root, in order
};

}  // namespace quern::cuda
