// ring[sequence_number % r] = token, then sequence_number is counted up, as a u32 that wraps. The count is stored behind the tokens,
// so that a host that polls it finds them. With a predicate a row, dead rows keep what the ring has and a call without a live row
// publishes nothing. That sequence_number is state is checked by the SDK (sdk/overlap.hpp).
#include "tables.hpp"

#include <atomic>

namespace quern::cpu {
namespace {

Verdict accepts_token_publish(const OpCall& call) {
  const TensorView &token = call.input(0), &sequence = call.input(1), &ring = call.output(0);
  for (const auto& [view, name] : {std::pair{&token, "token"}, std::pair{&sequence, "sequence_number"}, std::pair{&ring, "ring"}})
    if (Verdict v = check_dtype(*view, name, QUERN_I32); !v) return v;
  if (Verdict v = check_rank(token, "token", 1); !v) return v;
  if (Verdict v = check_rank(sequence, "sequence_number", 1); !v) return v;
  if (Verdict v = check_dim(sequence, "sequence_number", 0, 1, "one number"); !v) return v;
  if (Verdict v = check_rank(ring, "ring", 2); !v) return v;
  if (ring.dims[0] < 1 || (ring.ranged & 1u) != 0)
    return Verdict::invalid(concat("ring is ", describe(ring), "; it has a fixed number of entries, 1 or more"));
  return check_dim(ring, "ring", 1, token.dims[0], "the number of tokens");
}

void run_token_publish(const OpCall& call, Context&) noexcept {
  const TensorView &token = call.input(0), &sequence = call.input(1), &ring = call.output(0);
  const auto number = static_cast<std::uint32_t>(load_integer(sequence, 0));
  std::byte* entry = row_pointer(ring, static_cast<std::int64_t>(number) % ring.dims[0]);
  bool live = false;
  for (std::int64_t s = 0; s < token.dims[0]; ++s) {
    if (!call.row_live(s)) continue;
    __builtin_memcpy(entry + s * ring.strides[1], token.data + s * token.strides[0], 4);
    live = true;
  }
  if (!live) return;
  const std::uint32_t next = number + 1;
  std::atomic_thread_fence(std::memory_order_release);
  __builtin_memcpy(sequence.data, &next, 4);
}

constexpr Kernel kernels_token_publish[] = {
    {QUERN_OP_TOKEN_PUBLISH, "token_publish.portable", Isa::baseline, accepts_token_publish, run_token_publish, nullptr, true}};

}  // namespace

const std::span<const Kernel> token_publish_kernels = kernels_token_publish;

}  // namespace quern::cpu
