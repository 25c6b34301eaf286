// From logits to tokens: ranking, masks, penalties, biases, the draw; random numbers, dropout; what a decoding loop keeps on the device.
#include "sampling.hpp"

#include "tables.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::int32_t sort_rows = 0, top_p = 1, min_p = 2, top_k = 3, sample = 4, sample_parts = 5;  // as in shaders/sort.comp
/// Parts of a row that is drawn from, at most as many as a workgroup has invocations; of a row that no part makes faster none.
constexpr std::int64_t most_sampled_parts = 32, part_elements = 1024, rows_in_parts = 16;

std::string check_logits(const Tensor& x) {
  if (x.rank == 0) return "logits have rows";
  if ((x.ranged >> (x.rank - 1) & 1u) != 0) return concat(describe(x), ": rows of a ranged length are not taken");
  return first_of({check_dtype(x, QUERN_F32),
                   x.elements() >= std::int64_t{1} << 28 ? concat(describe(x), "; fewer than 2^28 elements are taken") : ""});
}
std::uint64_t scratch(const Call& call) { return static_cast<std::uint64_t>(call.input(0).elements()) * 16; }
std::uint64_t sample_scratch(const Call& call) { return scratch(call) + rows_in_parts * most_sampled_parts * 16; }

std::string refuse_rank(const Call& call) {
  const Tensor &x = call.input(0), &value = call.output(0), &index = call.output(1);
  if (std::string r = first_of({check_logits(x), check_rank(value, x.rank), check_dtype(value, QUERN_F32), check_dtype(index, QUERN_I32),
                                check_same_shape(value, index)});
      !r.empty())
    return r;
  for (std::uint32_t d = 0; d + 1 < x.rank; ++d)
    if (std::string r = check_dim(value, d, x.dims[d]); !r.empty()) return r;
  const std::int64_t kept = call.op == QUERN_OP_TOP_K ? call.integer(QUERN_KEY_K) : x.last();
  if (kept < 0 || kept > x.last()) return concat("k is ", kept, " for rows of ", x.last());
  return check_dim(value, x.rank - 1, kept);
}

bool is_long(const Tensor& x) { return x.last() > 8192; }
/// Of each row that is drawn from; 0: rows are gone through whole.
std::uint32_t parts_of(const Tensor& x) {
  return is_long(x) && x.rows() <= rows_in_parts ? static_cast<std::uint32_t>(std::min(most_sampled_parts, x.last() / part_elements)) : 0;
}
std::uint64_t found_in_parts(const Call& call) { return call.scratch + static_cast<std::uint64_t>(call.input(0).elements()) * 16; }

/// Ranks each row of x; y and index are what the op writes. `change` sets what is the op's own. `parts_are_there`: those of parts_of().
void launch(const Call& call, const Tensor& y, const Tensor& index, std::int32_t op, Launcher& launcher,
            const std::function<void(RankParams&)>& change = {}, bool parts_are_there = false) {
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
    if (op == sample && parts_of(x) > 0 && rows.count == x.rows()) {
      p.parts = parts_of(x);
      p.found = found_in_parts(call);
      if (!parts_are_there) {
        launcher.launch("sort", 256, {p.parts, rows.count, 1}, p, {sample_parts});
        launcher.barrier();
      }
    }
    launcher.launch("sort", threads, launcher.rows(rows.count), p, {op});
  });
}
/// One number a row as a column.
Tensor as_column(const Tensor& t) {
  Tensor column = t;
  column.rank = 2;
  column.dims[1] = 1;
  column.strides[1] = 4;
  return column;
}
void emit_rank(const Call& call, Launcher& launcher) {
  launch(call, call.output(0), call.output(1), sort_rows, launcher, [&](RankParams& p) {
    p.kept = static_cast<uint>(call.output(0).last());
    p.ascending = call.op == QUERN_OP_SORT && !call.flag(QUERN_KEY_DESCENDING) ? 1 : 0;
  });
}

std::string refuse_mask(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  return first_of({check_logits(x), check_rank(x, 2), check_logits(y), check_same_shape(x, y),
                   check_vector(call.input(1), call.op == QUERN_OP_TOP_K_MASK ? QUERN_I32 : QUERN_F32, x.dims[0])});
}
void emit_mask(const Call& call, Launcher& launcher) {
  launch(call, call.output(0), {}, call.op == QUERN_OP_TOP_P_MASK ? top_p : call.op == QUERN_OP_MIN_P_MASK ? min_p : top_k, launcher);
}

