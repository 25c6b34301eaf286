// attention over paged keys and values. See kernels/attention.cu.
#include "attention.hpp"

#include "../kernels/attention.hpp"
#include "../kernels/attention_rows.hpp"
#include "arrange.hpp"
#include "paged.hpp"
#include "tables.hpp"

#include <climits>

namespace quern::cuda {
namespace {

constexpr int most_processors = 256;          // that blocks of shares of keys are counted for; scratch is planned for so many
constexpr std::int64_t rereadable = 8 << 20;  // bytes of a sequence's keys and values that each head may read for itself: they stay in L2

const KernelId<AttentionParams>& kernel_of(int dtype) {
  switch (dtype) {
    case QUERN_F32: return kernels::attention_f32;
    case QUERN_F16: return kernels::attention_f16;
    case QUERN_BF16: return kernels::attention_bf16;
    case QUERN_Q8_0: return kernels::attention_q8_0;
    default: return kernels::attention_q4_0;
  }
}

/// The shared memory of a block of kernels/attention_pages.cuh.
unsigned pages_memory(const AttentionParams& p) { return static_cast<unsigned>(pages_bytes(p.group == 1 ? 1 : pages_heads, p.k.d)); }

/// The kernel that reads pages by bulk copies; null where card, cache or mask rule it out.
const KernelId<AttentionParams>* pages_kernel(const AttentionParams& p, Launcher& launcher) {
  if (!launcher.card().has_bulk_copies() || p.mask != 0 || p.k.d != p.v.d || (p.k.d != 64 && p.k.d != 128) || p.k.page % 16 != 0)
    return nullptr;
  if (p.k.dtype != QUERN_F16 && p.k.dtype != QUERN_BF16) return nullptr;
  if (pages_memory(p) > static_cast<unsigned>(launcher.gpu().facts().shared_limit)) return nullptr;
  static constexpr KernelId<AttentionParams> names[2][2][2] = {
      {{kernels::attention_pages_f16_64_1, kernels::attention_pages_f16_64_8},
       {kernels::attention_pages_f16_128_1, kernels::attention_pages_f16_128_8}},
      {{kernels::attention_pages_bf16_64_1, kernels::attention_pages_bf16_64_8},
       {kernels::attention_pages_bf16_128_1, kernels::attention_pages_bf16_128_8}}};
  return &names[p.k.dtype == QUERN_BF16][p.k.d == 128][p.group > 1];
}

std::int64_t blocks_without_splits(const Tensor& q, const Tensor& k, std::int64_t rows) {
  const std::int64_t per_kv = q.dims[1] / k.dims[1], group = std::min<std::int64_t>(attention_heads, per_kv);
  return rows * k.dims[1] * ((per_kv + group - 1) / group);
}

/// Enough blocks to fill the device, but no split below 64 keys of the longest sequence. Where rows must not depend on each other, as
/// for one row.
std::int64_t splits_for(const Call& call, std::int64_t rows, int multiprocessors) {
  const Tensor& q = call.input(0);
  const std::int64_t largest = (q.ranged & 1u) != 0 || call.invariant ? 4096 : q.dims[0];
  if (call.invariant) rows = 1;
  if (static_cast<std::uint64_t>(std::max(rows, call.invariant ? largest : rows) * q.dims[1]) * 4 > counter_bytes) return 1;
  const std::int64_t blocks = std::max<std::int64_t>(1, blocks_without_splits(call.input(0), call.input(1), rows));
  const std::int64_t longest = call.input(3).dims[1] * call.input(1).dims[2];
  return std::clamp<std::int64_t>(2 * multiprocessors / blocks, 1,
                                  std::min<std::int64_t>(attention_most_splits, std::max<std::int64_t>(1, longest / 64)));
}

std::string refuse(const Call& call) {
  const Tensor &k = call.input(1), &v = call.input(2);
  if (k.last() + 4 * v.last() > 12000) return concat("heads of ", k.last(), " and ", v.last(), " elements do not fit into shared memory");
  return first_of({check_pages(k, call.input(3), call.input(4), call.input(5)), check_cache(v), check_contiguous(call.input(6)),
                   check_contiguous(call.input(7)), check_packed_f32(call.input(8))});
}

/// Whether attention.cu and attention_pages.cuh read it: packed, one format, pairs of elements, a mask of every key that there can be.
bool is_plain(const Call& call) {
  const Tensor &k = call.input(1), &v = call.input(2), &mask = call.input(7);
  return all_packed(call) && k.dtype == v.dtype && k.last() <= attention_most_head && v.last() <= attention_most_head &&
         k.last() % 2 == 0 && v.last() % 2 == 0 && (!mask.present() || mask.dims[1] >= call.input(3).dims[1] * k.dims[2]);
}

AttentionAnyParams any_params(const Call& call, Launcher& launcher) {
  const Tensor &q = call.input(0), &k = call.input(1), &mask = call.input(7);
  AttentionAnyParams p{};
  p.q = heads_of(q);
  p.y = heads_of(call.output(0));
  p.k = view_of_cache(k);
  p.v = view_of_cache(call.input(2));
  p.table = table_of(k, call.input(3), call.input(4), call.input(5));
  p.kv_len = call.input(6).data;
  p.mask = mask.data;
  p.mask_dtype = static_cast<int>(mask.dtype);
  p.mask_columns = p.mask_stride = mask.present() ? mask.dims[1] : 0;
  p.sinks = call.input(8).data;
  p.heads = static_cast<int>(q.dims[1]);
  p.causal = call.integer(QUERN_KEY_CAUSAL) != 0;
  p.window = static_cast<int>(call.integer(QUERN_KEY_WINDOW));
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  p.softcap = static_cast<float>(call.real(QUERN_KEY_SOFTCAP));
  p.max_bias = static_cast<float>(call.real(QUERN_KEY_MAX_BIAS));
  p.faults = launcher.faults();
  return p;
}

}  // namespace

AttentionParams attention_params(const Call& call, Launcher& launcher) {
  const Tensor &q = call.input(0), &k = call.input(1), &mask = call.input(7), &y = call.output(0);
  AttentionParams p{};
  p.q = q.data;
  p.y = y.data;
  p.q_dtype = static_cast<int>(q.dtype);
  p.y_dtype = static_cast<int>(y.dtype);
  p.k = pages_of(k, call.input(3), call.input(4), call.input(5));
  p.v = pages_of(call.input(2), call.input(3), call.input(4), call.input(5));
  p.kv_len = call.input(6).data;
  p.mask = mask.data;
  p.mask_dtype = static_cast<int>(mask.dtype);
  p.mask_stride = mask.present() ? mask.dims[1] : 0;
  p.sinks = call.input(8).data;
  p.heads = static_cast<int>(q.dims[1]);
  p.group = static_cast<int>(std::min<std::int64_t>(attention_heads, q.dims[1] / k.dims[1]));
  // A head a block, where that fits the card at once: a step's latency is that of a block's heads, one after another.
  const std::int64_t bytes = 2 * 2 * call.input(3).dims[1] * k.dims[2] * k.dims[1] * k.last();
  if (!call.invariant && bytes <= rereadable && q.dims[0] * q.dims[1] <= 2 * launcher.multiprocessors()) p.group = 1;
  p.causal = call.integer(QUERN_KEY_CAUSAL) != 0;
  p.window = static_cast<int>(call.integer(QUERN_KEY_WINDOW));
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  p.softcap = static_cast<float>(call.real(QUERN_KEY_SOFTCAP));
  p.max_bias = static_cast<float>(call.real(QUERN_KEY_MAX_BIAS));
  p.splits = static_cast<int>(splits_for(call, q.dims[0], launcher.multiprocessors()));
  p.partial = call.scratch;
  p.counters = call.counters;
  p.faults = launcher.faults();
  return p;
}

Pages pages_for(const Tensor& cache, const Tensor& block_table, const Tensor& row_slot, const Tensor& position) {
  return pages_of(cache, block_table, row_slot, position);
}

std::uint64_t attention_scratch(const Call& call) {
  // Splits times rows is bounded: rows are split only while there are fewer blocks than twice the multiprocessors, at most 256 of these.
  const Tensor &q = call.input(0), &v = call.input(2);
  std::uint64_t most = 0;
  for (std::int64_t rows = 1; rows <= std::min<std::int64_t>(q.dims[0], 512); ++rows) {
    const std::int64_t splits = splits_for(call, rows, most_processors);
    if (splits > 1)
      most = std::max(most, static_cast<std::uint64_t>((call.invariant ? q.dims[0] : rows) * q.dims[1] * splits * (v.last() + 2)) * 4);
  }
  return most;
}

bool rope_kv_serves(const Tensor& k, const Tensor& v, const Tensor& table) {
  return is_float(k.dtype) && k.last() % 4 == 0 && v.last() % 4 == 0 && table.dims[1] % 2 == 0;
}

bool rope_by_eights(std::int64_t d, std::int64_t dv, const Tensor& table) { return d % 8 == 0 && dv % 8 == 0 && table.dims[1] % 4 == 0; }

bool head_norms_serve(const Tensor& k, const Tensor& v, const Tensor& table, bool rows) {
  const std::int64_t eights = k.last() / 8;
  return rope_by_eights(k.last(), v.last(), table) && (rows || (eights <= 32 && (eights & (eights - 1)) == 0));
}

void launch_rope_kv(RopeKvParams& p, const Tensor& table, int mode, std::int64_t rows, Launcher& launcher) {
  p.rope = table.data;
  p.rope_positions = table.dims[0];
  p.rope_pairs = table.dims[1];
  p.rope_mode = mode;
  p.faults = launcher.faults();
  // Of few rows every element that a thread has is a wait on memory: as many blocks as the card has room for.
  const bool eights = rope_by_eights(p.k.d, p.v.d, table);
  const std::int64_t units = (std::int64_t{p.heads} + p.k.kv_heads) * p.k.d / (eights ? 8 : 4);
  const std::int64_t most = std::max<std::int64_t>(1, 4 * launcher.multiprocessors() / std::max<std::int64_t>(1, rows));
  launcher.launch(eights ? kernels::rope_kv_8 : kernels::rope_kv, {rows, std::clamp<std::int64_t>((units + 255) / 256, 1, most), 1}, 256,
                  p);
}

void launch_attention(const AttentionParams& p, std::int64_t rows, Launcher& launcher) {
  const int per_kv = p.heads / p.k.kv_heads, groups = (per_kv + p.group - 1) / p.group;
  if (const KernelId<AttentionParams>* kernel = pages_kernel(p, launcher); kernel != nullptr) {
    AttentionParams pages = p;  // no more splits than there can be shares of keys
    const std::int64_t most = std::int64_t{p.k.pages_per_sequence} * p.k.page;
    pages.splits = most <= pages_alone ? 1
                                       : static_cast<int>(std::clamp<std::int64_t>((most + pages_share - 1) / pages_share, 1, p.splits));
    launcher.launch(*kernel, {pages.splits, std::int64_t{p.k.kv_heads} * groups, rows}, 128, pages, pages_memory(p));
    return;
  }
  launcher.launch(kernel_of(p.k.dtype), {p.splits, std::int64_t{p.k.kv_heads} * groups, rows}, 128, p);
}

bool attention_rows_serves(const Tensor& k, const Tensor& v, int shared_limit) {
  const std::int64_t d = k.last();
  return (k.dtype == QUERN_F16 || k.dtype == QUERN_BF16) && k.dtype == v.dtype && d == v.last() && d % 16 == 0 && d >= 32 &&
         d <= rows_most_head && rows_tiles_bytes(static_cast<int>(d)) + 2 * rows_lines * 4 <= shared_limit;
}

namespace {

/// How the blocks of attention of many rows share rows, heads and keys.
struct RowsShape {
  std::int64_t tile_rows, tile_heads, blocks, splits;  // blocks: of one share of the keys
};
RowsShape rows_shape(std::int64_t rows, std::int64_t heads, std::int64_t kv_heads, std::int64_t longest, int multiprocessors) {
  const std::int64_t tile_rows = std::clamp<std::int64_t>(rows, 1, rows_lines), per_kv = heads / kv_heads;
  const std::int64_t groups = (per_kv * tile_rows + rows_lines / tile_rows * tile_rows - 1) / (rows_lines / tile_rows * tile_rows);
  const std::int64_t tile_heads = (per_kv + groups - 1) / groups,
                     blocks = kv_heads * ((per_kv + tile_heads - 1) / tile_heads) * ((rows + tile_rows - 1) / tile_rows);
  const std::int64_t most = std::min<std::int64_t>(attention_most_splits, longest / (rows_least_tiles * rows_keys));
  return {tile_rows, tile_heads, blocks,
          std::clamp<std::int64_t>(multiprocessors / std::max<std::int64_t>(1, blocks), 1, std::max<std::int64_t>(1, most))};
}
/// Bytes of the parts of `vectors` results.
constexpr std::uint64_t bytes_of_parts(std::int64_t vectors, std::int64_t splits, std::int64_t d) {
  return static_cast<std::uint64_t>(vectors * splits * (d + 2)) * 4;
}

}  // namespace

std::uint64_t attention_rows_scratch(const Call& call, bool joined) {
  const Tensor &q = call.input(0), &k = call.input(1);
  const std::int64_t longest = call.input(3).dims[1] * k.dims[2], heads = q.dims[1];
  std::uint64_t most = 0;
  const auto add = [&](std::int64_t rows) {
    const RowsShape shape = rows_shape(rows, heads, k.dims[1], longest, most_processors);
    if (shape.splits > 1 || joined) most = std::max(most, bytes_of_parts(rows * heads, shape.splits, k.last()));
    return shape.blocks < most_processors;
  };
  for (std::int64_t rows = 1; rows <= std::min<std::int64_t>(q.dims[0], rows_lines); ++rows) add(rows);
  for (std::int64_t rows = 2 * rows_lines; rows < q.dims[0] + rows_lines && add(std::min(rows, q.dims[0])); rows += rows_lines) {}
  return most;
}

void launch_attention_rows(AttentionRowsParams& p, Address scratch, Launcher& launcher) {
  static constexpr KernelId<AttentionRowsParams> rows_names[][2] = {{kernels::attention_rows_32_bf16, kernels::attention_rows_32_f16},
                                                                    {kernels::attention_rows_48_bf16, kernels::attention_rows_48_f16},
                                                                    {kernels::attention_rows_64_bf16, kernels::attention_rows_64_f16},
                                                                    {kernels::attention_rows_80_bf16, kernels::attention_rows_80_f16},
                                                                    {kernels::attention_rows_96_bf16, kernels::attention_rows_96_f16},
                                                                    {kernels::attention_rows_112_bf16, kernels::attention_rows_112_f16},
                                                                    {kernels::attention_rows_128_bf16, kernels::attention_rows_128_f16}};
  static constexpr KernelId<AttentionRowsParams> groups_names[2][2] = {
      {kernels::attention_groups_64_bf16, kernels::attention_groups_64_f16},
      {kernels::attention_groups_128_bf16, kernels::attention_groups_128_f16}};
  // Of warpgroups the stages, their barriers, Info, and room for a start at a multiple of 1024.
  constexpr int info = 2 * rows_lines * 4;
  const int limit = launcher.gpu().facts().shared_limit, of_groups = groups_stages * (2 * rows_keys * p.k.d * 2 + 2 * 8) + info + 1024;
  const bool groups = launcher.card().has_warpgroup_products() && (p.k.d == 64 || p.k.d == 128) && of_groups <= limit,
             f16 = p.k.dtype == QUERN_F16;
  const RowsShape shape = rows_shape(p.rows, p.heads, p.k.kv_heads, std::int64_t{p.k.pages_per_sequence} * p.k.page,
                                     std::min(launcher.multiprocessors(), most_processors));
  p.tile_rows = static_cast<int>(shape.tile_rows);
  p.tile_heads = static_cast<int>(shape.tile_heads);
  p.splits = static_cast<int>(shape.splits);
  const bool parts = shape.splits > 1 || p.y_columns != 0;
  const std::int64_t vectors = std::int64_t{p.rows} * p.heads;
  p.partial = parts ? scratch : 0;
  p.softmax = parts ? scratch + bytes_of_parts(vectors, shape.splits, p.k.d - 2) : 0;
  const std::int64_t tiles = (p.rows + shape.tile_rows - 1) / shape.tile_rows;
  const Launcher::Grid grid{shape.blocks / tiles, tiles, shape.splits};
  if (groups) launcher.launch(groups_names[p.k.d == 128][f16], grid, 384, p, static_cast<unsigned>(of_groups));
  else launcher.launch(rows_names[p.k.d / 16 - 2][f16], grid, 256, p, static_cast<unsigned>(rows_tiles_bytes(p.k.d) + info));
  if (parts) launcher.launch(kernels::attention_join, {(std::int64_t{p.heads} * p.k.d + 1023) / 1024, p.rows, 1}, 256, p);
}

namespace {

/// Whether the matrix units take this call, whose queries and weights of keys are then rounded to the cache's type.
bool on_matrices(const Call& call, bool matrix_units, int shared_limit) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2);
  if (!matrix_units || call.invariant || q.dims[0] < least_attention_rows || !is_plain(call) || !attention_rows_serves(k, v, shared_limit))
    return false;
  if (!(k.dtype == QUERN_F16 ? call.f16_allowed() : call.bf16_allowed())) return false;
  for (std::size_t i = 6; i < 9; ++i)  // lengths, mask, sinks
    if (call.input(i).present()) return false;
  return call.integer(QUERN_KEY_CAUSAL) != 0 && call.real(QUERN_KEY_SCALE) > 0 && call.real(QUERN_KEY_MAX_BIAS) == 0;
}

