// Q8_Z128: codes of eight bits with a zero point, 128 a block.
#include "zero_points.glsl"

Group open_q8_z128(uint64_t block, uint first) { return open_zero_bytes(block, first); }
vec2 pair_q8_z128(Group g, uint j) { return pair_zero_bytes(g, j); }
#ifdef ENCODES
void encode_q8_z128(uint64_t b) { encode_zero_bytes(b, 128u); }
#endif
