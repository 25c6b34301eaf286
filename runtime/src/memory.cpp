// See memory.hpp.
#include "memory.hpp"

#include "abi_call.hpp"

#include "quern/base/byte_sizes.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>
#include <utility>

namespace quern::runtime {

struct MemoryBudget::Counters {
  std::atomic<std::uint64_t> in_use{0};
  std::atomic<std::uint64_t> peak{0};
  std::atomic<std::uint64_t> allocations{0};
};

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t huge_page = 2 << 20;

/// Anonymous pages rather than malloc: large ranges go back to the system at once. Returns null on exhaustion.
std::byte* map_host(std::uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (bytes >= 4 * huge_page) madvise(memory, bytes, MADV_HUGEPAGE);  // advice: a refusal changes nothing
  return static_cast<std::byte*>(memory);
}

/// Makes pages resident, so that what was promised is there when a step needs it, and no step waits for a page.
void populate(std::byte* memory, std::uint64_t bytes) {
#if defined(MADV_POPULATE_WRITE)
  const bool populated = madvise(memory, bytes, MADV_POPULATE_WRITE) == 0;
#else
  const bool populated = false;
#endif
  if (!populated) {  // before Linux 5.14
    for (std::uint64_t at = 0; at < bytes; at += page) static_cast<volatile std::byte*>(memory)[at] = std::byte{0};
  }
}

}  // namespace

MemoryBudget::MemoryBudget(std::shared_ptr<loader::Device> device, std::uint64_t limit)
    : device_(std::move(device)), limit_(limit), counters_(std::make_unique<Counters>()), queue_(device_) {}

MemoryBudget::~MemoryBudget() = default;

bool MemoryBudget::host_memory() const noexcept { return (device_->info().caps & QUERN_CAP_HOST_MEMORY) != 0; }

/// Adds to what is in use and returns what was before.
std::uint64_t MemoryBudget::count(std::uint64_t bytes, const char* what) {
  const std::uint64_t before = counters_->in_use.fetch_add(bytes);
  if (limit_ != 0 && (before > limit_ || bytes > limit_ - before)) {
    counters_->in_use.fetch_sub(bytes);
    const auto [asked, left] = byte_words_apart(bytes, limit_ > before ? limit_ - before : 0);
    throw Error(QUERN_OUT_OF_MEMORY, concat(device_->label(), ": no memory for ", what, ": ", asked, " requested, ", left,
                                            " left of the limit of ", byte_words(limit_)));
  }
  return before;
}

void MemoryBudget::own(Memory& memory, std::uint64_t bytes, std::uint64_t before) {
  memory.bytes_ = bytes;
  memory.budget_ = shared_from_this();
  counters_->allocations.fetch_add(1);
  std::uint64_t peak = counters_->peak.load();
  while (peak < before + bytes && !counters_->peak.compare_exchange_weak(peak, before + bytes)) {}
}

Memory MemoryBudget::allocate(std::uint64_t bytes, std::uint32_t usage, const char* what) {
  Memory memory;
  if (bytes == 0) return memory;
  const std::uint64_t before = count(bytes, what);
  const auto refuse = [&](quern_status code, const std::string& detail) {
    counters_->in_use.fetch_sub(bytes);
    throw Error(code, concat(device_->label(), ": no memory for ", what, ": ", byte_words(bytes), " requested, ", detail));
  };
  if (host_memory()) {
    if (bytes > UINT64_MAX - page) refuse(QUERN_OUT_OF_MEMORY, "which no machine has");
    memory.mapped_ = (bytes + page - 1) / page * page;
    memory.mapping_ = memory.host_ = map_host(memory.mapped_);
    if (memory.host_ == nullptr) refuse(QUERN_OUT_OF_MEMORY, "the system refused");
    // Weights are written whole before a step reads them: the threads that write them make them resident, all at the same time. The
    // system clears 2 to 3 GB of pages a second on one thread, which would be half of the time of a load.
    if (usage != QUERN_USAGE_WEIGHTS) populate(memory.host_, memory.mapped_);
  } else {
    quern_buffer_options options{};
    options.header = {sizeof(options), QUERN_TYPE_BUFFER_OPTIONS, nullptr};
    options.usage = usage;
    AbiError error;
    const quern_status status =
        device_->call<&quern_plugin_api::buffer_create>(device_->handle(), &options, bytes, &memory.buffer_, error.out());
    if (status != QUERN_OK) refuse(status, concat(byte_words(error.get().available), " available: ", error.text()));
  }
  own(memory, bytes, before);
  return memory;
}

