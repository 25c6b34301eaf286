// ring[sequence_number % r] = token, then sequence_number is counted up, as a u32 that wraps. The count is stored behind the tokens,
// so that a host that polls it finds them. With a predicate a row, dead rows keep what the ring has and a call without a live row
// publishes nothing. That sequence_number is state is checked by the SDK (sdk/overlap.hpp).
#include "tables.hpp"

#include <atomic>

namespace quern::cpu {
namespace {

void run_token_publish(const Call& call, Context&) noexcept {
  const Tensor &token = call.input(0), &sequence = call.input(1), &ring = call.output(0);
  const auto number = static_cast<std::uint32_t>(load_integer(sequence, 0));
  std::byte* entry = row_pointer(ring, static_cast<std::int64_t>(number) % ring.dims[0]);
  bool live = false;
  for (std::int64_t s = 0; s < token.dims[0]; ++s) {
    if (!call.row_live(s)) continue;
    __builtin_memcpy(entry + s * ring.strides[1], bytes_of(token) + s * token.strides[0], 4);
    live = true;
  }
  if (!live) return;
  const std::uint32_t next = number + 1;
  std::atomic_thread_fence(std::memory_order_release);
  __builtin_memcpy(bytes_of(sequence), &next, 4);
}

constexpr Kernel kernels_token_publish[] = {
    {QUERN_OP_TOKEN_PUBLISH, "token_publish.portable", Isa::baseline, accepts_any, run_token_publish, nullptr, true}};

}  // namespace

const std::span<const Kernel> token_publish_kernels = kernels_token_publish;

}  // namespace quern::cpu
