// See weights.hpp.
#include "weights.hpp"

#include "op.hpp"

namespace quern::cuda {
namespace {

class Packing : public sdk::PlanePacking {
 public:
  const char* plugin() const override { return "cuda"; }
  sdk::WeightRead reads(const sdk::ResolvedNode& node, std::size_t input) const override {
    const bool product = node.op == QUERN_OP_MATMUL || node.op == QUERN_OP_MATMUL_ID;
    const bool weights = (product && input == 1) || (node.op == QUERN_OP_GET_ROWS && input == 0);
    return weights ? sdk::WeightRead::packed : sdk::WeightRead::canonical;
  }
  bool serves(const sdk::PlaneLayout& layout) const override { return is_fast_format(layout.dtype) || is_group_format(layout.dtype); }
  std::uint32_t most_rank() const override { return 3; }
};

}  // namespace

const sdk::PlanePacking& plane_packing() noexcept {
  static const Packing packing;
  return packing;
}

void pack_weight(const sdk::PlaneLayout& layout, Address from, Address to, Lane& lane) {
  Gpu& gpu = lane.gpu();
  const sdk::BlockFields& fields = sdk::block_fields(layout.dtype);
  RepackParams p{};
  p.from = from;
  p.block_bytes = static_cast<int>(fields.block_bytes);
  p.blocks = static_cast<long long>(layout.blocks());
  gpu.shadows().forget(to, layout.bytes());
  for (int f = 0; f < sdk::BlockFields::count; ++f) {
    p.to[f] = to + layout.plane(f);
    p.offset[f] = static_cast<int>(fields.offset[f]);
    p.bytes[f] = static_cast<int>(fields.bytes[f]);
    // What lies between planes is part of the packed bytes, the same each time.
    const Address end = p.to[f] + layout.blocks() * fields.bytes[f], next = to + layout.plane(f + 1);
    lane.touch();
    if (next > end) gpu.driver().check(gpu.driver().cuMemsetD8Async(end, 0, next - end, lane.stream()), "packing a weight");
  }
  Launcher launcher(lane, false, lane.slot());
  launcher.launch(kernels::repack, launcher.spread(p.blocks * p.block_bytes / 2), 256, p);
}

}  // namespace quern::cuda
