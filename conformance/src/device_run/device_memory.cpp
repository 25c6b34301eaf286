// See device_memory.hpp.
#include "device_run/device_memory.hpp"

#include "device_run/status_words.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace quern::conformance {
namespace {

constexpr std::uint64_t canary_bytes = 4096;
constexpr std::uint64_t most_whole = 256 << 10;  // of a region that is brought with its canaries
constexpr double copy_seconds = 60;
constexpr std::uint64_t part_bytes = 16 << 20;  // of host memory that a buffer is filled from and compared through

std::byte canary_byte(std::uint64_t i) { return static_cast<std::byte>(0xc5 ^ (i * 37 & 0xff)); }

std::vector<std::byte> canary() {
  std::vector<std::byte> bytes(canary_bytes);
  for (std::uint64_t i = 0; i < canary_bytes; ++i) bytes[i] = canary_byte(i);
  return bytes;
}

/// Empty if both canaries are whole, else where the first changed byte lies.
std::string damage_of(std::span<const std::byte> before, std::span<const std::byte> behind) {
  for (std::uint64_t i = 0; i < canary_bytes; ++i)
    if (before[i] != canary_byte(i)) return "byte " + std::to_string(canary_bytes - i) + " before the buffer was written";
  for (std::uint64_t i = 0; i < behind.size(); ++i)
    if (behind[i] != canary_byte(i)) return "byte " + std::to_string(i) + " behind the buffer was written";
  return {};
}

quern_buffer* make_buffer(const DeviceRef& device, std::uint64_t bytes) {
  quern_buffer_options options{};
  options.header = {sizeof options, QUERN_TYPE_BUFFER_OPTIONS, nullptr};
  quern_buffer* buffer = nullptr;
  AbiError error;
  error.check(device.api().buffer_create(device.handle(), &options, bytes, &buffer, error.get()), "buffer_create");
  return buffer;
}

constexpr std::size_t most_deferred = 32;  // copies that are waited for together; queues have room for more
constexpr std::uint64_t most_deferred_bytes = most_whole + 2 * canary_bytes;  // of one

/// Enqueues a copy, `call(later, sync, error)`, and waits for it unless the queue defers it.
template <class Call>
void copy_on(Queue& queue, Queue::Copy kind, std::uint64_t bytes, const char* name, const Call& call) {
  const bool later = queue.defers(kind, bytes);
  enqueue(queue, name, [&](const quern_sync* sync, quern_error* error) { return call(later, sync, error); });
  if (later) queue.defer();
  else queue.wait(copy_seconds);
}

void upload_to(const DeviceRef& device, Queue& queue, const quern_span& to, const void* from) {
  copy_on(queue, Queue::Copy::write, to.bytes, "upload", [&](bool later, const quern_sync* sync, quern_error* error) {
    return device.api().upload(device.handle(), queue.get(), &to, later ? queue.keep(from, to.bytes) : from, to.bytes, sync, error);
  });
}

void download_from(const DeviceRef& device, Queue& queue, const quern_span& from, void* to) {
  copy_on(queue, Queue::Copy::read, from.bytes, "download", [&](bool, const quern_sync* sync, quern_error* error) {
    return device.api().download(device.handle(), queue.get(), to, &from, from.bytes, sync, error);
  });
}

std::uint64_t step_of(const DeviceRef& device, std::uint64_t alignment) {
  return std::max<std::uint64_t>({alignment, device.memory_alignment(), 1});
}

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t step) { return (bytes + step - 1) / step * step; }

}  // namespace

Slab::~Slab() {
  if (buffer_ == nullptr) return;
  queue_.quiet();
  device_.api().buffer_destroy(buffer_, nullptr);
}

std::uint64_t Slab::add(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t begin = rounded_up(here_.size(), rounded_up(canary_bytes, alignment));
  here_.resize(begin + bytes, std::byte{0xff});
  return begin;
}

void Slab::allocate() { buffer_ = make_buffer(device_, here_.size()); }
void Slab::send() { upload_to(device_, queue_, {buffer_, nullptr, 0, here_.size()}, here_.data()); }
void Slab::fetch() { download_from(device_, queue_, {buffer_, nullptr, 0, here_.size()}, here_.data()); }

AbiError::AbiError() {
  error_.header = {sizeof error_, QUERN_TYPE_ERROR, nullptr};
  error_.heap = error_.node = error_.slot = QUERN_NONE;
  error_.text = buffer_;
  error_.text_capacity = sizeof buffer_;
}

std::string AbiError::text() const {
  return {buffer_, static_cast<std::size_t>(std::min<std::uint64_t>(error_.text_size, sizeof buffer_))};
}

