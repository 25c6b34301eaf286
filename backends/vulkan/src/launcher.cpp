// See launcher.hpp.
#include "launcher.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace quern::vulkan {
namespace {

constexpr std::uint64_t parameter_alignment = 16;
constexpr std::uint64_t control_bytes = 256;  // of chains, before the counters of an exchange
constexpr std::uint32_t most_counters = 256;  // before its words
constexpr std::uint64_t words_offset = control_bytes + most_counters * sizeof(std::uint32_t);
/// Looks of a workgroup that waits for another, 0.5 to 1 us each; a step of a large model takes a few ms.
constexpr uint most_looks = 1 << 21;

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

Launcher::Launcher(Gpu& gpu, const Target& target) : gpu_(gpu), target_(target) {
  if (target.persistent) chain_ = std::make_unique<Chain>(gpu.facts());
}

void Launcher::joined() {
  joined_touched_.insert(joined_touched_.end(), step_.begin(), step_.end());
  begun_ = false;
}
void Launcher::join(const OneRowProduct& product) {
  if (!chain_) {
    const bool touches = std::ranges::any_of(joined_touched_, [&](const Touched& before) {
      return std::ranges::any_of(step_, [&](const Touched& now) { return meet(before, now); });
    });
    if (!alone_.empty() && (touches || !share_launch(alone_, product))) flush();
    alone_.push_back(product);
    joined();
    return;
  }
  if (!chain_->add(product)) {
    flush();
    if (!chain_->add(product)) return launch_products({product});
  }
  joined();
}
bool Launcher::join(const AttentionParams& attention, int k_dtype, int v_dtype) {
  if (!chain_ || !chain_->add(attention, k_dtype, v_dtype)) return false;
  joined();
  return true;
}

std::uint64_t Launcher::counters(std::uint32_t count) {
  if (count > most_counters) return 0;
  exchange_bytes_ = std::max(exchange_bytes_, words_offset);
  const std::uint64_t begin = target_.exchange + control_bytes;
  touch({begin, begin + count * sizeof(std::uint32_t), true});
  return begin;
}

void Launcher::launch_products(const std::vector<OneRowProduct>& products) {
  const OneRowLaunch l = one_row_launch(products, facts());
  const OneRowProduct& first = products.front();
  const auto k = static_cast<std::int32_t>(first.k), paired = first.paired ? 1 : 0, parts = static_cast<std::int32_t>(products.size());
  if (wants_floats(first.format))
    launch("gemv_floats", l.threads, {l.groups, 1, 1}, l.params,
           {first.mode, k, paired, parts, l.loads, first.format, l.copies, l.half_row ? 1 : 0});
  else
    launch("gemv_one", l.threads, {l.groups, 1, 1}, l.params,
           {first.format, l.other_format, l.parts_of_other, first.mode, k, paired, parts});
}

void Launcher::flush() {
  if (alone_.empty() && (!chain_ || chain_->empty())) return;
  const std::vector<OneRowProduct> alone = std::exchange(alone_, {});
  const std::unique_ptr<Chain> chain = std::exchange(chain_, nullptr);  // null: what follows is launched at once
  std::vector<Touched> step = std::exchange(step_, std::exchange(joined_touched_, {}));
  const bool begun = std::exchange(begun_, true);
  const std::uint64_t predicate = std::exchange(predicate_, 0);
  if (!alone.empty()) launch_products(alone);
  else if (chain->size() > 1) launch_chain(*chain);
  else
    for (const OneRowProduct& product : chain->first_products()) launch_products({product});
  step_ = std::move(step);
  begun_ = begun;
  predicate_ = predicate;
  if (chain) chain_ = std::make_unique<Chain>(facts());
}

void Launcher::launch_chain(const Chain& chain) {
  const Chain::Built built = chain.build(target_.scratch_begin, target_.scratch_end);
  ChainParams p{};
  p.stages = store(built.stages.data(), built.stages.size() * sizeof(ChainStage));
  p.control = target_.exchange;
  p.exchange = target_.exchange + words_offset;
  p.faults = faults();
  p.stalled = gpu_.stalled_address(target_.slot);
  p.count = static_cast<uint>(built.stages.size());
  p.limit = most_looks;
  exchange_bytes_ = std::max(exchange_bytes_, words_offset + built.words * 8);
  if (chained_) barrier();  // the words of one chain at a time
  chained_ = true;
  for (const ChainStage& stage : built.stages) {
    const Chain::Launch launch = chain.launch(stage);
    PipelineKey key;
    key.kernel = find_kernel("chain");
    if (key.kernel == nullptr) throw Failure(QUERN_INTERNAL, "there is no kernel chain");
    key.threads = launch.threads;
    key.count = sizeof launch.constants / sizeof key.constants[0];
    static_assert(sizeof launch.constants <= sizeof key.constants);
    std::memcpy(key.constants, &launch.constants, sizeof launch.constants);
    p.stage = static_cast<uint>(&stage - built.stages.data());
    p.x = stage.x;
    p.x_word = stage.x_word;
    p.other = stage.other;
    p.offset = stage.offset;
    p.next_other = stage.next_other;
    p.next_offset = stage.next_offset;
    const bool attends = stage.parts == 0;
    p.b[0] = attends ? stage.attention.position : stage.part[0].b;
    p.b[1] = attends ? stage.attention.row_slot : stage.paired != 0 ? stage.part[0].other_b : stage.part[1].b;
    p.b[2] = stage.part[2].b;
    dispatch(key, &p, sizeof p, is_pushed<ChainParams>, {launch.groups, 1, 1}, 0);
  }
  if (target_.commands == VK_NULL_HANDLE) return;
  for (const Chain::Output& output : built.outputs) {
    std::erase_if(unstored_, [&](const Unstored& u) { return u.begin < output.end && output.begin < u.end; });
    if (output.begin >= target_.scratch_begin && output.begin < target_.scratch_end)
      unstored_.push_back({output.begin, output.end, target_.parameters + (p.stages - target_.parameters_address) + output.patch});
  }
}

void Launcher::begin_step(std::vector<Touched> touched) {
  step_ = std::move(touched);
  begun_ = true;
}

void Launcher::settle() {
  if (!begun_) return;
  flush();
  begun_ = false;
  std::erase_if(unstored_, [&](const Unstored& u) {
    const bool read = std::ranges::any_of(step_, [&](const Touched& now) { return meet(now, {u.begin, u.end, true}); });
    if (read) std::memcpy(u.address, &u.begin, sizeof u.begin);
    return read;
  });
  bool met = false;
  for (const Touched& before : pending_)
    for (const Touched& now : step_) met = met || meet(before, now);
  if (met) barrier();
  else pending_.insert(pending_.end(), step_.begin(), step_.end());
}

void Launcher::barrier() {
  settle();
  if (target_.commands != VK_NULL_HANDLE)
    vulkan::barrier(gpu_.calls(), target_.commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                    VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
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
    throw Failure(QUERN_INTERNAL,
                  concat("the parameters of a run need ", used_, " bytes, ", target_.parameters_bytes, " were kept for them"));
  if (data != nullptr) std::memcpy(target_.parameters + at, data, bytes);
  return target_.parameters_address + at;
}

void Launcher::start(std::string_view kernel, std::uint32_t threads, Grid grid, const void* params, std::size_t bytes, bool pushed,
                     std::initializer_list<std::int32_t> constants) {
  if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
  const std::int64_t sizes[3] = {grid.x, grid.y, grid.z};
  for (int i = 0; i < 3; ++i)
    if (sizes[i] > std::int64_t{facts().grid_limit[i]})
      throw Failure(QUERN_UNSUPPORTED, concat("kernel ", std::string(kernel), " would need ", sizes[i], " workgroups, the device takes ",
                                              facts().grid_limit[i]));
  if (constants.size() > most_constants)
    throw Failure(QUERN_INTERNAL,
                  concat("kernel ", std::string(kernel), " has ", constants.size(), " constants, a pipeline takes ", most_constants));
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
  calls.CmdPushConstants(target_.commands, gpu_.pipelines().layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<std::uint32_t>(bytes),
                         params);
  if (indirect == 0) {
    calls.CmdDispatch(target_.commands, static_cast<std::uint32_t>(grid.x), static_cast<std::uint32_t>(grid.y),
                      static_cast<std::uint32_t>(grid.z));
    return;
  }
  calls.CmdDispatchIndirect(target_.commands, target_.parameters_buffer,
                            target_.parameters_offset + (indirect - target_.parameters_address));
}

}  // namespace quern::vulkan
