// The pool of adapters: the checks that lora_matmul and its gradient share, and where the adapter of a slot lies.
#pragma once

#include "../kernel.hpp"

#include <bit>

namespace quern::cpu {

/// x, pool, table and slot, inputs 0 to 3.
inline Verdict check_adapters(const OpCall& call) {
  const TensorView &x = call.input(0), &pool = call.input(1), &table = call.input(2), &slot = call.input(3);
  if (Verdict v = check_floats(x, "x"); !v) return v;
  if (Verdict v = check_rank(x, "x", 2); !v) return v;
  if (Verdict v = check_floats(pool, "pool"); !v) return v;
  if (Verdict v = check_rank(pool, "pool", 1); !v) return v;
  if (!rows_are_packed(pool)) return Verdict::no("pool is not packed");
  if (Verdict v = check_dtype(table, "table", QUERN_I32); !v) return v;
  if (Verdict v = check_rank(table, "table", 2); !v) return v;
  if (Verdict v = check_dim(table, "table", 1, 4, "two offsets, the rank and the scale"); !v) return v;
  if (Verdict v = check_dtype(slot, "slot", QUERN_I32); !v) return v;
  if (Verdict v = check_rank(slot, "slot", 1); !v) return v;
  return check_dim(slot, "slot", 0, x.dims[0], "the rows of x");
}

struct Adapter {
  const std::byte *a, *b;
  std::int64_t a_offset, b_offset;  // in the pool, in elements
  std::int64_t rank;
  float scale;  // times alpha
};

/// False: the slot or what its row says is out of range. `n` is the row length of y.
inline bool read_adapter(const OpCall& call, std::int64_t slot, std::int64_t n, Adapter& out) noexcept {
  const TensorView &pool = call.input(1), &table = call.input(2);
  if (slot < 0 || slot >= table.dims[0]) return false;
  const std::int64_t k = call.input(0).dims[1], size = pool.dims[0], unit = unit_bytes(pool.dtype);
  const std::int64_t a = load_integer(table, slot * 4), b = load_integer(table, slot * 4 + 1), rank = load_integer(table, slot * 4 + 2);
  if (a < 0 || b < 0 || rank < 0 || a > size || b > size) return false;
  if (rank > 0 && (k > (size - a) / rank || n > (size - b) / rank)) return false;
  const auto scale = std::bit_cast<float>(static_cast<std::int32_t>(load_integer(table, slot * 4 + 3)));
  out = {pool.data + a * unit, pool.data + b * unit, a, b, rank, static_cast<float>(call.real(QUERN_KEY_ALPHA)) * scale};
  return true;
}

}  // namespace quern::cpu