Memory MemoryBudget::adopt(std::byte* mapping, std::uint64_t mapped_bytes, std::uint64_t offset, const char* what) {
  const std::uint64_t bytes = mapped_bytes - offset, before = count(bytes, what);
  Memory memory;
  memory.mapping_ = mapping;
  memory.mapped_ = mapped_bytes;
  memory.host_ = mapping + offset;
  own(memory, bytes, before);
  return memory;
}

Memory MemoryBudget::reserve(std::uint64_t bytes, const char* what) {
  Memory memory;
  if (bytes > 0) own(memory, bytes, count(bytes, what));
  return memory;
}

MemoryStatistics MemoryBudget::statistics() const {
  return {counters_->in_use.load(), counters_->peak.load(), counters_->allocations.load()};
}

void MemoryBudget::release(Memory& memory) noexcept {
  if (device_->lost()) return;  // it may still write there
  if (memory.mapping_ != nullptr) munmap(memory.mapping_, memory.mapped_);
  if (memory.buffer_ != nullptr) device_->call<&quern_plugin_api::buffer_destroy>(memory.buffer_, nullptr);
  counters_->in_use.fetch_sub(memory.bytes_);
}

Memory::~Memory() {
  if (budget_ != nullptr) budget_->release(*this);
}

Memory::Memory(Memory&& other) noexcept { *this = std::move(other); }

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(budget_, other.budget_);
  std::swap(host_, other.host_);
  std::swap(buffer_, other.buffer_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

quern_span Memory::span(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (host_ != nullptr) return {nullptr, host_ + offset, 0, bytes};
  return {buffer_, nullptr, offset, bytes};
}

void Memory::write(DeviceQueue& queue, std::uint64_t offset, std::span<const std::byte> from) {
  if (from.empty()) return;
  if (host_ == nullptr) return queue.upload(span(offset, from.size()), from);
  queue.wait();
  std::memcpy(host_ + offset, from.data(), from.size());
}

void Memory::read(DeviceQueue& queue, std::uint64_t offset, std::span<std::byte> to) const {
  if (to.empty()) return;
  if (host_ == nullptr) return queue.download(to, span(offset, to.size()));
  queue.wait();
  std::memcpy(to.data(), host_ + offset, to.size());
}

void Memory::write(std::uint64_t offset, std::span<const std::byte> from) {
  write(budget_->queue_, offset, from);
  budget_->queue_.wait();
}

void Memory::read(std::uint64_t offset, std::span<std::byte> to) const {
  read(budget_->queue_, offset, to);
  budget_->queue_.wait();
}

void Memory::copy_within(DeviceQueue& queue, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  if (bytes == 0) return;
  if (host_ != nullptr) {
    queue.wait();
    std::memcpy(host_ + to, host_ + from, bytes);
    return;
  }
  if (budget_->device_->api().copy != nullptr) return queue.copy(span(to, bytes), span(from, bytes), bytes);
  std::vector<std::byte> there(bytes);  // a plugin may do without
  read(queue, from, there);
  queue.wait();
  write(queue, to, there);
}

void Memory::fill_zero() {
  if (bytes_ == 0) return;
  if (host_ != nullptr) {
    std::memset(host_, 0, bytes_);
    return;
  }
  const std::uint64_t words = budget_->device_->api().fill == nullptr ? 0 : bytes_ / 4 * 4;  // a plugin may do without
  if (words > 0) {
    budget_->queue_.fill(span(0, words), 0);
    budget_->queue_.wait();
  }
  const std::vector<std::byte> zeros(std::min<std::uint64_t>(bytes_ - words, 1 << 20));
  for (std::uint64_t at = words; at < bytes_; at += zeros.size()) {
    write(at, std::span(zeros).first(std::min<std::uint64_t>(zeros.size(), bytes_ - at)));
  }
}

}  // namespace quern::runtime
