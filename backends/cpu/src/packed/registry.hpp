// Which layout a weight gets, and what a layout key of the ABI means.
//
// A key is "<layout>/<rows>x<k>", "q4_k.16x4.v1/5632x2048", or for the experts of matmul_id "<layout>/<experts>x<rows>x<k>": packed bytes can
// be made, checked and read from it alone. Each expert begins with a panel of its own.
#pragma once

#include "packed.hpp"

#include "../isa.hpp"

#include <string>
#include <string_view>

namespace quern::cpu {

/// The layouts of the fastest instruction set up to `best` that this processor has; null: none.
const PackedSet* packed_set_for(const Processor& processor, Isa best) noexcept;

/// Whether a node that allows `conversions` (QUERN_CONVERT_...) of its inputs may have its activations in this form.
bool conversions_allow(std::uint32_t conversions, Activations activations) noexcept;

/// What multiplies panels of `panels` on `isa`: another layout than itself where a faster set reads the same panels.
const PackedLayout& multiplying_layout(const PackedLayout& panels, Isa isa) noexcept;

/// The set's layout for rows of k elements of `format` where `conversions` are allowed; null: none takes them.
const PackedLayout* find_packed_layout(const PackedSet& set, quern_dtype format, std::int64_t k, std::uint32_t conversions) noexcept;

struct PackedKey {
  const PackedLayout* layout = nullptr;
  std::int64_t experts = 0;      // 0: a matrix
  std::int64_t rows = 0, k = 0;  // of the matrix, or of each expert

  explicit operator bool() const noexcept { return layout != nullptr; }
  std::int64_t matrices() const noexcept { return experts == 0 ? 1 : experts; }
  std::uint64_t source_bytes() const noexcept;
  std::uint64_t bytes() const noexcept;
};
/// layout null: no layout of this processor, or not a key.
PackedKey parse_packed_key(std::string_view key);
std::string packed_key(const PackedKey& key);

/// Panels that `rows` rows take, and their bytes.
inline std::int64_t packed_panels(const PackedLayout& layout, std::int64_t rows) noexcept {
  return (rows + layout.panel_rows - 1) / layout.panel_rows;
}
inline std::int64_t packed_bytes(const PackedLayout& layout, std::int64_t rows, std::int64_t k) noexcept {
  return packed_panels(layout, rows) * layout.panel_bytes(k);
}
inline std::int64_t packed_bytes(const PackedKey& key) noexcept { return key.matrices() * packed_bytes(*key.layout, key.rows, key.k); }

}  // namespace quern::cpu
