// How many elements are equal, bit by bit.
#include "strided.hpp"
#include "sum.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

void emit_count_equal(const Call& call, Launcher& launcher) {
  CountParams p{};
  p.shape = walk_elements(call.input(0), {{call.input(0), p.a}, {call.input(1), p.b}});
  p.parts = call.scratch;
  p.count = call.output(0).data;
  launcher.launch(kernels::count_equal, {squares_blocks, 1, 1}, 256, p);
  launcher.launch(kernels::count_total, {1, 1, 1}, 32, p);
}

}  // namespace

const Op count_equal_op{QUERN_OP_COUNT_EQUAL, "count_equal.cuda", nullptr, emit_count_equal, scratch_sum};

}  // namespace quern::cuda
