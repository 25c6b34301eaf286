// Block formats for kernels that take any: those of blocks.glsl, and those of a file of their own, format_<format>.glsl. Of the latter other
// kernels take those of groups.glsl alone. A file has open_<format> and pair_<format>, as open_group and pair_of; and where ENCODES is
// defined, which is behind encode.glsl, encode_<format>.
#include "further_formats.glsl"

#define ELEMENTS(FORMAT, elements, bytes, open, pair, encode) \
  if (format == FORMAT) return elements;
#define BYTES(FORMAT, elements, bytes, open, pair, encode) \
  if (format == FORMAT) return bytes;
#define OPEN(FORMAT, elements, bytes, open, pair, encode) \
  if (format == FORMAT) return open(block, first);
#define PAIR(FORMAT, elements, bytes, open, pair, encode) \
  if (format == FORMAT) return pair(g, j);
#define ENCODE(FORMAT, elements, bytes, open, pair, encode) \
  if (format == FORMAT) { \
    encode(b); \
    return; \
  }

uint any_block_elements(const int format) {
  FURTHER_FORMATS(ELEMENTS)
  return block_elements(format);
}
uint any_block_bytes(const int format) {
  FURTHER_FORMATS(BYTES)
  return block_bytes(format);
}
Group open_any(uint64_t block, const int format, uint first) {
  FURTHER_FORMATS(OPEN)
  return open_group(block, format, first);
}
vec2 pair_of_any(Group g, const int format, uint j) {
  FURTHER_FORMATS(PAIR)
  return pair_of(g, format, j);
}
#ifdef ENCODES
void encode_any(uint64_t b, const int format) {
  FURTHER_FORMATS(ENCODE)
  encode_block(b, format);
}
#endif