void AbiError::check(quern_status status, const char* call) const {
  if (status != QUERN_OK) throw AbiFailure(status, std::string(call) + " answered " + status_words(status) + ": " + text());
}

Queue::Queue(DeviceRef device) : device_(device) {
  if (device.synchronous()) return;
  AbiError error;
  error.check(device.api().queue_create(device.handle(), QUERN_QUEUE_COMPUTE, &queue_, error.get()), "queue_create");
  const quern_status status = device.api().fence_create(device.handle(), 0, 0, &fence_, error.get());
  if (status != QUERN_OK) device.api().queue_destroy(queue_, nullptr);
  error.check(status, "fence_create");
}

Queue::~Queue() {
  if (fence_ != nullptr) device_.api().fence_destroy(fence_, nullptr);
  if (queue_ != nullptr) device_.api().queue_destroy(queue_, nullptr);
}

const quern_sync* Queue::next_signal() {
  if (fence_ == nullptr) return nullptr;
  point_ = {fence_, ++value_};
  sync_.header = {sizeof sync_, QUERN_TYPE_SYNC, nullptr};
  sync_.signal = {&point_, 1, sizeof point_};
  return &sync_;
}

bool Queue::defers(Copy kind, std::uint64_t bytes) {
  const bool wanted = gathers_ || (writes_ahead_ && kind == Copy::write);
  if (!wanted || fence_ == nullptr || bytes > most_deferred_bytes) return false;
  if (deferred_ == most_deferred) wait(copy_seconds);
  return true;
}

const void* Queue::keep(const void* from, std::uint64_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(from);
  return kept_.emplace_back(begin, begin + bytes).data();
}

void Queue::settle() {
  gathers_ = false;
  if (deferred_ != 0) wait(copy_seconds);
}

void Queue::quiet() noexcept {
  try {
    if (deferred_ != 0) wait(copy_seconds);
  } catch (const AbiFailure&) {  // a device that is lost, or too slow
  } catch (const std::bad_alloc&) {}
}

void Queue::wait(double seconds) {
  if (fence_ == nullptr) return;
  const quern_point last{fence_, value_};
  const quern_array points{&last, 1, sizeof last};
  AbiError error;
  error.check(device_.api().fence_wait(device_.handle(), &points, 0, static_cast<std::uint64_t>(seconds * 1e9), error.get()), "fence_wait");
  deferred_ = 0;
  kept_.clear();
}

void Region::place(std::uint64_t step, bool shifted) {
  start_ = rounded_up(std::max(canary_bytes, step) + (shifted ? step : 0), step);
  total_ = start_ + bytes_ + canary_bytes;
}

Region::Region(DeviceRef device, Queue& queue, std::uint64_t bytes, std::uint64_t alignment, bool shifted, Guard guard)
    : device_(device), queue_(queue), bytes_(bytes), behind_(canary_bytes) {
  const std::uint64_t step = step_of(device, alignment);
  place(step, shifted);
  if (device.host_memory() && guard == Guard::page &&
      step <= canary_bytes) {  // a larger alignment than a page's is not the mapping's to give
    map_before_closed_page(step);
  } else if (device.host_memory()) {
    host_alignment_ = std::align_val_t{std::max<std::uint64_t>(step, canary_bytes)};
    host_ = static_cast<std::byte*>(::operator new[](total_, host_alignment_));
    std::memset(host_, 0xff, total_);
  } else {
    buffer_ = make_buffer(device, total_);
  }
  mark();
}

Region::Region(Slab& slab, std::uint64_t bytes, bool shifted)
    : device_(slab.device_), queue_(slab.queue_), bytes_(bytes), behind_(canary_bytes), slab_(&slab) {
  const std::uint64_t step = step_of(device_, 0);
  place(step, shifted);
  start_ += slab.add(total_, step);
  mark();
}

/// Both canaries; of a small region in one copy with what lies between.
void Region::mark() {
  const std::vector<std::byte> marks = canary();
  if (buffer_ != nullptr && bytes_ <= most_whole) {
    std::vector<std::byte> all(canary_bytes + bytes_ + behind_, std::byte{0xff});
    std::ranges::copy(marks, all.begin());
    std::copy_n(marks.begin(), behind_, all.end() - static_cast<std::ptrdiff_t>(behind_));
    upload(start_ - canary_bytes, all.data(), all.size());
    return;
  }
  upload(start_ - canary_bytes, marks.data(), canary_bytes);
  upload(start_ + bytes_, marks.data(), behind_);
}

