/* Quantised formats as data: what the bytes of a block mean, without code.
 *
 * A block holds block_elements numbers in block_bytes bytes. A field has `entries` integers or f16 numbers; entry e is the
 * sum over the pieces that cover it of (bits << shift), the bits being read at a bit address counted from the start of the
 * block, little-endian: bit_offset + the sum of digit * stride, where the digits of (e - first) are taken in the mixed radix
 * `dims`, the last digit running fastest. An INT field is two's complement in the width of its pieces. Element i has code
 * c = code[i] - bias, and with g = i / group_elements its value is, by formula,
 *   SYMMETRIC        super_scale * c
 *   OFFSET           super_scale * c + super_min
 *   SUPER_SYMMETRIC  super_scale * scale[g] * c
 *   SUPER_OFFSET     super_scale * scale[g] * c - super_min * min[g]
 * in exact arithmetic, rounded once to the wanted type. A symmetric value is exact in f32.
 *
 * The hash is FNV-1a 64 over the 32-bit little-endian words block_elements, block_bytes, group_elements, formula, then
 * for each field role, stored, entries, bias, pieces, then for each piece first, count, bits, shift, bit_offset, rank and
 * (size, stride) of each dim. Another hash is another format. */
#ifndef QUERN_FORMATS_H
#define QUERN_FORMATS_H

#include "quern_abi.h"

enum { QUERN_FORMULA_SYMMETRIC = 1, QUERN_FORMULA_OFFSET = 2, QUERN_FORMULA_SUPER_SYMMETRIC = 3, QUERN_FORMULA_SUPER_OFFSET = 4 };
enum { QUERN_ROLE_CODE = 1, QUERN_ROLE_SCALE = 2, QUERN_ROLE_MIN = 3, QUERN_ROLE_SUPER_SCALE = 4, QUERN_ROLE_SUPER_MIN = 5 };
enum { QUERN_STORED_UINT = 1, QUERN_STORED_INT = 2, QUERN_STORED_F16 = 3 };

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

/* All of them, in the order of their ids: row(Q4_0, q4_0, with) for each, whatever `with` is. */
#define QUERN_EACH_FORMAT(row, with) \
  row(Q4_0, q4_0, with) \
  row(Q4_1, q4_1, with) \
  row(Q5_0, q5_0, with) \
  row(Q5_1, q5_1, with) \
  row(Q8_0, q8_0, with) \
  row(Q4_K, q4_k, with) \
  row(Q5_K, q5_k, with) \
  row(Q6_K, q6_k, with)
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
};
#define QUERN_FORMAT_COUNT 8u

#endif
