// philox4x32-10: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
uvec4 philox(uvec4 c, uvec2 key) {
  for (int round = 0; round < 10; ++round) {
    uint high_a, low_a, high_b, low_b;
    umulExtended(0xD2511F53u, c.x, high_a, low_a);
    umulExtended(0xCD9E8D57u, c.z, high_b, low_b);
    c = uvec4(high_b ^ c.y ^ key.x, low_b, high_a ^ c.w ^ key.y, low_a);
    key += uvec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}

/// (word + 0.5) / 2^32, rounded once to nearest even: a driver's conversion of words from 2^24 on may round otherwise, and the sum a second time.
float unit_interval(uint word) {
  const int cut = findMSB(word) - 23;  // bits of the word that f32 has no room for
  if (cut < 0) return (float(word) + 0.5) * 2.3283064365386963e-10;
  const uint kept = word >> uint(cut), up = cut == 0 ? kept & 1u : word >> uint(cut - 1) & 1u;  // with none cut, 0.5 is a tie
  return float(kept + up) * uintBitsToFloat(uint(95 + cut) << 23);                              // 2^(cut - 32)
}
