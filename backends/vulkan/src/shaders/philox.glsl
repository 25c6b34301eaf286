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
