/* Ids of element types and quantised formats.
 *
 * An id is never renumbered or reused. A quantised format is described as data in quern_formats.h; the id alone
 * is not its definition (its descriptor hash is). */
#ifndef QUERN_DTYPES_H
#define QUERN_DTYPES_H

#include <stdint.h>

typedef uint32_t quern_dtype;

#define QUERN_DTYPE_NONE 0u
#define QUERN_F32 1u
#define QUERN_F16 2u  /* IEEE binary16 */
#define QUERN_BF16 3u /* the upper half of a binary32 */
#define QUERN_I32 4u
#define QUERN_I64 5u
#define QUERN_U32 6u
#define QUERN_U8 7u

/* Block formats, with the byte layout of the GGUF type of the same name. 32 elements a block: */
#define QUERN_Q4_0 32u
#define QUERN_Q4_1 33u
#define QUERN_Q5_0 34u
#define QUERN_Q5_1 35u
#define QUERN_Q8_0 36u
/* 256 elements a block: */
#define QUERN_Q4_K 42u
#define QUERN_Q5_K 43u
#define QUERN_Q6_K 44u

/* Block formats of Hugging Face directories, with layouts of this ABI's own; the number in a name is the elements of a block: */
#define QUERN_Q4_Z32 64u
#define QUERN_Q4_Z64 65u
#define QUERN_Q4_Z128 66u
#define QUERN_Q8_Z32 67u
#define QUERN_Q8_Z128 68u
#define QUERN_Q8_128 69u
#define QUERN_F8_128 70u
#define QUERN_NF4_64 71u
#define QUERN_FP4_64 72u

#define QUERN_FORMAT_TABLE_VERSION 2u /* the first format behind a release raises it */

#endif
