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

Verdict accepts_kv_write(const Call& call) {
  if (const std::int64_t d = call.input(0).dims[2]; d > max_head)
    return Verdict::no(concat("a head has ", d, " elements; at most ", max_head, " are taken"));
  return accepts_caches({&call.output(0)});
}

template <Isa isa>
void run_kv_write(const Call& call, Context& context) noexcept {
  const Tensor& x = call.input(0);
  const std::int64_t grain = std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, x.dims[1] * x.dims[2]));
  context.parallel(x.dims[0], grain, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t t = begin; t < end; ++t)
      if (call.row_live(t)) kv_write_row(call, t, bytes_of(x) + t * x.strides[0], vectors_of(isa), context);
  });
}

constexpr Kernel kernels_kv_write[] = {QUERN_CPU_KERNELS(QUERN_OP_KV_WRITE, "kv_write", accepts_kv_write, run_kv_write, nullptr, true)};

}  // namespace

void kv_write_row(const Call& call, std::int64_t t, const std::byte* from, const Vectors& vectors, Context& context) noexcept {
  const Tensor &x = call.input(0), &cache = call.output(0);
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
