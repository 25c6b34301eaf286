/* Ids of ops and of their attributes. The ops themselves are rows of ops.def; their meaning is in OPS.md.
 *
 * An attribute is sent as a quern_attribute with one of the keys of keys.def; which op has which, and the default that an
 * absent one means, is the attributes column of ops.def. Integers travel as QUERN_ATTR_I64, the others as QUERN_ATTR_F64. */
#ifndef QUERN_OPS_H
#define QUERN_OPS_H

enum {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) QUERN_OP_##NAME = id,
#include "ops.def"
#undef QUERN_OP
  QUERN_OP_PRIVATE_FROM = 4096 /* ids above are a plugin author's own, for experiments */
};

enum {
#define QUERN_KEY(id, NAME, name, type) QUERN_KEY_##NAME = id,
#include "keys.def"
#undef QUERN_KEY
  QUERN_KEY_PRIVATE_FROM = 1024
};

#endif
