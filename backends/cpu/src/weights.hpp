// Which constants of a model are packed, and packing them.
#pragma once

#include "packed/registry.hpp"
#include "thread_pool.hpp"

#include "quern/sdk/weights.hpp"

namespace quern::cpu {

/// Packs each constant matrix that only matmuls (as weights, not transposed) and perhaps get_rows read, and each constant of experts that
/// only matmul_ids read, where a layout of `set` takes it and each product allows what the layout does to activations.
class Packing : public sdk::WeightPacking {
 public:
  static constexpr std::uint64_t alignment = 64;

  /// Null: constants stay canonical.
  explicit Packing(const PackedSet* set) : set_(set) {}
  /// A kernel forced by name may be one that takes packed weights alone.
  bool considers(const sdk::ResolvedNode& node) const override { return !node.malformed; }
  sdk::WeightRead how_read(const sdk::ResolvedNode& node, std::size_t input, const sdk::Tensor& tensor) const override;
  sdk::PackedForm form(const sdk::Tensor& tensor, std::uint32_t conversions) const override;
  PackedKey parse(std::string_view key) const { return parse_packed_key(key); }

 private:
  const PackedSet* set_;
};

/// Packs a canonical matrix, or experts.
void pack_weight(const PackedKey& key, const void* from, void* to, ThreadPool& pool);

}  // namespace quern::cpu
