// A record of chain.comp in shared memory, as words of 4 bytes: ChainStage of params_chain.h, whose places chain.cpp asserts.
#define STAGE_WORDS 116u
#define PART_WORDS 16u
#define FIRST_PART 12u
#define FIRST_ATTENTION 60u
#define BEHIND_ATTENTION 110u
shared uint record[STAGE_WORDS];

/// What is known before the record is there: constants and what is pushed.
uint part_n(uint i) { return uint(i == 0u ? n0 : i == 1u ? n1 : n2); }
int part_format(uint i) { return i == 0u ? format0 : i == 1u ? format1 : format2; }
int stage_parts() { return format2 != 0 ? 3 : format1 != 0 ? 2 : 1; }
uint tile_outputs() { return is_paired() ? 1u : uint(used_rows); }
uint part_tiles(uint i) { return (part_n(i) + tile_outputs() - 1u) / tile_outputs(); }
uint part_first_tile(uint i) { return i == 0u ? 0u : i == 1u ? part_tiles(0u) : part_tiles(0u) + part_tiles(1u); }
uint stage_tiles() { return part_tiles(0u) + part_tiles(1u) + part_tiles(2u); }
uint64_t part_b(uint i) { return i == 0u ? p.b[0] : i == 1u ? p.b[1] : p.b[2]; }
uint64_t part_other_b(uint i) { return p.b[1]; }


uint stage_word(uint at) { return record[at]; }
uint64_t stage_long(uint at) { return packUint2x32(uvec2(record[at], record[at + 1u])); }

float stage_epsilon() { return uintBitsToFloat(stage_word(10u)); }
uint stage_y_block() { return stage_word(BEHIND_ATTENTION + 2u); }

uint64_t part_bias(uint i) { return stage_long(FIRST_PART + i * PART_WORDS + 4u); }
uint64_t part_c(uint i) { return stage_long(FIRST_PART + i * PART_WORDS + 6u); }
uint64_t part_y(uint i) { return stage_long(FIRST_PART + i * PART_WORDS + 8u); }
uint part_y_word(uint i) { return stage_word(FIRST_PART + i * PART_WORDS + 10u); }
uint part_c_word(uint i) { return stage_word(FIRST_PART + i * PART_WORDS + 11u); }
uint part_c_stage(uint i) { return stage_word(FIRST_PART + i * PART_WORDS + 12u); }
int part_bias_dtype(uint i) { return int(stage_word(FIRST_PART + i * PART_WORDS + 15u)); }

uint64_t attention_k_cache() { return stage_long(FIRST_ATTENTION + 0u); }
uint64_t attention_v_cache() { return stage_long(FIRST_ATTENTION + 2u); }
uint64_t attention_block_table() { return stage_long(FIRST_ATTENTION + 4u); }
uint64_t attention_position() { return p.b[0]; }
uint64_t attention_row_slot() { return p.b[1]; }
uint64_t attention_table() { return stage_long(FIRST_ATTENTION + 10u); }
uint64_t attention_y() { return stage_long(FIRST_ATTENTION + 12u); }
int64_t attention_k_page() { return int64_t(stage_long(FIRST_ATTENTION + 14u)); }
int64_t attention_k_head() { return int64_t(stage_long(FIRST_ATTENTION + 16u)); }
int64_t attention_k_position() { return int64_t(stage_long(FIRST_ATTENTION + 18u)); }
int64_t attention_v_page() { return int64_t(stage_long(FIRST_ATTENTION + 20u)); }
int64_t attention_v_head() { return int64_t(stage_long(FIRST_ATTENTION + 22u)); }
int64_t attention_v_position() { return int64_t(stage_long(FIRST_ATTENTION + 24u)); }
int64_t attention_window() { return int64_t(stage_long(FIRST_ATTENTION + 26u)); }
int64_t attention_table_stride() { return int64_t(stage_long(FIRST_ATTENTION + 28u)); }
uint attention_q_word() { return stage_word(FIRST_ATTENTION + 30u); }
uint attention_k_word() { return stage_word(FIRST_ATTENTION + 31u); }
uint attention_v_word() { return stage_word(FIRST_ATTENTION + 32u); }
uint attention_y_word() { return stage_word(FIRST_ATTENTION + 33u); }
uint attention_part_word() { return stage_word(FIRST_ATTENTION + 34u); }
uint attention_heads() { return stage_word(FIRST_ATTENTION + 35u); }
uint attention_kv_heads() { return stage_word(FIRST_ATTENTION + 36u); }
uint attention_d() { return stage_word(FIRST_ATTENTION + 37u); }
uint attention_dv() { return stage_word(FIRST_ATTENTION + 38u); }
uint attention_pairs() { return stage_word(FIRST_ATTENTION + 39u); }
uint attention_parts() { return stage_word(FIRST_ATTENTION + 40u); }
int attention_pages() { return int(stage_word(FIRST_ATTENTION + 41u)); }
int attention_page() { return int(stage_word(FIRST_ATTENTION + 42u)); }
int attention_sequences() { return int(stage_word(FIRST_ATTENTION + 43u)); }
int attention_pages_a_sequence() { return int(stage_word(FIRST_ATTENTION + 44u)); }
int attention_positions() { return int(stage_word(FIRST_ATTENTION + 45u)); }
int attention_mode() { return int(stage_word(FIRST_ATTENTION + 46u)); }
float attention_scale() { return uintBitsToFloat(stage_word(FIRST_ATTENTION + 47u)); }
float attention_softcap() { return uintBitsToFloat(stage_word(FIRST_ATTENTION + 48u)); }
