// See memory.hpp.
#include "memory.hpp"

#include <new>

namespace quern::vulkan {
namespace {

constexpr std::uint64_t alignment = 256;
constexpr std::uint64_t shared_block = 16 << 20, largest_shared = 1 << 20;
constexpr std::uint64_t round_up(std::uint64_t bytes) {
  return (std::max<std::uint64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

}  // namespace

Memory::~Memory() {
  if (pool_ != nullptr) pool_->give(*this);
}

void Memory::swap(Memory& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(block_, other.block_);
  std::swap(address_, other.address_);
  std::swap(offset_, other.offset_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  std::swap(buffer_, other.buffer_);
}

MemoryPool::~MemoryPool() {
  while (!blocks_.empty()) drop(blocks_.begin()->first);
}

Memory MemoryPool::take(std::uint64_t bytes, std::uint64_t budget, const char* what) {
  const std::uint64_t size = round_up(bytes), used = used_;
  const auto fail = [&](std::string text) {
    Failure failure(QUERN_OUT_OF_MEMORY, std::move(text));
    failure.requested = bytes;
    failure.available = budget > used ? std::min(budget - used, largest_) : 0;
    failure.heap = 0;
    return failure;
  };
  if (bytes > largest_) throw fail(concat(what, " of ", bytes, " bytes; the driver makes none larger than ", largest_));
  if (size > budget || used > budget - size)
    throw fail(concat(what, " of ", bytes, " bytes; ", budget > used ? budget - used : 0, " are left"));
  const std::lock_guard lock(mutex_);
  Memory memory;
  std::uint64_t at = 0;
  if (size <= largest_shared) {
    for (auto& [address, block] : blocks_) {
      if (!block.shared || !block.ranges.fits(size)) continue;
      memory.block_ = address;
      at = block.ranges.take(size);
      break;
    }
    if (memory.block_ == 0) {
      memory.block_ = add_block(shared_block, true, what);
      at = blocks_[memory.block_].ranges.take(size);
    }
  } else {
    try {
      memory.block_ = add_block(size, false, what);
    } catch (Failure& failure) {
      if (failure.code != QUERN_OUT_OF_MEMORY) throw;
      throw fail(concat(what, " of ", bytes, " bytes: ", failure.text));
    }
  }
  Block& block = blocks_[memory.block_];
  ++block.taken;
  memory.pool_ = this;
  memory.address_ = memory.block_ + at;
  memory.offset_ = at;
  memory.bytes_ = size;
  memory.mapped_ = block.mapped == nullptr ? nullptr : block.mapped + at;
  memory.buffer_ = block.buffer;
  used_ += size;
  return memory;
}

void MemoryPool::give(Memory& memory) noexcept {
  const std::lock_guard lock(mutex_);
  used_ -= memory.bytes_;
  Block& block = blocks_.find(memory.block_)->second;
  --block.taken;
  if (!block.shared) {
    drop(memory.block_);
    return;
  }
  try {
    block.ranges.give(memory.offset_, memory.bytes_);
  } catch (const std::bad_alloc&) {  // the range stays taken until its block goes
  }
}

std::uint64_t MemoryPool::add_block(std::uint64_t bytes, bool shared, const char* what) {
  Block block;
  block.bytes = bytes;
  block.shared = shared;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
               VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  if (families_.size() > 1) {  // no family ever hands a buffer over
    info.sharingMode = VK_SHARING_MODE_CONCURRENT;
    info.queueFamilyIndexCount = static_cast<std::uint32_t>(families_.size());
    info.pQueueFamilyIndices = families_.data();
  }
  check(calls_.CreateBuffer(device_, &info, nullptr, &block.buffer), what);
  try {
    VkMemoryRequirements needs{};
    calls_.GetBufferMemoryRequirements(device_, block.buffer, &needs);
    VkMemoryAllocateFlagsInfo flags{};
    flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocate.pNext = &flags;
    allocate.allocationSize = needs.size;
    allocate.memoryTypeIndex = type_;
    check(calls_.AllocateMemory(device_, &allocate, nullptr, &block.memory), what);
    check(calls_.BindBufferMemory(device_, block.buffer, block.memory, 0), what);
    if (mapped_) {
      void* at = nullptr;
      check(calls_.MapMemory(device_, block.memory, 0, VK_WHOLE_SIZE, 0, &at), what);
      block.mapped = static_cast<std::byte*>(at);
    }
  } catch (...) {
    calls_.DestroyBuffer(device_, block.buffer, nullptr);
    if (block.memory != VK_NULL_HANDLE) calls_.FreeMemory(device_, block.memory, nullptr);
    throw;
  }
  VkBufferDeviceAddressInfo address{};
  address.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  address.buffer = block.buffer;
  const std::uint64_t at = calls_.GetBufferDeviceAddress(device_, &address);
  if (shared) block.ranges.give(0, bytes);
  blocks_[at] = std::move(block);
  return at;
}

void MemoryPool::drop(std::uint64_t address) {
  const auto at = blocks_.find(address);
  calls_.DestroyBuffer(device_, at->second.buffer, nullptr);
  calls_.FreeMemory(device_, at->second.memory, nullptr);
  blocks_.erase(at);
}

std::byte* MemoryPool::locate(std::uint64_t address, VkBuffer& buffer, std::uint64_t& offset) const {
  const std::lock_guard lock(mutex_);
  auto at = blocks_.upper_bound(address);
  if (at == blocks_.begin()) throw Failure(QUERN_INTERNAL, "an address outside of all buffers");
  --at;
  buffer = at->second.buffer;
  offset = address - at->first;
  if (offset >= at->second.bytes) throw Failure(QUERN_INTERNAL, "an address outside of all buffers");
  return at->second.mapped == nullptr ? nullptr : at->second.mapped + offset;
}

}  // namespace quern::vulkan
