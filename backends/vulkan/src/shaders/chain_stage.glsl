// A record of chain.comp in shared memory, as words of 4 bytes: ChainStage of params_chain.h, whose places chain.cpp asserts.
#define STAGE_WORDS 116u
#define PART_WORDS 18u
#define FIRST_PART 12u
#define FIRST_ATTENTION 66u
shared uint ring[4u * STAGE_WORDS];  // the stages at hand and those to come

uint stage_word(uint w, uint at) { return ring[w * STAGE_WORDS + at]; }
uint64_t stage_long(uint w, uint at) { return packUint2x32(uvec2(ring[w * STAGE_WORDS + at], ring[w * STAGE_WORDS + at + 1u])); }

uint64_t stage_x(uint w) { return stage_long(w, 0u); }
uint64_t stage_other(uint w) { return stage_long(w, 2u); }
uint stage_x_word(uint w) { return stage_word(w, 4u); }
uint stage_k(uint w) { return stage_word(w, 5u); }
uint stage_tiles(uint w) { return stage_word(w, 6u); }
int stage_kind(uint w) { return int(stage_word(w, 7u)); }
int stage_parts(uint w) { return int(stage_word(w, 8u)); }
int stage_paired(uint w) { return int(stage_word(w, 9u)); }
float stage_epsilon(uint w) { return uintBitsToFloat(stage_word(w, 10u)); }
float stage_offset(uint w) { return uintBitsToFloat(stage_word(w, 11u)); }

uint64_t part_b(uint w, uint i) { return stage_long(w, FIRST_PART + i * PART_WORDS + 0u); }
uint64_t part_other_b(uint w, uint i) { return stage_long(w, FIRST_PART + i * PART_WORDS + 2u); }
uint64_t part_bias(uint w, uint i) { return stage_long(w, FIRST_PART + i * PART_WORDS + 4u); }
uint64_t part_c(uint w, uint i) { return stage_long(w, FIRST_PART + i * PART_WORDS + 6u); }
uint64_t part_y(uint w, uint i) { return stage_long(w, FIRST_PART + i * PART_WORDS + 8u); }
uint part_y_word(uint w, uint i) { return stage_word(w, FIRST_PART + i * PART_WORDS + 10u); }
uint part_c_word(uint w, uint i) { return stage_word(w, FIRST_PART + i * PART_WORDS + 11u); }
uint part_c_stage(uint w, uint i) { return stage_word(w, FIRST_PART + i * PART_WORDS + 12u); }
uint part_n(uint w, uint i) { return stage_word(w, FIRST_PART + i * PART_WORDS + 13u); }
uint part_first_tile(uint w, uint i) { return stage_word(w, FIRST_PART + i * PART_WORDS + 14u); }
int part_format(uint w, uint i) { return int(stage_word(w, FIRST_PART + i * PART_WORDS + 15u)); }
int part_bias_dtype(uint w, uint i) { return int(stage_word(w, FIRST_PART + i * PART_WORDS + 16u)); }

uint64_t attention_k_cache(uint w) { return stage_long(w, FIRST_ATTENTION + 0u); }
uint64_t attention_v_cache(uint w) { return stage_long(w, FIRST_ATTENTION + 2u); }
uint64_t attention_block_table(uint w) { return stage_long(w, FIRST_ATTENTION + 4u); }
uint64_t attention_row_slot(uint w) { return stage_long(w, FIRST_ATTENTION + 6u); }
uint64_t attention_position(uint w) { return stage_long(w, FIRST_ATTENTION + 8u); }
uint64_t attention_table(uint w) { return stage_long(w, FIRST_ATTENTION + 10u); }
uint64_t attention_y(uint w) { return stage_long(w, FIRST_ATTENTION + 12u); }
int64_t attention_k_page(uint w) { return int64_t(stage_long(w, FIRST_ATTENTION + 14u)); }
int64_t attention_k_head(uint w) { return int64_t(stage_long(w, FIRST_ATTENTION + 16u)); }
int64_t attention_k_position(uint w) { return int64_t(stage_long(w, FIRST_ATTENTION + 18u)); }
int64_t attention_v_page(uint w) { return int64_t(stage_long(w, FIRST_ATTENTION + 20u)); }
int64_t attention_v_head(uint w) { return int64_t(stage_long(w, FIRST_ATTENTION + 22u)); }
int64_t attention_v_position(uint w) { return int64_t(stage_long(w, FIRST_ATTENTION + 24u)); }
int64_t attention_window(uint w) { return int64_t(stage_long(w, FIRST_ATTENTION + 26u)); }
int64_t attention_table_stride(uint w) { return int64_t(stage_long(w, FIRST_ATTENTION + 28u)); }
uint attention_q_word(uint w) { return stage_word(w, FIRST_ATTENTION + 30u); }
uint attention_k_word(uint w) { return stage_word(w, FIRST_ATTENTION + 31u); }
uint attention_v_word(uint w) { return stage_word(w, FIRST_ATTENTION + 32u); }
uint attention_y_word(uint w) { return stage_word(w, FIRST_ATTENTION + 33u); }
uint attention_part_word(uint w) { return stage_word(w, FIRST_ATTENTION + 34u); }
uint attention_heads(uint w) { return stage_word(w, FIRST_ATTENTION + 35u); }
uint attention_kv_heads(uint w) { return stage_word(w, FIRST_ATTENTION + 36u); }
uint attention_d(uint w) { return stage_word(w, FIRST_ATTENTION + 37u); }
uint attention_dv(uint w) { return stage_word(w, FIRST_ATTENTION + 38u); }
uint attention_pairs(uint w) { return stage_word(w, FIRST_ATTENTION + 39u); }
uint attention_parts(uint w) { return stage_word(w, FIRST_ATTENTION + 40u); }
int attention_pages(uint w) { return int(stage_word(w, FIRST_ATTENTION + 41u)); }
int attention_page(uint w) { return int(stage_word(w, FIRST_ATTENTION + 42u)); }
int attention_sequences(uint w) { return int(stage_word(w, FIRST_ATTENTION + 43u)); }
int attention_pages_a_sequence(uint w) { return int(stage_word(w, FIRST_ATTENTION + 44u)); }
int attention_positions(uint w) { return int(stage_word(w, FIRST_ATTENTION + 45u)); }
int attention_mode(uint w) { return int(stage_word(w, FIRST_ATTENTION + 46u)); }
float attention_scale(uint w) { return uintBitsToFloat(stage_word(w, FIRST_ATTENTION + 47u)); }
float attention_softcap(uint w) { return uintBitsToFloat(stage_word(w, FIRST_ATTENTION + 48u)); }
