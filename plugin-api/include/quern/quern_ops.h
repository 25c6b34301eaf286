/* Ids of ops and of their attributes. The ops themselves are rows of ops.def; their meaning is in OPS.md.
 *
 * An attribute is sent as a quern_attribute with one of the keys below; which op has which, and the default that an absent
 * one means, is the sixth column of ops.def. Integers travel as QUERN_ATTR_I64, the others as QUERN_ATTR_F64. */
#ifndef QUERN_OPS_H
#define QUERN_OPS_H

enum {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) QUERN_OP_##NAME = id,
#include "ops.def"
#undef QUERN_OP
  QUERN_OP_PRIVATE_FROM = 4096 /* ids above are a plugin author's own, for experiments */
};

/* Attribute keys. Never renumbered. */
enum {
  QUERN_KEY_ALPHA = 1,
  QUERN_KEY_BETA = 2,
  QUERN_KEY_MIN = 3,
  QUERN_KEY_MAX = 4,
  QUERN_KEY_VALUE = 5,
  QUERN_KEY_KIND = 6, /* integer */
  QUERN_KEY_SWAPPED = 7, /* integer */
  QUERN_KEY_LIMIT = 8,
  QUERN_KEY_AXIS = 9, /* integer */
  QUERN_KEY_BEFORE = 10, /* integer */
  QUERN_KEY_AFTER = 11, /* integer */
  QUERN_KEY_ACCUMULATE = 12, /* integer */
  QUERN_KEY_EPSILON = 13,
  QUERN_KEY_WEIGHT_OFFSET = 14,
  QUERN_KEY_SCALE = 15,
  QUERN_KEY_CAUSAL = 16, /* integer */
  QUERN_KEY_QUERY_OFFSET = 17, /* integer */
  QUERN_KEY_WINDOW = 18, /* integer */
  QUERN_KEY_MAX_BIAS = 19,
  QUERN_KEY_SOFTCAP = 20,
  QUERN_KEY_BASE = 21,
  QUERN_KEY_SCALING = 22, /* integer */
  QUERN_KEY_FACTOR = 23,
  QUERN_KEY_ORIGINAL_CONTEXT = 24, /* integer */
  QUERN_KEY_BETA_FAST = 25,
  QUERN_KEY_BETA_SLOW = 26,
  QUERN_KEY_MSCALE = 27,
  QUERN_KEY_LOW_FREQ_FACTOR = 28,
  QUERN_KEY_HIGH_FREQ_FACTOR = 29,
  QUERN_KEY_FIRST = 30, /* integer */
  QUERN_KEY_MODE = 31, /* integer */
  QUERN_KEY_INVERSE = 32, /* integer */
  QUERN_KEY_SECTION0 = 33, /* integer */
  QUERN_KEY_SECTION1 = 34, /* integer */
  QUERN_KEY_SECTION2 = 35, /* integer */
  QUERN_KEY_SECTION3 = 36, /* integer */
  QUERN_KEY_TRANSPOSE_A = 37, /* integer */
  QUERN_KEY_TRANSPOSE_B = 38, /* integer */
  QUERN_KEY_USED = 39, /* integer */
  QUERN_KEY_RENORMALISE = 40, /* integer */
  QUERN_KEY_K = 41, /* integer */
  QUERN_KEY_DESCENDING = 42, /* integer */
  QUERN_KEY_SALT = 43, /* integer */
  QUERN_KEY_IGNORE = 44, /* integer */
  QUERN_KEY_SMOOTHING = 45,
  QUERN_KEY_Z_LOSS = 46,
  QUERN_KEY_BETA1 = 47,
  QUERN_KEY_BETA2 = 48,
  QUERN_KEY_WEIGHT_DECAY = 49,
  QUERN_KEY_MOMENTUM = 50,
  QUERN_KEY_MAX_NORM = 51,
  QUERN_KEY_P = 52,
  QUERN_KEY_ROOT = 53, /* integer */
  QUERN_KEY_PRIVATE_FROM = 1024
};

#endif
