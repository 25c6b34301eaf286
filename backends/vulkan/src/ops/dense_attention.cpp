// What attention_dense, attention_ragged and their gradients launch: any strides, any mix of float types. See dense_attention.hpp.
//
// A workgroup has a tile of rows of a head (shaders/attention_tiles.glsl). A call of a ragged op becomes one of the dense op, with all rows as one
// batch. The kernels then look up each tile's example.
#include "dense_attention.hpp"

#include <algorithm>

namespace quern::vulkan {
namespace {

constexpr std::int64_t most_elements = 256;  // of a head: an invocation keeps that many sums of 16 rows, or of 32
constexpr std::uint64_t valid_bytes = 256;   // of scratch, before the sums of dy y
enum { q_in = 0, k_in, v_in, y_in, lse_in, dy_in };
constexpr std::size_t start_in = 3;  // of a ragged call

bool is_ragged(const Call& call) { return call.op == QUERN_OP_ATTENTION_RAGGED || call.op == QUERN_OP_ATTENTION_RAGGED_BACKWARD; }

/// A call as one of the dense op: a ragged one without its starts, whose one batch has all rows. The bytes between rows are those between batches
/// there, so that an example's first row is its batch.
class DenseCall {
 public:
  explicit DenseCall(const Call& from) : call_(from) {
    if (!is_ragged(from)) return;
    std::size_t inputs = 0;
    for (std::size_t i = 0; i < from.inputs.size(); ++i)
      if (i != start_in) inputs_[inputs++] = batch_of(from.inputs[i]);
    for (std::size_t i = 0; i < from.outputs.size(); ++i) outputs_[i] = batch_of(from.outputs[i]);
    call_.inputs = {inputs_, inputs};
    call_.outputs = {outputs_, from.outputs.size()};
  }
  DenseCall(const DenseCall&) = delete;
  DenseCall& operator=(const DenseCall&) = delete;

  const Call& call() const noexcept { return call_; }

 private:
  static Tensor batch_of(const Tensor& rows) {
    Tensor t = rows;
    if (!t.present()) return t;
    t.rank = rows.rank + 1;
    t.ranged = rows.ranged << 1;
    std::copy_n(rows.dims, rows.rank, t.dims + 1);
    std::copy_n(rows.strides, rows.rank, t.strides + 1);
    t.dims[0] = 1;
    t.strides[0] = rows.strides[0];
    return t;
  }

  Call call_;
  Tensor inputs_[6], outputs_[3];  // as many as the gradient has
};

/// Attributes of dense calls alone; 0 in others.
std::int64_t query_offset(const Call& call) { return call.attributes->number(QUERN_KEY_QUERY_OFFSET).i; }
double max_bias(const Call& call) { return call.attributes->number(QUERN_KEY_MAX_BIAS).f; }

View view_of(const Tensor& t) {
  View v{};
  v.data = t.data;
  v.dtype = static_cast<int>(t.dtype);
  std::copy_n(t.strides, QUERN_MAX_DIMS, v.stride);
  v.step = t.rank == 0 ? 0 : static_cast<int>(t.strides[t.rank - 1]);
  return v;
}

DenseParams params_of(const Call& call, const Tensor& mask, const Tensor& sinks) {
  const Tensor &q = call.input(q_in), &k = call.input(k_in), &v = call.input(v_in);
  DenseParams p{};
  p.q = view_of(q);
  p.k = view_of(k);
  p.v = view_of(v);
  p.mask.data = mask.data;
  p.mask.dtype = static_cast<int>(mask.dtype);
  for (std::uint32_t e = 1; e <= mask.rank; ++e) p.mask.stride[4 - e] = mask.dims[mask.rank - e] == 1 ? 0 : mask.strides[mask.rank - e];
  p.sinks = sinks.data;
  p.sink_dtype = static_cast<int>(sinks.dtype);
  p.sink_step = static_cast<int>(sinks.strides[0]);
  constexpr std::int64_t far = std::int64_t{1} << 40;
  p.query_offset = std::min(query_offset(call), far);
  p.window = std::min(call.integer(QUERN_KEY_WINDOW), 2 * far);
  p.batch = static_cast<uint>(q.dims[0]);
  p.queries = static_cast<uint>(q.dims[1]);
  p.keys = static_cast<uint>(k.dims[1]);
  p.heads = static_cast<uint>(q.dims[2]);
  p.kv_heads = static_cast<uint>(k.dims[2]);
  p.d = static_cast<uint>(q.dims[3]);
  p.dv = static_cast<uint>(v.dims[3]);
  p.causal = call.flag(QUERN_KEY_CAUSAL) ? 1 : 0;
  p.scale = call.number(QUERN_KEY_SCALE);
  p.softcap = call.number(QUERN_KEY_SOFTCAP);
  p.max_bias = static_cast<float>(max_bias(call));
  return p;
}
std::int64_t ceiling_of(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }

/// How a kernel of shaders/attention_tiles.glsl is made for heads of these sizes.
struct AttentionTiles {
  std::int64_t side, own_d, own_dv;

