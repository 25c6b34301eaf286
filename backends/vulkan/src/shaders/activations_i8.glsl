// Rows of activations as int8, made by quantise.comp: the codes of all rows, then for each group of 16 its scale, and its scale times the sum
// of its codes. 32 neighbours have one scale. k is a multiple of 64.
uint64_t codes_of(uint64_t base, uint k, uint row, uint i) { return base + uint64_t(row) * uint64_t(k) + uint64_t(i); }
uint64_t scales_of(uint64_t base, uint rows, uint k, uint row, uint i) {
  return base + uint64_t(rows) * uint64_t(k) + (uint64_t(row) * uint64_t(k / 16u) + uint64_t(i / 16u)) * 8ul;
}
