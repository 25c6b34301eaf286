// AMX in plain C++, for machines without it: tiles.hpp includes this in place of the instructions. What the processor would answer with
// a fault is noted in `misuse`, and not done.
//
// Source: Intel's Software Developer's Manual, volume 2, LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TILERELEASE and TDPB..D.
#pragma once

#include "packed/avx512_amx/tiles.hpp"

#include <cstring>

namespace quern::cpu::avx512_amx {

struct EmulatedTiles {
  TileShapes shapes;
  bool configured = false;
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
};
inline thread_local EmulatedTiles emulated_tiles;

inline void configure_tiles(const TileShapes& shapes) noexcept {
  EmulatedTiles& e = emulated_tiles;
  ++e.configurations;
  bool fine = shapes.palette == 1 && shapes.start_row == 0;
  for (const std::uint8_t byte : shapes.reserved) fine = fine && byte == 0;
  for (int t = 0; t < 16; ++t) {
    fine = fine && shapes.rows[t] <= tile_rows && shapes.row_bytes[t] <= tile_bytes && (shapes.rows[t] == 0) == (shapes.row_bytes[t] == 0);
    fine = fine && (t < tile_count || shapes.rows[t] == 0);
  }
  if (!fine) {
    e.refuse("a configuration that palette 1 does not allow");
    return;
  }
  e.shapes = shapes;
  e.configured = true;
  std::memset(e.data, 0, sizeof(e.data));
}
inline void release_tiles() noexcept {
  emulated_tiles.configured = false;
  std::memset(emulated_tiles.data, 0, sizeof(emulated_tiles.data));
}

template <int Tile>
void zero_tile() noexcept {
  static_assert(Tile >= 0 && Tile < tile_count);
  if (emulated_tiles.usable(Tile)) std::memset(emulated_tiles.data[Tile], 0, sizeof(emulated_tiles.data[Tile]));
}
template <int Tile>
void load_tile(const void* from, std::int64_t stride) noexcept {
  EmulatedTiles& e = emulated_tiles;
  if (!e.usable(Tile)) return;
  std::memset(e.data[Tile], 0, sizeof(e.data[Tile]));
  for (int r = 0; r < e.shapes.rows[Tile]; ++r) std::memcpy(e.data[Tile][r], static_cast<const std::byte*>(from) + r * stride, e.shapes.row_bytes[Tile]);
}
template <int Tile>
void store_tile(void* to, std::int64_t stride) noexcept {
  EmulatedTiles& e = emulated_tiles;
  if (!e.usable(Tile)) return;
  for (int r = 0; r < e.shapes.rows[Tile]; ++r) std::memcpy(static_cast<std::byte*>(to) + r * stride, e.data[Tile][r], e.shapes.row_bytes[Tile]);
}

/// Bytes of A as int8; of B as `Right`.
template <int Sums, int A, int B, typename Right>
void multiply_tiles() noexcept {
  static_assert(Sums != A && A != B && Sums != B && Sums < tile_count && A < tile_count && B < tile_count);  // or #UD
  EmulatedTiles& e = emulated_tiles;
  if (!e.usable(Sums) || !e.usable(A) || !e.usable(B)) return;
  const TileShapes& s = e.shapes;
  if (s.row_bytes[Sums] % 4 != 0 || s.row_bytes[A] % 4 != 0 || s.row_bytes[B] % 4 != 0 || s.rows[A] != s.rows[Sums] || s.row_bytes[B] != s.row_bytes[Sums] ||
      s.row_bytes[A] / 4 != s.rows[B]) {
    e.refuse("tiles are multiplied whose shapes do not match");
    return;
  }
  ++e.products;
  for (int m = 0; m < s.rows[Sums]; ++m) {
    std::uint32_t sums[tile_bytes / 4];
    std::memcpy(sums, e.data[Sums][m], sizeof(sums));
    for (int k = 0; k < s.rows[B]; ++k)
      for (int n = 0; n < s.row_bytes[Sums] / 4; ++n)
        for (int i = 0; i < 4; ++i) {
          const int a = static_cast<std::int8_t>(e.data[A][m][4 * k + i]), b = static_cast<Right>(e.data[B][k][4 * n + i]);
          sums[n] += static_cast<std::uint32_t>(a * b);  // wraps, as the instruction's sums do
        }
    std::memset(e.data[Sums][m], 0, tile_bytes);
    std::memcpy(e.data[Sums][m], sums, s.row_bytes[Sums]);
  }
  for (int m = s.rows[Sums]; m < tile_rows; ++m) std::memset(e.data[Sums][m], 0, tile_bytes);
}
template <int Sums, int A, int B>
void multiply_signed_unsigned() noexcept { multiply_tiles<Sums, A, B, std::uint8_t>(); }
template <int Sums, int A, int B>
void multiply_signed() noexcept { multiply_tiles<Sums, A, B, std::int8_t>(); }

}  // namespace quern::cpu::avx512_amx
