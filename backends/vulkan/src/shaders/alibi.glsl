// Slopes of ALiBi: 2^(-max_bias k / n) for the first n = 2^floor(log2(heads)) heads, and the odd steps of twice as many for the rest.
// Source: Press et al. 2021 (arXiv:2108.12409). 1 without a bias.
float alibi_slope(float max_bias, uint head, uint heads) {
  if (!(max_bias > 0.0)) return 1.0;
  const uint n = 1u << uint(findMSB(heads));
  const float step = head < n ? float(head + 1u) / float(n) : (2.0 * float(head - n) + 1.0) * 0.5 / float(n);
  return exp_of(-max_bias * step * 0.693147181);
}
