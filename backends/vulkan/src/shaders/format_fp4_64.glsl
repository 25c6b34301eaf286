// FP4_64: an f32 and codes of four bits that stand for numbers of a table.
#include "whole_scales.glsl"

Group open_fp4_64(uint64_t block, uint first) { return open_table_nibbles(block, first); }
vec2 pair_fp4_64(Group g, uint j) { return pair_table_nibbles(g, j, fp4_values); }
#ifdef ENCODES
void encode_fp4_64(uint64_t b) { encode_table_nibbles(b, 64u, fp4_values); }
#endif
