// What host and kernels of attention of few rows agree on.
#pragma once

namespace quern::cuda {

constexpr int attention_heads = 8;         // query heads of a block of attention.cu
constexpr int attention_most_head = 256;   // elements of a head
constexpr int attention_keys = 64;         // of a tile
constexpr int attention_most_splits = 64;  // of the keys: their factors take a tile's place

// Of attention_pages.cuh:
constexpr int pages_alone = 256, pages_share = 128;  // keys of a sequence that one block takes; of more each block has so many at least
constexpr int pages_warps = 4, pages_stages = 2;     // of a block; tiles under way for each of them
constexpr int pages_keys = 16;                       // of a tile
constexpr int pages_heads = 8;                       // query heads of a block, where it has more than one
/// Bytes of Shared and of Pipe for `group` heads of d elements, and of the whole block: both, at multiples of 128, and the stages.
constexpr int pages_shared_bytes(int group, int d) {
  return ((group < 4 ? 4 : group) * d + group * attention_keys + 3 * group + pages_warps * group * d + 1) * 4;
}
constexpr int pages_pipe_bytes(int group) {
  return pages_warps * pages_stages * 8 + 2 * pages_warps * group * 4 + 2 * 128 * 2 + pages_warps * pages_stages * 4;
}
constexpr int pages_bytes(int group, int d) {
  return (pages_shared_bytes(group, d) + 127) / 128 * 128 + (pages_pipe_bytes(group) + 127) / 128 * 128 +
         pages_warps * pages_stages * 2 * pages_keys * d * 2;
}

}  // namespace quern::cuda
