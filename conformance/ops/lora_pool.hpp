// A pool of adapters, its table, and which row uses which: what lora_matmul and its gradient share.
#pragma once

#include "ops/given.hpp"

#include <optional>
#include <string>
#include <vector>

namespace quern::conformance {

/// An adapter of a case: where A [rank, k] and B [n, rank] lie in the pool.
struct PoolAdapter {
  std::int64_t rank = 8;
  float scale = 1;
};

struct LoraShape {
  std::int64_t rows = 5, k = 64, n = 48;
  std::vector<PoolAdapter> adapters = std::vector<PoolAdapter>(1);
  std::vector<std::int64_t> slots;  // one a row; empty: the adapters in turn, -1 after the last
  quern_dtype x = QUERN_F32, pool = QUERN_F32;
  double alpha = 1;
  std::int64_t gap = 5;  // elements between adapters that no adapter has: NaN
  DataKind data = DataKind::gaussian;
};

struct AdapterPlace {
  std::int64_t a, b, rank;
  double scale;
};

std::int64_t pool_size(const LoraShape& s);
std::vector<std::int64_t> row_slots(const LoraShape& s);
/// Inputs x, pool, table and slot.
std::vector<ValueSpec> lora_inputs(const LoraShape& s, Layout x_layout = {});
/// "r8_r16_5rows": what the shapes do not say.
std::string lora_note(const LoraShape& s);

/// The adapter of a slot as the table says; nothing where the slot, or what its row says, is out of range. `k` and `n`: the row lengths of x
/// and y.
std::optional<AdapterPlace> adapter_of(std::int64_t k, const Tensor& pool, const Tensor& table, std::int64_t slot, std::int64_t n);
std::optional<AdapterPlace> adapter_of(const Tensor& x, const Tensor& pool, const Tensor& table, std::int64_t slot, std::int64_t n);

}  // namespace quern::conformance
