// See sampling.hpp.
#include "sampling.hpp"

#include "../shaders/modes.h"
#include "../views.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

/// Parts of a row that is drawn from, at most as many as a workgroup has invocations; of a row that no part makes faster none.
constexpr std::int64_t most_sampled_parts = 32, part_elements = 1024, rows_in_parts = 16;

bool is_long(const Tensor& x) { return x.last() > 8192; }
/// Of each row that is drawn from; 0: rows are gone through whole.
std::uint32_t parts_of(const Tensor& x) {
  return is_long(x) && x.rows() <= rows_in_parts ? static_cast<std::uint32_t>(std::min(most_sampled_parts, x.last() / part_elements)) : 0;
}
std::uint64_t found_in_parts(const Call& call) { return call.scratch + static_cast<std::uint64_t>(call.input(0).elements()) * 16; }

/// One number a row as a column.
Tensor as_column(const Tensor& t) {
  Tensor column = t;
  column.rank = 2;
  column.dims[1] = 1;
  column.strides[1] = 4;
  return column;
}

void launch_sample(const Call& call, bool parts_are_there, Launcher& launcher) {
  launch_ranking(
      call, as_column(call.output(0)), as_column(call.output(1)), logits_sample, launcher,
      [&](RankParams& p) {
        p.seed = call.input(2).data;
        p.step = call.input(3).data;
      },
      parts_are_there);
}

}  // namespace

std::string check_logits(const Tensor& x) {
  if ((x.ranged >> (x.rank - 1) & 1u) != 0) return concat(describe(x), ": rows of a ranged length are not taken");
  return x.elements() >= std::int64_t{1} << 28 ? concat(describe(x), "; fewer than 2^28 elements are taken") : "";
}
std::string check_logits_and_settings(const Call& call) {
  std::string reason = check_logits(call.input(0));
  for (std::size_t i = 1; i < call.inputs.count; ++i) reason = first_of({reason, check_contiguous(call.input(i))});
  return reason;
}

std::uint64_t scratch_ranking(const Call& call) { return static_cast<std::uint64_t>(call.input(0).elements()) * 16; }

void launch_ranking(const Call& call, const Tensor& y, const Tensor& index, std::int32_t op, Launcher& launcher,
                    const std::function<void(RankParams&)>& change, bool parts_are_there) {
  const Tensor& x = call.input(0);
  for_each_row_part(x, {&x, &y, &index}, [&](const Shape& rows, const View* v) {
    RankParams p{};
    p.rows = rows;
    p.x = v[0];
    p.y = v[1];
    p.index = v[2];
    p.params = call.input(1).data;
    p.pairs = call.scratch;
    p.predicate = call.predicate.data;
    p.n = static_cast<uint>(x.last());
    if (change) change(p);
    // Each lane goes through its stretch alone; the kernel keeps 64 bytes a lane in shared memory.
    const bool long_rows = is_long(x);
    const std::uint32_t most = launcher.facts().shared_limit >= 40960 && launcher.facts().group_limit >= 512 ? 512 : 256;
    const std::uint32_t threads = launcher.facts().software() ? (long_rows ? 256 : 32) : long_rows ? most : 256;
    if (op == logits_sample && parts_of(x) > 0 && rows.count == x.rows()) {
      p.parts = parts_of(x);
      p.found = found_in_parts(call);
      if (!parts_are_there) {
        launcher.launch("sort", 256, {p.parts, rows.count, 1}, p, {logits_sample_parts});
        launcher.barrier();
      }
    }
    launcher.launch("sort", threads, launcher.rows(rows.count), p, {op});
  });
}

void launch_ranked(const Call& call, bool ascending, Launcher& launcher) {
  launch_ranking(call, call.output(0), call.output(1), logits_sort, launcher, [&](RankParams& p) {
    p.kept = static_cast<uint>(call.output(0).last());
    p.ascending = ascending ? 1 : 0;
  });
}

void emit_sample(const Call& call, Launcher& launcher) { launch_sample(call, false, launcher); }

std::string refuse_logits(const Call& call) {
  return first_of({check_logits_and_settings(call), sdk::check_packed_rows(call.input(0)), sdk::check_packed_rows(call.output(0))});
}
void emit_logits(const Call& call, Launcher& launcher) {
  const Tensor &x = call.input(0), &tokens = call.input(1);
  const bool biases = call.op == QUERN_OP_LOGIT_BIAS;
  LogitParams p{};
  p.x = x.data;
  p.y = call.output(0).data;
  p.tokens = tokens.data;
  p.lengths = biases ? 0 : call.input(2).data;
  p.params = call.input(biases ? 2 : 3).data;
  p.predicate = call.predicate.data;
  p.faults = launcher.faults();
  p.x_row = x.strides[0];
  p.y_row = call.output(0).strides[0];
  p.rows = static_cast<uint>(x.dims[0]);
  p.n = static_cast<uint>(x.dims[1]);
  p.entries = static_cast<uint>(tokens.dims[1]);
  Launcher::Grid grid = launcher.spread(x.dims[1]);
  grid.y = std::min<std::int64_t>(p.rows, 65535);
  launcher.launch("logits", launcher.item_threads(), grid, p, {biases ? 1 : 0});
}

std::uint64_t draw_scratch(const Call& call) { return scratch_ranking(call) + rows_in_parts * most_sampled_parts * 16; }

void launch_draw(const Call& penalize, const Call& bias, const Call& sample, Launcher& launcher) {
  const Tensor &x = penalize.input(0), &y = bias.output(0), &tokens = bias.input(1);
  const std::uint32_t parts = parts_of(x);
  if (parts == 0) {
    emit_logits(penalize, launcher);
    launcher.barrier();
    emit_logits(bias, launcher);
    launcher.barrier();
    return emit_sample(sample, launcher);
  }
  SamplePartsParams p{};
  p.x = x.data;
  p.y = y.data;
  p.history = penalize.input(1).data;
  p.lengths = penalize.input(2).data;
  p.params = penalize.input(3).data;
  p.bias_tokens = tokens.data;
  p.biases = bias.input(2).data;
  p.found = found_in_parts(sample);
  p.faults = launcher.faults();
  p.x_row = x.strides[0];
  p.y_row = y.strides[0];
  p.rows = static_cast<uint>(x.dims[0]);
  p.n = static_cast<uint>(x.dims[1]);
  p.history_entries = static_cast<uint>(penalize.input(1).dims[1]);
  p.bias_entries = static_cast<uint>(tokens.dims[1]);
  p.parts = parts;
  if (p.rows == 0) return;
  launcher.launch("sample_parts", 256, {parts, p.rows, 1}, p);
  launcher.barrier();
  launch_sample(sample, true, launcher);
}

}  // namespace quern::vulkan
