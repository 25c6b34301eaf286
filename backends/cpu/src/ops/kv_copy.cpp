// Whole pages within a cache.
//
// Bytes go as they are, whatever the format. The work is cut by kv head, and each head goes through the whole list in its order. So the
// result does not depend on the threads, even where one entry reads what another wrote. A page out of range raises INDEX_RANGE and
// writes nothing.
#include "paged.hpp"
#include "tables.hpp"

namespace quern::cpu {
namespace {

Verdict accepts_kv_copy(const Call& call) { return accepts_caches({&call.input(0), &call.output(0)}); }

void run_kv_copy(const Call& call, Context& context) noexcept {
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

constexpr Kernel kernels_kv_copy[] = {{QUERN_OP_KV_COPY, "kv_copy.portable", Isa::baseline, accepts_kv_copy, run_kv_copy}};

}  // namespace

const std::span<const Kernel> kv_copy_kernels = kernels_kv_copy;

}  // namespace quern::cpu
