// See op.hpp.
#include "op.hpp"

#include "kernels/gemm.hpp"

#include "ops/tables.hpp"
#include "weights.hpp"

namespace quern::cuda {

Launcher::Grid Launcher::spread(std::int64_t count) const {
  return {std::min<std::int64_t>((count + 255) / 256, std::int64_t{multiprocessors()} * 16), 1, 1};
}

void Launcher::start(Function function, std::string_view name, Grid grid, unsigned block, const void* params, unsigned shared,
                     unsigned cluster) {
  if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
    throw Failure(QUERN_UNSUPPORTED, concat("kernel ", std::string(name), " would need a grid of ", grid.x, " x ", grid.y, " x ", grid.z));
  ++launches_;
  if (dry_) return;
  LaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (gpu_.programmatic_launch()) {
    attributes[count].id = constant::launch_programmatic_serialization;
    attributes[count++].value.programmatic_serialization = 1;
  }
  if (cluster > 1) {
    attributes[count].id = constant::launch_cluster;
    attributes[count++].value.cluster = {cluster, 1, 1};
  }
  LaunchConfig config{};
  config.grid_x = static_cast<unsigned>(grid.x);
  config.grid_y = static_cast<unsigned>(grid.y);
  config.grid_z = static_cast<unsigned>(grid.z);
  config.block_x = block;
  config.block_y = config.block_z = 1;
  config.shared_bytes = shared;
  config.stream = lane_.stream();
  config.attributes = attributes;
  config.attribute_count = count;
  void* arguments[] = {const_cast<void*>(params)};
  const Result result = gpu_.driver().cuLaunchKernelEx(&config, function, arguments, nullptr);
  lane_.touch();
  if (result != constant::success) gpu_.driver().check(result, concat("launching ", std::string(name)).c_str());
}

void Launcher::dense(const DenseParams& p, bool half) {
  if (p.m == 0 || p.n == 0) return;
  Blas* blas = gpu_.blas();
  if (blas != nullptr && (dry_ || blas->product(p, half, lane_.stream(), lane_.blas_workspace()))) {
    lane_.touch();
    ++launches_;
    return;
  }
  launch(half ? kernels::gemm_dense_f16 : kernels::gemm_dense_bf16,
         {(p.n + dense_tile - 1) / dense_tile, (p.m + dense_tile - 1) / dense_tile, 1}, 256, p, dense_stages * dense_stage);
}

void Launcher::deliver(bool captured) {
  gpu_.kernels().get(kernels::deliver, 0);  // it may fail for want of memory: before the writes leave the mailbox
  if (!dry_ && !captured) lane_.mailbox().post(slot_);
  deliver_page(captured);
}

void Launcher::deliver_posted() { deliver_page(false); }

void Launcher::deliver_page(bool small) {
  if (!dry_) {
    lane_.touch();
    lane_.mailbox().copy_page(lane_.stream(), slot_, small);
  }
  launch(kernels::deliver, {32, 1, 1}, 256, lane_.mailbox().params());
}

bool Launcher::is_dead(const Tensor& predicate) {
  if (dry_) return false;
  std::int32_t live = 0;
  gpu_.driver().check(gpu_.driver().cuMemcpyDtoHAsync_v2(&live, predicate.data, sizeof live, lane_.stream()), "reading a predicate");
  lane_.synchronize("reading a predicate");
  return live == 0;
}

namespace {

class TableOffers : public sdk::Offers {
 public:
  const sdk::OpOffer* find(std::uint32_t op) const override {
    for (const Op* row : op_rows())
      if (row->op == op) return row;
    return nullptr;
  }
  std::uint64_t layout_bytes(std::string_view key, const quern_value& value) const override {
    return plane_packing().layout_bytes(key, value);
  }
  // Each element of a product's addend and of logits is read by the thread that writes there.
  bool writes_over_input(std::uint32_t) const override { return true; }
};

}  // namespace

const sdk::Offers& offers() noexcept {
  static const TableOffers table;
  return table;
}

bool is_node_kernel(std::string_view name) noexcept {
  for (const Op* row : op_rows())
    if (name == row->kernel) return true;
  return false;
}

bool all_packed(const Call& call) {
  for (const auto& list : {call.inputs, call.outputs})
    for (const Tensor& t : list)
      if (!check_contiguous(t).empty()) return false;
  return true;
}

}  // namespace quern::cuda
