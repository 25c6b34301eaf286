// The pool of adapters: the checks that lora_matmul and its gradient share, and where the adapter of a slot lies.
#pragma once

#include "../kernel.hpp"

#include <bit>

namespace quern::cpu {

inline Verdict check_adapters(const Call& call) {
  return has_packed_rows(call.input(1)) ? Verdict::yes() : Verdict::no("pool is not packed");
}

struct Adapter {
  const std::byte *a, *b;
  std::int64_t a_offset, b_offset;  // in the pool, in elements
  std::int64_t rank;
  float scale;  // times alpha
};

/// False: the slot or what its row says is out of range. `n` is the row length of y.
inline bool read_adapter(const Call& call, std::int64_t slot, std::int64_t n, Adapter& out) noexcept {
  const Tensor &pool = call.input(1), &table = call.input(2);
  if (slot < 0 || slot >= table.dims[0]) return false;
  const std::int64_t k = call.input(0).dims[1], size = pool.dims[0], unit = unit_bytes(pool.dtype);
  const std::int64_t a = load_integer(table, slot * 4), b = load_integer(table, slot * 4 + 1), rank = load_integer(table, slot * 4 + 2);
  if (a < 0 || b < 0 || rank < 0 || a > size || b > size) return false;
  if (rank > 0 && (k > (size - a) / rank || n > (size - b) / rank)) return false;
  const auto scale = std::bit_cast<float>(static_cast<std::int32_t>(load_integer(table, slot * 4 + 3)));
  out = {bytes_of(pool) + a * unit, bytes_of(pool) + b * unit, a, b, rank, static_cast<float>(call.real(QUERN_KEY_ALPHA)) * scale};
  return true;
}

}  // namespace quern::cpu
