// Block formats of quantised directories, which are all built alike: a word, then 32 to 128 codes of four or eight bits. The word is the scale, an
// f32; or its upper 24 bits are the scale's and the others are a zero point. Kernels that read weights in units have them in planes (planes.glsl).
//
// All but is_group are asked about such a format only.
#define Q4_Z32 64
#define Q4_Z64 65
#define Q4_Z128 66
#define Q8_Z32 67
#define Q8_Z128 68
#define Q8_128 69
#define F8_128 70
#define NF4_64 71
#define FP4_64 72

bool is_group(const int format) { return format >= Q4_Z32 && format <= FP4_64; }
uint group_elements(const int format) {
  switch (format) {
    case Q4_Z32: case Q8_Z32: return 32u;
    case Q4_Z64: case NF4_64: case FP4_64: return 64u;
    default: return 128u;
  }
}
/// Codes of four bits: byte j of 16 has elements j and j + 16 of 32.
bool has_nibbles(const int format) { return format <= Q4_Z128 || format >= NF4_64; }
bool has_zero_point(const int format) { return format <= Q8_Z128; }
/// Whether codes stand for floats; the others are whole numbers.
bool has_float_codes(const int format) { return format >= F8_128; }

float word_scale(const int format, uint word) { return uintBitsToFloat(has_zero_point(format) ? word & ~255u : word); }
float word_zero(const int format, uint word) { return has_zero_point(format) ? float(word & 255u) : 0.0; }
/// Numbers of F8_128 in bytes 0 and 2 of a word as two of f16, which are 2^8 lower: the exponent's four bits become its lower ones.
uint two_e4m3(uint bytes) {
  const uint size = bytes & 0x007f007fu, no_number = size + 0x00010001u >> 7 & 0x00010001u;
  return (bytes & 0x00800080u) << 8 | size << 7 | no_number * 0x7c00u;
}
/// The largest size that a block with this word can hold.
float word_bound(const int format, uint word) {
  const float most = format == F8_128 ? 448.0 : format >= NF4_64 ? 1.0 : format == Q8_128 ? 128.0 : max(word_zero(format, word), has_nibbles(format) ? 15.0 : 255.0);
  return abs(word_scale(format, word)) * most;
}
