// The instructions of AMX, and nothing else: eight tiles of up to 16 rows x 64 bytes, whose shapes a configuration sets for all of them.
//
// A test compiles the kernels with QUERN_EMULATED_TILES: the same functions in plain C++, which note what the processor would refuse.
// They are written as assembly, so that a tile may be a template's parameter, and tell the compiler that memory is read or written,
// which the compiler's own do not do for loads (GCC 12).
#pragma once

#include <cstddef>
#include <cstdint>

#define QUERN_TILE_INLINE [[gnu::always_inline]] static inline

namespace quern::cpu::avx512_amx {

constexpr int tile_rows = 16, tile_bytes = 64, tile_count = 8;  // of palette 1

/// What LDTILECFG reads. A tile of no rows is not used.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, std::int64_t its_rows, int its_row_bytes) noexcept {
    rows[tile] = static_cast<std::uint8_t>(its_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(its_row_bytes);
  }
};
static_assert(sizeof(TileShapes) == 64);

}  // namespace quern::cpu::avx512_amx

#ifdef QUERN_EMULATED_TILES
#include "emulated_tiles.hpp"
#else

namespace quern::cpu::avx512_amx {

/// All tiles become zeros.
QUERN_TILE_INLINE void configure_tiles(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
/// Back to the state in which a switch of threads saves no tiles.
QUERN_TILE_INLINE void release_tiles() { asm volatile("tilerelease" : : : "memory"); }

template <int Tile>
QUERN_TILE_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(Tile));
}
/// Rows `stride` bytes apart.
template <int Tile>
QUERN_TILE_INLINE void load_tile(const void* from, std::int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(Tile) : "memory");
}
template <int Tile>
QUERN_TILE_INLINE void store_tile(void* to, std::int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(Tile) : "memory");
}
/// Sums += A B: 32-bit element n of row m gets the products of the bytes of A's row m and, four a row, those of B's column n.
template <int Sums, int A, int B>
QUERN_TILE_INLINE void multiply_signed_unsigned() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(A), "i"(B));
}
template <int Sums, int A, int B>
QUERN_TILE_INLINE void multiply_signed() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(A), "i"(B));
}

}  // namespace quern::cpu::avx512_amx
#endif
