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

}  // namespace
}  // namespace quern::conformance
