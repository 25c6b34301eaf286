// See chain.hpp.
#include "chain.hpp"
#include "shaders/modes.h"

#include <algorithm>
#include <cstddef>

namespace quern::vulkan {
namespace {

constexpr std::uint32_t pages_at_hand = 256, tile_rows = 2;
constexpr std::uint32_t block_elements = 16, block_words = 4, bytes_of_block = 4 * 36;  // shaders/chain_blocks.glsl

// As shaders/chain_stage.glsl reads a record: by words of 4 bytes.
constexpr std::size_t word(std::size_t at) { return at * 4; }
static_assert(sizeof(ChainStage) == word(116) && sizeof(ChainPart) == word(16));
static_assert(offsetof(ChainStage, epsilon) == word(10) && offsetof(ChainStage, part) == word(12) &&
              offsetof(ChainStage, attention) == word(60) && offsetof(ChainStage, y_block) == word(112));
static_assert(offsetof(ChainPart, y_word) == word(10) && offsetof(ChainPart, n) == word(13) && offsetof(ChainPart, bias_dtype) == word(15));
static_assert(offsetof(ChainAttention, k_page) == word(14) && offsetof(ChainAttention, q_word) == word(30) &&
              offsetof(ChainAttention, parts) == word(40) && offsetof(ChainAttention, mode) == word(46) &&
              offsetof(ChainAttention, softcap) == word(48));

static_assert(offsetof(Chain::Constants, kind) == word(11 - 1) && offsetof(Chain::Constants, n) == word(18 - 1) &&
              offsetof(Chain::Constants, once) == word(25 - 1));

constexpr int first_block = QUERN_Q4_0, last_block = QUERN_Q8_0, first_k_block = QUERN_Q4_K, last_k_block = QUERN_Q6_K;
constexpr std::uint32_t bit_of(int format) { return format == QUERN_F16 ? 1u : 1u << (format - first_block + 1); }
constexpr bool is_known(int format) {
  return format == QUERN_F16 || (format >= first_block && format <= last_block) || (format >= first_k_block && format <= last_k_block);
}
/// Words of a range, kept even, so that two of them are 16 bytes at a multiple of that.
constexpr std::uint64_t even(std::uint64_t words) { return (words + 1) / 2 * 2; }
/// A stage has no weights of f16 beside others.
bool half_weights(const ChainStage& stage) { return stage.part[0].format == static_cast<int>(QUERN_F16); }

}  // namespace

std::uint32_t Chain::most_threads() const noexcept {
  return std::min<std::uint32_t>(768, card_.group_limit / card_.subgroup * card_.subgroup);
}
std::uint32_t Chain::threads() const noexcept { return std::min<std::uint32_t>(384, most_threads()); }

/// Groups of four floats that a row of f32, or what all subgroups found in attention, takes.
std::uint32_t Chain::pool_fours(const Sizes& sizes) const noexcept {
  return std::max(sizes.half_k, threads() / card_.subgroup_least * sizes.d) / 4;
}

/// Bytes of shared memory that the kernel declares.
std::uint64_t Chain::shared_bytes(const Sizes& sizes) const noexcept {
  const std::uint64_t subgroups = most_threads() / card_.subgroup_least;
  return sizeof(ChainStage) + sizes.k / 16 * 24 + std::uint64_t{pool_fours(sizes)} * 16 + pages_at_hand * 4 + sizes.d * 12 +
         subgroups * 12 + bytes_of_block + 256;
}

bool Chain::takes(quern_dtype format) noexcept { return is_known(static_cast<int>(format)); }

bool Chain::takes_half_row(std::uint64_t k) const noexcept {
  if (k > card_.shared_limit) return false;
  Sizes sizes;
  sizes.half_k = static_cast<std::uint32_t>(k);
  sizes.d = 128;
  return shared_bytes(sizes) <= card_.shared_limit;
}

/// Whether a subgroup takes one row at a time, not two: where a workgroup makes one block only, so that a subgroup each is all there is, and a row
/// fills a subgroup's loads.
bool Chain::row_alone(const ChainStage& stage) const noexcept {
  return stage.kind != stage_attention && stage.blocks_out == 1 && stage.k >= 64 * card_.subgroup &&
         most_threads() >= block_elements * card_.subgroup;
}

/// Threads of a stage's workgroups. A multiprocessor has room for two workgroups of 256, so that the next stage's is at work and has asked for its
/// weights while this one's ends; products of many tiles gain more from more loads under way, and so do several products of rows that fill a
/// subgroup's loads. Weights of f16 are most to read and least to compute. docs/lab/vulkan.md has what was measured.
std::uint32_t Chain::threads_of(const ChainStage& stage) const noexcept {
  if (row_alone(stage)) return block_elements * card_.subgroup;
  const std::uint32_t few = std::min(threads(), 256 / card_.subgroup * card_.subgroup);
  if (stage.kind == stage_attention) return std::min(few, card_.subgroup * card_.subgroup);  // a lane a subgroup joins what they found
  const bool halves = half_weights(stage), many = stage.tiles > 4000;
  if (stage.paired != 0) return halves || stage.blocks_out > 0 ? most_threads() : threads();
  const bool wide = stage.k >= 128 * card_.subgroup;
  if (halves && wide && (stage.parts > 1 || many)) return most_threads();
  if (halves && (wide || many)) return std::min(most_threads(), 512 / card_.subgroup * card_.subgroup);
  const bool several = stage.parts > 1 && stage.k >= 64 * card_.subgroup;
  return several || many || stage.k > 4096 ? threads() : few;
}

/// Whether no subgroup of the stage's workgroups has more than one item, so that the kernel asks for none behind the first.
bool Chain::once(const ChainStage& stage) const noexcept {
  const std::uint32_t subgroups = threads_of(stage) / card_.subgroup, all = groups_of(stage, stage.blocks_out > 0);
  const std::uint32_t outputs = stage.paired != 0 || row_alone(stage) ? 1 : tile_rows;  // of a tile
  const std::uint32_t tiles = stage.blocks_out > 0 ? static_cast<std::uint32_t>(stage.blocks_out) * block_elements / outputs
                                                   : (stage.tiles + all - 1) / all;
  const bool halves = half_weights(stage);
  const std::uint32_t units = halves ? stage.k / 8 : stage.k / 64;
  return tiles <= subgroups && units <= (halves ? 4 : 1) * card_.subgroup;
}

/// Workgroups of a stage: each has something to do.
std::uint32_t Chain::groups_of(const ChainStage& stage, bool in_blocks) const noexcept {
  if (stage.kind == stage_attention) return stage.attention.heads * stage.attention.parts;
  return std::min(in_blocks ? stage.part[0].n / block_elements : stage.tiles, groups());
}

/// Blocks of int8 that a workgroup of `stage` makes at most for `next`; 0: results go as words.
std::uint32_t Chain::blocks_made(const ChainStage& stage, const ChainStage& next) const noexcept {
  if (next.kind == stage_attention || half_weights(next)) return 0;
  std::uint32_t blocks = stage.attention.dv / block_elements;
  if (stage.kind == stage_attention) {
    if (stage.attention.dv % block_elements != 0) return 0;
  } else {
    if (stage.parts != 1 || stage.part[0].n % block_elements != 0) return 0;
    const std::uint32_t all = stage.part[0].n / block_elements, at_once = groups_of(stage, true);
    // A tile of gate and up has one output: gathering fewer blocks than two a workgroup takes longer than their reader saves.
    if (stage.paired != 0 && all < 2 * groups()) return 0;
    blocks = (all + at_once - 1) / at_once;
  }
  return shared_bytes(sizes_) + std::uint64_t{blocks} * bytes_of_block <= card_.shared_limit ? blocks : 0;
}

const Chain::Value* Chain::find(std::uint64_t at) const {
  for (auto value = values_.rbegin(); value != values_.rend(); ++value)
    if (value->at == at) return &*value;
  return nullptr;
}

bool Chain::overlaps(std::uint64_t begin, std::uint64_t bytes) const {
  return std::ranges::any_of(values_, [&](const Value& v) { return begin < v.at + std::uint64_t{v.count} * 4 && v.at < begin + bytes; });
}

bool Chain::add(const OneRowProduct& product) {
  const RowProductParams& p = product.params;
  if (!is_known(product.format) || product.mode > source_norm || product.k % 64 != 0 || p.n == 0) return false;
  Sizes sizes = sizes_;
  std::uint32_t& k = product.format == QUERN_F16 ? sizes.half_k : sizes.k;
  k = std::max(k, product.k);
  sizes.formats |= bit_of(product.format);
  if (p.bias != 0) sizes.extras |= 1;
  if (shared_bytes(sizes) > card_.shared_limit) return false;
  ChainPart part{};
  part.b = p.b;
  part.other_b = p.other_b;
  part.bias = p.bias;
  part.bias_dtype = p.bias_dtype;
  part.format = product.format;
  part.n = p.n;
  part.y = p.y;
  part.y_word = part.c_word = CHAIN_NONE;
  const std::uint32_t outputs = product.paired ? tile_rows / 2 : tile_rows, tiles = (p.n + outputs - 1) / outputs;
  if (p.c != 0) {
    if (const Value* c = find(p.c); c != nullptr && c->count == p.n) {
      part.c_stage = c->stage;
      part.c_word = c->part;  // until words are given out
    } else if (overlaps(p.c, std::uint64_t{p.n} * 4)) {
      return false;
    } else {
      part.c = p.c;
    }
  }
  const auto joins = [&](const ChainStage& last) {
    return last.kind == product.mode && last.parts < CHAIN_PARTS && !product.paired && last.paired == 0 && last.k == product.k &&
           product_x_ == p.x && last.other == (product.mode == source_norm ? p.other : 0) && last.epsilon == p.epsilon &&
           last.offset == p.offset && half_weights(last) == (product.format == QUERN_F16) &&
           (part.c_word == CHAIN_NONE || part.c_stage + 1 < stages_.size());
  };
  if (!stages_.empty() && joins(stages_.back())) {
    ChainStage& last = stages_.back();
    last.tiles += tiles;
    values_.push_back({p.y, p.n, static_cast<std::uint32_t>(stages_.size() - 1), static_cast<std::uint32_t>(last.parts)});
    last.part[last.parts++] = part;
    if (stages_.size() == 1) first_.push_back(product);
    sizes_ = sizes;
    return true;
  }
  ChainStage stage{};
  stage.x_word = CHAIN_NONE;
  if (stages_.empty()) {
    stage.x = p.x;
    first_.push_back(product);
  } else {
    // What is read has to be all that the stage before makes.
    const Value* x = find(p.x);
    const ChainStage& last = stages_.back();
    if (x == nullptr || x->stage + 1 != stages_.size() || x->count != product.k || (last.kind != stage_attention && last.parts != 1))
      return false;
    stage.x_word = 0;
  }
  stage.other = product.mode == source_norm ? p.other : 0;
  stage.k = product.k;
  stage.tiles = tiles;
  stage.kind = product.mode;
  stage.parts = 1;
  stage.paired = product.paired ? 1 : 0;
  stage.epsilon = p.epsilon;
  stage.offset = p.offset;
  stage.part[0] = part;
  product_x_ = p.x;
  values_.push_back({p.y, p.n, static_cast<std::uint32_t>(stages_.size()), 0});
  stages_.push_back(stage);
  sizes_ = sizes;
  return true;
}

bool Chain::add(const AttentionParams& p, int k_dtype, int v_dtype) {
  if (stages_.empty() || stages_.back().kind == stage_attention || stages_.back().parts != 3) return false;
  const std::uint32_t before = static_cast<std::uint32_t>(stages_.size() - 1), most = std::max(p.d, p.dv);
  const Value *q = find(p.q), *k = find(p.new_k), *v = find(p.new_v);
  for (const auto& [value, count] : {std::pair{q, p.heads * p.d}, std::pair{k, p.kv_heads * p.d}, std::pair{v, p.kv_heads * p.dv}})
    if (value == nullptr || value->stage != before || value->count != count) return false;
  if (q == k || q == v || k == v || p.d % 8 != 0 || p.dv % 8 != 0 || most / 8 > card_.subgroup_least) return false;
  for (const std::int64_t stride : {p.k_page, p.k_head, p.k_position, p.v_page, p.v_head, p.v_position})
    if (stride % 16 != 0 || stride < 0 || stride > INT32_MAX) return false;
  if (p.k_cache % 16 != 0 || p.v_cache % 16 != 0 || p.y_head != std::int64_t{p.dv} * 4 || p.y_dtype != static_cast<int>(QUERN_F32))
    return false;
  if (k_dtype_ != 0 && (k_dtype_ != k_dtype || v_dtype_ != v_dtype)) return false;
  Sizes sizes = sizes_;
  sizes.d = std::max(sizes.d, most);
  if (p.softcap > 0) sizes.extras |= 2;
  if (shared_bytes(sizes) > card_.shared_limit) return false;
  sizes_ = sizes;
  k_dtype_ = k_dtype;
  v_dtype_ = v_dtype;
  ChainStage stage{};
  stage.kind = stage_attention;
  ChainAttention& a = stage.attention;
  a.k_cache = p.k_cache, a.k_page = p.k_page, a.k_head = p.k_head, a.k_position = p.k_position;
  a.v_cache = p.v_cache, a.v_page = p.v_page, a.v_head = p.v_head, a.v_position = p.v_position;
  a.block_table = p.block_table, a.row_slot = p.row_slot, a.position = p.position, a.window = p.window;
  a.table = p.table, a.table_stride = p.table_stride, a.positions = p.positions, a.pairs = p.pairs, a.mode = p.mode;
  a.pages = p.pages, a.page = p.page, a.sequences = p.sequences, a.pages_a_sequence = p.pages_a_sequence;
  a.q_word = q->part, a.k_word = k->part, a.v_word = v->part;  // until words are given out
  a.y = p.y, a.heads = p.heads, a.kv_heads = p.kv_heads, a.d = p.d, a.dv = p.dv;
  a.parts = std::max<std::uint32_t>(1, groups() / p.heads);
  a.scale = p.scale, a.softcap = p.softcap;
  values_.push_back({p.y, p.heads * p.dv, before + 1, 0});
  stages_.push_back(stage);
  return true;
}

Chain::Built Chain::build(std::uint64_t scratch_begin, std::uint64_t scratch_end) const {
  Built built;
  built.stages = stages_;
  std::vector<std::size_t> last_read(stages_.size());  // of a stage's words; 0: nothing wants them
  for (std::size_t s = 0; s + 1 < stages_.size(); ++s) {
    ChainStage& next = built.stages[s + 1];
    const std::uint32_t blocks = blocks_made(built.stages[s], next);
    if (blocks == 0) continue;
    built.stages[s].blocks_out = static_cast<int>(blocks);
    built.stages[s].next_other = next.other;
    built.stages[s].next_offset = next.offset;
    next.blocks_in = 1;
  }
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    if (s + 1 < stages_.size() && built.stages[s].blocks_out == 0) last_read[s] = s + 1;
    for (int i = 0; i < stages_[s].parts; ++i)
      if (stages_[s].part[i].c_word != CHAIN_NONE) last_read[stages_[s].part[i].c_stage] = s;
  }
  // A word is free for stages behind the one that reads it last.
  struct Range {
    std::uint64_t begin, end;
    std::size_t until;
  };
  std::vector<Range> taken;
  const auto take = [&](std::uint64_t words, std::size_t stage, std::size_t until) {
    std::erase_if(taken, [&](const Range& r) { return r.until < stage; });
    std::ranges::sort(taken, {}, &Range::begin);
    std::uint64_t at = 0;
    for (const Range& r : taken) {
      if (at + words <= r.begin) break;
      at = r.end;
    }
    taken.push_back({at, at + even(words), until});
    built.words = std::max(built.words, at + even(words));
    return static_cast<uint>(at);
  };
  const auto output = [&](std::uint64_t& y, std::uint32_t count, std::size_t stage, std::size_t offset) {
    built.outputs.push_back({y, y + std::uint64_t{count} * 4, stage * sizeof(ChainStage) + offset});
    if (y >= scratch_begin && y < scratch_end) y = 0;
  };
  for (std::size_t s = 0; s < built.stages.size(); ++s) {
    ChainStage& stage = built.stages[s];
    if (stage.kind == stage_attention) {
      ChainAttention& a = stage.attention;
      const ChainStage& before = built.stages[s - 1];
      for (uint* word : {&a.q_word, &a.k_word, &a.v_word}) *word = before.part[*word].y_word;
      a.y_word = last_read[s] != 0 ? take(std::uint64_t{a.heads} * a.dv, s, last_read[s]) : CHAIN_NONE;
      if (stage.blocks_out > 0) stage.y_block = take(std::uint64_t{a.heads} * a.dv / block_elements * block_words, s, s + 1);
      if (a.parts > 1) a.part_word = take(std::uint64_t{a.heads} * a.parts * (a.dv + 2), s, s);
      output(a.y, a.heads * a.dv, s, offsetof(ChainStage, attention) + offsetof(ChainAttention, y));
      continue;
    }
    if (stage.blocks_in != 0) stage.x_word = built.stages[s - 1].y_block;
    else if (s > 0)
      stage.x_word = built.stages[s - 1].kind == stage_attention ? built.stages[s - 1].attention.y_word
                                                                 : built.stages[s - 1].part[0].y_word;
    if (stage.blocks_out > 0) stage.y_block = take(std::uint64_t{stage.part[0].n} / block_elements * block_words, s, s + 1);
    for (int i = 0; i < stage.parts; ++i) {
      ChainPart& part = stage.part[i];
      if (part.c_word != CHAIN_NONE) {
        const ChainStage& from = built.stages[part.c_stage];
        part.c_word = from.kind == stage_attention ? from.attention.y_word : from.part[part.c_word].y_word;
      }
      if (last_read[s] != 0) part.y_word = take(part.n, s, last_read[s]);
      output(part.y, part.n, s, offsetof(ChainStage, part) + static_cast<std::size_t>(i) * sizeof(ChainPart) + offsetof(ChainPart, y));
    }
  }
  return built;
}

