/* Quantised formats as data: what the bytes of a block mean, without code.
 *
 * A block holds block_elements numbers in block_bytes bytes. A field has `entries` integers or f16 numbers; entry e is the
 * sum over the pieces that cover it of (bits << shift), the bits being read at a bit address counted from the start of the
 * block, little-endian: bit_offset + the sum of digit * stride, where the digits of (e - first) are taken in the mixed radix
 * `dims`, the last digit running fastest. An INT field is two's complement in the width of its pieces. An F32 field of fewer
 * than 32 bits has the upper bits of an f32, and the others are 0. An E4M3 field is a sign, four bits of exponent with a bias of 7 and
 * three of mantissa; 0x7f and 0xff are NaN, and nothing is infinite. Element i has code
 * c = code[i] - bias, and with g = i / group_elements its value is, by formula,
 *   SYMMETRIC        super_scale * c
 *   OFFSET           super_scale * c + super_min
 *   SUPER_SYMMETRIC  super_scale * scale[g] * c
 *   SUPER_OFFSET     super_scale * scale[g] * c - super_min * min[g]
 *   SUPER_ZERO       super_scale * (c - zero[g])
 *   SUPER_TABLE      super_scale * table[c]; the table is a quern_code_table behind header.next
 * in exact arithmetic, rounded once to the wanted type. A symmetric value is exact in f32 where its scale is f16, and one with a zero
 * point where its scale has at most 15 significant bits, as every f16 and bf16 has.
 *
 * The hash is FNV-1a 64 over the 32-bit little-endian words block_elements, block_bytes, group_elements, formula, then
 * for each field role, stored, entries, bias, pieces, then for each piece first, count, bits, shift, bit_offset, rank and
 * (size, stride) of each dim. A code table adds vector_elements, the count of its values and the bits of each. Another hash is another
 * format. */
#ifndef QUERN_FORMATS_H
#define QUERN_FORMATS_H

#include "quern_abi.h"

enum { QUERN_FORMULA_SYMMETRIC = 1, QUERN_FORMULA_OFFSET = 2, QUERN_FORMULA_SUPER_SYMMETRIC = 3, QUERN_FORMULA_SUPER_OFFSET = 4 };
enum { QUERN_FORMULA_SUPER_ZERO = 5, QUERN_FORMULA_SUPER_TABLE = 6 };
enum { QUERN_ROLE_CODE = 1, QUERN_ROLE_SCALE = 2, QUERN_ROLE_MIN = 3, QUERN_ROLE_SUPER_SCALE = 4, QUERN_ROLE_SUPER_MIN = 5, QUERN_ROLE_ZERO = 6 };
enum { QUERN_STORED_UINT = 1, QUERN_STORED_INT = 2, QUERN_STORED_F16 = 3, QUERN_STORED_F32 = 4, QUERN_STORED_E4M3 = 5 };

typedef struct quern_format_dim {
  uint32_t size;
  uint32_t stride; /* bits */
} quern_format_dim;

typedef struct quern_format_piece {
  uint32_t first; /* entries first .. first + count - 1 */
  uint32_t count;
  uint32_t bits;
  uint32_t shift;
  uint32_t bit_offset;
  uint32_t rank;
  quern_format_dim dims[4];
} quern_format_piece;

typedef struct quern_format_field {
  uint32_t role;
  uint32_t stored;
  uint32_t entries;
  uint32_t bias;
  quern_array pieces; /* quern_format_piece */
} quern_format_field;

typedef struct quern_format {
  quern_header header;
  quern_dtype id;
  uint32_t block_elements;
  uint32_t block_bytes;
  uint32_t group_elements; /* elements that share a scale */
  uint32_t formula;
  uint32_t reserved;
  uint64_t hash;
  quern_string name;
  quern_array fields; /* quern_format_field */
} quern_format;

/* What codes stand for. */
typedef struct quern_code_table {
  quern_header header;
  uint32_t vector_elements; /* neighbouring elements that one code stands for: 1 */
  uint32_t reserved;
  quern_array values; /* float, one for each code */
} quern_code_table;

