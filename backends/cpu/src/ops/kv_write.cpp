// Row t of x goes to cache[block_table[row_slot[t]][position[t] / page]][head][position[t] % page], encoded in the cache's format.
//
// Position -1 skips. A slot, position or page out of range raises INDEX_RANGE and writes nothing. Encoding looks at one row of
// one head only, so a position's bytes do not depend on what is written with it.
#include "kv_write_row.hpp"
#include "paged.hpp"
#include "vectorised.hpp"

#include "../formats.hpp"

#include <algorithm>

namespace quern::cpu {
namespace {

constexpr std::int64_t max_head = 1024;

Verdict accepts_kv_write(const OpCall& call) {
  const TensorView &x = call.input(0), &table = call.input(1), &slot = call.input(2), &position = call.input(3), &cache = call.output(0);
  if (Verdict v = check_floats(x, "x"); !v) return v;
  if (Verdict v = check_rank(x, "x", 3); !v) return v;
  if (Verdict v = check_cache(cache, "cache"); !v) return v;
  if (Verdict v = check_dim(cache, "cache", 1, x.dims[1], "the heads of x"); !v) return v;
  if (Verdict v = check_dim(cache, "cache", 3, x.dims[2], "the head size of x"); !v) return v;
  if (x.dims[2] > max_head) return Verdict::no(concat("a head has ", x.dims[2], " elements; at most ", max_head, " are taken"));
  if (Verdict v = check_dtype(table, "block_table", QUERN_I32); !v) return v;
  if (Verdict v = check_rank(table, "block_table", 2); !v) return v;
  for (const auto& [view, name] : {std::pair{&slot, "row_slot"}, std::pair{&position, "position"}}) {
    if (Verdict v = check_dtype(*view, name, QUERN_I32); !v) return v;
    if (Verdict v = check_rank(*view, name, 1); !v) return v;
    if (Verdict v = check_dim(*view, name, 0, x.dims[0], "the rows of x"); !v) return v;
  }
  return Verdict::yes();
}

template <Isa isa>
void run_kv_write(const OpCall& call, Context& context) noexcept {
  const TensorView& x = call.input(0);
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, x.dims[1] * x.dims[2]));
  context.parallel(x.dims[0], grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t t = begin; t < end; ++t)
      if (call.row_live(t)) kv_write_row(call, t, x.data + t * x.strides[0], vectors_of(isa), context);
  });
}

constexpr Kernel kernels_kv_write[] = {QUERN_CPU_KERNELS(QUERN_OP_KV_WRITE, "kv_write", accepts_kv_write, run_kv_write, nullptr, true)};

}  // namespace

void kv_write_row(const OpCall& call, std::int64_t t, const std::byte* from, const Vectors& vectors, Context& context) noexcept {
  const TensorView &x = call.input(0), &cache = call.output(0);
  const std::int64_t position = load_integer(call.input(3), t), n = x.dims[2];
  if (position == -1) return;
  const std::int64_t page = find_page(cache, call.input(1), load_integer(call.input(2), t), position);
  if (page < 0) {
    context.fault(QUERN_FAULT_INDEX_RANGE);
    return;
  }
  float buffer[max_head];
  for (std::int64_t h = 0; h < x.dims[1]; ++h) {
    load_floats(from + h * x.strides[1], x.dtype, x.strides[2], 0, n, buffer);
    std::byte* to = cache_row(cache, page, h, position % cache.dims[2]);
    if (is_float(cache.dtype)) vectors.from_floats(cache.dtype, buffer, n, to);
    else encode_blocks(cache.dtype, buffer, n, to);
  }
}

const std::span<const Kernel> kv_write_kernels = kernels_kv_write;

}  // namespace quern::cpu
