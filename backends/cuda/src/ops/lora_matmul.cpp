// lora_matmul, and what its gradient shares with it (lora.hpp).
#include "../kernels/lora.hpp"

#include "lora.hpp"
#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

constexpr std::int64_t most_low_bytes = 32 << 20;  // of the low-rank products of one pass
constexpr std::int64_t most_rank_groups = 32;      // blocks along the ranks: a pool of many adapters has room for many more than each has

bool is_backward(const Call& call) { return call.op == QUERN_OP_LORA_MATMUL_BACKWARD; }
/// The row length of y.
std::int64_t outputs_of(const Call& call) { return (is_backward(call) ? call.input(4) : call.output(0)).last(); }

std::int64_t ceiling(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }
/// No adapter of the pool has a higher rank.
std::int64_t most_rank(const Call& call) {
  return call.input(1).elements() / std::max<std::int64_t>(1, std::max(call.input(0).last(), outputs_of(call)));
}
std::int64_t rows_a_pass(const Call& call) {
  const std::int64_t bytes = std::max<std::int64_t>(1, most_rank(call)) * 4 * (is_backward(call) ? 2 : 1);
  return std::clamp<std::int64_t>(most_low_bytes / bytes, 1, std::clamp<std::int64_t>(call.input(0).dims[0], 1, 65535));
}

}  // namespace

std::string refuse_lora(const Call& call) {
  return first_of({check_contiguous(call.input(1)), check_contiguous(call.input(2)),
                   is_backward(call) ? check_contiguous(call.output(1)) : ""});
}

std::uint64_t scratch_lora(const Call& call) {
  return static_cast<std::uint64_t>(rows_a_pass(call) * most_rank(call)) * 4 * (is_backward(call) ? 2 : 1);
}

namespace {

LoraParams params_of(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &pool = call.input(1);
  LoraParams p{};
  p.x = rows_of(x);
  p.slot = rows_of(call.input(3));
  p.pool = pool.data;
  p.table = call.input(2).data;
  p.pool_dtype = static_cast<int>(pool.dtype);
  p.pool_count = pool.elements();
  p.slots = call.input(2).dims[0];
  p.rows = x.dims[0];
  p.k = x.dims[1];
  p.n = outputs_of(call);
  p.most_rank = most_rank(call);
  p.low = call.scratch;
  p.alpha = static_cast<float>(call.real(QUERN_KEY_ALPHA));
  p.faults = launcher.faults();
  return p;
}

/// low = A x of the rows of a pass: a block a rank of a row, or a tile of both.
void launch_down(const LoraParams& p, Launcher& launcher) {
  const std::int64_t rows = p.end_row - p.first_row;
  const auto groups = [&](std::int64_t ranks) { return std::clamp<std::int64_t>(ceiling(p.most_rank, ranks), 1, most_rank_groups); };
  if (rows < lora_up_rows) launcher.launch(kernels::lora_down_row, {groups(1), rows, 1}, 256, p);
  else launcher.launch(kernels::lora_down_tile, {groups(lora_down_ranks), ceiling(rows, lora_down_rows), 1}, 256, p);
}
void launch_up(const LoraParams& p, Launcher& launcher) {
  const std::int64_t rows = p.end_row - p.first_row;
  if (rows < lora_up_rows) launcher.launch(kernels::lora_up_row, {ceiling(p.n, 256), rows, 1}, 256, p);
  else launcher.launch(kernels::lora_up_tile, {ceiling(p.n, 256), ceiling(rows, lora_up_rows), 1}, 256, p);
}

void emit(const Call& call, Launcher& launcher) {
  LoraParams p = params_of(call, launcher);
  p.base = rows_of(call.input(4));
  p.y = rows_of(call.output(0));
  const std::int64_t pass = rows_a_pass(call);
  for (p.first_row = 0; p.first_row < p.rows; p.first_row += pass) {
    p.end_row = std::min<std::int64_t>(p.first_row + pass, p.rows);
    launch_down(p, launcher);
    launch_up(p, launcher);
  }
}

}  // namespace

void emit_lora_backward(const Call& call, Launcher& launcher) {
  const Tensor& dpool = call.output(1);
  LoraPoolParams p{};
  LoraParams& q = p.lora;
  q = params_of(call, launcher);
  q.dy = rows_of(call.input(4));
  q.dx = rows_of(call.output(0));
  const std::int64_t pass = rows_a_pass(call);
  q.back = q.low + static_cast<Address>(pass * q.most_rank) * 4;
  q.live = live_of(call);
  p.dpool = dpool.data;
  p.dpool_dtype = static_cast<int>(dpool.dtype);
  if (call.integer(QUERN_KEY_ACCUMULATE) == 0) launcher.launch(kernels::lora_clear, launcher.spread(q.pool_count), 256, p);
  for (q.first_row = 0; q.first_row < q.rows; q.first_row += pass) {
    q.end_row = std::min<std::int64_t>(q.first_row + pass, q.rows);
    p.rows = q.end_row - q.first_row;
    launch_down(q, launcher);
    launcher.launch(kernels::lora_back, {p.rows, 1, 1}, 256, q);
    launcher.launch(kernels::lora_dx, {(q.k + 255) / 256, p.rows, 1}, 256, q);
    for (p.adapter = 0; p.adapter < q.slots; ++p.adapter)
      for (p.of_b = 0; p.of_b < 2; ++p.of_b) launcher.launch(kernels::lora_pool, launcher.spread(p.of_b != 0 ? q.n * 8 : q.k * 8), 256, p);
  }
}

const Op lora_matmul_op{QUERN_OP_LORA_MATMUL, "lora_matmul.cuda", refuse_lora, emit, scratch_lora};

}  // namespace quern::cuda
