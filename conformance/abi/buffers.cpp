// Memory: buffers, copies host to device, device to device and back, ranges, limits, and host memory as it is [C16 C23 C24].
#include "abi/scripts.hpp"
#include "abi/simple.hpp"

#include <sys/mman.h>

#include <cstring>

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
  t.check(
      buffer.waited(device.api().fill(device.handle(), queue.get(), &middle, 0x04030201u, 40, queue.next_signal(), nullptr)) == QUERN_OK,
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
  add(sink, "buffers.devices_say_what_they_are", devices_say_what_they_are);
  add(sink, "buffers.host_memory_is_bound_as_it_is", host_memory_is_bound_as_it_is);
}

}  // namespace quern::conformance::abi