/* The tables are constants, and in C++ their sizes are known to the compiler. */
#ifdef __cplusplus
#define QUERN_FORMAT_TABLE static constexpr
#else
#define QUERN_FORMAT_TABLE static const
#endif

#define QUERN_FORMAT_LIST(count, type, data) {(data), (count), sizeof(type)}

QUERN_FORMAT_TABLE quern_format_piece quern_q4_0_pieces[] = {
    {0, 1, 16, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 32, 4, 0, 16, 2, {{2, 4}, {16, 8}, {0, 0}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q4_0_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_0_pieces + 0)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 32, 8, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_0_pieces + 1)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q4_1_pieces[] = {
    {0, 1, 16, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 1, 16, 0, 16, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 32, 4, 0, 32, 2, {{2, 4}, {16, 8}, {0, 0}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q4_1_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_1_pieces + 0)},
    {QUERN_ROLE_SUPER_MIN, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_1_pieces + 1)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 32, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_1_pieces + 2)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q5_0_pieces[] = {
    {0, 1, 16, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 32, 4, 0, 48, 2, {{2, 4}, {16, 8}, {0, 0}, {0, 0}}},
    {0, 32, 1, 4, 16, 1, {{32, 1}, {0, 0}, {0, 0}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q5_0_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q5_0_pieces + 0)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 32, 16, QUERN_FORMAT_LIST(2, quern_format_piece, quern_q5_0_pieces + 1)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q5_1_pieces[] = {
    {0, 1, 16, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 1, 16, 0, 16, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 32, 4, 0, 64, 2, {{2, 4}, {16, 8}, {0, 0}, {0, 0}}},
    {0, 32, 1, 4, 32, 1, {{32, 1}, {0, 0}, {0, 0}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q5_1_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q5_1_pieces + 0)},
    {QUERN_ROLE_SUPER_MIN, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q5_1_pieces + 1)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 32, 0, QUERN_FORMAT_LIST(2, quern_format_piece, quern_q5_1_pieces + 2)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q8_0_pieces[] = {
    {0, 1, 16, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 32, 8, 0, 16, 1, {{32, 8}, {0, 0}, {0, 0}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q8_0_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q8_0_pieces + 0)},
    {QUERN_ROLE_CODE, QUERN_STORED_INT, 32, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q8_0_pieces + 1)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q4_k_pieces[] = {
    {0, 1, 16, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 1, 16, 0, 16, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 4, 6, 0, 32, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {4, 4, 4, 0, 96, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {4, 4, 2, 4, 38, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 4, 6, 0, 64, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {4, 4, 4, 0, 100, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {4, 4, 2, 4, 70, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 256, 4, 0, 128, 3, {{4, 256}, {2, 4}, {32, 8}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q4_k_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_k_pieces + 0)},
    {QUERN_ROLE_SUPER_MIN, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_k_pieces + 1)},
    {QUERN_ROLE_SCALE, QUERN_STORED_UINT, 8, 0, QUERN_FORMAT_LIST(3, quern_format_piece, quern_q4_k_pieces + 2)},
    {QUERN_ROLE_MIN, QUERN_STORED_UINT, 8, 0, QUERN_FORMAT_LIST(3, quern_format_piece, quern_q4_k_pieces + 5)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 256, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_k_pieces + 8)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q5_k_pieces[] = {
    {0, 1, 16, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 1, 16, 0, 16, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 4, 6, 0, 32, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {4, 4, 4, 0, 96, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {4, 4, 2, 4, 38, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 4, 6, 0, 64, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {4, 4, 4, 0, 100, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {4, 4, 2, 4, 70, 1, {{4, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 256, 4, 0, 384, 3, {{4, 256}, {2, 4}, {32, 8}, {0, 0}}},
    {0, 256, 1, 4, 128, 3, {{4, 2}, {2, 1}, {32, 8}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q5_k_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q5_k_pieces + 0)},
    {QUERN_ROLE_SUPER_MIN, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q5_k_pieces + 1)},
    {QUERN_ROLE_SCALE, QUERN_STORED_UINT, 8, 0, QUERN_FORMAT_LIST(3, quern_format_piece, quern_q5_k_pieces + 2)},
    {QUERN_ROLE_MIN, QUERN_STORED_UINT, 8, 0, QUERN_FORMAT_LIST(3, quern_format_piece, quern_q5_k_pieces + 5)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 256, 0, QUERN_FORMAT_LIST(2, quern_format_piece, quern_q5_k_pieces + 8)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q6_k_pieces[] = {
    {0, 1, 16, 0, 1664, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 16, 8, 0, 1536, 1, {{16, 8}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 256, 4, 0, 0, 4, {{2, 512}, {2, 4}, {2, 256}, {32, 8}}},
    {0, 256, 2, 4, 1024, 3, {{2, 256}, {4, 2}, {32, 8}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q6_k_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F16, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q6_k_pieces + 0)},
    {QUERN_ROLE_SCALE, QUERN_STORED_INT, 16, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q6_k_pieces + 1)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 256, 32, QUERN_FORMAT_LIST(2, quern_format_piece, quern_q6_k_pieces + 2)},
};

/* Formats of directories. With a zero point: the first 32 bits have it and the scale, the upper 24 bits of an f32, so all that f16 and bf16 hold. */
QUERN_FORMAT_TABLE quern_format_piece quern_q4_z32_pieces[] = {
    {0, 1, 24, 8, 8, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 1, 8, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 32, 4, 0, 32, 3, {{1, 128}, {2, 4}, {16, 8}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q4_z32_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F32, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_z32_pieces + 0)},
    {QUERN_ROLE_ZERO, QUERN_STORED_UINT, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_z32_pieces + 1)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 32, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_z32_pieces + 2)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q4_z64_pieces[] = {
    {0, 1, 24, 8, 8, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 1, 8, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 64, 4, 0, 32, 3, {{2, 128}, {2, 4}, {16, 8}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q4_z64_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F32, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_z64_pieces + 0)},
    {QUERN_ROLE_ZERO, QUERN_STORED_UINT, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_z64_pieces + 1)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 64, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_z64_pieces + 2)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q4_z128_pieces[] = {
    {0, 1, 24, 8, 8, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 1, 8, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 128, 4, 0, 32, 3, {{4, 128}, {2, 4}, {16, 8}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q4_z128_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F32, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_z128_pieces + 0)},
    {QUERN_ROLE_ZERO, QUERN_STORED_UINT, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_z128_pieces + 1)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 128, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q4_z128_pieces + 2)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q8_z32_pieces[] = {
    {0, 1, 24, 8, 8, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 1, 8, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 32, 8, 0, 32, 1, {{32, 8}, {0, 0}, {0, 0}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q8_z32_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F32, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q8_z32_pieces + 0)},
    {QUERN_ROLE_ZERO, QUERN_STORED_UINT, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q8_z32_pieces + 1)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 32, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q8_z32_pieces + 2)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_q8_z128_pieces[] = {
    {0, 1, 24, 8, 8, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 1, 8, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 128, 8, 0, 32, 1, {{128, 8}, {0, 0}, {0, 0}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q8_z128_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F32, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q8_z128_pieces + 0)},
    {QUERN_ROLE_ZERO, QUERN_STORED_UINT, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q8_z128_pieces + 1)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 128, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q8_z128_pieces + 2)},
};

/* With an f32 as the scale: */
QUERN_FORMAT_TABLE quern_format_piece quern_q8_128_pieces[] = {
    {0, 1, 32, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 128, 8, 0, 32, 1, {{128, 8}, {0, 0}, {0, 0}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_q8_128_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F32, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q8_128_pieces + 0)},
    {QUERN_ROLE_CODE, QUERN_STORED_INT, 128, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_q8_128_pieces + 1)},
};

QUERN_FORMAT_TABLE quern_format_piece quern_f8_128_pieces[] = {
    {0, 1, 32, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 128, 8, 0, 32, 1, {{128, 8}, {0, 0}, {0, 0}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_f8_128_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F32, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_f8_128_pieces + 0)},
    {QUERN_ROLE_CODE, QUERN_STORED_E4M3, 128, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_f8_128_pieces + 1)},
};

/* Quantiles of the normal distribution, as bitsandbytes has them. */
QUERN_FORMAT_TABLE float quern_nf4_values[] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f,
};
QUERN_FORMAT_TABLE quern_code_table quern_nf4_table = {{sizeof(quern_code_table), QUERN_TYPE_CODE_TABLE, NULL}, 1, 0, QUERN_FORMAT_LIST(16, float, quern_nf4_values)};
QUERN_FORMAT_TABLE quern_format_piece quern_nf4_64_pieces[] = {
    {0, 1, 32, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 64, 4, 0, 32, 3, {{2, 128}, {2, 4}, {16, 8}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_nf4_64_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F32, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_nf4_64_pieces + 0)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 64, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_nf4_64_pieces + 1)},
};

/* 0, 1/16, 8, 12, 4, 6, 2 and 3 twelfths, and their negatives. */
QUERN_FORMAT_TABLE float quern_fp4_values[] = {
    0.0f, 0.0052083334885537624f, 0.6666666865348816f, 1.0f,
    0.3333333432674408f, 0.5f, 0.1666666716337204f, 0.25f,
    -0.0f, -0.0052083334885537624f, -0.6666666865348816f, -1.0f,
    -0.3333333432674408f, -0.5f, -0.1666666716337204f, -0.25f,
};
QUERN_FORMAT_TABLE quern_code_table quern_fp4_table = {{sizeof(quern_code_table), QUERN_TYPE_CODE_TABLE, NULL}, 1, 0, QUERN_FORMAT_LIST(16, float, quern_fp4_values)};
QUERN_FORMAT_TABLE quern_format_piece quern_fp4_64_pieces[] = {
    {0, 1, 32, 0, 0, 1, {{1, 0}, {0, 0}, {0, 0}, {0, 0}}},
    {0, 64, 4, 0, 32, 3, {{2, 128}, {2, 4}, {16, 8}, {0, 0}}},
};
QUERN_FORMAT_TABLE quern_format_field quern_fp4_64_fields[] = {
    {QUERN_ROLE_SUPER_SCALE, QUERN_STORED_F32, 1, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_fp4_64_pieces + 0)},
    {QUERN_ROLE_CODE, QUERN_STORED_UINT, 64, 0, QUERN_FORMAT_LIST(1, quern_format_piece, quern_fp4_64_pieces + 1)},
};

/* All of them, in the order of their ids: row(Q4_0, q4_0, with) for each, whatever `with` is. */
#define QUERN_EACH_FORMAT(row, with) \
  row(Q4_0, q4_0, with) \
  row(Q4_1, q4_1, with) \
  row(Q5_0, q5_0, with) \
  row(Q5_1, q5_1, with) \
  row(Q8_0, q8_0, with) \
  row(Q4_K, q4_k, with) \
  row(Q5_K, q5_k, with) \
  row(Q6_K, q6_k, with) \
  row(Q4_Z32, q4_z32, with) \
  row(Q4_Z64, q4_z64, with) \
  row(Q4_Z128, q4_z128, with) \
  row(Q8_Z32, q8_z32, with) \
  row(Q8_Z128, q8_z128, with) \
  row(Q8_128, q8_128, with) \
  row(F8_128, f8_128, with) \
  row(NF4_64, nf4_64, with) \
  row(FP4_64, fp4_64, with)
QUERN_FORMAT_TABLE quern_format quern_formats[] = {
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q4_0, 32, 18, 32, QUERN_FORMULA_SYMMETRIC, 0,
     0x042365347e886c11ull, {"q4_0", 4}, QUERN_FORMAT_LIST(2, quern_format_field, quern_q4_0_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q4_1, 32, 20, 32, QUERN_FORMULA_OFFSET, 0,
     0xdc05a8a7e0aebeebull, {"q4_1", 4}, QUERN_FORMAT_LIST(3, quern_format_field, quern_q4_1_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q5_0, 32, 22, 32, QUERN_FORMULA_SYMMETRIC, 0,
     0x503e059764fc4f6bull, {"q5_0", 4}, QUERN_FORMAT_LIST(2, quern_format_field, quern_q5_0_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q5_1, 32, 24, 32, QUERN_FORMULA_OFFSET, 0,
     0xc5a55a1e984f7ff1ull, {"q5_1", 4}, QUERN_FORMAT_LIST(3, quern_format_field, quern_q5_1_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q8_0, 32, 34, 32, QUERN_FORMULA_SYMMETRIC, 0,
     0xcb9a2431b707eea3ull, {"q8_0", 4}, QUERN_FORMAT_LIST(2, quern_format_field, quern_q8_0_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q4_K, 256, 144, 32, QUERN_FORMULA_SUPER_OFFSET, 0,
     0xa240eba7d5f70309ull, {"q4_k", 4}, QUERN_FORMAT_LIST(5, quern_format_field, quern_q4_k_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q5_K, 256, 176, 32, QUERN_FORMULA_SUPER_OFFSET, 0,
     0xd5dc503ae1ebc1edull, {"q5_k", 4}, QUERN_FORMAT_LIST(5, quern_format_field, quern_q5_k_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q6_K, 256, 210, 16, QUERN_FORMULA_SUPER_SYMMETRIC, 0,
     0xe08780c3bf8018fdull, {"q6_k", 4}, QUERN_FORMAT_LIST(3, quern_format_field, quern_q6_k_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q4_Z32, 32, 20, 32, QUERN_FORMULA_SUPER_ZERO, 0,
     0xfeadeca1c4a939daull, {"q4_z32", 6}, QUERN_FORMAT_LIST(3, quern_format_field, quern_q4_z32_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q4_Z64, 64, 36, 64, QUERN_FORMULA_SUPER_ZERO, 0,
     0x39642cc5ca4be6e9ull, {"q4_z64", 6}, QUERN_FORMAT_LIST(3, quern_format_field, quern_q4_z64_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q4_Z128, 128, 68, 128, QUERN_FORMULA_SUPER_ZERO, 0,
     0xade1e22ad39b644full, {"q4_z128", 7}, QUERN_FORMAT_LIST(3, quern_format_field, quern_q4_z128_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q8_Z32, 32, 36, 32, QUERN_FORMULA_SUPER_ZERO, 0,
     0x9775749dc911a073ull, {"q8_z32", 6}, QUERN_FORMAT_LIST(3, quern_format_field, quern_q8_z32_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q8_Z128, 128, 132, 128, QUERN_FORMULA_SUPER_ZERO, 0,
     0xcf495ccdafee2ff3ull, {"q8_z128", 7}, QUERN_FORMAT_LIST(3, quern_format_field, quern_q8_z128_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_Q8_128, 128, 132, 128, QUERN_FORMULA_SYMMETRIC, 0,
     0xfcc4810095677a72ull, {"q8_128", 6}, QUERN_FORMAT_LIST(2, quern_format_field, quern_q8_128_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, NULL}, QUERN_F8_128, 128, 132, 128, QUERN_FORMULA_SYMMETRIC, 0,
     0x59a0f1df03e8ecb5ull, {"f8_128", 6}, QUERN_FORMAT_LIST(2, quern_format_field, quern_f8_128_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, &quern_nf4_table}, QUERN_NF4_64, 64, 36, 64, QUERN_FORMULA_SUPER_TABLE, 0,
     0xedf821b610d81849ull, {"nf4_64", 6}, QUERN_FORMAT_LIST(2, quern_format_field, quern_nf4_64_fields)},
    {{sizeof(quern_format), QUERN_TYPE_FORMAT, &quern_fp4_table}, QUERN_FP4_64, 64, 36, 64, QUERN_FORMULA_SUPER_TABLE, 0,
     0x2c1fbbffc575555dull, {"fp4_64", 6}, QUERN_FORMAT_LIST(2, quern_format_field, quern_fp4_64_fields)},
};
#define QUERN_FORMAT_COUNT 17u

#endif
