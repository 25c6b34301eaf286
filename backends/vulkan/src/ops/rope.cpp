// Pairs of elements of each head, turned by their position.
#include "rope.hpp"
#include "tables.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::uint32_t section_keys[] = {QUERN_KEY_SECTION0, QUERN_KEY_SECTION1, QUERN_KEY_SECTION2, QUERN_KEY_SECTION3};

bool sectioned(const Call& call) {
  return std::any_of(std::begin(section_keys), std::end(section_keys), [&](std::uint32_t key) { return call.integer(key) != 0; });
}

std::string refuse_rope(const Call& call) {
  const Tensor& x = call.input(0);
  return first_of({check_rope_table(call.input(2)),
                   x.elements() >= std::int64_t{1} << 31 ? concat(describe(x), "; fewer than 2^31 elements are taken") : ""});
}
void emit_rope(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &position = call.input(1), &t = call.input(2), &y = call.output(0);
  RopeParams p{};
  p.x.data = x.data;
  p.y.data = y.data;
  p.x.dtype = static_cast<int>(x.dtype);
  p.y.dtype = static_cast<int>(y.dtype);
  std::copy_n(x.strides, 3, p.x.stride);
  std::copy_n(y.strides, 3, p.y.stride);
  p.sectioned = sectioned(call) ? 1 : 0;
  p.position = position.data;
  p.position_stride = position.strides[p.sectioned];
  p.section_stride = p.sectioned != 0 ? position.strides[0] : 0;
  p.table = t.data;
  p.table_stride = t.strides[0];
  p.faults = launcher.faults();
  p.tokens = static_cast<uint>(x.dims[0]);
  p.heads = static_cast<uint>(x.dims[1]);
  p.d = static_cast<uint>(x.dims[2]);
  p.pairs = static_cast<uint>(t.dims[1]);
  p.positions = static_cast<int>(t.dims[0]);
  for (std::size_t s = 0; s < 4; ++s) p.sections[s] = static_cast<uint>(call.integer(section_keys[s]));
  p.mode = static_cast<int>(call.integer(QUERN_KEY_MODE));
  p.inverse = call.flag(QUERN_KEY_INVERSE) ? 1 : 0;
  launcher.launch("rope", launcher.item_threads(), launcher.spread(x.dims[0] * x.dims[1] * (x.dims[2] - t.dims[1])), p);
}

}  // namespace

const Op rope_op = offer(QUERN_OP_ROPE, "rope.vulkan", refuse_rope, emit_rope);

}  // namespace quern::vulkan
