// What penalties and biases make of one logit of a row.
#ifndef LOGIT_CHANGES_GLSL
#define LOGIT_CHANGES_GLSL

/// The tokens of a row's history that count: first .. last - 1.
struct Seen {
  uint64_t tokens, params;
  int first, last;
};
Seen seen_of(uint64_t history, uint64_t lengths, uint64_t params, uint row, uint entries) {
  const uint64_t of_row = params + uint64_t(row) * 32ul;
  const int length = clamp(Int(lengths + uint64_t(row) * 4ul).v, 0, int(entries));
  const float window = Float(of_row + 28ul).v;
  return Seen(history + uint64_t(row) * uint64_t(entries) * 4ul, of_row, length - int(window > 0.0 ? min(window, float(length)) : 0.0), length);
}
float penalized(Seen seen, uint i, uint n, float x, uint64_t faults) {
  int count = 0;
  for (int j = seen.first; j < seen.last; ++j) {
    const int token = Int(seen.tokens + uint64_t(j) * 4ul).v;
    if (token == int(i)) ++count;
    if (i == 0u && token >= int(n)) raise(faults, FAULT_INDEX_RANGE);
  }
  if (count == 0) return x;
  const float repeat = Float(seen.params + 16ul).v;
  const float scaled = x > 0.0 ? x / repeat : x * repeat;
  return scaled - Float(seen.params + 24ul).v * float(count) - Float(seen.params + 20ul).v;
}

/// `tokens` and `biases`: of the row.
float biased(uint64_t tokens, uint64_t biases, uint entries, uint i, uint n, float x, uint64_t faults) {
  for (uint e = 0u; e < entries; ++e) {
    const int token = Int(tokens + uint64_t(e) * 4ul).v;
    if (token == int(i)) x += Float(biases + uint64_t(e) * 4ul).v;
    if (i == 0u && (token < -1 || token >= int(n))) raise(faults, FAULT_INDEX_RANGE);
  }
  return x;
}

shared uint named;

/// Whether a row names any token: most name none, and then each logit is spared a look at all entries.
bool names_any(uint64_t tokens, uint entries) {
  if (gl_LocalInvocationID.x == 0u) named = 0u;
  barrier();
  FOR_EACH_LANE(e, entries) {
    if (Int(tokens + uint64_t(e) * 4ul).v != -1) named = 1u;
  }
  barrier();
  const bool any = named != 0u;
  barrier();
  return any;
}

#endif
