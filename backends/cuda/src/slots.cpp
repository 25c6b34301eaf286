// See slots.hpp.
#include "slots.hpp"

#include "quern/quern_plan.h"

#include <algorithm>
#include <cstring>

namespace quern::cuda {

std::uint64_t Slot::take_faults() noexcept {
  const std::uint64_t bits = (faults[0] != 0 ? QUERN_FAULT_INDEX_RANGE : 0) | (faults[1] != 0 ? QUERN_FAULT_NON_FINITE : 0);
  faults[0] = 0;
  faults[1] = 0;
  return bits;
}

Slots::~Slots() {
  for (void* chunk : chunks_) driver_.cuMemFreeHost(chunk);
}

Slot* Slots::take() {
  const std::lock_guard lock(mutex_);
  const auto free = std::ranges::find(all_, false, [](const auto& slot) { return slot->taken; });
  Slot* const slot = free != all_.end() ? free->get() : grow();
  slot->taken = true;
  return slot;
}

void Slots::give(Slot* slot) noexcept {
  if (slot == nullptr) return;
  const std::lock_guard lock(mutex_);
  slot->taken = false;
}

Slot* Slots::grow() {
  constexpr std::size_t pages = chunk_slots * page_bytes, bytes = pages + chunk_slots * faults_bytes;
  chunks_.reserve(chunks_.size() + 1);
  all_.reserve(all_.size() + chunk_slots);
  std::vector<std::unique_ptr<Slot>> made;
  for (std::size_t i = 0; i < chunk_slots; ++i) made.push_back(std::make_unique<Slot>());
  void* memory = nullptr;
  driver_.check(driver_.cuMemHostAlloc(&memory, bytes, constant::host_mapped), "taking host memory that the GPU can write");
  chunks_.push_back(memory);
  std::memset(memory, 0, bytes);
  Address device = 0;
  driver_.check(driver_.cuMemHostGetDevicePointer_v2(&device, memory, 0), "mapping host memory");
  auto* const at = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i < chunk_slots; ++i) {
    made[i]->page = at + i * page_bytes;
    made[i]->faults = reinterpret_cast<volatile std::uint32_t*>(at + pages + i * faults_bytes);
    made[i]->faults_device = device + pages + i * faults_bytes;
    all_.push_back(std::move(made[i]));
  }
  return all_[all_.size() - chunk_slots].get();
}

}  // namespace quern::cuda
