// Regions of device memory: each copy of a device is a submit, so that a small region is brought by one, and those of a slab together.
#include "device_run/device_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

/// Of the device below: its memory is the host's, behind the calls of one that has its own.
struct quern_buffer {
  std::vector<std::byte> bytes;
};

namespace quern::conformance {
namespace {

int uploads = 0, downloads = 0;

std::byte* at(const quern_span& span) { return span.buffer->bytes.data() + span.offset; }

struct DeviceMemory : testing::Test {
  DeviceMemory() {
    uploads = downloads = 0;
    api.buffer_create = [](quern_device*, const quern_buffer_options*, std::uint64_t bytes, quern_buffer** out, quern_error*) {
      *out = new quern_buffer{std::vector<std::byte>(bytes)};
      return quern_status{QUERN_OK};
    };
    api.buffer_destroy = [](quern_buffer* buffer, quern_error*) {
      delete buffer;
      return quern_status{QUERN_OK};
    };
    api.upload = [](quern_device*, quern_queue*, const quern_span* to, const void* from, std::uint64_t bytes, const quern_sync*,
                    quern_error*) {
      ++uploads;
      std::memcpy(at(*to), from, bytes);
      return quern_status{QUERN_OK};
    };
    api.download = [](quern_device*, quern_queue*, void* to, const quern_span* from, std::uint64_t bytes, const quern_sync*, quern_error*) {
      ++downloads;
      std::memcpy(to, at(*from), bytes);
      return quern_status{QUERN_OK};
    };
    info.caps = QUERN_CAP_SYNCHRONOUS;
    info.memory_alignment = 256;
  }

  static std::vector<std::byte> numbers(std::size_t count, int first) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
    return bytes;
  }

  quern_plugin_api api{};
  quern_device_info info{};
  DeviceRef device() const { return {api, nullptr, nullptr, info}; }
};

TEST_F(DeviceMemory, ASmallRegionIsMarkedByOneUploadAndReadByOneDownload) {
  Queue queue(device());
  Region region(device(), queue, 100, 0, false);
  EXPECT_EQ(uploads, 1);
  EXPECT_EQ(*at(region.span()), std::byte{0xff});
  region.write(numbers(100, 1));
  const Contents now(region);
  EXPECT_TRUE(now.holds(numbers(100, 1)));
  EXPECT_EQ(now.canary_damage(), "");
  EXPECT_EQ(uploads, 2);
  EXPECT_EQ(downloads, 1);
}

TEST_F(DeviceMemory, RegionsOfASlabGoThereAndBackTogether) {
  Queue queue(device());
  Slab slab(device(), queue);
  Region first(slab, 100, false), second(slab, 7, true), third(slab, 5000, false);
  slab.allocate();
  EXPECT_EQ(first.span().buffer, third.span().buffer);
  EXPECT_EQ(first.span().offset % 4096, 0u);
  EXPECT_EQ(second.span().offset % 4096, 256u);
  for (int round = 1; round < 3; ++round) {
    first.write(numbers(100, round));
    second.fill(std::byte{0xa5});
    third.fill(std::byte{0xff});
    slab.send();
    EXPECT_TRUE(std::equal(at(first.span()), at(first.span()) + 100, numbers(100, round).data()));
    std::memcpy(at(third.span()), numbers(5000, round).data(), 5000);  // the run
    EXPECT_FALSE(Contents(third).holds(numbers(5000, round)));
    slab.fetch();
    EXPECT_TRUE(Contents(third).holds(numbers(5000, round)));
    EXPECT_EQ(uploads, round);
    EXPECT_EQ(downloads, round);
    for (Region* region : {&first, &second, &third}) EXPECT_EQ(Contents(*region).canary_damage(), "");
  }
}

TEST_F(DeviceMemory, AWriteBesideARegionOfASlabIsSeen) {
  Queue queue(device());
  Slab slab(device(), queue);
  Region first(slab, 100, false), second(slab, 100, false);
  slab.allocate();
  slab.send();
  at(first.span())[102] = std::byte{1};
  at(second.span())[-1] = std::byte{1};
  slab.fetch();
  EXPECT_EQ(first.canary_damage(), "byte 2 behind the buffer was written");
  EXPECT_EQ(second.canary_damage(), "byte 1 before the buffer was written");
}

/// The same behind a queue of three places. What a call asked is done at the next wait.
struct QueuedDeviceMemory : DeviceMemory {
  struct Later {
    std::byte* to;
    const std::byte* from;
    std::uint64_t bytes;
  };
  static inline std::vector<Later> later;
  static inline std::uint64_t promised = 0, waits = 0;
  static constexpr std::size_t places = 3;

