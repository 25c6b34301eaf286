// Steps of one row as stages whose dispatches wait for each other's words (shaders/chain.comp): what was collected, and whether a further step may join.
//
// A stage takes all that the stage before made; the kernel's order of reading and writing rests on that. Results pass through the exchange. To
// memory they go only where something behind the chain reads them: a record is patched when that is found out.
#pragma once

#include "card.hpp"
#include "one_row.hpp"

#include <vector>

namespace quern::vulkan {

class Chain {
 public:
  explicit Chain(const CardFacts& card) : card_(card) {}

  bool empty() const noexcept { return stages_.empty(); }
  /// Stages; one alone gains nothing.
  std::size_t size() const noexcept { return stages_.size(); }
  const std::vector<OneRowProduct>& first_products() const noexcept { return first_; }

  /// Adds a step; false: it cannot be a stage of this chain.
  bool add(const OneRowProduct& product);
  bool add(const AttentionParams& attention, int k_dtype, int v_dtype);

  /// Whether products with weights of this format may be stages.
  static bool takes(quern_dtype format) noexcept;

  /// Whether a row of k activations fits shared memory as f32, as products with weights of f16 have it, beside attention of heads of up to 128.
  bool takes_half_row(std::uint64_t k) const noexcept;

  std::uint32_t threads() const noexcept;  // of a workgroup, at most where nothing asks for more
  std::uint32_t most_threads() const noexcept;
  bool row_alone(const ChainStage& stage) const noexcept;
  std::uint32_t threads_of(const ChainStage& stage) const noexcept;
  std::uint32_t groups() const noexcept { return card_.persistent_groups; }

  struct Output {
    std::uint64_t begin = 0, end = 0;  // memory
    std::size_t patch = 0;             // where its address stands in the records
  };
  struct Built {
    std::vector<ChainStage> stages;
    std::vector<Output> outputs;
    std::uint64_t words = 0;  // of the exchange
  };
  /// The constants of shaders/chain.comp, from 1 on, as for a stage that needs none of them.
  struct Constants {
    std::int32_t most_k = 64, widest = 64, formats = 0, k_dtype = QUERN_F16, v_dtype = QUERN_F16, most_d = 8, key_lanes = 1;
    std::int32_t most_subgroups = 0, extras = 0, pool_fours = 1, kind = 0, paired = 0, blocks_in = 0, blocks_out = 0;
    std::int32_t page = 16, k_stride = 16, v_stride = 16, n[CHAIN_PARTS] = {}, format[CHAIN_PARTS] = {}, used_rows = 2, once = 0;
  };
  struct Launch {
    std::uint32_t groups = 0, threads = 0;
    Constants constants;
  };
  /// How the kernel of one stage is launched.
  Launch launch(const ChainStage& stage) const;
  /// The records that the kernel reads. What lies in scratch is not stored yet.
  Built build(std::uint64_t scratch_begin, std::uint64_t scratch_end) const;

 private:
  struct Value {
    std::uint64_t at = 0;
    std::uint32_t count = 0, stage = 0, part = 0;
  };
  struct Sizes {  // most that a stage has
    std::uint32_t k = 64, half_k = 4, formats = 0, d = 8, extras = 0;
  };
  std::uint32_t pool_fours(const Sizes& sizes) const noexcept;
  std::uint64_t shared_bytes(const Sizes& sizes) const noexcept;
  bool once(const ChainStage& stage) const noexcept;
  std::uint32_t groups_of(const ChainStage& stage, bool in_blocks) const noexcept;
  std::uint32_t blocks_made(const ChainStage& stage, const ChainStage& next) const noexcept;
  const Value* find(std::uint64_t at) const;
  bool overlaps(std::uint64_t begin, std::uint64_t bytes) const;

  const CardFacts& card_;
  std::vector<ChainStage> stages_;
  std::vector<Value> values_;
  std::vector<OneRowProduct> first_;
  std::uint64_t product_x_ = 0;  // what the last stage of products reads
  Sizes sizes_;
  int k_dtype_ = 0, v_dtype_ = 0;
};

}  // namespace quern::vulkan
