// Block formats made from floats. The rule of each format, every code chosen against the scale as it is stored:
//
//   q8_0        d = max|x| / 127
//   q4_0, q5_0  d = x* / -8 (-16), x* the element of largest magnitude, so that it is met exactly
//   q4_1, q5_1  d = (max - min) / 15 (31), m = min
//   q4_k, q5_k  each 32: scale = (max - min(min, 0)) / 15 (31) and -min(min, 0), in units of the largest / 63
//   q6_k        each 16: scale = x* / -32, in units of the one of largest magnitude / -128
// Codes round to nearest and are cut to their range. A NaN makes its block NaN: d is stored as it comes.
struct Floats {
  uint64_t at;
  int dtype, step;
};
Floats source;
float x_at(uint i) { return load_float(source.at + uint64_t(int64_t(i) * int64_t(source.step)), source.dtype); }

void put_byte(uint64_t at, uint b) { Byte(at).v = uint8_t(b); }
float put_scale(uint64_t at, float x) {
  const uint h = float_to_half(x);
  Short(at).v = uint16_t(h);
  return half_to_float(h);
}
/// Nearest integer to x * inverse + shift in [low, high]; a NaN gives low.
int code_of(float x, float inverse, float shift, int low, int high) {
  const float c = roundEven(x * inverse + shift);
  if (!(c > float(low))) return low;
  return c >= float(high) ? high : int(c);
}
float inverse_of(float d) { return d == 0.0 ? 0.0 : 1.0 / d; }
/// The element of largest magnitude, with its sign; NaN if there is one.
float extreme(uint first, uint n) {
  float best = 0.0;
  for (uint i = first; i < first + n; ++i) {
    const float x = x_at(i);
    if (is_nan(x)) return x;
    if (abs(x) > abs(best)) best = x;
  }
  return best;
}
void range_of(uint first, uint n, out float low, out float high) {
  low = high = x_at(first);
  for (uint i = first; i < first + n; ++i) {
    const float x = x_at(i);
    if (is_nan(x)) {
      low = high = x;
      return;
    }
    low = min(low, x);
    high = max(high, x);
  }
}

void encode_q8_0(uint64_t b) {
  const float inverse = inverse_of(put_scale(b, abs(extreme(0u, 32u)) / 127.0));
  for (uint i = 0u; i < 32u; ++i) put_byte(b + 2u + i, uint(code_of(x_at(i), inverse, 0.0, -127, 127)) & 255u);
}
/// Nibbles, and with five bits the fifth in a word at `high`.
void put_codes(uint64_t low, uint64_t high, bool five, float inverse, float shift, float minimum) {
  uint bits = 0u;
  const int most = five ? 31 : 15;
  for (uint i = 0u; i < 16u; ++i) {
    const uint a = uint(code_of(x_at(i) - minimum, inverse, shift, 0, most)), c = uint(code_of(x_at(i + 16u) - minimum, inverse, shift, 0, most));
    put_byte(low + i, (a & 15u) | (c & 15u) << 4);
    bits |= a >> 4 << i | c >> 4 << i + 16u;
  }
  if (five)
    for (uint i = 0u; i < 4u; ++i) put_byte(high + i, bits >> 8u * i & 255u);
}
void encode_symmetric(uint64_t b, bool five) {
  const float inverse = inverse_of(put_scale(b, extreme(0u, 32u) / (five ? -16.0 : -8.0)));
  put_codes(b + (five ? 6u : 2u), b + 2u, five, inverse, five ? 16.0 : 8.0, 0.0);
}
void encode_offset(uint64_t b, bool five) {
  float low, high;
  range_of(0u, 32u, low, high);
  const float inverse = inverse_of(put_scale(b, (high - low) / (five ? 31.0 : 15.0))), m = put_scale(b + 2u, low);
  put_codes(b + (five ? 8u : 4u), b + 4u, five, inverse, 0.0, m);
}

