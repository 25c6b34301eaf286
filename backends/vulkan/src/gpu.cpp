// See gpu.hpp.
#include "gpu.hpp"

#include "uncached.hpp"

#include <chrono>
#include <cstring>
#include <utility>

namespace quern::vulkan {
namespace {

constexpr std::uint64_t half_bytes = 4 << 20;  // of the staging memory
/// What is read over the bus rather than copied by the device: a copy is a submit, which waits for its turn where processes share the device.
constexpr std::uint64_t most_uncached = 16 << 10;
constexpr auto polling = std::chrono::milliseconds(20);  // longer waits sleep
constexpr std::uint64_t slice = 100'000'000;             // of a sleeping wait, ns
constexpr auto longest_wait = std::chrono::minutes(30);  // then the device counts as hung

}  // namespace

Gpu::Gpu(std::shared_ptr<const Api> api, const CardFacts& facts, const GpuOptions& options)
    : api_(std::move(api)), facts_(facts), options_(options) {
  if (options.staged) facts_.mapped = facts_.cached = false;
  const std::uint32_t copy_family = facts_.mapped ? facts.family : facts.copy_family.value_or(facts.family);
  std::vector<std::uint32_t> families = {facts.family};
  if (copy_family != facts.family) families.push_back(copy_family);
  const float priority = 1.0f;
  std::vector<VkDeviceQueueCreateInfo> queues;
  for (const std::uint32_t family : families)
    queues.push_back({VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, nullptr, 0, family, 1, &priority});
  VkPhysicalDeviceVulkan12Features v12{};
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  v12.bufferDeviceAddress = v12.timelineSemaphore = v12.storageBuffer8BitAccess = VK_TRUE;
  VkPhysicalDeviceVulkan11Features v11{};
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  v11.storageBuffer16BitAccess = VK_TRUE;
  v11.pNext = &v12;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.features.shaderInt64 = VK_TRUE;
  features.features.shaderFloat64 = facts.float64 ? VK_TRUE : VK_FALSE;
  features.pNext = &v11;
  std::vector<const char*> extensions;
  if (facts.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  VkPhysicalDeviceShaderIntegerDotProductFeatures dots{};
  dots.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  dots.shaderIntegerDotProduct = VK_TRUE;
  if (facts.integer_dot) {
    extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    v12.pNext = &dots;
  }
  if (facts.persistent_groups != 0) v12.vulkanMemoryModel = v12.vulkanMemoryModelDeviceScope = VK_TRUE;
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices{};
  matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  matrices.cooperativeMatrix = VK_TRUE;
  if (facts.matrices.m != 0) {
    extensions.push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
    v12.shaderFloat16 = v12.vulkanMemoryModel = v12.vulkanMemoryModelDeviceScope = VK_TRUE;
    matrices.pNext = v12.pNext;
    v12.pNext = &matrices;
  }
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = static_cast<std::uint32_t>(queues.size());
  info.pQueueCreateInfos = queues.data();
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  check(api_->CreateDevice(facts.handle, &info, nullptr, &device_), concat("opening ", facts.name).c_str());
  try {
    calls_ = std::make_unique<Calls>(*api_, device_);
    open(compute_, facts.family);
    if (!facts_.mapped) {
      open(copies_, copy_family);
      if (options.log)
        options.log(concat(facts.name, ": copies go through staging memory, by a queue of family ", copy_family, "; family ", facts.family,
                           " computes"));
    }
    pipelines_ = std::make_unique<Pipelines>(*calls_, device_, facts_, options.cache_directory, options.warn);
    const std::uint64_t largest = facts.max_buffer;
    memory_ = std::make_unique<MemoryPool>(*calls_, device_, families, facts.memory_type, facts_.mapped, largest);
    shared_ = std::make_unique<MemoryPool>(*calls_, device_, families, facts.staging_type, true, largest);
    constexpr std::uint64_t faults = sdk::most_runs_under_way * faults_bytes;
    faults_ = shared_->take(faults, UINT64_MAX, "the faults of a device");
    std::memset(faults_.mapped(), 0, faults);
    if (!facts_.mapped || !facts_.cached) {
      staging_ = shared_->take(2 * half_bytes, UINT64_MAX, "the staging memory of a device");
      halves_[1].offset = half_bytes;
      for (Half& half : halves_) half.commands = new_commands(copying());
    }
    once_ = new_commands();
  } catch (...) {
    close();
    throw;
  }
}

Gpu::~Gpu() { close(); }

void Gpu::close() noexcept {
  if (!calls_) return;
  if (!lost_) calls_->DeviceWaitIdle(device_);
  pipelines_.reset();
  staging_ = {};
  faults_ = {};
  memory_.reset();
  shared_.reset();
  close(copies_);
  close(compute_);
  calls_->DestroyDevice(device_, nullptr);
  calls_.reset();
}

void Gpu::open(Lane& lane, std::uint32_t family) {
  calls_->GetDeviceQueue(device_, family, 0, &lane.queue);
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = family;
  check(calls_->CreateCommandPool(device_, &pool, nullptr, &lane.pool), "making a command pool");
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo semaphore{};
  semaphore.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  semaphore.pNext = &type;
  check(calls_->CreateSemaphore(device_, &semaphore, nullptr, &lane.timeline), "making a timeline");
}

void Gpu::close(Lane& lane) noexcept {
  if (lane.timeline != VK_NULL_HANDLE) calls_->DestroySemaphore(device_, lane.timeline, nullptr);
  if (lane.pool != VK_NULL_HANDLE) calls_->DestroyCommandPool(device_, lane.pool, nullptr);
  lane = {};
}

void Gpu::require_alive() const {
  if (lost_) check(VK_ERROR_DEVICE_LOST, facts_.name.c_str());
}

std::uint64_t Gpu::budget() const {
  std::uint64_t bytes = facts_.memory;
  if (facts_.memory_budget) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budgets{};
    budgets.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
    VkPhysicalDeviceMemoryProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    properties.pNext = &budgets;
    api_->GetPhysicalDeviceMemoryProperties2(facts_.handle, &properties);
    if (budgets.heapBudget[facts_.heap] > 0) bytes = std::min<std::uint64_t>(bytes, budgets.heapBudget[facts_.heap]);
  }
  return std::min<std::uint64_t>(bytes, limit_);
}

quern_heap_info Gpu::heap(std::uint32_t) const {
  quern_heap_info info = sdk::made<quern_heap_info>();
  info.flags = QUERN_HEAP_DEVICE_LOCAL | (facts_.mapped ? QUERN_HEAP_HOST_VISIBLE : 0);
  info.total_figure = info.used_figure = QUERN_FIGURE_EXACT;
  info.budget_figure = QUERN_FIGURE_ESTIMATE;  // other processes come and go
  info.total = facts_.memory;
  info.budget = budget();
  info.used = memory_->used();
  return info;
}

Memory Gpu::allocate(std::uint64_t bytes, std::uint32_t) { return take(bytes, "a buffer"); }
Memory Gpu::take(std::uint64_t bytes, const char* what) {
  require_alive();
  return memory_->take(bytes, budget(), what);
}
Memory Gpu::take_shared(std::uint64_t bytes, const char* what) {
  require_alive();
  return shared_->take(bytes, UINT64_MAX, what);
}

void Gpu::upload(std::uint64_t to, const std::byte* from, std::uint64_t bytes) {
  VkBuffer buffer = VK_NULL_HANDLE;
  std::uint64_t offset = 0;
  memory_->locate(to, buffer, offset);
  for (std::uint64_t done = 0, part = 0; done < bytes; done += part) {
    Half& half = halves_[done / half_bytes % 2];
    part = std::min(bytes - done, half_bytes);
    wait(copying(), half.copied);
    std::memcpy(staging_.mapped() + half.offset, from + done, part);
    half.copied = start(copying(), half.commands, [&](VkCommandBuffer commands) {
      const VkBufferCopy region{staging_.offset() + half.offset, offset + done, part};
      calls_->CmdCopyBuffer(commands, staging_.buffer(), buffer, 1, &region);
    });
  }
  for (const Half& half : halves_) wait(copying(), half.copied);
}

void Gpu::download(std::byte* to, std::uint64_t from, std::uint64_t bytes) {
  VkBuffer buffer = VK_NULL_HANDLE;
  std::uint64_t offset = 0;
  memory_->locate(from, buffer, offset);
  for (const Half& half : halves_) wait(copying(), half.copied);  // of an upload that failed in between
  for (std::uint64_t done = 0; done < bytes + half_bytes; done += half_bytes) {
    Half &half = halves_[done / half_bytes % 2], &before = halves_[(done / half_bytes + 1) % 2];
    if (done < bytes)
      half.copied = start(copying(), half.commands, [&](VkCommandBuffer commands) {
        const VkBufferCopy region{offset + done, staging_.offset() + half.offset, std::min(bytes - done, half_bytes)};
        calls_->CmdCopyBuffer(commands, buffer, staging_.buffer(), 1, &region);
      });
    if (done == 0) continue;
    wait(copying(), before.copied);
    std::memcpy(to + done - half_bytes, staging_.mapped() + before.offset, std::min(bytes - (done - half_bytes), half_bytes));
  }
}

void Gpu::write(std::uint64_t to, const void* from, std::uint64_t bytes) {
  require_alive();
  if (bytes == 0) return;
  VkBuffer buffer = VK_NULL_HANDLE;
  std::uint64_t offset = 0;
  if (std::byte* mapped = memory_->locate(to, buffer, offset); mapped != nullptr) {
    std::memcpy(mapped, from, bytes);
    return;
  }
  upload(to, static_cast<const std::byte*>(from), bytes);
}

void Gpu::read(void* to, std::uint64_t from, std::uint64_t bytes) {
  require_alive();
  if (bytes == 0) return;
  VkBuffer buffer = VK_NULL_HANDLE;
  std::uint64_t offset = 0;
  if (std::byte* mapped = memory_->locate(from, buffer, offset); mapped != nullptr && (facts_.cached || bytes <= most_uncached)) {
    if (facts_.cached) std::memcpy(to, mapped, bytes);
    else read_uncached(to, mapped, bytes);
    return;
  }
  download(static_cast<std::byte*>(to), from, bytes);
}

void Gpu::move(Memory& to, std::uint64_t to_offset, const Memory& from, std::uint64_t from_offset, std::uint64_t bytes) {
  require_alive();
  const std::uint64_t target = to.offset() + to_offset, source = from.offset() + from_offset;
  once([&](VkCommandBuffer commands) {
    const VkBufferCopy region{source, target, bytes};
    calls_->CmdCopyBuffer(commands, from.buffer(), to.buffer(), 1, &region);
  });
}

void Gpu::fill(Memory& to, std::uint64_t offset, std::uint32_t pattern, std::uint64_t bytes) {
  require_alive();
  once([&](VkCommandBuffer commands) { calls_->CmdFillBuffer(commands, to.buffer(), to.offset() + offset, bytes, pattern); });
}

VkCommandBuffer Gpu::new_commands() { return new_commands(compute_); }

VkCommandBuffer Gpu::new_commands(const Lane& lane) {
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = lane.pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  check(calls_->AllocateCommandBuffers(device_, &info, &commands), "making a command buffer");
  return commands;
}

void Gpu::free_commands(VkCommandBuffer commands) noexcept {
  if (commands != VK_NULL_HANDLE) calls_->FreeCommandBuffers(device_, compute_.pool, 1, &commands);
}

std::uint64_t Gpu::enqueue(VkCommandBuffer commands) {
  flush();
  return enqueue(compute_, std::span(&commands, 1));
}

std::uint64_t Gpu::collect(VkCommandBuffer commands) {
  if (collected_count_ == collected_.size()) flush();
  collected_[collected_count_++] = commands;
  return compute_.enqueued + 1;
}

void Gpu::flush() {
  if (const std::size_t count = std::exchange(collected_count_, 0); count > 0) enqueue(compute_, std::span(collected_).first(count));
}

std::uint64_t Gpu::enqueue(Lane& lane, std::span<const VkCommandBuffer> commands) {
  require_alive();
  const Lane& other = &lane == &compute_ ? copies_ : compute_;
  const std::uint64_t point = lane.enqueued + 1, before = other.enqueued;
  const bool waits = before > lane.awaited;  // on the device, so that it sees what the other lane wrote
  constexpr VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  VkTimelineSemaphoreSubmitInfo timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timeline.waitSemaphoreValueCount = waits ? 1 : 0;
  timeline.pWaitSemaphoreValues = &before;
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &point;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &timeline;
  info.waitSemaphoreCount = waits ? 1 : 0;
  info.pWaitSemaphores = &other.timeline;
  info.pWaitDstStageMask = &all;
  info.commandBufferCount = static_cast<std::uint32_t>(commands.size());
  info.pCommandBuffers = commands.data();
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &lane.timeline;
  const VkResult result = calls_->QueueSubmit(lane.queue, 1, &info, VK_NULL_HANDLE);
  if (result == VK_ERROR_DEVICE_LOST) lost_ = true;
  check(result, "submitting a command buffer");
  lane.awaited = before;
  return lane.enqueued = point;
}

void Gpu::wait(std::uint64_t point) { wait(compute_, point); }

void Gpu::wait(const Lane& lane, std::uint64_t point) {
  if (point > lane.enqueued) {
    require_alive();
    throw Failure(QUERN_INTERNAL, concat(facts_.name, ": the driver did not take what was to be run with this"));
  }
  const auto fail = [&](VkResult result) {
    if (result == VK_ERROR_DEVICE_LOST) lost_ = true;
    check(result, "waiting for the device");
  };
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t reached = 0;
  while ((facts_.quirks & wait_sleeping) == 0 && std::chrono::steady_clock::now() - begin < polling) {
    fail(calls_->GetSemaphoreCounterValue(device_, lane.timeline, &reached));
    if (reached >= point) return;
  }
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &lane.timeline;
  info.pValues = &point;
  for (;;) {
    const VkResult result = calls_->WaitSemaphores(device_, &info, slice);
    if (result == VK_SUCCESS) return;
    if (result != VK_TIMEOUT) fail(result);
    if (std::chrono::steady_clock::now() - begin < longest_wait) continue;
    lost_ = true;  // what it still does to memory cannot be known
    Failure failure(QUERN_TIMEOUT,
                    concat(facts_.name, " does not end what was submitted within ", longest_wait.count(), " minutes; open it again"), 18);
    failure.flags = QUERN_ERROR_STICKY;
    throw failure;
  }
}

std::uint64_t Gpu::start(Lane& lane, VkCommandBuffer commands, const std::function<void(VkCommandBuffer)>& record) {
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  check(calls_->BeginCommandBuffer(commands, &begin), "recording a copy");
  record(commands);
  VkPipelineStageFlags stages = VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkMemoryBarrier copied{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_TRANSFER_WRITE_BIT,
                         VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT};
  if (&lane == &compute_) {  // a queue that only copies may not name the stage of shaders
    stages |= VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    copied.srcAccessMask |= VK_ACCESS_SHADER_WRITE_BIT;
  }
  calls_->CmdPipelineBarrier(commands, stages, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &copied, 0, nullptr,
                             0, nullptr);
  check(calls_->EndCommandBuffer(commands), "recording a copy");
  flush();
  return enqueue(lane, std::span(&commands, 1));
}

void Gpu::once(const std::function<void(VkCommandBuffer)>& record) { wait(start(compute_, once_, record)); }

std::uint64_t Gpu::take_faults(std::uint32_t slot) noexcept {
  std::byte* const at = faults_.mapped() + slot * faults_bytes;
  std::uint64_t faults = 0;
  std::memcpy(&faults, at, sizeof faults);
  if (faults != 0) std::memset(at, 0, sizeof faults);
  return faults;
}

bool Gpu::take_stalled(std::uint32_t slot) noexcept {
  std::byte* const at = faults_.mapped() + slot * faults_bytes + 64;
  std::uint32_t stalled = 0;
  std::memcpy(&stalled, at, sizeof stalled);
  if (stalled != 0) std::memset(at, 0, sizeof stalled);
  return stalled != 0;
}

void barrier(const Calls& calls, VkCommandBuffer commands, VkPipelineStageFlags to, VkAccessFlags access) {
  const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT, access};
  calls.CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

}  // namespace quern::vulkan