  AttentionTiles(std::int64_t along, std::int64_t d, std::int64_t dv)
      : side(along), own_d(ceiling_of(d, along)), own_dv(ceiling_of(dv, along)) {}
  std::int64_t tile() const { return 4 * side; }
  std::int64_t columns() const { return side * std::max(own_d, own_dv); }
  std::int64_t threads() const { return side * side; }
  /// Rows of a tile, of the other tile or of what is weighed, weights, and some numbers a row and an invocation.
  std::int64_t shared_bytes() const {
    return (tile() + std::max(tile(), columns())) * 5 * 16 + tile() * (tile() / 4 + 1) * 16 + tile() * 12 + threads() * 4 + 16;
  }
};
constexpr std::int64_t large_tile_side = 16, small_tile_side = 8;
AttentionTiles tiles_for(const DenseParams& p, const CardFacts& card) {
  const AttentionTiles large(large_tile_side, p.d, p.dv);
  const bool fits = large.threads() <= card.group_limit && large.shared_bytes() <= card.shared_limit;
  return fits && !card.software() ? large : AttentionTiles(small_tile_side, p.d, p.dv);
}

}  // namespace

std::uint64_t dense_shared(const Call& given) {
  const DenseCall dense(given);
  return static_cast<std::uint64_t>(
      AttentionTiles(small_tile_side, dense.call().input(q_in).dims[3], dense.call().input(v_in).dims[3]).shared_bytes());
}
namespace {

/// `mode`: constant 5 of the gradients' kernel.
void launch_attention(std::string_view kernel, const DenseParams& p, bool ragged, std::int32_t mode, Launcher& launcher) {
  const AttentionTiles tiles = tiles_for(p, launcher.facts());
  const std::int64_t rows = mode == 0 ? p.queries : p.keys, heads = mode == 0 ? p.heads : p.kv_heads,
                     count = ragged ? rows / tiles.tile() + p.examples + 1 : ceiling_of(rows, tiles.tile()) * p.batch;
  launcher.launch(kernel, static_cast<std::uint32_t>(tiles.threads()), launcher.rows(count * heads), p,
                  {ragged ? 1 : 0, static_cast<std::int32_t>(tiles.side), static_cast<std::int32_t>(tiles.own_d),
                   static_cast<std::int32_t>(tiles.own_dv), mode});
}

/// Turns of a thread whose workgroups have tiles of `rows` and go through `others` keys or queries, with two products of heads and two sums at the most.
std::int64_t turns_of(const Call& call, std::int64_t rows, std::int64_t others, std::int64_t d, std::int64_t dv) {
  constexpr std::int64_t search = 32;  // for a tile's example
  if (others > std::int64_t{1} << 31) return INT64_MAX;
  const AttentionTiles tiles(small_tile_side, d, dv);
  const std::int64_t products = (d + dv + 30) / 16 * 3, sums = tiles.tile() / 16 * (2 + tiles.columns() * 8 / tiles.threads()),
                     weighing = 24;
  return ((rows / tiles.tile() + 65534) / 65535 + 1) *
         (1 + (is_ragged(call) ? search : 0) + dv / 4 + 2 + ceiling_of(others, tiles.tile()) * (1 + products + sums + weighing));
}
std::int64_t starts_turns(const Call& call) { return is_ragged(call) ? call.input(start_in).dims[0] / 8 : 0; }

}  // namespace

std::int64_t dense_turns(const Call& given) {
  const DenseCall dense(given);
  const Call& call = dense.call();
  const Tensor &q = call.input(q_in), &v = call.input(v_in);
  return std::max(starts_turns(given), turns_of(given, q.rows(), v.dims[1], q.dims[3], v.dims[3]));
}
std::int64_t dense_backward_turns(const Call& given) {
  const DenseCall dense(given);
  const Call& call = dense.call();
  const Tensor &q = call.input(q_in), &k = call.input(k_in);
  const std::int64_t dv = call.input(v_in).dims[3], group = q.dims[2] / std::max<std::int64_t>(1, k.dims[2]);
  return std::max({starts_turns(given), turns_of(given, q.rows(), k.dims[1], q.dims[3], dv),
                   turns_of(given, k.rows(), q.dims[1] * group, q.dims[3], dv)});
}

namespace {

std::string check_ragged(const Call& call) {
  if (!is_ragged(call)) return {};
  const Tensor& start = call.input(start_in);
  const std::int64_t heads = call.input(q_in).dims[1];  // each example begins a tile of its own for each of them
  const std::string many = concat("examples times heads are ", start.dims[0] * heads, "; fewer than 2^31 are taken");
  return first_of({check_contiguous(start), start.dims[0] * heads >= std::int64_t{1} << 31 ? many : ""});
}

/// A launch that looks whether a ragged call's examples may lie as they do, and where they are for the kernels. False: it is no ragged call.
bool find_examples(const Call& given, DenseParams& p, Launcher& launcher) {
  if (!is_ragged(given)) return false;
  const Tensor& start = given.input(start_in);
  p.start = start.data;
  p.valid = given.scratch;
  p.examples = static_cast<uint>(start.dims[0] - 1);
  launcher.launch("attention_starts", launcher.row_threads(p.examples), {1, 1, 1},
                  AttentionStartsParams{p.start, p.valid, launcher.faults(), p.examples, p.queries});
  launcher.barrier();
  return true;
}

}  // namespace

std::string refuse_dense(const Call& given) {
  if (std::string r = check_ragged(given); !r.empty()) return r;
  const DenseCall dense(given);
  const Tensor &q = dense.call().input(q_in), &k = dense.call().input(k_in), &v = dense.call().input(v_in);
  if (q.dims[3] > most_elements || v.dims[3] > most_elements)
    return concat("heads of ", q.dims[3], " and ", v.dims[3], " elements; at most ", most_elements, " are taken");
  return q.rows() >= std::int64_t{1} << 31 || k.rows() >= std::int64_t{1} << 31 ? "fewer than 2^31 rows are taken" : "";
}
std::uint64_t dense_scratch(const Call& call) { return is_ragged(call) ? valid_bytes : 0; }
void emit_dense(const Call& given, Launcher& launcher) {
  const DenseCall dense(given);
  const Call& call = dense.call();
  DenseParams p = params_of(call, call.input(3), call.input(4));
  p.y = view_of(call.output(0));
  if (call.output(1).present()) p.lse = view_of(call.output(1));
  const bool ragged = find_examples(given, p, launcher);
  launch_attention("attention_dense", p, ragged, 0, launcher);
}

std::uint64_t dense_backward_scratch(const Call& call) {
  return dense_scratch(call) + static_cast<std::uint64_t>(call.input(q_in).rows()) * 4;
}
/// A number a query, one behind the other.
static View dots_of(const Tensor& q, std::uint64_t memory, bool ragged) {
  const std::int64_t row = q.dims[2] * 4;
  View v{};
  v.data = memory;
  v.stride[0] = ragged ? row : q.dims[1] * row;
  v.stride[1] = row;
  v.stride[2] = 4;
  return v;
}
void emit_dense_backward(const Call& given, Launcher& launcher) {
  const DenseCall dense(given);
  const Call& call = dense.call();
  const Tensor& q = call.input(q_in);
  DenseParams p = params_of(call, call.input(6), call.input(7));
  p.y = view_of(call.input(y_in));
  p.lse = view_of(call.input(lse_in));
  p.dy = view_of(call.input(dy_in));
  p.dq = view_of(call.output(0));
  p.dk = view_of(call.output(1));
  p.dvalues = view_of(call.output(2));
  p.dots = dots_of(q, call.scratch + dense_scratch(given), is_ragged(given));
  const bool ragged = find_examples(given, p, launcher);
  launch_attention("attention_backward", p, ragged, 0, launcher);
  launcher.barrier();
  launch_attention("attention_backward", p, ragged, 1, launcher);
}

}  // namespace quern::vulkan