std::string refuse_sample(const Call& call) {
  const Tensor& x = call.input(0);
  if (std::string r = first_of({check_logits(x), check_rank(x, 2)}); !r.empty()) return r;
  const std::int64_t rows = x.dims[0];
  return first_of({x.last() < 1 ? "a row of logits has at least one element" : "", check_vector(call.input(1), QUERN_F32, rows * 8),
                   check_vector(call.input(2), QUERN_U32, rows * 2), check_vector(call.input(3), QUERN_I32, rows),
                   check_vector(call.output(0), QUERN_I32, rows), check_vector(call.output(1), QUERN_F32, rows)});
}
void launch_sample(const Call& call, bool parts_are_there, Launcher& launcher) {
  launch(
      call, as_column(call.output(0)), as_column(call.output(1)), sample, launcher,
      [&](RankParams& p) {
        p.seed = call.input(2).data;
        p.step = call.input(3).data;
      },
      parts_are_there);
}
void emit_sample(const Call& call, Launcher& launcher) { launch_sample(call, false, launcher); }

std::string refuse_logits(const Call& call, const Tensor& tokens, std::initializer_list<std::string> others) {
  const Tensor &x = call.input(0), &y = call.output(0);
  return first_of({check_logits(x), check_rank(x, 2), check_logits(y), sdk::check_packed_rows(x), sdk::check_packed_rows(y),
                   check_same_shape(x, y), check_dtype(tokens, QUERN_I32), check_rank(tokens, 2), check_contiguous(tokens),
                   check_dim(tokens, 0, x.dims[0]), first_of(others)});
}
std::string refuse_penalize(const Call& call) {
  const std::int64_t rows = call.input(0).rank == 2 ? call.input(0).dims[0] : 0;
  return refuse_logits(call, call.input(1),
                       {check_vector(call.input(2), QUERN_I32, rows), check_vector(call.input(3), QUERN_F32, rows * 8)});
}
std::string refuse_bias(const Call& call) {
  return refuse_logits(call, call.input(1),
                       {check_same_shape(call.input(1), call.input(2)), check_dtype(call.input(2), QUERN_F32),
                        check_contiguous(call.input(2))});
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

void launch_random(const Call& call, const Tensor& x, const Tensor& y, std::size_t seed, double probability, Launcher& launcher) {
  std::uint64_t first = 0;
  for_each_part(y, {&x, &y}, [&](const Shape& shape, const View* v) {
    const RandomParams p{shape,
                         v[0],
                         v[1],
                         call.input(seed).data,
                         call.input(seed + 1).data,
                         first,
                         static_cast<uint>(call.integer(QUERN_KEY_SALT)),
                         static_cast<float>(probability)};
    launcher.launch("random", launcher.item_threads(), launcher.spread(shape.count), p, {x.present() ? 1 : 0});
    first += shape.count;
  });
}
std::string check_seed(const Call& call, std::size_t seed) {
  const Tensor& step = call.input(seed + 1);
  return first_of({check_vector(call.input(seed), QUERN_U32, 2),
                   step.dtype == QUERN_U32 ? check_vector(step, QUERN_U32, 1) : check_vector(step, QUERN_I32, 1)});
}
std::string refuse_random(const Call& call) { return first_of({check_seed(call, 0), check_dtype(call.output(0), QUERN_F32)}); }
void emit_random(const Call& call, Launcher& launcher) { launch_random(call, {}, call.output(0), 0, 0, launcher); }
std::string refuse_dropout(const Call& call) {
  const Tensor &x = call.input(0), &y = call.output(0);
  const double p = call.real(QUERN_KEY_P);
  return first_of({check_floats(x), check_floats(y), check_same_shape(x, y), check_seed(call, 1),
                   p >= 0 && p < 1 ? "" : concat("p is ", p, "; it is 0 or more and below 1")});
}
void emit_dropout(const Call& call, Launcher& launcher) {
  launch_random(call, call.input(0), call.output(0), 1, call.real(QUERN_KEY_P), launcher);
}

std::string refuse_accept(const Call& call) {
  const Tensor &draft = call.input(0), &target = call.input(1), &token = call.output(0);
  if (std::string r = first_of({check_rank(draft, 2), check_rank(target, 2), check_rank(token, 2)}); !r.empty()) return r;
  const std::int64_t s = draft.dims[0], k = draft.dims[1];
  if ((draft.ranged & 2u) != 0) return concat(describe(draft), ": rows of a ranged length are not taken");
  return first_of({check_dtype(draft, QUERN_I32), check_dtype(target, QUERN_I32), check_dtype(token, QUERN_I32), check_dim(target, 0, s),
                   check_dim(target, 1, k + 1), check_dim(token, 0, s), check_dim(token, 1, k + 1),
                   check_vector(call.input(2), QUERN_I32, s), check_vector(call.output(1), QUERN_I32, s)});
}
void emit_accept(const Call& call, Launcher& launcher) {
  const Tensor &draft = call.input(0), &target = call.input(1), &token = call.output(0);
  const DecodingParams p{draft.data,
                         target.data,
                         call.input(2).data,
                         token.data,
                         call.output(1).data,
                         draft.strides[0],
                         target.strides[0],
                         token.strides[0],
                         static_cast<uint>(draft.dims[0]),
                         static_cast<uint>(draft.dims[1]),
                         static_cast<int>(draft.strides[1]),
                         static_cast<int>(target.strides[1]),
                         static_cast<int>(token.strides[1]),
                         0};
  launcher.launch("decoding", launcher.item_threads(), launcher.spread(p.rows), p, {0});
}

std::string refuse_publish(const Call& call) {
  const Tensor &token = call.input(0), &number = call.input(1), &ring = call.output(0);
  if (std::string r = first_of({check_rank(token, 1), check_rank(ring, 2)}); !r.empty()) return r;
  return first_of({check_vector(token, QUERN_I32, token.elements()),
                   number.dtype == QUERN_U32 ? check_vector(number, QUERN_U32, 1) : check_vector(number, QUERN_I32, 1),
                   check_dtype(ring, QUERN_I32), check_dim(ring, 1, token.dims[0]),
                   ring.dims[0] < 1 ? "the ring has at least one row" : ""});
}
void emit_publish(const Call& call, Launcher& launcher) {
  const Tensor& ring = call.output(0);
  const DecodingParams p{call.input(0).data,
                         call.input(1).data,
                         call.predicate.data,
                         ring.data,
                         0,
                         0,
                         0,
                         ring.strides[0],
                         static_cast<uint>(ring.dims[1]),
                         static_cast<uint>(ring.dims[0]),
                         0,
                         0,
                         static_cast<int>(ring.strides[1]),
                         0};
  launcher.launch("decoding", 1, {1, 1, 1}, p, {1});
}

constexpr Op sampling_table[] = {
    offer(QUERN_OP_TOP_K, "top_k.vulkan", refuse_rank, emit_rank, scratch, true),
    offer(QUERN_OP_SORT, "sort.vulkan", refuse_rank, emit_rank, scratch, true),
    offer(QUERN_OP_TOP_P_MASK, "top_p_mask.vulkan", refuse_mask, emit_mask, scratch, true),
    offer(QUERN_OP_MIN_P_MASK, "min_p_mask.vulkan", refuse_mask, emit_mask, scratch, true),
    offer(QUERN_OP_TOP_K_MASK, "top_k_mask.vulkan", refuse_mask, emit_mask, scratch, true),
    offer(QUERN_OP_SAMPLE, "sample.vulkan", refuse_sample, emit_sample, sample_scratch, true),
    offer(QUERN_OP_PENALIZE, "penalize.vulkan", refuse_penalize, emit_logits, nullptr, true),
    offer(QUERN_OP_LOGIT_BIAS, "logit_bias.vulkan", refuse_bias, emit_logits, nullptr, true),
    offer(QUERN_OP_RANDOM_UNIFORM, "random_uniform.vulkan", refuse_random, emit_random),
    offer(QUERN_OP_DROPOUT, "dropout.vulkan", refuse_dropout, emit_dropout),
    offer(QUERN_OP_SPEC_ACCEPT, "spec_accept.vulkan", refuse_accept, emit_accept),
    offer(QUERN_OP_TOKEN_PUBLISH, "token_publish.vulkan", refuse_publish, emit_publish, nullptr, true),
};

}  // namespace

const std::span<const Op> sampling_ops = sampling_table;

std::uint64_t draw_scratch(const Call& call) { return sample_scratch(call); }

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