void Region::map_before_closed_page(std::uint64_t step) {
  const std::uint64_t page = canary_bytes, room = (bytes_ + step - 1) / step * step, open = (canary_bytes + room + page - 1) / page * page;
  void* const at = ::mmap(nullptr, open + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  host_ = static_cast<std::byte*>(at);
  mapped_ = open + page;
  ::mprotect(host_ + open, page, PROT_NONE);
  std::memset(host_, 0xff, open);
  start_ = open - room;
  behind_ = room - bytes_;
  total_ = open;
}

Region::~Region() {
  if (buffer_ != nullptr) {
    queue_.quiet();
    device_.api().buffer_destroy(buffer_, nullptr);
  }
  if (mapped_ != 0) ::munmap(host_, mapped_);
  else if (host_ != nullptr) ::operator delete[](host_, host_alignment_);
}

quern_span Region::span() const noexcept {
  if (host_ != nullptr) return {nullptr, host_ + start_, 0, bytes_};
  return {slab_ != nullptr ? slab_->buffer_ : buffer_, nullptr, start_, bytes_};
}

void Region::upload(std::uint64_t offset, const void* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  if (host_ != nullptr) std::memcpy(host_ + offset, from, bytes);
  else if (slab_ != nullptr) std::memcpy(slab_->here_.data() + offset, from, bytes);
  else upload_to(device_, queue_, {buffer_, nullptr, offset, bytes}, from);
}

void Region::download(std::uint64_t offset, void* to, std::uint64_t bytes) {
  if (bytes == 0) return;
  if (host_ != nullptr) std::memcpy(to, host_ + offset, bytes);
  else if (slab_ != nullptr) std::memcpy(to, slab_->here_.data() + offset, bytes);
  else download_from(device_, queue_, {buffer_, nullptr, offset, bytes}, to);
}

void Region::write(std::span<const std::byte> data) { upload(start_, data.data(), std::min<std::uint64_t>(data.size(), bytes_)); }

void Region::fill(std::byte value) {
  if (host_ != nullptr) {
    std::memset(host_ + start_, std::to_integer<int>(value), bytes_);
    return;
  }
  const std::vector<std::byte> data(std::min(part_bytes, bytes_), value);
  for (std::uint64_t at = 0; at < bytes_; at += part_bytes) upload(start_ + at, data.data(), std::min(part_bytes, bytes_ - at));
}

std::vector<std::byte> Region::read() {
  std::vector<std::byte> data(bytes_);
  read_to(data);
  return data;
}

void Region::read_to(std::span<std::byte> data) { download(start_, data.data(), std::min<std::uint64_t>(data.size(), bytes_)); }

bool Region::holds(std::span<const std::byte> data) {
  if (data.size() != bytes_) return false;
  std::vector<std::byte> found(host_ != nullptr ? 0 : std::min(part_bytes, bytes_));
  for (std::uint64_t at = 0; at < bytes_; at += part_bytes) {
    const std::uint64_t size = std::min(part_bytes, bytes_ - at);
    if (host_ == nullptr) download(start_ + at, found.data(), size);
    if (std::memcmp(host_ != nullptr ? host_ + start_ + at : found.data(), data.data() + at, size) != 0) return false;
  }
  return true;
}

std::string Region::canary_damage() { return Contents(*this).canary_damage(); }

Contents::Contents(Region& region)
    : region_(region), whole_(region.bytes_ <= most_whole), bytes_(canary_bytes + (whole_ ? region.bytes_ : 0) + region.behind_) {
  region.download(region.start_ - canary_bytes, bytes_.data(), whole_ ? bytes_.size() : canary_bytes);
  if (whole_) return;
  region.download(region.start_ + region.bytes_, bytes_.data() + canary_bytes, region.behind_);
}

std::span<const std::byte> Contents::values() const { return std::span(bytes_).subspan(canary_bytes, region_.bytes_); }

std::vector<std::byte> Contents::read() const {
  if (!whole_) return region_.read();
  return {values().begin(), values().end()};
}

void Contents::read_to(std::span<std::byte> data) const {
  if (!whole_) return region_.read_to(data);
  std::ranges::copy(values().first(std::min(values().size(), data.size())), data.begin());
}

bool Contents::holds(std::span<const std::byte> data) const {
  if (!whole_) return region_.holds(data);
  return std::ranges::equal(values(), data);
}

bool Contents::begins_with(std::span<const std::byte> data) const {
  if (data.size() == region_.bytes()) return holds(data);
  const std::vector<std::byte> all = read();
  return data.size() <= all.size() && std::ranges::equal(std::span(all).first(data.size()), data);
}

std::string Contents::canary_damage() const {
  return damage_of(std::span(bytes_).first(canary_bytes), std::span(bytes_).last(region_.behind_));
}

}  // namespace quern::conformance
