// NF4_64: an f32 and codes of four bits that stand for numbers of a table.
#include "whole_scales.glsl"

Group open_nf4_64(uint64_t block, uint first) { return open_table_nibbles(block, first); }
vec2 pair_nf4_64(Group g, uint j) { return pair_table_nibbles(g, j, nf4_values); }
#ifdef ENCODES
void encode_nf4_64(uint64_t b) { encode_table_nibbles(b, 64u, nf4_values); }
#endif
