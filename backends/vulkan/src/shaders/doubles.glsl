// Functions of doubles that GLSL has not, within a few units in the last place.

/// |x| below 700. ln 2 is taken off in two parts; the series has |r| <= 0.35.
double exp_of_double(double x) {
  const double n = floor(x * 1.4426950408889634LF + 0.5LF);
  const double r = (x - n * 0.693147180369123816490LF) - n * 1.90821492927058770002e-10LF;
  double s = 1.0LF;
  for (int i = 16; i > 0; --i) s = 1.0LF + s * r / double(i);
  const int k = int(n);
  return k < -1021 ? 0.0LF : s * packDouble2x32(uvec2(0u, uint(k + 1023) << 20));
}
/// x > 0 and normal.
double log_of_double(double x) {
  uvec2 bits = unpackDouble2x32(x);
  int k = int(bits.y >> 20) - 1023;
  bits.y = (bits.y & 0xfffffu) | 0x3ff00000u;
  double m = packDouble2x32(bits);
  if (m > 1.4142135623730951LF) {
    m *= 0.5LF;
    ++k;
  }
  const double t = (m - 1.0LF) / (m + 1.0LF), q = t * t;
  double s = 0.0LF;
  for (int i = 27; i >= 3; i -= 2) s = (s + 1.0LF / double(i)) * q;
  return double(k) * 0.693147180369123816490LF + (2.0LF * t + 2.0LF * t * s + double(k) * 1.90821492927058770002e-10LF);
}
/// Cosine and sine; the quarter turns are taken off in three parts, which holds below 2^30 of them.
dvec2 turn_of_double(double x) {
  const double n = floor(x * 0.63661977236758134308LF + 0.5LF);
  double r = ((x - n * 1.5707963267341256142LF) - n * 6.0771005063039659765e-11LF) - n * 2.0222662487959505e-21LF;
  const double q = r * r;
  double s = 0.0LF, c = 0.0LF;
  for (int i = 10; i > 0; --i) {
    s = (1.0LF + s) * -q / double((2 * i) * (2 * i + 1));
    c = (1.0LF + c) * -q / double((2 * i - 1) * (2 * i));
  }
  const dvec2 turn = dvec2(1.0LF + c, r + r * s);
  const int quarter = int(int64_t(n) & 3l);
  return quarter == 0 ? turn : quarter == 1 ? dvec2(-turn.y, turn.x) : quarter == 2 ? -turn : dvec2(turn.y, -turn.x);
}
