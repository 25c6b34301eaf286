// F8_128: an f32 and numbers of eight bits.
#include "whole_scales.glsl"

Group open_f8_128(uint64_t block, uint first) { return open_bytes(block, first); }
vec2 pair_f8_128(Group g, uint j) { return pair_e4m3(g, j); }
#ifdef ENCODES
void encode_f8_128(uint64_t b) { encode_e4m3(b, 128u); }
#endif
