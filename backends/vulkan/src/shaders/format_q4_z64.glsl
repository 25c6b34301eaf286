// Q4_Z64: codes of four bits with a zero point, 64 a block.
#include "zero_points.glsl"

Group open_q4_z64(uint64_t block, uint first) { return open_zero_nibbles(block, first); }
vec2 pair_q4_z64(Group g, uint j) { return pair_zero_nibbles(g, j); }
#ifdef ENCODES
void encode_q4_z64(uint64_t b) { encode_zero_nibbles(b, 64u); }
#endif
