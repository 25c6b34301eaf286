// See weights.hpp.
#include "weights.hpp"

#include "one_row.hpp"
#include "run_once.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

class Packing : public sdk::PlanePacking {
 public:
  const char* plugin() const override { return "vulkan"; }
  sdk::WeightRead how_read(const sdk::ResolvedNode& node, std::size_t input, const Tensor& tensor) const override {
    const bool floats = node.op == QUERN_OP_MATMUL && input == 1 && tensor.rank == 2 && wants_floats(static_cast<int>(tensor.dtype));
    if (floats) return node.f16_allowed() ? sdk::WeightRead::packed : sdk::WeightRead::canonical;
    return PlanePacking::how_read(node, input, tensor);
  }
  sdk::WeightRead reads(const sdk::ResolvedNode& node, std::size_t input) const override {
    if (node.op == QUERN_OP_MATMUL && input == 1 && node.int8_allowed()) return sdk::WeightRead::packed;
    return node.op == QUERN_OP_GET_ROWS && input == 0 ? sdk::WeightRead::either : sdk::WeightRead::canonical;
  }
  /// The packing kernel counts units of two bytes with 32 bits.
  bool serves(const sdk::PlaneLayout& layout) const override {
    return has_planes(layout.dtype) && layout.source_bytes() / 2 < std::uint64_t{1} << 31;
  }
};

}  // namespace

const sdk::PlanePacking& plane_packing() noexcept {
  static const Packing packing;
  return packing;
}

bool has_planes(quern_dtype dtype) noexcept {
  constexpr quern_dtype formats[] = {QUERN_Q4_0,    QUERN_Q4_1,   QUERN_Q5_0,   QUERN_Q5_1,    QUERN_Q8_0,
                                     QUERN_Q6_K,    QUERN_Q4_Z32, QUERN_Q4_Z64, QUERN_Q4_Z128, QUERN_Q8_Z32,
                                     QUERN_Q8_Z128, QUERN_Q8_128, QUERN_F8_128, QUERN_NF4_64,  QUERN_FP4_64};  // of shaders/planes.glsl
  return std::ranges::find(formats, dtype) != std::end(formats);
}

std::array<std::uint64_t, 4> plane_offsets(quern_dtype dtype, std::int64_t rows, std::int64_t k) {
  if (!has_planes(dtype)) return {};
  const sdk::PlaneLayout layout{dtype, rows, k};
  return {layout.plane(0), layout.plane(1), layout.plane(2), layout.plane(3)};
}

void pack_weight(const sdk::PlaneLayout& layout, std::uint64_t from, Memory& target, std::uint64_t offset, Gpu& gpu) {
  const sdk::BlockFields& fields = sdk::block_fields(layout.dtype);
  gpu.fill(target, offset, 0, layout.bytes());  // what lies between planes too
  RepackParams p{};
  p.from = from;
  for (int f = 0; f < sdk::BlockFields::count; ++f) {
    p.to[f] = target.address() + offset + layout.plane(f);
    p.offset[f] = fields.offset[f];
    p.bytes[f] = fields.bytes[f];
  }
  p.blocks = static_cast<uint>(layout.blocks());
  p.block_bytes = fields.block_bytes;
  run_once(gpu, [&](Launcher& launcher) {
    launcher.launch("repack", launcher.item_threads(), launcher.spread(std::int64_t{p.blocks} * (p.block_bytes / 2)), p);
  });
}

}  // namespace quern::vulkan
