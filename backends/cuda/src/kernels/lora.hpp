// Parameters of adapters' products. A pool holds A [rank, k] and B [n, rank] of each; the table says where, and which rank and scale.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

constexpr int lora_down_rows = 4, lora_down_ranks = 4;  // of a tile of lora_down_tile
constexpr int lora_up_rows = 8;                         // of a tile of lora_up_tile; fewer rows take lora_down_row and lora_up_row

struct LoraParams {
  Operand x, base, y;   // rows: strides[0] and step. base may be absent
  Operand dy, dx;       // of the gradient
  Operand slot;         // i32, one a row
  Address pool, table;  // table i32 [slots][4]: offsets of A and B, rank, bits of the scale
  int pool_dtype;
  long long pool_count, slots, rows, k, n;
  long long first_row, end_row;  // of this pass
  long long most_rank;           // what the pool has room for
  Address low, back;             // f32 [rows of a pass][most_rank]: A x, B^T dy
  float alpha;
  Live live;
  Address faults;
};
constexpr int lora_tile_rows = 16, lora_tile_ranks = 16;  // of a block of adapters_down
constexpr int lora_up_columns = 512;                      // of a block of adapters_up: 64 a warp
/// The adapters of products that share an operand, of many rows: see lora_rows.cu.
struct AdaptedRows {
  AdapterPart part[3];
  long long slot_step[3];  // bytes from a row's slot to the next one's
  Address x;               // 16 bits [t][k] or, with columns, see operand.cuh
  int half, columns;       // f16, else bf16
  long long k, t;
  float x_scale;  // of what is stored in x
  Address low;    // f32 [parts][t][pitch]
  long long pitch;
  Address y;  // rows of y_row, of f32, or of f16 times y_scale
  int y16;
  long long y_row, y_first[3];  // y_first: where a part begins in a row
  float y_scale;
  Address faults;
};
/// dpool of one adapter, or zeros for all of it.
struct LoraPoolParams {
  LoraParams lora;
  Address dpool;
  int dpool_dtype;
  long long rows;  // of this pass
  int adapter;     // slot
  int of_b;        // B of it, else A
};

}  // namespace quern::cuda
