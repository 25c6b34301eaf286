// See launcher.hpp.
#include "launcher.hpp"

#include <cstring>

namespace quern::vulkan {
namespace {

constexpr std::uint64_t parameter_alignment = 16;

bool meet(const Touched& a, const Touched& b) { return (a.written || b.written) && a.begin < b.end && b.begin < a.end; }

}  // namespace

Touched touched(const sdk::Tensor& t, bool written) {
  std::int64_t last = 0;
  const sdk::ElementSize size = sdk::element_size(t.dtype);
  for (std::uint32_t d = 0; d < t.rank; ++d) {
    const std::int64_t n = d + 1 == t.rank ? t.dims[d] / static_cast<std::int64_t>(size.elements) : t.dims[d];
    if (n == 0) return {};
    last += (n - 1) * t.strides[d];
  }
  return {t.data, t.data + static_cast<std::uint64_t>(last) + size.bytes, written};
}

void Launcher::begin_step(std::vector<Touched> touched) {
  step_ = std::move(touched);
  begun_ = true;
}

void Launcher::settle() {
  if (!begun_) return;
  begun_ = false;
  bool met = false;
  for (const Touched& before : pending_)
    for (const Touched& now : step_) met = met || meet(before, now);
  if (met) barrier();
  else pending_.insert(pending_.end(), step_.begin(), step_.end());
}

void Launcher::barrier() {
  settle();
  if (target_.commands != VK_NULL_HANDLE)
    vulkan::barrier(gpu_.calls(), target_.commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
  pending_ = step_;
}

std::uint32_t Launcher::row_threads(std::int64_t elements) const noexcept {
  if (facts().software()) return elements <= 8 ? 8 : 32;
  return elements <= 64 ? 32 : elements <= 1024 ? 128 : 256;
}

Launcher::Grid Launcher::spread(std::int64_t count) const noexcept {
  const std::int64_t threads = item_threads();
  return {std::min<std::int64_t>((count + threads - 1) / threads, (facts().quirks & short_loops) != 0 ? 65535 : 16384), 1, 1};
}

Launcher::Grid Launcher::rows(std::int64_t count) const noexcept { return {std::min<std::int64_t>(count, 65535), 1, 1}; }

std::uint64_t Launcher::store(const void* data, std::size_t bytes) {
  const std::uint64_t at = (used_ + parameter_alignment - 1) / parameter_alignment * parameter_alignment;
  used_ = at + bytes;
  if (target_.commands == VK_NULL_HANDLE) return 0;
  if (used_ > target_.parameters_bytes)
    throw Failure(QUERN_INTERNAL, concat("the parameters of a run need ", used_, " bytes, ", target_.parameters_bytes, " were kept for them"));
  if (data != nullptr) std::memcpy(target_.parameters + at, data, bytes);
  return target_.parameters_address + at;
}

void Launcher::start(std::string_view kernel, std::uint32_t threads, Grid grid, const void* params, std::size_t bytes, bool pushed,
                     std::initializer_list<std::int32_t> constants) {
  if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
  const std::int64_t sizes[3] = {grid.x, grid.y, grid.z};
  for (int i = 0; i < 3; ++i)
    if (sizes[i] > std::int64_t{facts().grid_limit[i]})
      throw Failure(QUERN_UNSUPPORTED, concat("kernel ", std::string(kernel), " would need ", sizes[i], " workgroups, the device takes ", facts().grid_limit[i]));
  PipelineKey key;
  key.kernel = find_kernel(kernel);
  if (key.kernel == nullptr) throw Failure(QUERN_INTERNAL, concat("there is no kernel ", std::string(kernel)));
  key.threads = threads;
  key.count = static_cast<std::uint32_t>(constants.size());
  std::copy(constants.begin(), constants.end(), key.constants);
  if (predicate_ == 0) return dispatch(key, params, bytes, pushed, grid, 0);
  const std::uint64_t indirect = store(nullptr, sizeof(VkDispatchIndirectCommand));
  const PredicateParams predicate{predicate_, indirect, static_cast<uint>(grid.x), static_cast<uint>(grid.y), static_cast<uint>(grid.z)};
  PipelineKey counting;
  counting.kernel = find_kernel("predicate");
  counting.threads = 1;
  dispatch(counting, &predicate, sizeof predicate, is_pushed<PredicateParams>, {1, 1, 1}, 0);
  if (target_.commands != VK_NULL_HANDLE)
    vulkan::barrier(gpu_.calls(), target_.commands, VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                    VK_ACCESS_INDIRECT_COMMAND_READ_BIT | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
  dispatch(key, params, bytes, pushed, grid, indirect);
}

void Launcher::dispatch(const PipelineKey& key, const void* params, std::size_t bytes, bool pushed, Grid grid, std::uint64_t indirect) {
  settle();
  ++launches_;
  invocations_ += static_cast<std::uint64_t>(grid.x * grid.y * grid.z) * key.threads;
  std::uint64_t address = 0;
  if (!pushed) {
    address = store(params, bytes);
    params = &address;
    bytes = sizeof address;
  }
  if (target_.commands == VK_NULL_HANDLE) {
    wanted_.push_back(key);
    return;
  }
  VkPipeline pipeline = gpu_.pipelines().find(key);
  if (pipeline == VK_NULL_HANDLE) {
    gpu_.pipelines().make({key}, 1);
    pipeline = gpu_.pipelines().find(key);
  }
  const Calls& calls = gpu_.calls();
  calls.CmdBindPipeline(target_.commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  calls.CmdPushConstants(target_.commands, gpu_.pipelines().layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<std::uint32_t>(bytes), params);
  if (indirect == 0) {
    calls.CmdDispatch(target_.commands, static_cast<std::uint32_t>(grid.x), static_cast<std::uint32_t>(grid.y), static_cast<std::uint32_t>(grid.z));
    return;
  }
  calls.CmdDispatchIndirect(target_.commands, target_.parameters_buffer, target_.parameters_offset + (indirect - target_.parameters_address));
}

}  // namespace quern::vulkan
