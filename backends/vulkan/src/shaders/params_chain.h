// As params.h, of chain.comp: what a dispatch needs to know of its stage.
#ifdef __cplusplus
#pragma once
#include <cstdint>
namespace quern::vulkan {
using uint = std::uint32_t;
using std::int64_t;
using std::uint64_t;
#endif

#define CHAIN_PARTS 3
#define CHAIN_NONE 0xffffffffu

struct ChainPart {  // a product of the stage's row; c and y: packed f32, or 0
  uint64_t b, other_b, bias, c, y;
  uint y_word, c_word, c_stage;  // in the exchange, CHAIN_NONE: not there; c_stage: that wrote c
  uint n;
  int format, bias_dtype;
};
struct ChainAttention {
  uint64_t k_cache, v_cache, block_table, row_slot, position, table, y;
  int64_t k_page, k_head, k_position, v_page, v_head, v_position, window, table_stride;
  uint q_word, k_word, v_word, y_word, part_word;  // part_word: what parts of a head's keys found
  uint heads, kv_heads, d, dv, pairs, parts;
  int pages, page, sequences, pages_a_sequence, positions, mode;
  float scale, softcap;
  uint unused;
};
struct ChainStage {
  uint64_t x, other;       // x where the row is no other stage's; the norm's weight
  uint x_word, k, tiles;   // x_word: CHAIN_NONE where it is in x
  int kind, parts, paired;
  float epsilon, offset;
  ChainPart part[CHAIN_PARTS];
  ChainAttention attention;
  uint64_t next_other;     // where results go as blocks: the weight of the norm that takes them, or 0
  uint y_block;            // where they lie in the exchange
  float next_offset;
  int blocks_in, blocks_out;  // whether the row comes as blocks; how many a workgroup makes at most, 0: results go as words
};
struct ChainParams {  // exchange: words of 8 bytes, an f32 and which stage of which run wrote it; control: run, workgroups done
  uint64_t stages, exchange, control, faults, stalled;
  // Of this dispatch's stage, what is wanted before its record is there.
  uint64_t x, other, next_other;
  uint64_t b[CHAIN_PARTS];  // weights, the second that of other_b where two make a result; of attention: position, row_slot
  uint count, limit, stage, x_word;
  float offset, next_offset;
};

#ifdef __cplusplus
}  // namespace quern::vulkan
#endif
