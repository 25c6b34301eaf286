// A layout's key names its bytes: files of packed weights are kept under it, so the bytes may not change without the key.
//
// Internal, as packed_test.cpp. A hash that changes here on purpose needs a new key (".v2") in the same commit.
#include "formats.hpp"
#include "packed/packed.hpp"
#include "view.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace quern::cpu {
namespace {

/// Bytes that depend on their number alone (splitmix64), of any kind: scales may be NaN.
std::vector<std::byte> source_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    bytes[i] = static_cast<std::byte>(z >> 56);
  }
  return bytes;
}

/// FNV-1a of a whole panel and of one of three rows, for an odd number of blocks each.
std::uint64_t hash_of_panels(const PackedLayout& layout) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::int64_t rows : {layout.panel_rows, std::int64_t{3}}) {
    const std::int64_t k = layout.k_multiple == 1 ? 77 : 5 * layout.k_multiple;
    const std::int64_t stride = k / unit_elements(layout.format) * unit_bytes(layout.format) + 6;
    const std::vector<std::byte> source = source_bytes(static_cast<std::size_t>(layout.panel_rows * stride));
    const auto bytes = static_cast<std::size_t>(layout.panel_bytes(k));
    auto* panel = static_cast<std::byte*>(std::aligned_alloc(64, bytes));
    std::memset(panel, 0xa5, bytes);
    layout.pack(source.data(), stride, rows, k, panel);
    for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<std::uint64_t>(panel[i])) * 0x100000001b3u;
    std::free(panel);
  }
  return hash;
}

// The first version (.v1) of each layout packed byte by byte.
const std::map<std::string, std::uint64_t> hashes = {
    {"f32.8.v1", 0x5549b153af090322},        {"f16.8.v1", 0x59d59439bb287f2e},         {"bf16.8.v1", 0x59d59439bb287f2e},
    {"q4_0.8x4.v2", 0x012152d183a1f577},     {"q4_1.8x4.v2", 0x332769920b688ae7},      {"q5_0.8x4.v2", 0x73e6f2b148fb5957},
    {"q5_1.8x4.v2", 0xb18036274b8e6532},     {"q8_0.8x4.v2", 0xe795ff611c08a9ae},      {"q4_k.8x4.v2", 0xf296dadee179ee15},
    {"q5_k.8x4.v2", 0xd06b01858df077ef},     {"q6_k.8x4.v2", 0x7d649232903b4633},      {"f32.16.v1", 0xafefbe74a545701b},
    {"f16.16.v1", 0x08b281c573a916a6},       {"bf16.16.v1", 0x08b281c573a916a6},       {"q4_0.16x4.v1", 0xe68528bbafbf33ee},
    {"q4_1.16x4.v1", 0x57d1fdb8cdb1f281},    {"q5_0.16x4.v1", 0x737f5b01ca466bd9},     {"q5_1.16x4.v1", 0x55b897d005859998},
    {"q8_0.16x4.v1", 0x8446acdf806a4250},    {"q4_k.16x4.v1", 0x6010c937313f4f9d},     {"q5_k.16x4.v1", 0x0cd9932fb394aaee},
    {"q6_k.16x4.v1", 0xaba6deb2241603d1},    {"bf16.16x2.v1", 0x07cf00d1af6770f6},     {"q4_z32.8x4.v1", 0xaf7bbaa703341273},
    {"q4_z64.8x4.v1", 0x8340ee6e6d94496e},   {"q4_z128.8x4.v1", 0x77804b6f791b07fa},   {"q8_z32.8x4.v1", 0x8340ee6e6d94496e},
    {"q8_z128.8x4.v1", 0x915fb15304dc1f83},  {"q8_128.8x4.v1", 0x915fb15304dc1f83},    {"q4_z32.16x4.v1", 0x7aae7c91d539322d},
    {"q4_z64.16x4.v1", 0x0d298a13bae96d8e},  {"q4_z128.16x4.v1", 0x2e42ffd8c8aa0413},  {"q8_z32.16x4.v1", 0xe56ed7aaa07f9278},
    {"q8_z128.16x4.v1", 0xb8ea9858ce7e4594}, {"q8_128.16x4.v1", 0x568a11541b6a9794},   {"f8_128.16x4.v1", 0xbe2f5a6a0e3ef648},
    {"nf4_64.16x8.v1", 0x7356ae77e6e72234},  {"fp4_64.16x8.v1", 0x7356ae77e6e72234},   {"f8_128.8x4.v1", 0xc558ea285d26fd93},
    {"nf4_64.8x8.v1", 0x178fa46573bd10bd},   {"fp4_64.8x8.v1", 0x178fa46573bd10bd},    {"nf4_64.8x4.v1", 0x8340ee6e6d94496e},
    {"fp4_64.8x4.v1", 0x8340ee6e6d94496e},   {"f8_128.16x4x2.v1", 0xbe2f5a6a0e3ef648},
};

void check(const PackedSet& set) {
  for (const PackedLayout& layout : set.layouts) {
    const auto known = hashes.find(layout.key);
    EXPECT_EQ(hash_of_panels(layout), known == hashes.end() ? 0 : known->second)
        << layout.key << ": 0x" << std::hex << hash_of_panels(layout);
  }
}

TEST(PackedBytes, AreThoseThatTheKeysOfAvx2Name) {
  if (detect_processor().best < Isa::avx2) GTEST_SKIP() << "this processor has no AVX2";
  check(packed_set_avx2());
}

TEST(PackedBytes, AreThoseThatTheKeysOfAvx512VnniName) {
  const Processor processor = detect_processor();
  if (!processor.vnni) GTEST_SKIP() << "this processor has no AVX-512 VNNI";
  check(processor.bf16 ? packed_set_avx512_bf16() : packed_set_avx512_vnni());
}

}  // namespace
}  // namespace quern::cpu
