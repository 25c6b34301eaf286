// Sorts n pairs (key, place) by key, stable: a workgroup, 4 bits a pass, eight passes, each lane a stretch of the row. Pairs lie in `from`,
// `to` is as large; the result is in `from`.
shared uint counts[16 * gl_WorkGroupSize.x];  // [digit][lane]; a workgroup has at least 16
shared uint digit_total[16];

void sort_pairs(uint64_t from, uint64_t to, uint n) {
  const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x;
  const uint share = (n + lanes - 1u) / lanes, begin = min(n, lane * share), end = min(n, begin + share);
  for (uint shift = 0u; shift < 32u; shift += 4u) {
    for (uint digit = 0u; digit < 16u; ++digit) counts[digit * lanes + lane] = 0u;
    for (uint i = begin; i < end; ++i) ++counts[(UintPair(from + uint64_t(i) * 8ul).a >> shift & 15u) * lanes + lane];
    barrier();
    // Where the stretch of a lane begins in the list of a digit: behind all before it in [digit][lane] order.
    if (lane < 16u)
      for (uint l = 0u, run = 0u; l < lanes; ++l) {
        const uint c = counts[lane * lanes + l];
        counts[lane * lanes + l] = run;
        run += c;
        if (l + 1u == lanes) digit_total[lane] = run;
      }
    barrier();
    if (lane == 0u)
      for (uint digit = 0u, run = 0u; digit < 16u; ++digit) {
        const uint c = digit_total[digit];
        digit_total[digit] = run;
        run += c;
      }
    barrier();
    for (uint i = begin; i < end; ++i) {
      const uint64_t at = from + uint64_t(i) * 8ul;
      const uint key = UintPair(at).a, place = UintPair(at).b;
      const uint digit = key >> shift & 15u, target = digit_total[digit] + counts[digit * lanes + lane]++;
      const uint64_t there = to + uint64_t(target) * 8ul;
      UintPair(there).a = key;
      UintPair(there).b = place;
    }
    memoryBarrierBuffer();
    barrier();
    const uint64_t swap = from;
    from = to;
    to = swap;
  }
}

/// Orders floats as unsigned numbers, the largest first; NaN as -inf, -0 as 0.
uint descending_key(float x) {
  if (is_nan(x)) x = -INFINITY;
  uint b = floatBitsToUint(x);
  if (b == 0x80000000u) b = 0u;  // as bits: a driver may take subnormals for zeros
  return ~((b & 0x80000000u) != 0u ? ~b : b | 0x80000000u);
}
float from_descending_key(uint key) {
  const uint b = ~key;
  return uintBitsToFloat((b & 0x80000000u) != 0u ? b & 0x7fffffffu : ~b);
}
