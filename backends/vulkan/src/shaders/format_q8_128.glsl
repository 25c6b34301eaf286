// Q8_128: an f32 and signed codes of eight bits.
#include "whole_scales.glsl"

Group open_q8_128(uint64_t block, uint first) { return open_bytes(block, first); }
vec2 pair_q8_128(Group g, uint j) { return pair_signed_bytes(g, j); }
#ifdef ENCODES
void encode_q8_128(uint64_t b) { encode_signed_bytes(b, 128u); }
#endif
