// Pairs of elements of each head, turned by their position.
#include "tables.hpp"

namespace quern::cuda {
namespace {

bool sectioned(const Call& call) {
  for (const std::uint32_t key : {QUERN_KEY_SECTION0, QUERN_KEY_SECTION1, QUERN_KEY_SECTION2, QUERN_KEY_SECTION3})
    if (call.integer(key) != 0) return true;
  return false;
}

std::string refuse_rope(const Call& call) { return check_contiguous(call.input(2)); }

void emit_rope(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &position = call.input(1), &table = call.input(2), &y = call.output(0);
  RopeParams p{};
  p.x = view_of(x);
  p.position = view_of(position);
  p.y = view_of(y);
  p.table = table.data;
  p.positions = table.dims[0];
  p.pairs = table.dims[1];
  p.heads = x.dims[1];
  p.d = x.dims[2];
  p.sectioned = sectioned(call);
  p.rows = p.sectioned ? position.strides[0] / 4 : x.dims[0];
  p.mode = static_cast<int>(call.integer(QUERN_KEY_MODE));
  p.inverse = call.integer(QUERN_KEY_INVERSE) != 0;
  int section = 0;
  for (const std::uint32_t key : {QUERN_KEY_SECTION0, QUERN_KEY_SECTION1, QUERN_KEY_SECTION2, QUERN_KEY_SECTION3})
    p.sections[section++] = static_cast<int>(call.integer(key));
  p.faults = launcher.faults();
  launcher.launch(kernels::rope, {x.dims[0], (p.heads * (p.d - p.pairs) + 127) / 128, 1}, 128, p);
}

}  // namespace

const Op rope_op{QUERN_OP_ROPE, "rope.cuda", refuse_rope, emit_rope};

}  // namespace quern::cuda
