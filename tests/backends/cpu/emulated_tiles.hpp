// AMX in plain C++, for machines without it: tiles.hpp includes this in place of the instructions (QUERN_EMULATED_TILES), and trapped_tiles.cpp
// does by it what the instructions themselves ask for. What the processor would answer with a fault is noted in `misuse`, and not done.
//
// Source: Intel's Software Developer's Manual, volume 2, LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TILERELEASE and TDPB..D.
#pragma once

#include "packed/avx512_amx/tiles.hpp"

#include <cstdlib>
#include <cstring>

namespace quern::cpu::avx512_amx {

struct EmulatedTiles {
  TileShapes shapes;
  bool configured = false;
  bool wrong = false;  // QUERN_TEST_WRONG_TILES: products are off by something
  alignas(64) std::uint8_t data[tile_count][tile_rows][tile_bytes] = {};
  const char* misuse = nullptr;  // the first one
  std::int64_t configurations = 0, products = 0;

  bool refuse(const char* what) noexcept {
    if (misuse == nullptr) misuse = what;
    return false;
  }
  bool usable(int tile) noexcept {
    if (!configured) return refuse("a tile is used without a configuration");
    if (shapes.rows[tile] == 0) return refuse("a tile is used that has no rows");
    return true;
  }

  void configure(const TileShapes& to) noexcept {
    ++configurations;
    bool fine = to.palette == 1 && to.start_row == 0;
    for (const std::uint8_t byte : to.reserved) fine = fine && byte == 0;
    for (int t = 0; t < 16; ++t) {
      fine = fine && to.rows[t] <= tile_rows && to.row_bytes[t] <= tile_bytes && (to.rows[t] == 0) == (to.row_bytes[t] == 0);
      fine = fine && (t < tile_count || to.rows[t] == 0);
    }
    if (!fine) {
      refuse("a configuration that palette 1 does not allow");
      return;
    }
    shapes = to;
    configured = true;
    wrong = std::getenv("QUERN_TEST_WRONG_TILES") != nullptr;
    std::memset(data, 0, sizeof(data));
  }
  void release() noexcept {
    configured = false;
    std::memset(data, 0, sizeof(data));
  }
  void zero(int tile) noexcept {
    if (usable(tile)) std::memset(data[tile], 0, sizeof(data[tile]));
  }
  void load(int tile, const void* from, std::int64_t stride) noexcept {
    if (!usable(tile)) return;
    std::memset(data[tile], 0, sizeof(data[tile]));
    for (int r = 0; r < shapes.rows[tile]; ++r)
      std::memcpy(data[tile][r], static_cast<const std::byte*>(from) + r * stride, shapes.row_bytes[tile]);
  }
  void store(int tile, void* to, std::int64_t stride) noexcept {
    if (!usable(tile)) return;
    for (int r = 0; r < shapes.rows[tile]; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * stride, data[tile][r], shapes.row_bytes[tile]);
  }
  /// Bytes of a are signed, those of b are `Right`.
  template <typename Right>
  void multiply(int sums_tile, int a, int b) noexcept {
    if (sums_tile == a || a == b || sums_tile == b) {
      refuse("tiles of a product are not three");
      return;
    }
    if (!usable(sums_tile) || !usable(a) || !usable(b)) return;
    const TileShapes& s = shapes;
    if (s.row_bytes[sums_tile] % 4 != 0 || s.row_bytes[a] % 4 != 0 || s.row_bytes[b] % 4 != 0 || s.rows[a] != s.rows[sums_tile] ||
        s.row_bytes[b] != s.row_bytes[sums_tile] || s.row_bytes[a] / 4 != s.rows[b]) {
      refuse("tiles are multiplied whose shapes do not match");
      return;
    }
    ++products;
    for (int m = 0; m < s.rows[sums_tile]; ++m) {
      std::uint32_t sums[tile_bytes / 4];
      std::memcpy(sums, data[sums_tile][m], sizeof(sums));
      for (int k = 0; k < s.rows[b]; ++k)
        for (int n = 0; n < s.row_bytes[sums_tile] / 4; ++n)
          for (int i = 0; i < 4; ++i) {
            const int x = static_cast<std::int8_t>(data[a][m][4 * k + i]), w = static_cast<Right>(data[b][k][4 * n + i]);
            sums[n] += static_cast<std::uint32_t>(x * w);  // wraps, as the instruction's sums do
          }
      if (wrong) sums[0] += 1000;
      std::memset(data[sums_tile][m], 0, tile_bytes);
      std::memcpy(data[sums_tile][m], sums, s.row_bytes[sums_tile]);
    }
    for (int m = s.rows[sums_tile]; m < tile_rows; ++m) std::memset(data[sums_tile][m], 0, tile_bytes);
  }
};
inline thread_local EmulatedTiles emulated_tiles;

#ifdef QUERN_EMULATED_TILES
inline void configure_tiles(const TileShapes& shapes) noexcept { emulated_tiles.configure(shapes); }
inline void release_tiles() noexcept { emulated_tiles.release(); }
template <int Tile>
void zero_tile() noexcept {
  emulated_tiles.zero(Tile);
}
template <int Tile>
void load_tile(const void* from, std::int64_t stride) noexcept {
  emulated_tiles.load(Tile, from, stride);
}
template <int Tile>
void store_tile(void* to, std::int64_t stride) noexcept {
  emulated_tiles.store(Tile, to, stride);
}
template <int Sums, int A, int B>
void multiply_signed_unsigned() noexcept {
  emulated_tiles.multiply<std::uint8_t>(Sums, A, B);
}
template <int Sums, int A, int B>
void multiply_signed() noexcept {
  emulated_tiles.multiply<std::int8_t>(Sums, A, B);
}
#endif

}  // namespace quern::cpu::avx512_amx
