// Which nodes of a graph the fused schedule computes together, and in words why it leaves the others alone (fused.cpp makes the steps).
//
// Who makes and reads a value, what is written in between, and what rotations, cache writes and sums look like, the SDK answers (sdk/fusion/). Here
// stands what this backend's kernels take.
// The step of another node may do a node's work, and then reads its operands later than where the node stands: each rule asks for that.
#pragma once

#include "card.hpp"
#include "kernels.hpp"
#include "one_row.hpp"
#include "op.hpp"
#include "quern/sdk/fusion/patterns.hpp"
#include "quern/sdk/fusion/rules.hpp"

#include <array>
#include <map>
#include <optional>

namespace quern::vulkan {

using sdk::fusion::Refusal;

/// Two products of one row whose results are nothing but the halves of a SwiGLU; or one product of both, whose weights have rows for each.
struct Pair {
  std::uint32_t gate, up;            // nodes
  std::uint64_t gate_from, up_from;  // bytes into their weights
  std::uint32_t y;                   // where the result goes, from y_from on; its elements
  std::uint64_t y_from;
  std::int64_t width;
};
/// The nodes that rotate and write what an attention node reads.
struct Rotation {
  std::uint32_t rope_q, rope_k, write_k, write_v, last, attention;
  bool packed;   // queries, keys and values are whole values: one kernel takes them
  bool attends;  // of one row, attention does their work
  std::array<std::uint32_t, 4> nodes() const { return {rope_q, rope_k, write_k, write_v}; }
};
/// The penalties and biases of the logits that a node draws from.
struct Draw {
  std::uint32_t penalize, bias;
};
/// The operands of a gated activation, and where each begins in its row, in bytes.
struct Halves {
  std::uint32_t gate, up;
  std::uint64_t gate_from = 0, up_from = 0;
};

class Fusion : public sdk::fusion::Patterns<sdk::ResolvedGraph> {
 public:
  Fusion(const sdk::ResolvedGraph& graph, const CardFacts& card, Tier tier);

  std::uint32_t input(std::uint32_t n, std::size_t i) const { return i < graph_.nodes[n].inputs.size() ? graph_.nodes[n].inputs[i] : none; }

  bool is_product(std::uint32_t n) const { return why_no_product(n) == nullptr; }
  /// Products of a value that take its int8 activations.
  const std::vector<std::uint32_t>& products_of(std::uint32_t root) const { return products_of_[root]; }
  /// Whether some product of a value takes it as f32 where it is one row.
  bool has_float_weights(std::uint32_t root) const;
  bool has_f16_weights(std::uint32_t root) const;
  /// Whether the kernels of a value's products have room for one row of k: int8 with their scales, or f32 and a table.
  bool has_room(std::int64_t k, std::uint32_t root) const;
  /// Whether a node's result is only wanted as int8 activations.
  bool quantises(std::uint32_t n) const { return why_not_quantised(n) == nullptr; }
  Halves halves_of(std::uint32_t glu) const;
  /// That a product is part of, by either node; or null.
  const Pair* pair_of(std::uint32_t product) const { return found(pairs_, product); }
  /// The add node that sums the product with a value `other` that is there by then; or none.
  std::uint32_t add_of(std::uint32_t product, std::uint32_t& other, Refusal* why = nullptr) const;
  /// Says that the step of another node stores what this node makes.
  void stored_by(std::uint32_t n, std::uint32_t step) { stored_[n] = step; }
  /// Whether the step of another node does its work.
  bool elsewhere(std::uint32_t n) const { return stored_[n] != n; }
  bool is_attention(std::uint32_t n) const { return why_no_attention(n) == nullptr; }
  /// By their last node, or by the attention node that does their work where there is one row; or null.
  const Rotation* rotation_at(std::uint32_t n) const { return found(rotations_, n); }
  const Rotation* rotation_for(std::uint32_t attention) const { return found(attending_, attention); }
  const Draw* draw_at(std::uint32_t n) const { return found(draws_, n); }
  /// Of a gated activation whose products are no pair, why. Null: they are, or its step is no quantisation.
  Refusal why_no_pair_at(std::uint32_t glu) const;
  /// Why no rule took a node.
  sdk::Alone why_left(std::uint32_t n) const;

 private:
  template <class Map>
  static const typename Map::mapped_type* found(const Map& map, std::uint32_t n) {
    const auto at = map.find(n);
    return at == map.end() ? nullptr : &at->second;
  }
  bool is_f32(std::uint32_t v) const { return v != none && tensor(v).dtype == QUERN_F32 && whole(v); }
  /// Packed f32, or columns of such rows.
  bool in_rows(std::uint32_t v) const { return is_f32(v) || columns_of(v); }
  bool is_rows(std::uint32_t v) const { return tensor(v).rank == 2 && in_rows(v); }
  bool only_products_read(std::uint32_t value) const;
  bool alone_f16(std::uint32_t n) const;
  bool all_take_f16(std::uint32_t n) const;
  bool inputs_stay(std::uint32_t n, std::uint32_t until) const;
  bool unread(std::uint32_t v, std::uint32_t from, std::uint32_t to) const;
  bool may_be_early(std::uint32_t v, std::uint32_t at, std::uint32_t n) const;
  Refusal why_no_product(std::uint32_t n) const;
  Refusal why_not_quantised(std::uint32_t n) const;
  Refusal why_no_activation(std::uint32_t glu) const;
  Refusal why_no_attention(std::uint32_t n) const;
  Refusal why_no_rotation(std::uint32_t n, Rotation& r) const;
  std::uint32_t rope_of(std::uint32_t value, std::uint32_t attention, Refusal& why) const;
  std::uint32_t writer_of(std::uint32_t cache, std::uint32_t attention, Refusal& why) const;
  std::uint32_t maker_for(std::uint32_t n, std::uint32_t v, std::uint32_t op, Refusal& why) const;
  Refusal why_no_pair(std::uint32_t glu, Pair& pair) const;
  Refusal why_no_draw(std::uint32_t n, Draw& draw) const;
  void find_pair(std::uint32_t n);
  void find_rotation(std::uint32_t n);
  void find_draw(std::uint32_t n);
  // The table of rules.
  static const sdk::fusion::Rule<Fusion> rules[];
  Refusal why_no_residual(std::uint32_t add) const;
  Refusal why_not_drawn(std::uint32_t n) const;

  const CardFacts& card_;
  const Tier tier_;
  std::vector<std::vector<std::uint32_t>> products_of_;  // by the root of their activations
  std::vector<std::uint32_t> stored_;                    // the node whose step stores what a node makes
  std::vector<std::uint32_t> latest_;                    // the last one whose step reads what it reads
  std::map<std::uint32_t, Pair> pairs_;
  std::map<std::uint32_t, Rotation> rotations_, attending_;
  std::map<std::uint32_t, Refusal> no_pair_;  // by the glu node
  std::map<std::uint32_t, Draw> draws_;
};

}  // namespace quern::vulkan