Chain::Launch Chain::launch(const ChainStage& stage) const {
  const auto number = [](auto value) { return static_cast<std::int32_t>(value); };
  Launch launch{groups_of(stage, stage.blocks_out > 0), threads_of(stage), {}};
  Constants& c = launch.constants;
  const std::uint32_t subgroups = launch.threads / card_.subgroup_least;
  c.most_subgroups = number(subgroups);
  c.kind = stage.kind;
  c.blocks_out = stage.blocks_out;
  if (stage.kind == stage_attention) {
    const ChainAttention& a = stage.attention;
    const std::uint32_t d = std::max(a.d, a.dv);
    c.formats = number(bit_of(QUERN_F16));
    c.k_dtype = k_dtype_, c.v_dtype = v_dtype_;
    c.most_d = number(d);
    while (static_cast<std::uint32_t>(c.key_lanes) * 8 < d) c.key_lanes *= 2;
    c.extras = number(sizes_.extras);
    c.pool_fours = number(subgroups * d / 4);
    c.page = a.page, c.k_stride = number(a.k_position), c.v_stride = number(a.v_position);
    return launch;
  }
  const bool halves = half_weights(stage);
  if (halves) c.pool_fours = number(stage.k / 4);
  else c.most_k = number(stage.k);
  c.widest = number(stage.k);
  c.extras = number(sizes_.extras & 1);
  c.paired = stage.paired, c.blocks_in = stage.blocks_in;
  for (int i = 0; i < stage.parts; ++i) {
    c.formats |= number(bit_of(stage.part[i].format));
    c.n[i] = number(stage.part[i].n), c.format[i] = stage.part[i].format;
  }
  if (row_alone(stage)) c.used_rows = 1;
  c.once = once(stage) ? 1 : 0;
  return launch;
}

}  // namespace quern::vulkan