  static quern_status take(const Later& copy, const quern_sync* sync) {
    if (later.size() == places) return QUERN_BUSY;
    later.push_back(copy);
    promised = static_cast<const quern_point*>(sync->signal.data)->value;
    return QUERN_OK;
  }

  QueuedDeviceMemory() {
    later.clear();
    promised = waits = 0;
    api.queue_create = [](quern_device*, std::uint32_t, quern_queue** out, quern_error*) {
      *out = reinterpret_cast<quern_queue*>(&later);
      return quern_status{QUERN_OK};
    };
    api.fence_create = [](quern_device*, std::uint64_t, std::uint32_t, quern_fence** out, quern_error*) {
      *out = reinterpret_cast<quern_fence*>(&later);
      return quern_status{QUERN_OK};
    };
    api.queue_destroy = [](quern_queue*, quern_error*) { return quern_status{QUERN_OK}; };
    api.fence_destroy = [](quern_fence*, quern_error*) { return quern_status{QUERN_OK}; };
    api.fence_wait = [](quern_device*, const quern_array* points, std::uint32_t, std::uint64_t, quern_error*) {
      ++waits;
      EXPECT_EQ(static_cast<const quern_point*>(points->data)->value, promised);  // else it never comes
      for (const Later& copy : later) std::memcpy(copy.to, copy.from, copy.bytes);
      later.clear();
      return quern_status{QUERN_OK};
    };
    api.upload = [](quern_device*, quern_queue*, const quern_span* to, const void* from, std::uint64_t bytes, const quern_sync* sync,
                    quern_error*) {
      ++uploads;
      return take({at(*to), static_cast<const std::byte*>(from), bytes}, sync);
    };
    api.download = [](quern_device*, quern_queue*, void* to, const quern_span* from, std::uint64_t bytes, const quern_sync* sync,
                      quern_error*) {
      ++downloads;
      return take({static_cast<std::byte*>(to), at(*from), bytes}, sync);
    };
    info.caps = 0;
  }
};

TEST_F(QueuedDeviceMemory, EachCopyIsWaitedForWhereNobodyAsksOtherwise) {
  Queue queue(device());
  Region region(device(), queue, 100, 0, false);
  region.write(numbers(100, 1));
  EXPECT_EQ(region.read(), numbers(100, 1));
  EXPECT_EQ(waits, 3u);
}

TEST_F(QueuedDeviceMemory, WritesAheadAreThereWithTheNextReadThoughTheirSourceIsGone) {
  Queue queue(device());
  queue.write_ahead();
  Region region(device(), queue, 100, 0, false);
  {
    std::vector<std::byte> source = numbers(100, 1);
    region.write(source);
    std::ranges::fill(source, std::byte{0});
  }
  EXPECT_EQ(waits, 0u);
  EXPECT_EQ(region.read(), numbers(100, 1));
  EXPECT_EQ(waits, 1u);
}

TEST_F(QueuedDeviceMemory, AFullQueueIsWaitedForAndALargeWriteAtOnce) {
  Queue queue(device());
  queue.write_ahead();
  Region region(device(), queue, 100, 0, false);
  for (int i = 0; i < 5; ++i) region.write(numbers(100, i));
  EXPECT_EQ(waits, 1u);
  EXPECT_EQ(region.read(), numbers(100, 4));
  waits = 0;
  Region large(device(), queue, 1 << 20, 0, false);
  large.write(numbers(1 << 20, 3));
  EXPECT_TRUE(later.empty());
  EXPECT_TRUE(Contents(large).holds(numbers(1 << 20, 3)));
}

TEST_F(QueuedDeviceMemory, WhatIsGatheredIsSeenBehindOneWait) {
  Queue queue(device());
  queue.write_ahead();
  Region small(device(), queue, 100, 0, false), other(device(), queue, 100, 0, false);
  small.write(numbers(100, 1));
  queue.settle();
  waits = 0;
  queue.gather();
  const Contents first(small), second(other);
  queue.settle();
  EXPECT_EQ(waits, 1u);
  EXPECT_TRUE(first.holds(numbers(100, 1)));
  EXPECT_EQ(second.canary_damage(), "");
  other.span().buffer->bytes[other.span().offset + 101] = std::byte{1};
  EXPECT_EQ(other.canary_damage(), "byte 1 behind the buffer was written");
}

TEST_F(QueuedDeviceMemory, ARefusedCallTakesNoPointSoThatNobodyWaitsForIt) {
  Queue queue(device());
  queue.write_ahead();
  Region region(device(), queue, 100, 0, false);
  EXPECT_THROW(enqueue(queue, "prepare", [](const quern_sync*, quern_error*) { return quern_status{QUERN_UNSUPPORTED}; }), AbiFailure);
  queue.quiet();
  EXPECT_EQ(waits, 1u);
  EXPECT_TRUE(later.empty());
}

}  // namespace
}  // namespace quern::conformance
