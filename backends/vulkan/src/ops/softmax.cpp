// Rows of softmax(mask(softcap(scale x))), with sinks.
#include "tables.hpp"
#include "../views.hpp"

#include <algorithm>
#include <limits>

namespace quern::vulkan {
namespace {

void emit_softmax(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &mask = call.input(1), &sinks = call.input(2), &y = call.output(0);
  for_each_row_part(x, {&x, &mask, &y}, [&](const Shape& rows, const View* v) {
    SoftmaxParams p{};
    p.rows = rows;
    p.x = v[0];
    p.mask = v[1];
    p.y = v[2];
    p.sinks = sinks.data;
    p.sink_dtype = static_cast<int>(sinks.dtype);
    p.sink_step = static_cast<int>(sinks.strides[0]);
    constexpr std::int64_t far = std::int64_t{1} << 40;
    p.query_offset = std::clamp(call.integer(QUERN_KEY_QUERY_OFFSET), -far, far);
    p.n = static_cast<uint>(x.last());
    p.queries = static_cast<uint>(x.dim_from_end(1));
    p.heads = static_cast<uint>(x.dim_from_end(2));
    p.scale = call.number(QUERN_KEY_SCALE);
    p.softcap = call.number(QUERN_KEY_SOFTCAP);
    p.max_bias = call.number(QUERN_KEY_MAX_BIAS);
    p.causal = call.flag(QUERN_KEY_CAUSAL) ? 1 : 0;
    p.window = static_cast<int>(std::min<std::int64_t>(call.integer(QUERN_KEY_WINDOW), std::numeric_limits<int>::max()));
    launcher.launch("softmax", launcher.row_threads(x.last()), launcher.rows(rows.count), p, {0});
  });
}

}  // namespace

const Op softmax_op = offer(QUERN_OP_SOFTMAX, "softmax.vulkan", nullptr, emit_softmax);

}  // namespace quern::vulkan
