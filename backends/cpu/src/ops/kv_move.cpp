// Single positions within sequences of a cache, in the order of the list: bytes as they are, cut by kv head, as in kv_copy.cpp. A page, slot or
// position out of range raises INDEX_RANGE and writes nothing.
#include "paged.hpp"
#include "tables.hpp"

namespace quern::cpu {
namespace {

Verdict accepts_kv_move(const Call& call) { return accepts_caches({&call.input(0), &call.output(0)}); }

void run_kv_move(const Call& call, Context& context) noexcept {
  const Tensor &cache = call.input(0), &table = call.input(1), &slot = call.input(2), &from = call.input(3), &to = call.input(4);
  const Tensor& out = call.output(0);
  const std::int64_t page = cache.dims[2], bytes = head_row_bytes(cache);
  context.parallel(out.dims[1], 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t head = begin; head < end; ++head)
      for (std::int64_t i = 0; i < slot.dims[0] && !context.cancelled(); ++i) {
        const std::int64_t sequence = load_integer(slot, i), source = load_integer(from, i), target = load_integer(to, i);
        const std::int64_t source_page = find_page(cache, table, sequence, source), target_page = find_page(out, table, sequence, target);
        if (source_page < 0 || target_page < 0) context.fault(QUERN_FAULT_INDEX_RANGE);
        else copy_bytes(cache_row(cache, source_page, head, source % page), cache_row(out, target_page, head, target % page), bytes);
      }
  });
}

constexpr Kernel kernels_kv_move[] = {{QUERN_OP_KV_MOVE, "kv_move.portable", Isa::baseline, accepts_kv_move, run_kv_move}};

}  // namespace

const std::span<const Kernel> kv_move_kernels = kernels_kv_move;

}  // namespace quern::cpu
