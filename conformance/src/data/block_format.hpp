// Block formats, read from their descriptors in quern_formats.h alone: no format has code of its own here.
#pragma once

#include "data/counter_random.hpp"
#include "quern/quern_formats.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quern::conformance {

/// What the scales of random blocks look like. Codes are uniform in each.
enum class BlockData {
  usual,     // scales near 2^-6 of either sign; mins centre the values of each group, within a tenth, as of trained weights
  positive,  // every decoded value >= 0 where the format can do so, else codes above the bias
  extremes,  // scales 0, negative, subnormal and the largest ones whose products stay finite, mixed over the blocks
  integers,  // super scale and min are small integers, sub-scales too: every value is a small integer
};

/// A descriptor with its bit addresses worked out once. Immutable, for any thread.
class BlockFormat {
 public:
  /// Null for a dtype that is no block format.
  static const BlockFormat* find(quern_dtype dtype);

  explicit BlockFormat(const quern_format& format);

  const quern_format& descriptor() const noexcept { return *format_; }
  /// Elements first .. first + count - 1 of packed blocks, in f64: exact arithmetic on the stored numbers.
  void read(const std::byte* blocks, std::int64_t first, std::int64_t count, double* out) const;
  /// Whether a product of scale and number may round in f32: of a code table, whose numbers have 24 bits.
  bool has_table() const noexcept { return format_->formula == QUERN_FORMULA_SUPER_TABLE; }
  /// Whether an element is a scale times its code and a minimum, not a scale times a number alone.
  bool has_minimums() const noexcept;
  /// The two parts of the same elements, whose sums are what read() gives: the scale times the code, and the minimum (0 without one).
  void read_parts(const std::byte* blocks, std::int64_t first, std::int64_t count, double* scaled, double* minimum) const;
  /// Random canonical blocks: every bit of the descriptor is set by it, bits that no field covers stay 0.
  void fill(std::byte* blocks, std::int64_t block_count, BlockData data, const CounterRandom& random) const;
  /// Sets entry e of the field of `role` to `bits`; nothing if the format has no such field.
  void set_entry(std::byte* block, std::uint32_t role, std::uint32_t e, std::uint64_t bits) const;

 private:
  struct BitRun {  // (bits of the block at `at`) << shift
    std::uint32_t at, bits, shift;
    std::uint64_t of(const std::byte* block) const noexcept;
    void put(std::byte* block, std::uint64_t value) const noexcept;
  };
  struct Field {
    std::uint32_t role = 0, stored = 0, width = 0;
    std::int64_t bias = 0;
    std::vector<BitRun> runs;           // of all entries, one after the other
    std::vector<std::uint32_t> starts;  // entry e has runs starts[e] .. starts[e + 1] - 1

    std::uint32_t entries() const noexcept { return static_cast<std::uint32_t>(starts.size() - 1); }
    std::span<const BitRun> of(std::uint32_t e) const noexcept { return {runs.data() + starts[e], starts[e + 1] - starts[e]}; }
  };
  const Field* field(std::uint32_t role) const noexcept;
  static std::uint64_t raw(const Field& field, const std::byte* block, std::uint32_t e) noexcept;
  static double number(const Field& field, const std::byte* block, std::uint32_t e) noexcept;
  static double number(const Field& field, std::uint64_t bits) noexcept;
  void decode_block(const std::byte* block, double* scaled, double* minimum) const;
  /// `chosen`: the codes to draw from; empty: all.
  void fill_codes(std::byte* block, std::uint64_t number, BlockData data, const std::vector<std::uint64_t>& chosen,
                  const CounterRandom& random) const;

  const quern_format* format_;
  std::vector<double> numbers_;      // of the codes, where these are no integers
  std::vector<double> code_values_;  // of each code, as a block is decoded
  std::vector<Field> fields_;
};

}  // namespace quern::conformance
