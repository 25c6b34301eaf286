// See op.hpp.
#include "op.hpp"

#include "ops/tables.hpp"

namespace quern::cuda {

namespace {
const Tensor absent;
}

const Tensor& Call::input(std::size_t i) const noexcept { return i < inputs.size() ? inputs[i] : absent; }
const Tensor& Call::output(std::size_t i) const noexcept { return i < outputs.size() ? outputs[i] : absent; }

Launcher::Grid Launcher::spread(std::int64_t count) const {
  return {std::min<std::int64_t>((count + 255) / 256, std::int64_t{multiprocessors()} * 16), 1, 1};
}

void Launcher::start(Function function, std::string_view name, Grid grid, unsigned block, const void* params,
                     unsigned shared) {
  if (grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
    throw Failure(QUERN_UNSUPPORTED, concat("kernel ", std::string(name), " would need a grid of ", grid.x, " x ", grid.y, " x ", grid.z));
  ++launches_;
  if (dry_) return;
  LaunchAttribute attribute{};
  attribute.id = constant::launch_programmatic_serialization;
  attribute.value.programmatic_serialization = 1;
  LaunchConfig config{};
  config.grid_x = static_cast<unsigned>(grid.x);
  config.grid_y = static_cast<unsigned>(grid.y);
  config.grid_z = static_cast<unsigned>(grid.z);
  config.block_x = block;
  config.block_y = config.block_z = 1;
  config.shared_bytes = shared;
  config.stream = gpu_.stream();
  config.attributes = &attribute;
  config.attribute_count = gpu_.programmatic_launch() ? 1 : 0;
  void* arguments[] = {const_cast<void*>(params)};
  const Result result = gpu_.driver().cuLaunchKernelEx(&config, function, arguments, nullptr);
  if (result != constant::success) gpu_.driver().check(result, concat("launching ", std::string(name)).c_str());
}

void Launcher::dense(const DenseParams& p, bool half) {
  if (p.m == 0 || p.n == 0) return;
  Blas* blas = gpu_.blas();
  if (blas != nullptr && (dry_ || blas->product(p, half, gpu_.stream()))) {
    ++launches_;
    return;
  }
  launch("gemm_dense", half ? "gemm_dense_f16" : "gemm_dense_bf16", {(p.n + 127) / 128, (p.m + 127) / 128, 1}, 256, p, 65536);
}

void Launcher::deliver(bool captured) {
  if (!dry_ && !captured) gpu_.mailbox().post(slot_);
  deliver_page(captured);
}

void Launcher::deliver_posted() { deliver_page(false); }

void Launcher::deliver_page(bool small) {
  if (!dry_) gpu_.mailbox().copy_page(gpu_.stream(), slot_, small);
  launch("mailbox", "deliver", {32, 1, 1}, 256, gpu_.mailbox().params());
}

bool Launcher::is_dead(const Tensor& predicate) {
  if (dry_) return false;
  std::int32_t live = 0;
  gpu_.driver().check(gpu_.driver().cuMemcpyDtoHAsync_v2(&live, predicate.data, sizeof live, gpu_.stream()), "reading a predicate");
  gpu_.synchronize("reading a predicate");
  return live == 0;
}

const Op* find_implementation(std::uint32_t op) noexcept {
  for (const std::span<const Op> table : op_tables())
    for (const Op& row : table)
      if (row.op == op) return &row;
  return nullptr;
}

bool is_node_kernel(std::string_view name) noexcept {
  for (const std::span<const Op> table : op_tables())
    for (const Op& row : table)
      if (name == row.kernel) return true;
  return false;
}

std::string check_floats(const Tensor& t) { return is_float(t.dtype) ? "" : concat(describe(t), "; f32, f16 or bf16 is taken"); }
std::string check_dtype(const Tensor& t, quern_dtype dtype) {
  return t.dtype == dtype ? "" : concat(describe(t), "; element type ", dtype, " is taken");
}
std::string check_rank(const Tensor& t, std::uint32_t rank) {
  return t.rank == rank ? "" : concat(describe(t), "; it has ", rank, " dimensions");
}
std::string check_packed(const Tensor& t) {
  return !t.present() || t.planes || t.contiguous()
             ? ""
             : concat(describe(t), " is strided and this kernel reads packed memory");
}
bool all_packed(const Call& call) {
  for (const auto& list : {call.inputs, call.outputs})
    for (const Tensor& t : list)
      if (!check_packed(t).empty()) return false;
  return true;
}
std::string check_same(const Tensor& a, const Tensor& b) {
  bool same = a.rank == b.rank;
  for (std::uint32_t d = 0; same && d < a.rank; ++d) same = a.dims[d] == b.dims[d];
  return same ? "" : concat(describe(a), " and ", describe(b), " have one shape");
}
std::string check_dim(const Tensor& t, std::uint32_t dim, std::int64_t size) {
  return dim < t.rank && t.dims[dim] == size ? "" : concat(describe(t), "; its dimension ", dim, " is ", size);
}
std::string first_of(std::initializer_list<std::string> reasons) {
  for (const std::string& reason : reasons)
    if (!reason.empty()) return reason;
  return {};
}
bool broadcasts(const Tensor& small, const Tensor& large) {
  if (small.rank > large.rank) return false;
  for (std::uint32_t d = 0; d < small.rank; ++d) {
    const std::int64_t n = small.dims[d];
    if (n != 1 && n != large.dims[d + large.rank - small.rank]) return false;
  }
  return true;
}

}  // namespace quern::cuda
