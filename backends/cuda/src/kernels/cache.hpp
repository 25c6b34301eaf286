// Parameters of ops on a paged cache that may lie anywhere: the vector of a slot is contiguous, pages, heads and slots are strided.
#pragma once
#include "strided.hpp"

namespace quern::cuda {

struct CacheView {
  Address data;
  int dtype;
  int pages, kv_heads, page, d;
  long long page_stride, head_stride, slot_stride;  // bytes
  long long vector_bytes;
};
/// Which page a position of a sequence lies in.
struct PageTable {
  Address block_table, row_slot, position;  // i32, packed
  int sequences, pages_per_sequence, page;
};

struct KvWriteParams {
  Operand x;  // [t, kv_heads, d]: strides of the first two
  CacheView cache;
  PageTable table;
  Live live;
  Address faults;
};
struct KvCopyParams {
  CacheView cache;
  Address from, to;  // i32
  Live live;
  Address faults;
};
struct KvMoveParams {
  CacheView cache;
  PageTable table;  // position: from
  Address to;
  int count;
  Live live;
  Address faults;
};

/// Attention over any caches, and the check of what a row needs.
struct AttentionAnyParams {
  Operand q, y;  // [t, heads, d]: strides of the first two
  CacheView k, v;
  PageTable table;
  Address kv_len, mask, sinks;
  int mask_dtype;
  long long mask_columns, mask_stride;  // stride of rows in elements
  int heads, causal, window;
  float scale, softcap, max_bias;
  Address faults;
};

}  // namespace quern::cuda