void encode_super_offset(uint64_t b, bool five) {
  float scale[8], minimum[8], largest = 0.0, largest_minimum = 0.0;
  bool spoiled = false;
  for (uint j = 0u; j < 8u; ++j) {
    float low, high;
    range_of(32u * j, 32u, low, high);
    minimum[j] = low < 0.0 ? -low : is_nan(low) ? low : 0.0;
    scale[j] = (high + minimum[j]) / (five ? 31.0 : 15.0);
    spoiled = spoiled || is_nan(scale[j]);
    largest = max(largest, scale[j]);
    largest_minimum = max(largest_minimum, minimum[j]);
  }
  const float d = put_scale(b, spoiled ? NOT_A_NUMBER : largest / 63.0), dm = put_scale(b + 2u, spoiled ? NOT_A_NUMBER : largest_minimum / 63.0);
  uint bytes[12];
  for (uint i = 0u; i < 12u; ++i) bytes[i] = 0u;
  for (uint j = 0u; j < 8u; ++j) {
    const uint a = uint(code_of(scale[j], inverse_of(d), 0.0, 0, 63)), m = uint(code_of(minimum[j], inverse_of(dm), 0.0, 0, 63));
    if (j < 4u) {
      bytes[j] |= a;
      bytes[j + 4u] |= m;
    } else {
      bytes[j + 4u] = (a & 15u) | (m & 15u) << 4;
      bytes[j - 4u] |= a >> 4 << 6;
      bytes[j] |= m >> 4 << 6;
    }
    scale[j] = d * float(a);
    minimum[j] = dm * float(m);
  }
  for (uint i = 0u; i < 12u; ++i) put_byte(b + 4u + i, bytes[i]);
  const int most = five ? 31 : 15;
  for (uint i = 0u; i < 32u; ++i) {
    uint top = 0u;
    for (uint j = 0u; j < 8u; j += 2u) {
      const uint low = uint(code_of(x_at(32u * j + i) + minimum[j], inverse_of(scale[j]), 0.0, 0, most));
      const uint high = uint(code_of(x_at(32u * j + 32u + i) + minimum[j + 1u], inverse_of(scale[j + 1u]), 0.0, 0, most));
      put_byte(b + (five ? 48u : 16u) + 16u * j + i, (low & 15u) | (high & 15u) << 4);
      top |= low >> 4 << j | high >> 4 << j + 1u;
    }
    if (five) put_byte(b + 16u + i, top);
  }
}

void encode_q6_k(uint64_t b) {
  float scale[16], widest = 0.0;
  bool spoiled = false;
  for (uint g = 0u; g < 16u; ++g) {
    scale[g] = extreme(16u * g, 16u) / -32.0;
    spoiled = spoiled || is_nan(scale[g]);
    if (abs(scale[g]) > abs(widest)) widest = scale[g];
  }
  const float d = put_scale(b + 208u, spoiled ? NOT_A_NUMBER : widest / -128.0);
  for (uint g = 0u; g < 16u; ++g) {
    const int s = code_of(scale[g], inverse_of(d), 0.0, -128, 127);
    put_byte(b + 192u + g, uint(s) & 255u);
    scale[g] = inverse_of(d * float(s));
  }
  for (uint h = 0u; h < 2u; ++h)
    for (uint l = 0u; l < 32u; ++l) {
      uint low[2], top = 0u;
      low[0] = low[1] = 0u;
      for (uint q = 0u; q < 4u; ++q) {  // element 128 h + 32 q + l: nibble q / 2 of byte 32 (q % 2) + l
        const uint i = 128u * h + 32u * q + l, code = uint(code_of(x_at(i), scale[i / 16u], 32.0, 0, 63));
        low[q & 1u] |= (code & 15u) << 4u * (q >> 1);
        top |= code >> 4 << 4u * (q >> 1) + 2u * (q & 1u);
      }
      put_byte(b + 64u * h + l, low[0]);
      put_byte(b + 64u * h + 32u + l, low[1]);
      put_byte(b + 128u + 32u * h + l, top);
    }
}

/// One block from `source`.
void encode_block(uint64_t b, const int format) {
  if (format == Q8_0) encode_q8_0(b);
  else if (format == Q4_0 || format == Q5_0) encode_symmetric(b, format == Q5_0);
  else if (format == Q4_1 || format == Q5_1) encode_offset(b, format == Q5_1);
  else if (format == Q4_K || format == Q5_K) encode_super_offset(b, format == Q5_K);
  else encode_q6_k(b);
}
