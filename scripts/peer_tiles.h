/* Forced in front of llama.cpp's sources on processors with AMX: tile intrinsics that tell the compiler what they read.
 *
 * Those of GCC 12 (Debian 12's) name 8 bytes of the 64 that LDTILECFG reads, and none of a tile that is loaded, so what was written there may be
 * dropped as dead: llama.cpp 0.3.36 then configures no tiles, and its first TILEZERO is an illegal instruction. */
#if defined(__AMX_TILE__)
#include <immintrin.h>
static inline __attribute__((always_inline)) void peer_tile_loadconfig(const void* from) { __asm__ volatile("ldtilecfg (%0)" : : "r"(from) : "memory"); }
static inline __attribute__((always_inline)) void peer_tile_storeconfig(void* to) { __asm__ volatile("sttilecfg (%0)" : : "r"(to) : "memory"); }
#define _tile_loadconfig peer_tile_loadconfig
#define _tile_storeconfig peer_tile_storeconfig
#undef _tile_loadd
#define _tile_loadd(tile, from, stride) peer_tile_loadd(tile, from, stride) /* once more, for tiles that are macros: TMM0 */
#define peer_tile_loadd(tile, from, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"((const void*)(from)), "r"((long)(stride)) : "memory")
#endif
