// Memory: buffers, copies host to device, device to device and back, ranges, limits, and host memory as it is [C16 C23 C24].
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace quern::conformance::abi {
namespace {

void require_buffers(ScriptContext& t) {
  if (DeviceRef(t.device()).host_memory()) t.waive("QUERN_CAP_HOST_MEMORY", "spans are host pointers, there are no buffers");
}

/// A buffer of the script's own; its calls wait for their fence.
class Buffer {
 public:
  Buffer(DeviceRef device, Queue& queue, std::uint64_t bytes) : device_(device), queue_(queue), bytes_(bytes) {
    AbiError error;
    error.check(device.api().buffer_create(device.handle(), nullptr, bytes, &buffer_, error.get()), "buffer_create");
  }
  ~Buffer() { device_.api().buffer_destroy(buffer_, nullptr); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  quern_buffer* get() const noexcept { return buffer_; }
  quern_span span(std::uint64_t offset, std::uint64_t bytes) const noexcept { return {buffer_, nullptr, offset, bytes}; }
  quern_status upload(std::uint64_t offset, const void* from, std::uint64_t bytes) {
    const quern_span to = span(offset, bytes);
    return waited(device_.api().upload(device_.handle(), queue_.get(), &to, from, bytes, queue_.next_signal(), nullptr));
  }
  quern_status download(void* to, std::uint64_t offset, std::uint64_t bytes) {
    const quern_span from = span(offset, bytes);
    return waited(device_.api().download(device_.handle(), queue_.get(), to, &from, bytes, queue_.next_signal(), nullptr));
  }
  std::vector<std::uint8_t> all() {
    std::vector<std::uint8_t> data(bytes_);
    download(data.data(), 0, bytes_);
    return data;
  }
  quern_status waited(quern_status status) {
    if (status == QUERN_OK) queue_.wait(60);
    else queue_.withdraw_signal();
    return status;
  }

 private:
  DeviceRef device_;
  Queue& queue_;
  std::uint64_t bytes_;
  quern_buffer* buffer_ = nullptr;
};

std::vector<std::uint8_t> pattern(std::size_t bytes, std::uint8_t first) {
  std::vector<std::uint8_t> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(first + i * 7);
  return data;
}

void every_size(ScriptContext& t) {
  require_buffers(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  for (const std::uint64_t bytes : {0ull, 1ull, 3ull, 63ull, 64ull, 65ull, 4095ull, 4096ull, 1048577ull, 33554432ull}) {
    Buffer buffer(device, queue, bytes);
    const std::vector<std::uint8_t> data = pattern(bytes, 3);
    t.check(buffer.upload(0, data.data(), bytes) == QUERN_OK, "a buffer of " + std::to_string(bytes) + " bytes takes as many");
    t.check(buffer.all() == data, "and gives them back");
  }
}

void ranges_are_exact(ScriptContext& t) {
  require_buffers(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  Buffer buffer(device, queue, 1000), other(device, queue, 1000);
  std::vector<std::uint8_t> expected = pattern(1000, 11);
  t.check(buffer.upload(0, expected.data(), 1000) == QUERN_OK, "an upload of the whole buffer");
  for (const auto& [offset, bytes] :
       {std::pair<std::uint64_t, std::uint64_t>{0, 1}, {1, 1}, {7, 13}, {500, 64}, {999, 1}, {1000, 0}, {3, 997}}) {
    const std::vector<std::uint8_t> data = pattern(bytes, static_cast<std::uint8_t>(offset + 101));
    t.check(buffer.upload(offset, data.data(), bytes) == QUERN_OK, "an upload at any byte offset");
    std::copy(data.begin(), data.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
    t.check(buffer.all() == expected, "changes its own bytes and no other");
    std::vector<std::uint8_t> part(bytes + 2, 0xee);
    t.check(buffer.download(part.data() + 1, offset, bytes) == QUERN_OK, "a download from any byte offset");
    t.check(std::equal(data.begin(), data.end(), part.begin() + 1) && part.front() == 0xee && part.back() == 0xee,
            "writes its own bytes and no other");
  }
  // Uploads of which each has bytes in common with the one before, its end or its start, and nothing is read until all are made: the last one counts.
  for (const int direction : {1, -1})
    for (const std::uint64_t bytes : {1ull, 4ull, 60ull, 260ull}) {
      for (int i = 0; i < 20; ++i) {
        const std::uint64_t offset = direction > 0 ? 8 * i : 740 - 8 * i, size = i % 2 == 0 ? bytes : bytes / 2 + 30;
        const std::vector<std::uint8_t> data = pattern(size, static_cast<std::uint8_t>(bytes + i * 29));
        t.check(buffer.upload(offset, data.data(), size) == QUERN_OK, "an upload over a part of another");
        std::copy(data.begin(), data.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
      }
      t.check(buffer.all() == expected, "of two uploads of the same bytes the later one counts");
    }
  if (device.api().copy == nullptr) return;
  std::vector<std::uint8_t> there = pattern(1000, 77);
  other.upload(0, there.data(), 1000);
  for (const auto& [from, to, bytes] :
       {std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>{0, 0, 1000}, {3, 901, 99}, {17, 1, 5}, {0, 1000, 0}, {256, 512, 256}}) {
    const quern_span target = other.span(to, bytes), source = buffer.span(from, bytes);
    const quern_status status = device.api().copy(device.handle(), queue.get(), &target, &source, bytes, queue.next_signal(), nullptr);
    t.check(other.waited(status) == QUERN_OK, "a copy from buffer to buffer");
    std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(from), bytes, there.begin() + static_cast<std::ptrdiff_t>(to));
    t.check(other.all() == there, "moves its own bytes and no other");
  }
  t.check(buffer.all() == expected, "the source of a copy stays as it was");
}

void fill_repeats_a_word(ScriptContext& t) {
  require_buffers(t);
  const DeviceRef device = t.device();
  if (device.api().fill == nullptr) t.waive("fill is null", "the host uploads instead");
  Queue queue(device);
  Buffer buffer(device, queue, 64);
  std::vector<std::uint8_t> expected = pattern(64, 5);
  buffer.upload(0, expected.data(), 64);
  const quern_span middle = buffer.span(8, 40);
  t.check(buffer.waited(device.api().fill(device.handle(), queue.get(), &middle, 0x04030201u, 40, queue.next_signal(), nullptr)) ==
              QUERN_OK,
          "fill of 10 words");
  for (std::size_t i = 8; i < 48; ++i) expected[i] = static_cast<std::uint8_t>(i % 4 + 1);
  t.check(buffer.all() == expected, "writes the word 10 times, in little endian, and nothing else");
}

void bad_ranges_are_refused(ScriptContext& t) {
  require_buffers(t);
  const DeviceRef device = t.device();
  Queue queue(device);
  Buffer buffer(device, queue, 256), other(device, queue, 256);
  const std::vector<std::uint8_t> before = pattern(256, 9);
  buffer.upload(0, before.data(), 256);
  std::uint8_t host[512] = {};
  const auto refused = [&](const char* what, quern_span span, std::uint64_t bytes) {
    const quern_span good = other.span(0, 256);
    for (int call = 0; call < 3; ++call) {
      if (call == 2 && device.api().copy == nullptr) continue;
      AbiError error;
      const quern_sync* sync = queue.next_signal();
      const quern_status status = call == 0   ? device.api().upload(device.handle(), queue.get(), &span, host, bytes, sync, error.get())
                                  : call == 1 ? device.api().download(device.handle(), queue.get(), host, &span, bytes, sync, error.get())
                                              : device.api().copy(device.handle(), queue.get(), &good, &span, bytes, sync, error.get());
      if (status == QUERN_OK) queue.wait(60);
      else queue.withdraw_signal();
      check_refused(t, status, error, {QUERN_INVALID_ARGUMENT}, std::string(what) + " is refused [C16]");
    }
  };
  refused("more bytes than the buffer has", buffer.span(0, 300), 300);
  refused("an offset behind the buffer", buffer.span(257, 1), 1);
  refused("a range across the end", buffer.span(200, 100), 100);
  refused("an offset that overflows", buffer.span(UINT64_MAX - 7, 16), 16);
  refused("more bytes than the span has", buffer.span(0, 16), 17);
  refused("a span without a buffer", {nullptr, nullptr, 0, 16}, 16);
  refused("a host pointer where memory is the device's", {nullptr, host, 0, 16}, 16);
  t.check(buffer.all() == before, "refused calls change nothing [C16]");
}

quern_heap_info heap_of(DeviceRef device, std::uint32_t heap = 0) {
  quern_heap_info info = made<quern_heap_info>(QUERN_TYPE_HEAP_INFO);
  AbiError error;
  error.check(device.api().heap_info(device.handle(), heap, &info, error.get()), "heap_info");
  return info;
}

/// Ends the script where the device says that so much is not to be had.
void require_room(ScriptContext& t, std::uint64_t bytes) {
  const std::uint64_t most = t.device().info().max_allocation;
  if (most != 0 && most < bytes) t.waive("max_allocation", "a buffer has " + std::to_string(most) + " bytes at most");
  if (t.api().heap_info == nullptr) return;
  const quern_heap_info heap = heap_of(t.device());
  const std::uint64_t used = heap.used_figure == QUERN_FIGURE_UNKNOWN ? 0 : heap.used, room = heap.budget > used ? heap.budget - used : 0;
  if (heap.budget_figure != QUERN_FIGURE_UNKNOWN && room < bytes)
    t.waive("the budget of heap 0", std::to_string(room) + " bytes are to be had, the case needs " + std::to_string(bytes));
}

/// A buffer, or the end of the script where there is no memory for it after all.
std::unique_ptr<Buffer> buffer_or_resource(ScriptContext& t, Queue& queue, std::uint64_t bytes) {
  try {
    return std::make_unique<Buffer>(t.device(), queue, bytes);
  } catch (const AbiFailure& failure) {
    if (failure.status() == QUERN_OUT_OF_MEMORY || failure.status() == QUERN_HOST_OUT_OF_MEMORY) t.resource(failure.what());
    throw;
  }
}

/// Bytes of which no two places hold the same for long.
std::vector<std::uint8_t> long_pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::uint8_t> data(bytes);
  for (std::size_t i = 0; i < bytes; i += 4) {
    const std::uint32_t word = (static_cast<std::uint32_t>(i / 4) + seed) * 2654435761u;
    std::memcpy(data.data() + i, &word, std::min<std::size_t>(4, bytes - i));
  }
  return data;
}

void large_transfers_are_whole(ScriptContext& t) {
  require_buffers(t);
  constexpr std::uint64_t bytes = (96ull << 20) + 1;
  require_room(t, 2 * bytes + (16 << 20));
  Queue queue(t.device());
  const std::unique_ptr<Buffer> first = buffer_or_resource(t, queue, bytes), second = buffer_or_resource(t, queue, bytes);
  const std::vector<std::uint8_t> data = long_pattern(bytes, 1);
  std::vector<std::uint8_t> found(bytes);
  t.check(first->upload(0, data.data(), bytes) == QUERN_OK, "an upload of 96 MiB + 1");
  t.check(first->download(found.data(), 0, bytes) == QUERN_OK && found == data, "is whole, and so is the download [C16]");
  if (t.api().fill != nullptr) {
    const quern_span words = second->span(0, bytes - 1);
    t.check(second->waited(t.api().fill(t.device().handle(), queue.get(), &words, 0x04030201u, bytes - 1, queue.next_signal(), nullptr)) ==
                    QUERN_OK &&
                second->download(found.data(), 0, bytes) == QUERN_OK,
            "a fill of 96 MiB");
    bool whole = true;
    for (std::uint64_t i = 0; i < bytes - 1; ++i) whole = whole && found[i] == i % 4 + 1;
    t.check(whole, "is whole [C16]");
  }
  if (t.api().copy == nullptr) return;
  const quern_span to = second->span(0, bytes), from = first->span(0, bytes);
  t.check(second->waited(t.api().copy(t.device().handle(), queue.get(), &to, &from, bytes, queue.next_signal(), nullptr)) == QUERN_OK,
          "a copy of 96 MiB + 1 from buffer to buffer");
  std::fill(found.begin(), found.end(), std::uint8_t{0});
  t.check(second->download(found.data(), 0, bytes) == QUERN_OK && found == data, "is whole [C16]");
}

/// A buffer of 5 GiB of which little is touched: transfers, copies and a plan's values behind its first 4 GiB.
void offsets_above_4_gib(ScriptContext& t) {
  require_buffers(t);
  constexpr std::uint64_t bytes = 5ull << 30, four = 4ull << 30;
  require_room(t, bytes + (256 << 20));
  const DeviceRef device = t.device();
  Queue queue(device);
  const std::unique_ptr<Buffer> large = buffer_or_resource(t, queue, bytes);
  // The low 32 bits of each are the offset of the one before: an offset that lost its upper bits meets that one.
  const std::uint64_t offsets[] = {0, four, four + 4096, 4096, bytes - 8192, (1ull << 30) - 8192};
  std::vector<std::vector<std::uint8_t>> written;
  for (const std::uint64_t offset : offsets) {
    written.push_back(long_pattern(4096, static_cast<std::uint32_t>(written.size() * 7919)));
    t.check(large->upload(offset, written.back().data(), 4096) == QUERN_OK, "an upload to offset " + std::to_string(offset));
  }
  const auto holds = [&](std::uint64_t offset, const std::vector<std::uint8_t>& expected) {
    std::vector<std::uint8_t> found(expected.size());
    return large->download(found.data(), offset, found.size()) == QUERN_OK && found == expected;
  };
  for (std::size_t i = 0; i < std::size(offsets); ++i)
    t.check(holds(offsets[i], written[i]), "lies at offset " + std::to_string(offsets[i]) + " and nowhere else [C16]");
  if (device.api().copy != nullptr) {
    const quern_span to = large->span(8192, 4096), from = large->span(four + 4096, 4096);
    t.check(large->waited(device.api().copy(device.handle(), queue.get(), &to, &from, 4096, queue.next_signal(), nullptr)) == QUERN_OK &&
                holds(8192, written[2]),
            "a copy from behind 4 GiB [C16]");
    const quern_span back = large->span(four + 8192, 4096), low = large->span(4096, 4096);
    t.check(large->waited(device.api().copy(device.handle(), queue.get(), &back, &low, 4096, queue.next_signal(), nullptr)) == QUERN_OK &&
                holds(four + 8192, written[3]),
            "a copy to behind 4 GiB [C16]");
  }
  if (device.api().fill != nullptr) {
    const quern_span words = large->span(four + 16384, 4096);
    const std::vector<std::uint8_t> low(4096, 0x33), filled(4096, 0x44);
    large->upload(16384, low.data(), 4096);
    t.check(large->waited(device.api().fill(device.handle(), queue.get(), &words, 0x44444444u, 4096, queue.next_signal(), nullptr)) ==
                    QUERN_OK &&
                holds(four + 16384, filled) && holds(16384, low),
            "a fill behind 4 GiB, and of nothing else [C16]");
  }
  Graph g;
  const std::uint32_t x = g.input({1024}), y = g.output({1024});
  g.copy(x, y);
  const Plan plan(device, g.get());
  const std::uint64_t at_x = bytes - 8192, at_y = four + (64 << 10);
  Ready ready(device, queue, plan, {{x, large->span(at_x, 4096)}, {y, large->span(at_y, 4096)}});
  t.check(ready.go().code == QUERN_OK && holds(at_y, written[4]), "a plan reads and writes values behind 4 GiB [C16]");
  const std::vector<std::uint8_t> low(4096, 0x5a);
  large->upload(64 << 10, low.data(), 4096);
  t.check(ready.go().code == QUERN_OK && holds(64 << 10, low), "and nothing 4 GiB before them [C16]");
}

/// What the host handed over for an upload is its own again when the upload is done, and what a download wrote stays.
void transfers_end_at_their_point(ScriptContext& t) {
  require_buffers(t);
  Queue queue(t.device());
  constexpr std::uint64_t bytes = 1 << 20;
  Buffer buffer(t.device(), queue, bytes), other(t.device(), queue, bytes);
  for (std::uint32_t round = 0; round < 8; ++round) {
    const std::vector<std::uint8_t> data = long_pattern(bytes, round * 4099);
    void* const from = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    t.require(from != MAP_FAILED, "the suite maps a source");
    std::memcpy(from, data.data(), bytes);
    t.check(buffer.upload(0, from, bytes) == QUERN_OK, "an upload");
    std::memset(from, 0x5a, bytes);
    std::vector<std::uint8_t> found(bytes, 0xee);
    t.check(buffer.download(found.data(), 0, bytes) == QUERN_OK, "a download");
    t.check(found == data, "an upload has read its source when it is done [C31]");
    std::fill(found.begin(), found.end(), std::uint8_t{0x77});
    t.check(other.upload(0, data.data(), bytes) == QUERN_OK && other.all() == data, "another buffer takes what it is given");
    t.check(std::ranges::count(found, std::uint8_t{0x77}) == static_cast<std::ptrdiff_t>(bytes),
            "a download writes nothing when it is done [C31]");
    ::munmap(from, bytes);
  }
}

void copies_onto_themselves_are_refused(ScriptContext& t) {
  require_buffers(t);
  const DeviceRef device = t.device();
  if (device.api().copy == nullptr) t.waive("copy is null", "the host downloads and uploads instead");
  Queue queue(device);
  Buffer buffer(device, queue, 4096);
  std::vector<std::uint8_t> expected = long_pattern(4096, 3);
  buffer.upload(0, expected.data(), 4096);
  const auto copy = [&](std::uint64_t from, std::uint64_t to, std::uint64_t bytes, AbiError& error) {
    const quern_span target = buffer.span(to, bytes), source = buffer.span(from, bytes);
    return buffer.waited(device.api().copy(device.handle(), queue.get(), &target, &source, bytes, queue.next_signal(), error.get()));
  };
  for (const auto& [from, to, bytes] : {std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>{0, 1, 512},
                                        {1, 0, 512},
                                        {0, 511, 512},
                                        {2048, 1024, 1025},
                                        {64, 64, 64},
                                        {0, 0, 1},
                                        {0, 4, 4092}}) {
    AbiError error;
    check_refused(t, copy(from, to, bytes, error), error, {QUERN_INVALID_ARGUMENT}, "a copy onto a part of itself is refused [C31]");
  }
  t.check(buffer.all() == expected, "and moves nothing [C31]");
  for (const auto& [from, to, bytes] :
       {std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>{0, 512, 512}, {1536, 1024, 512}, {7, 3000, 0}, {9, 9, 0}}) {
    AbiError error;
    t.check(copy(from, to, bytes, error) == QUERN_OK,
            "a copy within a buffer to what lies beside it, or of no bytes, is done [C31] " + error.text());
    std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(from), bytes, expected.begin() + static_cast<std::ptrdiff_t>(to));
  }
  t.check(buffer.all() == expected, "and moves its own bytes and no other [C31]");
}

/// A device that computes in the machine's memory has no more of it than the machine.
void figures_are_possible(ScriptContext& t) {
  require_buffers(t);
  if (t.api().heap_info == nullptr) t.waive("heap_info is null", "the plugin gives no figures");
  TestHost host;
  const OwnDevice own(t, host);
  const DeviceRef device = own.ref();
  const std::uint32_t kind = device.device_class();
  const std::uint64_t machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto possible = [&](const std::string& when) {
    for (std::uint32_t h = 0; h < t.device().info().heap_count; ++h) {
      const quern_heap_info heap = heap_of(device, h);
      const bool total = heap.total_figure != QUERN_FIGURE_UNKNOWN, budget = heap.budget_figure != QUERN_FIGURE_UNKNOWN;
      t.check(!total || heap.total != 0, "a heap's total is not 0 [C23]");
      t.check(!total || !budget || heap.budget <= heap.total, "no more is allowed than there is [C23], " + when + ": budget " +
                                                                  std::to_string(heap.budget) + ", total " + std::to_string(heap.total));
      // Firmware keeps a part of a unified memory that the system does not count: an eighth of what it counts is allowed for it.
      const bool in_host = kind == QUERN_DEVICE_CPU || kind == QUERN_DEVICE_SOFTWARE;
      t.check(!total || !(in_host || kind == QUERN_DEVICE_UNIFIED) || heap.total <= machine + (in_host ? 0 : machine / 8),
              "a device in the machine's memory has no more than the machine [C23], total " + std::to_string(heap.total) + " of " +
                  std::to_string(machine));
      t.check(!total || t.device().info().max_allocation <= heap.total || h != 0, "no allocation is larger than the heap [C23]");
    }
  };
  possible("at first");
  if (t.api().memory_limit == nullptr) return;
  AbiError error;
  for (const std::uint64_t limit : {std::uint64_t{64} << 20, std::uint64_t{1} << 60, UINT64_MAX}) {
    error.check(device.api().memory_limit(device.handle(), 0, limit, error.get()), "memory_limit");
    possible("with a limit of " + std::to_string(limit));
    t.check(heap_of(device).budget_figure == QUERN_FIGURE_UNKNOWN || heap_of(device).budget <= limit, "nor than the host allows [C23]");
  }
}

/// What is destroyed is no longer used.
void used_falls(ScriptContext& t) {
  require_buffers(t);
  if (t.api().heap_info == nullptr) t.waive("heap_info is null", "the plugin gives no figures");
  TestHost host;
  const OwnDevice own(t, host);
  const DeviceRef device = own.ref();
  Queue queue(device);
  if (heap_of(device).used_figure == QUERN_FIGURE_UNKNOWN) t.waive("used_figure", "the plugin does not know what is used");
  const bool exact = heap_of(device).used_figure == QUERN_FIGURE_EXACT;
  constexpr std::uint64_t bytes = 3 << 20;
  {
    TwoNodes first(device, queue, 64);  // what a device keeps of its first run is its own
    t.check(first.ready.go().code == QUERN_OK, "a first plan runs");
  }
  const std::uint64_t before = heap_of(device).used;
  for (int round = 0; round < 3; ++round) {
    {
      std::vector<std::unique_ptr<Buffer>> buffers;
      for (std::uint64_t i = 1; i <= 4; ++i) {
        const std::uint64_t used = heap_of(device).used;
        buffers.push_back(std::make_unique<Buffer>(device, queue, i * bytes));
        t.check(heap_of(device).used >= used + (exact ? i * bytes : 0), "a buffer counts as used [C23]");
      }
      const std::uint64_t all = heap_of(device).used;
      buffers.erase(buffers.begin() + 1);
      t.check(!exact || heap_of(device).used <= all - 2 * bytes, "and no longer when it is destroyed, others alive or not [C23]");
      TwoNodes two(device, queue, 64);
      t.check(two.ready.go().code == QUERN_OK && two.at_z.read() == two.expected(), "a plan runs in between");
    }
    if (device.api().trim != nullptr) device.api().trim(device.handle(), 2, nullptr);
    const std::uint64_t after = heap_of(device).used;
    t.check(after <= before + (exact ? 0 : bytes),
            "when all is destroyed no more is used than before [C23], found " + std::to_string(after) + " after " + std::to_string(before));
  }
}

void limits_are_kept(ScriptContext& t) {
  require_buffers(t);
  if (t.api().memory_limit == nullptr || t.api().heap_info == nullptr)
    t.waive("memory_limit or heap_info is null", "the plugin keeps no limit");
  TestHost host;
  const OwnDevice own(t, host);
  const DeviceRef device = own.ref();
  quern_heap_info heap = made<quern_heap_info>(QUERN_TYPE_HEAP_INFO);
  AbiError error;
  error.check(device.api().heap_info(device.handle(), 0, &heap, error.get()), "heap_info");
  const std::uint64_t used = heap.used;
  constexpr std::uint64_t room = 8 << 20;
  error.check(device.api().memory_limit(device.handle(), 0, used + room, error.get()), "memory_limit");
  quern_buffer* first = nullptr;
  error.check(device.api().buffer_create(device.handle(), nullptr, room / 2, &first, error.get()), "buffer_create");
  quern_buffer* second = nullptr;
  AbiError refused;
  const quern_status status = device.api().buffer_create(device.handle(), nullptr, room, &second, refused.get());
  check_refused(t, status, refused, {QUERN_OUT_OF_MEMORY}, "a buffer above the host's limit is refused [C23]");
  if (status == QUERN_OUT_OF_MEMORY) {
    t.check(refused.get()->requested >= room, "the error says how much was requested [C22]");
    t.check(refused.get()->available < room && refused.get()->available <= room / 2, "and how much was to be had [C22]");
    t.check(refused.get()->heap == 0, "and of which heap [C22]");
  }
  error.check(device.api().heap_info(device.handle(), 0, &heap, error.get()), "heap_info");
  t.check(heap.used_figure == QUERN_FIGURE_UNKNOWN || heap.used >= used + room / 2, "a heap counts what is used [C23]");
  t.check(device.api().buffer_destroy(first, error.get()) == QUERN_OK, "a buffer is destroyed");
  error.check(device.api().buffer_create(device.handle(), nullptr, room / 2, &second, error.get()), "buffer_create after the refusal");
  t.check(device.api().buffer_destroy(second, error.get()) == QUERN_OK, "room that was given back is there again [C23]");
  quern_buffer* absurd = nullptr;
  AbiError huge;
  check_refused(t, device.api().buffer_create(device.handle(), nullptr, UINT64_MAX, &absurd, huge.get()), huge,
                {QUERN_OUT_OF_MEMORY, QUERN_INVALID_ARGUMENT}, "a buffer of 2^64 - 1 bytes is refused [C23]");
  t.check(device.api().heap_info(device.handle(), 7, &heap, huge.get()) != QUERN_OK, "a heap that is not there is refused [C23]");
}

void devices_say_what_they_are(ScriptContext& t) {
  const quern_plugin_api& api = t.api();
  const DeviceRef device = t.device();
  std::uint32_t count = 0;
  AbiError error;
  error.check(api.device_count(device.plugin(), &count, error.get()), "device_count");
  t.check(count > t.device().index(), "device_count counts the device that is open [C23]");
  quern_device_info info = made<quern_device_info>(QUERN_TYPE_DEVICE_INFO);
  error.check(api.device_info(device.plugin(), t.device().index(), &info, error.get()), "device_info");
  t.check(info.device_class >= QUERN_DEVICE_DISCRETE && info.device_class <= QUERN_DEVICE_OTHER, "the class is one of the six [C23]");
  t.check(info.memory_alignment != 0 && (info.memory_alignment & (info.memory_alignment - 1)) == 0,
          "the alignment is a power of two [C23]");
  t.check(info.name.size != 0, "the device has a name [C23]");
  t.check(info.caps < (QUERN_CAP_SNAPSHOTS << 1), "no capability bit is set that these headers do not have [C3]");
  t.check((info.caps & QUERN_CAP_HOST_MEMORY) != 0 || info.heap_count >= 1, "a device with memory of its own has a heap [C23]");
  for (std::uint32_t h = 0; h < info.heap_count && api.heap_info != nullptr; ++h) {
    quern_heap_info heap = made<quern_heap_info>(QUERN_TYPE_HEAP_INFO);
    error.check(api.heap_info(device.handle(), h, &heap, error.get()), "heap_info");
    t.check(heap.total_figure <= QUERN_FIGURE_EXACT && heap.budget_figure <= QUERN_FIGURE_EXACT && heap.used_figure <= QUERN_FIGURE_EXACT,
            "each figure says what it is [C23]");
    t.check(heap.total_figure == QUERN_FIGURE_UNKNOWN || heap.used_figure == QUERN_FIGURE_UNKNOWN || heap.used <= heap.total,
            "no more is used than there is [C23]");
  }
  AbiError beyond;
  check_refused(t, api.device_info(device.plugin(), count, &info, beyond.get()), beyond, {QUERN_NOT_FOUND, QUERN_INVALID_ARGUMENT},
                "a device behind the last is refused [C23]");
  quern_device* none = nullptr;
  check_refused(t, api.device_open(device.plugin(), count, &none, beyond.get()), beyond, {QUERN_NOT_FOUND, QUERN_INVALID_ARGUMENT},
                "and is not opened [C23]");
}

/// Memory of the host at its least alignment, one page of it a read-only mapping: what an application has is bound as it is.
void host_memory_is_bound_as_it_is(ScriptContext& t) {
  const DeviceRef device = t.device();
  if (!device.host_memory()) t.waive("no QUERN_CAP_HOST_MEMORY", "the device has memory of its own");
  Queue queue(device);
  const std::size_t page = 4096;
  auto* mapped = static_cast<float*>(::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  t.require(mapped != MAP_FAILED, "the suite maps two pages");
  for (int i = 0; i < 12; ++i) mapped[i] = static_cast<float>(i - 5);
  ::mprotect(mapped, page, PROT_READ);  // a weight in a file's mapping
  Graph g;
  const std::uint32_t x = g.input({2, 4}), w = g.constant({3, 4}), y = g.output({2, 3});
  g.matmul(x, w, y);
  alignas(4096) static float stack_like[64];
  float* at_x = stack_like + device.memory_alignment() / sizeof(float);  // that alignment and no more
  const std::vector<float> xs = counting(8, 1);
  std::copy(xs.begin(), xs.end(), at_x);
  Floats at_y(device, queue, std::vector<float>(6, -1));
  const Plan plan(device, g.get());
  Ready ready(device, queue, plan, {{x, {nullptr, at_x, 0, 32}}, {w, {nullptr, mapped, 0, 48}}, {y, at_y.span()}});
  t.check(ready.go().code == QUERN_OK, "a run reads weights from a read-only mapping [C16]");
  t.check(at_y.read() == product(xs, counting(12, -5), 2, 3, 4), "and computes with them [C16]");
  ::munmap(mapped, 2 * page);
}

}  // namespace

void buffers_scripts(CaseSink& sink) {
  add(sink, "buffers.every_size", every_size);
  add(sink, "buffers.ranges_are_exact", ranges_are_exact);
  add(sink, "buffers.fill_repeats_a_word", fill_repeats_a_word);
  add(sink, "buffers.bad_ranges_are_refused", bad_ranges_are_refused);
  add(sink, "buffers.limits_are_kept", limits_are_kept);
  add(sink, "buffers.large_transfers_are_whole", large_transfers_are_whole);
  add(sink, "buffers.offsets_above_4_gib", offsets_above_4_gib);
  add(sink, "buffers.transfers_end_at_their_point", transfers_end_at_their_point);
  add(sink, "buffers.copies_onto_themselves_are_refused", copies_onto_themselves_are_refused);
  add(sink, "buffers.figures_are_possible", figures_are_possible);
  add(sink, "buffers.used_falls", used_falls);
  add(sink, "buffers.devices_say_what_they_are", devices_say_what_they_are);
  add(sink, "buffers.host_memory_is_bound_as_it_is", host_memory_is_bound_as_it_is);
}

}  // namespace quern::conformance::abi
