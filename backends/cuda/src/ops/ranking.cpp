// See ranking.hpp.
#include "ranking.hpp"

#include "strided.hpp"

namespace quern::cuda {

std::uint64_t scratch_ranking(const Call& call) { return static_cast<std::uint64_t>(call.input(0).elements()) * 16; }

std::string refuse_ranking(const Call& call) {
  const Tensor& x = call.input(0);
  return x.last() > 0x7fffffff ? concat(describe(x), ": rows of less than 2^31 elements are ranked") : "";
}

void launch_rank(const Call& call, std::int64_t k, bool ascending, Launcher& launcher) {
  const Tensor &x = call.input(0), &value = call.output(0), &index = call.output(1);
  RankParams p{};
  p.rows = walk_rows(x, {{x, p.x}, {value, p.value}, {index, p.index}});
  p.keys = call.scratch;
  p.n = x.last();
  p.k = k;
  p.ascending = ascending;
  launcher.launch(kernels::rank_rows, {p.rows.count, 1, 1}, 1024, p);
}

void launch_mask(const Call& call, MaskKind kind, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  Tensor setting = call.input(1);  // as rows of one element
  setting.dims[1] = 1;
  setting.strides[1] = 0;
  setting.rank = 2;
  MaskParams p{};
  p.rows = walk_rows(x, {{x, p.x}, {setting, p.setting}, {y, p.y}});
  p.keys = call.scratch;
  p.n = x.last();
  p.kind = kind;
  launcher.launch(kernels::mask_rows, {p.rows.count, 1, 1}, 1024, p);
}

}  // namespace quern::cuda
