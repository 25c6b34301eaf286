// See weights.hpp.
#include "weights.hpp"

#include "view.hpp"

#include <algorithm>

namespace quern::cpu {

sdk::WeightRead Packing::how_read(const sdk::ResolvedNode& node, std::size_t input, const sdk::Tensor& tensor) const {
  const auto transposed = [&](std::uint32_t key) { return node.attributes->number(key).i != 0; };
  const bool matrix = node.op == QUERN_OP_MATMUL && tensor.rank == 2 && !transposed(QUERN_KEY_TRANSPOSE_A) &&
                      !transposed(QUERN_KEY_TRANSPOSE_B);
  const bool experts = node.op == QUERN_OP_MATMUL_ID && tensor.rank == 3;
  if (input == 1 && (matrix || experts)) return sdk::WeightRead::packed;
  return node.op == QUERN_OP_GET_ROWS && input == 0 && tensor.rank == 2 ? sdk::WeightRead::either : sdk::WeightRead::canonical;
}

sdk::PackedForm Packing::form(const sdk::Tensor& t, std::uint32_t conversions) const {
  // Products that a node wants exact keep the order of summation of the canonical kernels.
  if (set_ == nullptr || conversions == 0) return {};
  const std::int64_t experts = t.rank == 3 ? t.dims[0] : 0, rows = t.dims[t.rank - 2], k = t.dims[t.rank - 1];
  const PackedLayout* layout = find_packed_layout(*set_, t.dtype, k, conversions);
  if (layout == nullptr) return {};
  const PackedKey key{layout, experts, rows, k};
  // Canonical blocks are read at some 10 GB/s, panels at 20.
  return {packed_key(key), key.bytes(), alignment, static_cast<double>(key.bytes()) * 5e-11};
}

void pack_weight(const PackedKey& key, const void* from, void* to, ThreadPool& pool) {
  const PackedLayout& layout = *key.layout;
  const std::int64_t row_bytes = key.k / unit_elements(layout.format) * unit_bytes(layout.format);
  const std::int64_t panels = packed_panels(layout, key.rows);  // of a matrix
  const auto pack = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t row = panel % panels * layout.panel_rows, before = panel / panels * key.rows;  // rows of the experts before
      layout.pack(static_cast<const std::byte*>(from) + (before + row) * row_bytes, row_bytes, std::min(layout.panel_rows, key.rows - row),
                  key.k, static_cast<std::byte*>(to) + panel * layout.panel_bytes(key.k));
    }
  };
  pool.run(
      key.matrices() * panels, std::max<std::int64_t>(1, (std::int64_t{256} << 10) / layout.panel_bytes(key.k)), nullptr,
      [](const void* body, std::int64_t begin, std::int64_t end, std::uint32_t) {
        (*static_cast<const decltype(pack)*>(body))(begin, end);
      },
      &pack);
}

}  // namespace quern::cpu
