// The longest prefix of each draft that equals target, then target's next token; count is how many tokens that makes, 1 to k + 1.
// The rest of the row is -1, as an index is that is skipped; a row that is not live has no token and a count of 0.
#include "logit_rows.hpp"
#include "tables.hpp"

namespace quern::cpu {
namespace {

void run_spec_accept(const Call& call, Context& context) noexcept {
  const Tensor &draft = call.input(0), &target = call.input(1), &live = call.input(2), &token = call.output(0), &count = call.output(1);
  const std::int64_t k = draft.dims[1];
  context.parallel(draft.dims[0], 64, [&](std::int64_t begin, std::int64_t end, std::uint32_t) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (!call.row_live(row)) continue;
      std::int32_t accepted = 0;
      if (load_integer(live, row) != 0) {
        while (accepted < k && load_integer(draft, row * k + accepted) == load_integer(target, row * (k + 1) + accepted)) ++accepted;
        ++accepted;
      }
      for (std::int64_t i = 0; i <= k; ++i) {
        const auto value = i < accepted ? static_cast<std::int32_t>(load_integer(target, row * (k + 1) + i)) : -1;
        __builtin_memcpy(row_pointer(token, row) + i * token.strides[1], &value, 4);
      }
      __builtin_memcpy(bytes_of(count) + row * count.strides[0], &accepted, 4);
    }
  });
}

constexpr Kernel kernels_spec_accept[] = {
    {QUERN_OP_SPEC_ACCEPT, "spec_accept.portable", Isa::baseline, accepts_any, run_spec_accept, nullptr, true}};

}  // namespace

const std::span<const Kernel> spec_accept_kernels = kernels_spec_accept;

}  // namespace quern::cpu
