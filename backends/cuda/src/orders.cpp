// See orders.hpp.
#include "orders.hpp"

#include "gpu.hpp"
#include "lane.hpp"

#include <algorithm>

namespace quern::cuda {

namespace {

/// In whole pieces of 256 bytes.
std::uint64_t room_of(const Orders::Index& index) { return (index.count * sizeof(std::int32_t) + 255) / 256 * 256; }

/// The inverse of an index; empty where it names an element twice or none.
std::vector<std::int32_t> inverse_of(std::span<const std::int32_t> index) {
  std::vector<std::int32_t> places(index.size(), -1);
  for (std::size_t j = 0; j < index.size(); ++j) {
    const auto i = static_cast<std::uint32_t>(index[j]);
    if (i >= index.size() || places[i] >= 0) return {};
    places[i] = static_cast<std::int32_t>(j);
  }
  return places;
}

std::uint64_t key_of(std::span<const std::int32_t> index) {  // FNV-1a
  std::uint64_t key = 0xcbf29ce484222325ull;
  for (const std::int32_t i : index) key = (key ^ static_cast<std::uint32_t>(i)) * 0x100000001b3ull;
  return key == 0 ? 1 : key;
}

}  // namespace

std::uint64_t Orders::bytes(std::span<const Index> indices) noexcept {
  std::uint64_t bytes = 0;
  for (const Index& index : indices) bytes += room_of(index);
  return bytes;
}

bool Orders::read(std::span<const Index> indices, std::span<const std::uint64_t> place, Address memory, Lane& lane) {
  orders_.clear();
  if (indices.empty()) return true;
  const Driver& driver = lane.gpu().driver();
  std::vector<std::int32_t> read(bytes(indices) / sizeof(std::int32_t)), inverses(read.size());
  const auto each = [&](const auto& use) {
    std::uint64_t at = 0;
    for (const Index& index : indices) {
      if (!use(index, at)) return false;
      at += room_of(index) / sizeof(std::int32_t);
    }
    return true;
  };
  each([&](const Index& index, std::uint64_t at) {
    driver.check(driver.cuMemcpyDtoHAsync_v2(&read[at], place[index.value], index.count * sizeof(std::int32_t), lane.stream()),
                 "reading an order of columns");
    return true;
  });
  lane.synchronize("reading orders of columns");
  const bool all = each([&](const Index& index, std::uint64_t at) {
    const std::span<const std::int32_t> own(&read[at], index.count);
    const std::vector<std::int32_t> inverse = inverse_of(own);
    std::ranges::copy(inverse, inverses.begin() + static_cast<std::ptrdiff_t>(at));
    orders_[index.value] = {place[index.value], memory + at * sizeof(std::int32_t), key_of(own)};
    return !inverse.empty();
  });
  if (!all) {
    orders_.clear();
    return false;
  }
  driver.check(driver.cuMemcpyHtoDAsync_v2(memory, inverses.data(), inverses.size() * sizeof(std::int32_t), lane.stream()),
               "writing orders of columns");
  lane.synchronize("writing orders of columns");
  return true;
}

}  // namespace quern::cuda
