// Cosines and sines of positions, scaled as the attributes say; in f64.
#include "rope.hpp"
#include "tables.hpp"

namespace quern::vulkan {
namespace {

std::string refuse_rope_table(const Call& call) { return first_of({check_rope_table(call.output(0)), check_contiguous(call.input(1))}); }
void emit_rope_table(const Call& call, Launcher& launcher) {
  const Tensor& t = call.output(0);
  RopeTableParams p{};
  p.count = call.input(0).data;
  p.factors = call.input(1).data;
  p.table = t.data;
  p.table_stride = t.strides[0];
  p.first = call.integer(QUERN_KEY_FIRST);
  p.base = call.real(QUERN_KEY_BASE);
  p.factor = call.real(QUERN_KEY_FACTOR);
  p.beta_fast = call.real(QUERN_KEY_BETA_FAST);
  p.beta_slow = call.real(QUERN_KEY_BETA_SLOW);
  p.mscale = call.real(QUERN_KEY_MSCALE);
  p.low = call.real(QUERN_KEY_LOW_FREQ_FACTOR);
  p.high = call.real(QUERN_KEY_HIGH_FREQ_FACTOR);
  p.context = static_cast<double>(call.integer(QUERN_KEY_ORIGINAL_CONTEXT));
  p.positions = static_cast<uint>(t.dims[0]);
  p.pairs = static_cast<uint>(t.dims[1]);
  p.scaling = static_cast<int>(call.integer(QUERN_KEY_SCALING));
  launcher.launch("rope_table", launcher.item_threads(), launcher.spread((t.dims[0] + 15) / 16 * t.dims[1]), p);
}

}  // namespace

const Op rope_table_op = offer(QUERN_OP_ROPE_TABLE, "rope_table.vulkan", refuse_rope_table, emit_rope_table, nullptr, false, true);

}  // namespace quern::vulkan
