// Pages of keys or values: [pages, kv_heads, page, d] behind a block table of a sequence.

/// Element i of a packed row of d elements.
float row_element(uint64_t row, const int format, uint i) {
  if (format < Q4_0) return load_packed(row, format, i);
  const uint64_t block = row + uint64_t(i / 32u * block_bytes(format));
  const uint e = i % 32u;
  if (format == Q8_0) return scale_at(block) * float(signed_byte(byte_at(block + 2u + e)));
  return scale_at(block) * float(int(byte_at(block + 2u + e % 16u) >> (e < 16u ? 0u : 4u) & 15u) - 8);
}