/// Queries in 16 bits, which scratch begins with.
std::uint64_t rounded_bytes(const Tensor& q) { return (static_cast<std::uint64_t>(q.elements()) * 2 + 255) / 256 * 256; }

std::uint64_t scratch(const Call& call) {
  // Which card it is is not known here: one without such units keeps room that it does not use.
  const std::uint64_t rows = on_matrices(call, true, INT_MAX) ? rounded_bytes(call.input(0)) + attention_rows_scratch(call, false) : 0;
  return std::max(attention_scratch(call), rows);
}

void emit_on_matrices(const Call& call, Launcher& launcher) {
  const Tensor &q = call.input(0), &k = call.input(1), &y = call.output(0);
  AttentionRowsParams p{};
  p.q16 = q.data;
  if (q.dtype != k.dtype) {
    Tensor rounded = q;
    rounded.dtype = k.dtype;
    rounded.data = p.q16 = call.scratch;
    std::int64_t stride = 2;
    for (std::uint32_t d = rounded.rank; d-- > 0; stride *= rounded.dims[d]) rounded.strides[d] = stride;
    launch_cast(q, rounded, launcher);
  }
  p.y = y.data;
  p.y16 = y.dtype == QUERN_F32 ? 0 : y.data;
  p.half = y.dtype == QUERN_F16;
  p.k = pages_for(k, call.input(3), call.input(4), call.input(5));
  p.v = pages_for(call.input(2), call.input(3), call.input(4), call.input(5));
  p.rows = static_cast<int>(q.dims[0]);
  p.heads = static_cast<int>(q.dims[1]);
  p.window = static_cast<int>(call.integer(QUERN_KEY_WINDOW));
  p.scale = static_cast<float>(call.real(QUERN_KEY_SCALE));
  p.softcap = static_cast<float>(call.real(QUERN_KEY_SOFTCAP));
  p.faults = launcher.faults();
  launch_attention_rows(p, call.scratch + rounded_bytes(q), launcher);
}

void emit(const Call& call, Launcher& launcher) {
  const AttentionAnyParams any = any_params(call, launcher);
  const std::int64_t rows = call.input(0).dims[0];
  if (on_matrices(call, launcher.card().has_matrix_units(), launcher.gpu().facts().shared_limit)) {
    emit_on_matrices(call, launcher);
  } else if (is_plain(call)) {
    launch_attention(attention_params(call, launcher), rows, launcher);
  } else {
    const auto shared = static_cast<unsigned>(any.k.d + 4 * any.v.d + 8) * 4;
    launcher.launch(kernels::attention_any, {any.heads, rows, 1}, 128, any, shared);
  }
  launcher.launch(kernels::attention_check, {rows, 1, 1}, 128, any);
}

}  // namespace

const Op attention_op{QUERN_OP_ATTENTION, "attention.cuda", refuse, emit, scratch, false, is_plain};

}  // namespace quern::cuda
