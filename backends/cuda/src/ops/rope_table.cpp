// Cosines and sines of positions, scaled as the attributes say.
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string refuse_rope_table(const Call& call) { return first_of({check_contiguous(call.output(0)), check_contiguous(call.input(1))}); }

void emit_rope_table(const Call& call, Launcher& launcher) {
  const Tensor& table = call.output(0);
  RopeTableParams p{};
  p.count = call.input(0).data;
  p.factors = call.input(1).data;
  p.table = table.data;
  p.positions = table.dims[0];
  p.pairs = table.dims[1];
  p.base = call.real(QUERN_KEY_BASE);
  p.factor = call.real(QUERN_KEY_FACTOR);
  p.beta_fast = call.real(QUERN_KEY_BETA_FAST);
  p.beta_slow = call.real(QUERN_KEY_BETA_SLOW);
  p.mscale = call.real(QUERN_KEY_MSCALE);
  p.low = call.real(QUERN_KEY_LOW_FREQ_FACTOR);
  p.high = call.real(QUERN_KEY_HIGH_FREQ_FACTOR);
  p.context = call.integer(QUERN_KEY_ORIGINAL_CONTEXT);
  p.first = call.integer(QUERN_KEY_FIRST);
  p.scaling = static_cast<int>(call.integer(QUERN_KEY_SCALING));
  launcher.launch(kernels::rope_table, {p.pairs, 1, 1}, 128, p);
}

}  // namespace

const Op rope_table_op{QUERN_OP_ROPE_TABLE, "rope_table.cuda", refuse_rope_table, emit_rope_table};

}  // namespace quern::cuda
