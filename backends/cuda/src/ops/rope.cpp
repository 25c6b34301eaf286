// rope_table and rope.
#include "tables.hpp"

namespace quern::cuda {
namespace {

std::string check_table(const Tensor& table) {
  return first_of({check_dtype(table, QUERN_F32), check_rank(table, 3), check_contiguous(table), check_dim(table, 2, 2)});
}

std::string refuse_table(const Call& call) {
  const Tensor &count = call.input(0), &factors = call.input(1), &table = call.output(0);
  if (std::string r = check_table(table); !r.empty()) return r;
  if (count.present() && (count.dtype != QUERN_I32 || count.elements() != 1)) return concat(describe(count), "; position_count is one i32");
  if (factors.present())
    if (std::string r = first_of({check_dtype(factors, QUERN_F32), check_rank(factors, 1), check_contiguous(factors),
                                  check_dim(factors, 0, table.dims[1])});
        !r.empty())
      return r;
  const std::int64_t scaling = call.integer(QUERN_KEY_SCALING);
  if (scaling < 0 || scaling > 5) return concat("rope_table has the scalings 0 to 5, not ", scaling);
  if (!(call.real(QUERN_KEY_BASE) > 0) || !(call.real(QUERN_KEY_FACTOR) > 0)) return "rope_table: base and factor are above 0";
  if ((scaling == 2 || scaling == 3 || scaling == 5) && call.integer(QUERN_KEY_ORIGINAL_CONTEXT) <= 0)
    return "yarn, llama3 and dynamic scaling need original_context";
  return {};
}

void emit_table(const Call& call, Launcher& launcher) {
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

bool sectioned(const Call& call) {
  for (const std::uint32_t key : {QUERN_KEY_SECTION0, QUERN_KEY_SECTION1, QUERN_KEY_SECTION2, QUERN_KEY_SECTION3})
    if (call.integer(key) != 0) return true;
  return false;
}

std::string refuse_rope(const Call& call) {
  const Tensor &x = call.input(0), &position = call.input(1), &table = call.input(2), &y = call.output(0);
  if (std::string r = first_of({check_floats(x), check_floats(y), check_rank(x, 3), check_same_shape(x, y),
                                check_dtype(position, QUERN_I32), check_table(table)});
      !r.empty())
    return r;
  if (2 * table.dims[1] > x.dims[2]) return concat(describe(table), " has more pairs than a head of ", x.dims[2]);
  if (const std::int64_t mode = call.integer(QUERN_KEY_MODE); mode != 0 && mode != 1)
    return concat("rope has the modes 0 and 1, not ", mode);
  if (sectioned(call)) return first_of({check_rank(position, 2), check_dim(position, 0, 4), check_dim(position, 1, x.dims[0])});
  return first_of({check_rank(position, 1), check_dim(position, 0, x.dims[0])});
}

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

constexpr Op table[] = {{QUERN_OP_ROPE_TABLE, "rope_table.cuda", refuse_table, emit_table},
                        {QUERN_OP_ROPE, "rope.cuda", refuse_rope, emit_rope}};

}  // namespace

const std::span<const Op> rope_ops = table;

}  // namespace quern::cuda
