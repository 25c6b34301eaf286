// Few rows of f16 by eights, as rows_f16.comp writes them and gemm_rows.comp reads them: of each 32 neighbours of k the eight rows one after the
// other, elements 1 and 2 of each four in each other's place; behind all rows, for each eight and each 256 neighbours, the sums of what lies in
// each 32 of them, in units of 64 and as two numbers of f16 whose sum they are.
const float eights_sum_unit = 64.0;
uint64_t eights_sums_offset(uint rows, uint k) { return uint64_t((rows + 7u) / 8u * 8u) * uint64_t(k) * 2ul; }
