// kv_copy: whole pages within a cache. kv_move: single positions within sequences, in the order of the list.
//
// Bytes go as they are, whatever the format. The work is cut by kv head, and each head goes through the whole list in its order, so
// the result does not depend on the threads even where one entry reads what another wrote. A page, slot or position out of range
// raises INDEX_RANGE and writes nothing.
#include "paged.hpp"
#include "tables.hpp"

namespace quern::cpu {
namespace {

Verdict accepts(const Call& call) { return accepts_caches({&call.input(0), &call.output(0)}); }

std::int64_t head_row_bytes(const Tensor& cache) noexcept { return cache.dims[3] / unit_elements(cache.dtype) * unit_bytes(cache.dtype); }

/// Rows may be the same or, where views overlap oddly, share bytes.
void copy_bytes(const std::byte* from, std::byte* to, std::int64_t count) noexcept {
  __builtin_memmove(to, from, static_cast<std::size_t>(count));
}

void run_copy(const Call& call, Context& context) noexcept {
  const Tensor &from = call.input(0), &page_from = call.input(1), &page_to = call.input(2), &to = call.output(0);
  const std::int64_t bytes = head_row_bytes(to), slots = to.dims[2];
  const bool whole = from.strides[2] == bytes && to.strides[2] == bytes;
  context.parallel(to.dims[1], 1, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t head = begin; head < end; ++head)
      for (std::int64_t i = 0; i < page_from.dims[0] && !context.cancelled(); ++i) {
        const std::int64_t source = load_integer(page_from, i), target = load_integer(page_to, i);
        if (source < 0 || source >= from.dims[0] || target < 0 || target >= to.dims[0]) {
          context.fault(QUERN_FAULT_INDEX_RANGE);
          continue;
        }
        const std::int64_t rows = whole ? 1 : slots, length = whole ? slots * bytes : bytes;
        for (std::int64_t r = 0; r < rows; ++r) copy_bytes(cache_row(from, source, head, r), cache_row(to, target, head, r), length);
      }
  });
}

void run_move(const Call& call, Context& context) noexcept {
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

constexpr Kernel kernels[] = {
    {QUERN_OP_KV_COPY, "kv_copy.portable", Isa::baseline, accepts, run_copy},
    {QUERN_OP_KV_MOVE, "kv_move.portable", Isa::baseline, accepts, run_move},
};

}  // namespace

const std::span<const Kernel> kv_copy_kernels = kernels;

}  // namespace quern::cpu
