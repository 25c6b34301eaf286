// top_k, sort; top_k_mask, top_p_mask, min_p_mask.
#include "../kernels/ranking.hpp"

#include "strided.hpp"
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::uint64_t scratch(const Call& call) { return static_cast<std::uint64_t>(call.input(0).elements()) * 16; }

std::string refuse(const Call& call) {
  const Tensor& x = call.input(0);
  return x.last() > 0x7fffffff ? concat(describe(x), ": rows of less than 2^31 elements are ranked") : "";
}

void emit_rank(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &value = call.output(0), &index = call.output(1);
  RankParams p{};
  p.rows = walk_rows(x, {{x, p.x}, {value, p.value}, {index, p.index}});
  p.keys = call.scratch;
  p.n = x.last();
  p.k = call.op == QUERN_OP_TOP_K ? call.integer(QUERN_KEY_K) : p.n;
  p.ascending = call.op == QUERN_OP_SORT && call.integer(QUERN_KEY_DESCENDING) == 0;
  launcher.launch(kernels::rank_rows, {p.rows.count, 1, 1}, 1024, p);
}

void emit_mask(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &y = call.output(0);
  Tensor setting = call.input(1);  // as rows of one element
  setting.dims[1] = 1;
  setting.strides[1] = 0;
  setting.rank = 2;
  MaskParams p{};
  p.rows = walk_rows(x, {{x, p.x}, {setting, p.setting}, {y, p.y}});
  p.keys = call.scratch;
  p.n = x.last();
  p.kind = call.op == QUERN_OP_TOP_K_MASK ? mask_top_k : call.op == QUERN_OP_TOP_P_MASK ? mask_top_p : mask_min_p;
  launcher.launch(kernels::mask_rows, {p.rows.count, 1, 1}, 1024, p);
}

constexpr Op table[] = {{QUERN_OP_TOP_K, "top_k.cuda", refuse, emit_rank, scratch},
                        {QUERN_OP_SORT, "sort.cuda", refuse, emit_rank, scratch},
                        {QUERN_OP_TOP_K_MASK, "top_k_mask.cuda", refuse, emit_mask, scratch},
                        {QUERN_OP_TOP_P_MASK, "top_p_mask.cuda", refuse, emit_mask, scratch},
                        {QUERN_OP_MIN_P_MASK, "min_p_mask.cuda", refuse, emit_mask, scratch}};

}  // namespace

const std::span<const Op> ranking_ops = table;

}  // namespace quern::cuda
