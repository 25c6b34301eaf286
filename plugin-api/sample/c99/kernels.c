/* The arithmetic of the C99 sample: plain loops over rows, on the thread of a queue. A real backend launches kernels here. */
#define _POSIX_C_SOURCE 200809L

#include "c99.h"

#include <math.h>
#include <string.h>

enum { lanes = 16 }; /* sums in parts: the error grows with the root of k */

static float from_f16(uint16_t h) {
  const uint32_t magnitude = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t bits = magnitude << 13; /* the value times 2^-112, subnormals too */
  float f;
  memcpy(&f, &bits, sizeof f);
  f *= 0x1p112f;
  memcpy(&bits, &f, sizeof bits);
  if (magnitude >= 0x7c00u) bits = 0x7f800000u | (magnitude & 0x3ffu) << 13; /* infinity and NaN */
  bits |= sign;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* To nearest, ties to even; beyond the largest number to infinity. */
static uint16_t to_f16(float f) {
  uint32_t bits, sign, magnitude, rounded;
  memcpy(&bits, &f, sizeof bits);
  sign = bits >> 16 & 0x8000u;
  magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (magnitude < 0x38800000u) return (uint16_t)(sign | (uint32_t)nearbyintf(ldexpf(fabsf(f), 24))); /* below 2^-14: a multiple of 2^-24 */
  rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return (uint16_t)(sign | (rounded >= 0x47800000u ? 0x7c00u : (rounded - 0x38000000u) >> 13));
}

static float load(const unsigned char *at, quern_dtype dtype) {
  float f;
  uint16_t h;
  if (dtype == QUERN_F32) {
    memcpy(&f, at, sizeof f);
    return f;
  }
  memcpy(&h, at, sizeof h);
  return from_f16(h);
}

static void store(unsigned char *at, quern_dtype dtype, float f) {
  const uint16_t h = to_f16(f);
  if (dtype == QUERN_F32) memcpy(at, &f, sizeof f);
  else memcpy(at, &h, sizeof h);
}

/* A value seen with the dimensions of the output: bytes between neighbours, 0 where it broadcasts. */
typedef struct {
  unsigned char *base;
  quern_dtype dtype;
  int64_t step[QUERN_MAX_DIMS];
} operand;

static operand operand_of(const quern_instance *i, uint32_t value, uint32_t rank) {
  const quern_value *v = &i->plan->values[value];
  int64_t steps[QUERN_MAX_DIMS];
  operand result;
  uint32_t d;
  memset(&result, 0, sizeof result);
  result.base = address(i->places[value]);
  result.dtype = v->dtype;
  steps_of(v, steps);
  for (d = 0; d < v->rank; ++d) result.step[d + rank - v->rank] = v->dims[d] == 1 && v->symbols[d] == 0 ? 0 : steps[d];
  return result;
}

static float dot(const unsigned char *a, quern_dtype a_type, const unsigned char *b, quern_dtype b_type, int64_t k) {
  const int64_t a_size = (int64_t)element_bytes(a_type), b_size = (int64_t)element_bytes(b_type);
  float part[lanes] = {0};
  int64_t l;
  int half, p;
  for (l = 0; l < k; ++l) part[l % lanes] += load(a + l * a_size, a_type) * load(b + l * b_size, b_type);
  for (half = lanes / 2; half > 0; half /= 2)
    for (p = 0; p < half; ++p) part[p] += part[p + half];
  return part[0];
}

/* A row of the output: n elements at `at`, of operands that begin at a and b. */
static void row(const quern_instance *i, const step *s, const operand *y, unsigned char *at, const operand *a, const unsigned char *at_a,
                const operand *b, const unsigned char *at_b, int64_t n, uint32_t last) {
  const uint64_t size = element_bytes(y->dtype);
  int64_t j;
  for (j = 0; j < n; ++j, at += y->step[last]) {
    switch (s->op) {
      case QUERN_OP_COPY: memcpy(at, at_a + j * a->step[last], size); break;
      case QUERN_OP_MATMUL:
        store(at, y->dtype, dot(at_a, a->dtype, b->base + j * b->step[0], b->dtype, extent(&i->plan->values[s->inputs[0]], 1, i->now)));
        break;
      default: store(at, QUERN_F32, load(at_a + j * a->step[last], QUERN_F32) + s->alpha * load(at_b + j * b->step[last], QUERN_F32)); break;
    }
  }
}

static int writes(const quern_instance *i, const step *s, int64_t index) {
  int32_t number;
  if (s->predicate == QUERN_NONE) return 1;
  memcpy(&number, address(i->places[s->predicate]) + index * (int64_t)sizeof number, sizeof number);
  return number != 0;
}

/* 0: cancelled. */
static int run_step(const quern_instance *i, const step *s) {
  const quern_value *out = &i->plan->values[s->output];
  const uint32_t leading = out->rank == 0 ? 0 : out->rank - 1;
  const operand y = operand_of(i, s->output, out->rank), a = operand_of(i, s->inputs[0], out->rank);
  const operand b = operand_of(i, s->inputs[s->input_count - 1], out->rank);
  const int64_t n = out->rank == 0 ? 1 : extent(out, leading, i->now);
  const int by_row = s->predicate != QUERN_NONE && i->plan->values[s->predicate].rank == 1 && i->plan->values[s->predicate].dims[0] != 1;
  int64_t index[QUERN_MAX_DIMS] = {0}, rows = 1, r;
  uint32_t d;
  for (d = 0; d < leading; ++d) rows *= extent(out, d, i->now);
  for (r = 0; n != 0 && r < rows; ++r) {
    int64_t at = 0, at_a = 0, at_b = 0;
    if (__atomic_load_n(&i->cancel, __ATOMIC_RELAXED)) return 0;
    for (d = 0; d < leading; ++d) {
      at += index[d] * y.step[d];
      at_a += index[d] * a.step[d];
      at_b += index[d] * b.step[d];
    }
    if (writes(i, s, by_row ? index[0] : 0)) row(i, s, &y, y.base + at, &a, a.base + at_a, &b, b.base + at_b, n, leading);
    for (d = leading; d-- > 0;) { /* the last runs fastest */
      if (++index[d] < extent(out, d, i->now)) break;
      index[d] = 0;
    }
  }
  return 1;
}

/* The exact count of each symbol that lies in device memory [C11]. 0: one is out of its bound. */
static int read_extents(quern_instance *i) {
  uint32_t s;
  for (s = 0; s < i->plan->symbol_count; ++s) {
    int32_t exact;
    if (i->plan->symbols[s].extent == QUERN_NONE) continue;
    memcpy(&exact, address(i->places[i->plan->symbols[s].extent]), sizeof exact);
    if (exact < 0 || exact > i->now[s]) return 0;
    i->now[s] = exact;
  }
  return 1;
}

void perform(quern_instance *i, quern_run_status *status) {
  uint32_t n;
  for (n = 0; n < i->patch_count; ++n) {
    const quern_patch *p = &i->patches[n];
    if (p->bytes != 0) memcpy(address(i->places[p->value]) + p->offset, p->data, p->bytes);
  }
  i->counters.host_copies += i->patch_bytes;
  ++i->counters.runs;
  if (!read_extents(i)) {
    status->code = QUERN_INVALID_ARGUMENT;
    status->rule = 11;
    return;
  }
  for (n = 0; n < i->plan->step_count; ++n) {
    if (run_step(i, &i->plan->steps[n])) continue;
    status->code = QUERN_CANCELLED;
    status->node = n;
    status->op = i->plan->steps[n].op;
    status->rule = 18;
    return;
  }
}
