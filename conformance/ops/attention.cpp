// attention: softmax attention over a paged cache. Bounds: attention_reference.hpp.
//
// What no row sees is NaN: slots behind a sequence's length, before all its windows or hidden by the mask for all of its rows, and pages
// of no sequence. So a kernel that multiplies such a slot by 0, reads beyond a length or another sequence's page shows it.
#include "ops/attention_case.hpp"
#include "ops/attention_reference.hpp"
#include "quern/quern_plan.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>

namespace quern::conformance {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

enum { in_q, in_k, in_v, in_table, in_slot, in_position, in_length, in_mask, in_sinks };

using Mask = AttentionMask;
using Shape = AttentionShape;
using Hard = AttentionHard;

/// What the mask says of row t and key j. Row 1 sees nothing where there are three rows; every 7th key is hidden from all.
double mask_entry(const Shape& s, std::int64_t t, std::int64_t j, std::int64_t rows) {
  const CounterRandom random = CounterRandom::of("attention mask").stream(static_cast<std::uint64_t>(t));
  const auto at = static_cast<std::uint64_t>(j);
  const bool hidden = j % 7 == 3 || (t == 1 && rows > 2) || random.below(at, 3) == 0;
  if (s.mask == Mask::boolean) return hidden ? 0.0 : 1.0 + static_cast<double>(random.below(at, 200));  // any byte but 0 shows
  const double least = s.mask == Mask::additive ? -infinity : s.mask_dtype == QUERN_F16 ? -65504.0 : -1e30;
  return hidden ? least : random.stream(1).gaussian(at);
}

bool row_sees(const Shape& s, std::size_t t, const PagedBatch::Row& row, std::int64_t j, std::int64_t rows) {
  if (row.position < 0) return false;
  if (j >= (s.causal ? row.position + 1 : s.batch.length(static_cast<std::size_t>(row.slot)))) return false;
  if (s.window > 0 && j <= row.position - s.window) return false;
  if (s.mask == Mask::none || s.mask == Mask::floor) return true;
  return mask_entry(s, static_cast<std::int64_t>(t), j, rows) != (s.mask == Mask::boolean ? 0.0 : -infinity);
}

/// One flag an index over [pages, page]: whether any row sees the slot.
std::vector<bool> seen_slots(const Shape& s) {
  std::vector<bool> seen(static_cast<std::size_t>(s.batch.pages() * s.batch.page), false);
  const std::vector<std::int64_t> table = s.batch.table();
  const std::vector<PagedBatch::Row> rows = s.batch.rows();
  for (std::size_t t = 0; t < rows.size(); ++t)
    for (std::int64_t j = 0; rows[t].position >= 0 && j < s.batch.length(static_cast<std::size_t>(rows[t].slot)); ++j)
      if (row_sees(s, t, rows[t], j, static_cast<std::int64_t>(rows.size())))
        seen[static_cast<std::size_t>(cache_slot(s.batch, table, rows[t].slot, j))] = true;
  return seen;
}

const char* hard_name(Hard hard) {
  constexpr const char* names[] = {"", "nan_q", "nan_k", "nan_v", "infinite_v", "far_k", "zero_k"};
  return names[static_cast<int>(hard)];
}

/// Of each sequence, the key that is far above all others: the first, the last, and those between in turn.
std::int64_t far_key(const PagedBatch& batch, std::size_t sequence) {
  const std::int64_t length = batch.length(sequence);
  return sequence % 5 == 1 ? length - 1 : static_cast<std::int64_t>(sequence) * 5 % length;
}

/// What is hard about keys or values, of head 0 alone but for zeros.
void fill_hard(const Shape& s, const Tensor& cache, bool keys) {
  const std::vector<std::int64_t> table = s.batch.table();
  const std::int64_t d = cache.dim_from_end(0);
  const auto row_of = [&](std::size_t sequence, std::int64_t position, std::int64_t head) {
    const std::int64_t slot = cache_slot(s.batch, table, static_cast<std::int64_t>(sequence), position);
    return (slot / s.batch.page * s.kv_heads + head) * s.batch.page + slot % s.batch.page;
  };
  const std::int64_t middle = s.batch.length(1) / 2;
  if (s.hard == (keys ? Hard::nan_k : Hard::nan_v)) poison_cache_row(cache, row_of(1, middle, 0));
  if (s.hard == Hard::infinite_v && !keys) cache.set(row_of(1, middle, 0) * d + d - 1, infinity);
  for (std::size_t i = 0; keys && i < s.batch.sequences.size(); ++i) {
    if (s.hard == Hard::far_k)
      for (std::int64_t e = 0; e < d; ++e) cache.set(row_of(i, far_key(s.batch, i), 0) * d + e, 24.0);
    for (std::int64_t j = 0; s.hard == Hard::zero_k && j < s.batch.length(i); ++j)
      for (std::int64_t h = 0; j % 3 != 1 && h < s.kv_heads; ++h) {
        const Unit unit = unit_of(cache.dtype());
        const std::uint64_t bytes = static_cast<std::uint64_t>(d / unit.elements) * unit.bytes;
        std::ranges::fill(cache.bytes().subspan(static_cast<std::uint64_t>(row_of(i, j, h)) * bytes, bytes), std::byte{0});
      }
  }
}

ValueSpec cache_input(const std::shared_ptr<const Shape>& s, quern_dtype dtype, std::int64_t size, DataKind data, bool keys) {
  return filled(input(dtype, {s->batch.pages(), s->kv_heads, s->batch.page, size}, data, s->cache_layout),
                std::string(data_name(data)) + "_unseen_nan", [s, data, keys](const Tensor& cache, const CounterRandom& random) {
                  fill(cache, data, random);
                  if (s->hard != Hard::none) fill_hard(*s, cache, keys);
                  const std::vector<bool> seen = seen_slots(*s);
                  for (std::int64_t slot = 0; slot < static_cast<std::int64_t>(seen.size()); ++slot)
                    for (std::int64_t h = 0; !seen[static_cast<std::size_t>(slot)] && h < s->kv_heads; ++h)
                      poison_cache_row(cache, (slot / s->batch.page * s->kv_heads + h) * s->batch.page + slot % s->batch.page);
                });
}

/// Rows of a cache in f64: all of them decoded once, or each as it is read where the cache is large.
class CacheRows {
 public:
  explicit CacheRows(const Tensor& cache) : cache_(cache), size_(cache.dim_from_end(0)) {
    if (cache.count() <= most_decoded) all_ = cache.values();
    else one_.resize(static_cast<std::size_t>(size_));
  }
  /// Valid until the next call.
  const double* row(std::int64_t at) {
    if (!all_.empty() || one_.empty()) return all_.data() + at * size_;
    cache_.read(at * size_, size_, one_.data());
    return one_.data();
  }

 private:
  static constexpr std::int64_t most_decoded = 1 << 26;
  const Tensor& cache_;
  std::int64_t size_;
  std::vector<double> all_, one_;
};

class Reference {
 public:
  explicit Reference(const ReferenceCall& call)
      : call_(call),
        k_(call.inputs[in_k]),
        v_(call.inputs[in_v]),
        table_(call.inputs[in_table]),
        q_values_(call.inputs[in_q].values()),
        k_rows_(k_),
        v_rows_(v_),
        row_(attention_rules(call, call.inputs[in_q], k_)) {
    const Tensor& q = call.inputs[in_q];
    heads_ = q.dim_from_end(1);
    d_ = q.dim_from_end(0);
    page_ = k_.dim_from_end(1);
    kv_heads_ = k_.dim_from_end(2);
    dv_ = v_.dim_from_end(0);
  }

  void run(ExpectedOutput& y) {
    y.rule = Rule::bounded;
    for (std::int64_t t = 0; t < call_.inputs[in_q].dims()[0]; ++t)
      for (std::int64_t h = 0; h < heads_; ++h) {
        row_.clear();
        const auto position = static_cast<std::int64_t>(call_.inputs[in_position].at(t)),
                   slot = static_cast<std::int64_t>(call_.inputs[in_slot].at(t));
        if (position >= 0 && pages_exist(t, slot, position)) see(t, h, slot, position);
        finish(h, y);
      }
  }

 private:
  std::int64_t first(std::int64_t position) const {
    const auto window = static_cast<std::int64_t>(call_.attribute(QUERN_KEY_WINDOW, 0));
    return window > 0 ? std::max<std::int64_t>(0, position - window + 1) : 0;
  }
  std::int64_t end(std::int64_t slot, std::int64_t position) const {
    return call_.attribute(QUERN_KEY_CAUSAL, 1) != 0 ? position + 1 : static_cast<std::int64_t>(call_.inputs[in_length].at(slot));
  }
  std::int64_t page_of(std::int64_t slot, std::int64_t key) const {
    const std::int64_t width = table_.dim_from_end(0), index = key / page_;
    return index >= width ? -1 : static_cast<std::int64_t>(table_.at(slot * width + index));
  }
  /// A row whose sequence or one of whose pages is out of range is zeros.
  bool pages_exist(std::int64_t t, std::int64_t slot, std::int64_t position) const {
    if (slot < 0 || slot >= table_.dims()[0]) return false;
    if (call_.inputs.size() > in_mask && !call_.inputs[in_mask].absent() && end(slot, position) > call_.inputs[in_mask].dim_from_end(0))
      throw std::logic_error("row " + std::to_string(t) + " of a case has keys that its mask lacks");
    for (std::int64_t j = first(position); j < end(slot, position); ++j)
      if (page_of(slot, j) < 0 || page_of(slot, j) >= k_.dims()[0]) return false;
    return true;
  }
  std::int64_t cache_row(std::int64_t slot, std::int64_t head, std::int64_t key) const {
    return (page_of(slot, key) * kv_heads_ + head) * page_ + key % page_;
  }

  void see(std::int64_t t, std::int64_t h, std::int64_t slot, std::int64_t position) {
    const std::int64_t head = h / (heads_ / kv_heads_);
    const bool masked = call_.inputs.size() > in_mask && !call_.inputs[in_mask].absent();
    const double slope = alibi_slope(call_.attribute(QUERN_KEY_MAX_BIAS, 0), h, heads_);
    for (std::int64_t j = first(position); j < end(slot, position); ++j) {
      double m = 0;
      if (masked) {
        const Tensor& mask = call_.inputs[in_mask];
        m = mask.at(t * mask.dim_from_end(0) + j);
        if (m == (mask.dtype() == QUERN_U8 ? 0.0 : -infinity)) continue;
        if (mask.dtype() == QUERN_U8) m = 0;
      }
      const std::int64_t at = cache_row(slot, head, j);
      row_.add(at, q_values_.data() + (t * heads_ + h) * d_, k_rows_.row(at), d_, m, slope);
    }
  }

  void finish(std::int64_t h, ExpectedOutput& y) {
    const bool has_sinks = call_.inputs.size() > in_sinks && !call_.inputs[in_sinks].absent();
    const double sink = has_sinks ? call_.inputs[in_sinks].at(h) : 0.0;
    row_.close(has_sinks ? &sink : nullptr);
    row_.weigh(
        dv_, [&](std::int64_t at) { return v_rows_.row(at); }, call_.what.outputs[0].dtype, y);
  }

  const ReferenceCall& call_;
  const Tensor &k_, &v_, &table_;
  std::vector<double> q_values_;
  CacheRows k_rows_, v_rows_;
  AttentionRow row_;
  std::int64_t heads_ = 0, kv_heads_ = 0, page_ = 0, d_ = 0, dv_ = 0;
};

void reference(const ReferenceCall& call, Expected& expected) {
  Reference(call).run(expected.outputs[0]);
  for (const double r : expected.outputs[0].value)
    if (std::isnan(r)) throw UnseenRead("the reference of attention read a slot that no row sees");
}
/// Of cases where what rows see holds a NaN.
void reference_not_finite(const ReferenceCall& call, Expected& expected) { Reference(call).run(expected.outputs[0]); }

const char* mask_name(Mask mask) { return mask == Mask::additive ? "strewn_inf" : mask == Mask::floor ? "strewn_least" : "strewn_hidden"; }

Case make(Profile profile, const Shape& shape) {
  const auto s = std::make_shared<const Shape>(shape);
  const auto rows = static_cast<std::int64_t>(s->batch.rows().size());
  Case c;
  c.group = "attention";
  c.op = QUERN_OP_ATTENTION;
  c.profile = profile;
  c.level = level_inference;
  c.fast_conversions = QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
  c.inputs = {input(s->q, {rows, s->heads, s->d}, s->data_q, s->q_layout),
              cache_input(s, s->k, s->d, s->data_k, true),
              cache_input(s, s->v, s->dv, s->data_v, false),
              s->batch.table_input(),
              s->batch.slot_input(),
              s->batch.position_input()};
  if (s->lengths || !s->causal) {
    std::vector<std::int64_t> lengths;
    for (std::size_t i = 0; i < s->batch.sequences.size(); ++i) lengths.push_back(s->batch.length(i));
    c.inputs.push_back(given(input(QUERN_I32, {static_cast<std::int64_t>(lengths.size())}), "lengths", lengths));
  } else if (s->mask != Mask::none || s->sinks) {
    c.inputs.push_back(absent());
  }
  if (s->mask != Mask::none) {
    const quern_dtype dtype = s->mask == Mask::boolean ? QUERN_U8 : s->mask_dtype;
    c.inputs.push_back(filled(input(dtype, {rows, s->batch.longest()}), mask_name(s->mask),
                              [s, rows](const Tensor& mask, const CounterRandom&) {
                                const std::int64_t keys = mask.dim_from_end(0);
                                for (std::int64_t i = 0; i < mask.count(); ++i) mask.set(i, mask_entry(*s, i / keys, i % keys, rows));
                              }));
  } else if (s->sinks) {
    c.inputs.push_back(absent());
  }
  if (s->sinks) c.inputs.push_back(input(QUERN_F32, {s->heads}));
  c.outputs = {output(s->y, {rows, s->heads, s->dv}, s->y_layout)};
  const double scale = s->scale != 0 ? s->scale : std::exp2(-std::round(std::log2(static_cast<double>(s->d)) / 2));
  c.attributes = {{QUERN_KEY_SCALE, scale}};
  if (!s->causal) c.attributes.push_back({QUERN_KEY_CAUSAL, 0});
  if (s->window != 0) c.attributes.push_back({QUERN_KEY_WINDOW, static_cast<double>(s->window)});
  if (s->softcap != 0) c.attributes.push_back({QUERN_KEY_SOFTCAP, s->softcap});
  if (s->max_bias != 0) c.attributes.push_back({QUERN_KEY_MAX_BIAS, s->max_bias});
  c.note = s->batch.name();
  if (s->hard != Hard::none) c.note += std::string(".") + hard_name(s->hard);
  const bool not_finite = s->hard == Hard::nan_q || s->hard == Hard::nan_k || s->hard == Hard::nan_v || s->hard == Hard::infinite_v;
  c.reference = not_finite ? reference_not_finite : reference;
  // Matrix units multiply a value with the 0 of a row that does not see it (plugin-api/OPS.md, "Conversions").
  if (s->hard == Hard::nan_v || s->hard == Hard::infinite_v) c.fast_conversions = 0;
  if (s->hard == Hard::nan_q)
    c.inputs[in_q] = filled(std::move(c.inputs[in_q]), "one_nan", [s](const Tensor& q, const CounterRandom& random) {
      fill(q, s->data_q, random);
      q.set(q.count() / 2, std::numeric_limits<double>::quiet_NaN());
    });
  return c;
}

constexpr std::array cache_dtypes = {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0};

PagedBatch decode(std::int64_t past, std::int64_t page = 16) { return {{{past, 1}}, page}; }
PagedBatch prefill(std::int64_t rows, std::int64_t past = 0, std::int64_t page = 16) { return {{{past, rows}}, page}; }
/// Several sequences of very different lengths: one new, one long, one of a single position, a chunk of a prefill.
PagedBatch mixed(std::int64_t page = 16) { return {{{0, 3}, {150, 1}, {0, 1}, {40, 9}}, page}; }

void dtypes(CaseSink& sink) {
  for (const quern_dtype cache : cache_dtypes)
    for (const quern_dtype q : float_dtypes) {
      Shape s;
      s.q = s.y = q;
      s.k = s.v = cache;
      for (const PagedBatch& batch : {decode(0), decode(70), prefill(5), prefill(33, 20), mixed(), mixed(32)}) {
        s.batch = batch;
        sink.add(make(Profile::quick, s));
      }
      s.batch = mixed(64);
      for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::one_hot, DataKind::exponents}) {
        s.data_v = data;
        sink.add(make(Profile::full, s));
      }
      s.data_v = DataKind::gaussian;
      s.data_k = DataKind::heavy;
      sink.add(make(Profile::full, s));
      if (q != QUERN_F32) {
        s.y = QUERN_F32;
        sink.add(make(Profile::full, s));
      }
    }
  for (const quern_dtype k : cache_dtypes)  // k and v may differ
    for (const quern_dtype v : cache_dtypes) {
      if (k == v) continue;
      Shape s;
      s.k = k;
      s.v = v;
      s.batch = mixed();
      sink.add(make(k == QUERN_F16 || v == QUERN_F16 ? Profile::quick : Profile::full, s));
    }
}

void heads_and_sizes(CaseSink& sink) {
  struct Heads {
    std::int64_t heads, kv_heads;
  };
  for (const Heads h : {Heads{1, 1}, {3, 1}, {9, 3}, {4, 4}, {8, 2}, {7, 1}, {8, 1}, {16, 2}, {16, 1}, {32, 4}})
    for (const quern_dtype cache : {QUERN_F16, QUERN_Q8_0})
      for (const PagedBatch& batch : {decode(45), prefill(17, 3), mixed()}) {
        Shape s;
        s.heads = h.heads;
        s.kv_heads = h.kv_heads;
        s.k = s.v = cache;
        s.batch = batch;
        sink.add(make(cache == QUERN_F16 ? Profile::quick : Profile::full, s));
      }
  struct Sizes {
    std::int64_t d, dv;
  };
  for (const Sizes z : {Sizes{32, 32},
                        {64, 64},
                        {80, 80},
                        {96, 96},
                        {112, 112},
                        {128, 128},
                        {192, 128},
                        {256, 256},
                        {40, 40},
                        {72, 72},
                        {128, 64},
                        {33, 33},
                        {8, 24},
                        {1, 1}})
    for (const quern_dtype cache : cache_dtypes) {
      if (z.d % unit_of(cache).elements != 0 || z.dv % unit_of(cache).elements != 0) continue;
      for (const PagedBatch& batch : {decode(45), prefill(9, 30), PagedBatch{{{0, 2}, {70, 1}, {9, 4}}, 16}}) {
        Shape s;
        s.d = z.d;
        s.dv = z.dv;
        s.k = s.v = cache;
        s.batch = batch;
        const bool usual = z.d % 16 == 0 && z.d >= 64;
        sink.add(make((usual && cache == QUERN_F16) || cache == QUERN_F32 ? Profile::quick : Profile::full, s));
      }
    }
}

void rules(CaseSink& sink) {
  for (const quern_dtype cache : {QUERN_F32, QUERN_F16, QUERN_Q8_0})
    for (const PagedBatch& batch : {decode(70), prefill(33, 20), mixed()}) {
      const Profile profile = cache == QUERN_F16 ? Profile::quick : Profile::full;
      Shape s;
      s.k = s.v = cache;
      s.batch = batch;
      for (const std::int64_t window : {1, 2, 15, 16, 17, 63, 64, 65, 4096}) {
        Shape w = s;
        w.window = window;
        sink.add(make(profile, w));
        w.softcap = 30;
        w.sinks = true;
        sink.add(make(Profile::full, w));
      }
      for (const double softcap : {0.5, 30.0, 50.0}) {
        Shape w = s;
        w.softcap = softcap;
        w.data_q = DataKind::heavy;
        w.scale = 1;  // scores of tens: the cap bends them
        sink.add(make(profile, w));
      }
      for (const Mask mask : {Mask::additive, Mask::floor, Mask::boolean})
        for (const quern_dtype dtype : {QUERN_F32, QUERN_F16}) {
          if (mask == Mask::boolean && dtype != QUERN_F32) continue;
          Shape w = s;
          w.mask = mask;
          w.mask_dtype = dtype;
          sink.add(make(profile, w));
          w.softcap = 30;  // before the mask
          sink.add(make(profile, w));
          w.softcap = 0;
          w.sinks = true;
          sink.add(make(profile, w));
          w.sinks = false;
          w.window = 17;
          sink.add(make(Profile::full, w));
          w.window = 0;
          w.causal = false;
          sink.add(make(Profile::full, w));
          if (mask != Mask::additive) continue;
          for (const std::int64_t heads : {1, 4, 6, 12}) {  // of ALiBi, powers of two and not
            Shape biased = s;
            biased.mask = mask;
            biased.mask_dtype = dtype;
            biased.heads = heads;
            biased.kv_heads = heads % 2 == 0 ? heads / 2 : 1;
            biased.max_bias = 8;
            sink.add(make(heads == 6 ? profile : Profile::full, biased));
          }
        }
      Shape w = s;
      w.sinks = true;
      sink.add(make(profile, w));
      w.sinks = false;
      w.causal = false;
      sink.add(make(profile, w));
      w.window = 16;
      sink.add(make(profile, w));
      w = s;
      w.lengths = true;
      sink.add(make(profile, w));
      w = s;
      w.scale = -0.5;
      sink.add(make(Profile::full, w));
      w.scale = 16;  // nearly one key a row
      sink.add(make(profile, w));
    }
}

void batches(CaseSink& sink) {
  const PagedBatch many = {{{0, 1}, {1, 1}, {15, 1}, {16, 1}, {17, 1}, {31, 1}, {32, 1}, {100, 1}}, 16};
  std::vector<PagedBatch> all = {many};
  for (const std::int64_t page : {1, 8, 16, 32, 64, 128, 5}) all.push_back({{{37, 1}, {0, 6}, {90, 2}}, page});
  PagedBatch idle = mixed();
  idle.idle_rows = 4;
  all.push_back(idle);
  PagedBatch interleaved = {{{10, 4}, {0, 4}, {33, 4}}, 16};
  interleaved.interleaved = true;
  all.push_back(interleaved);
  interleaved.idle_rows = 1;
  all.push_back(interleaved);
  PagedBatch shared = {{{48, 2}, {50, 1}, {32, 5}}, 16};
  shared.shared_pages = 2;
  all.push_back(shared);
  shared.interleaved = true;
  all.push_back(shared);
  PagedBatch no_keys;  // every row idle
  no_keys.sequences = {{5, 0}};
  no_keys.idle_rows = 3;
  all.push_back(no_keys);
  for (const std::int64_t n : {2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 64, 65, 127, 128, 129}) all.push_back(prefill(n));
  for (const std::int64_t past : {1, 15, 16, 31, 32, 63, 64, 65, 127, 128, 255, 511, 512, 513}) all.push_back(decode(past));
  for (const PagedBatch& batch : all)
    for (const quern_dtype cache : cache_dtypes) {
      Shape s;
      s.k = s.v = cache;
      s.batch = batch;
      sink.add(make(cache == QUERN_F16 ? Profile::quick : Profile::full, s));
      if (cache != QUERN_F16 && cache != QUERN_Q8_0) continue;
      s.q = s.y = QUERN_F16;
      sink.add(make(Profile::full, s));
      s.heads = 9;
      s.kv_heads = 3;
      s.q = s.y = QUERN_F32;
      sink.add(make(Profile::full, s));
    }
  for (const quern_dtype cache : {QUERN_F16, QUERN_Q8_0, QUERN_Q4_0}) {
    for (const std::int64_t past : {1024, 4095, 16383}) {  // long enough for splits of the keys
      Shape s;
      s.k = s.v = cache;
      s.batch = decode(past, 64);
      sink.add(make(Profile::full, s));
      s.data_v = DataKind::positive;
      sink.add(make(Profile::full, s));
      s.window = 1000;
      sink.add(make(Profile::full, s));
    }
    Shape s;
    s.k = s.v = cache;
    for (const PagedBatch& batch :
         {prefill(257), prefill(513), prefill(64, 700, 32), PagedBatch{{{1500, 1}, {3, 1}, {700, 1}, {0, 200}}, 32}}) {
      s.batch = batch;
      sink.add(make(Profile::full, s));
    }
  }
  for (const quern_dtype cache : {QUERN_F16, QUERN_BF16})  // more rows than a tile of 64 or 128, of wide heads
    for (const PagedBatch& batch : {prefill(65), prefill(129), prefill(130, 100, 64), PagedBatch{{{70, 66}, {0, 65}}, 16}}) {
      Shape s;
      s.k = s.v = cache;
      s.d = s.dv = 128;
      s.batch = batch;
      sink.add(make(Profile::quick, s));
      s.window = 20;
      sink.add(make(Profile::full, s));
    }
  // Heads of other sizes; keys that fill stages or not; keys that blocks share, of one sequence and of several.
  const auto many_rows = [&](Profile profile, quern_dtype cache, std::int64_t d, const PagedBatch& batch, std::int64_t window = 0) {
    Shape s;
    s.k = s.v = cache;
    s.d = s.dv = d;
    s.batch = batch;
    s.window = window;
    sink.add(make(profile, s));
  };
  const PagedBatch two{{{70, 66}, {0, 65}}, 16};
  for (const std::int64_t d : {32, 48, 80, 96, 112, 144, 160, 176, 192, 208, 224, 240, 256}) {
    many_rows(d == 96 || d == 192 || d == 256 ? Profile::quick : Profile::full, QUERN_F16, d, two);
    many_rows(Profile::full, QUERN_BF16, d, prefill(66, 5, 64), 20);
  }
  for (const std::int64_t past : {249, 250, 251}) many_rows(Profile::full, QUERN_F16, 64, prefill(70, past, 64));
  many_rows(Profile::quick, QUERN_F16, 64, prefill(66, 1000, 64));
  many_rows(Profile::full, QUERN_F16, 128, prefill(66, 4000, 64));
  many_rows(Profile::full, QUERN_BF16, 128, PagedBatch{{{600, 40}, {1200, 30}, {0, 20}, {513, 1}}, 32});
  many_rows(Profile::full, QUERN_F16, 64, prefill(66, 1000, 64), 300);
}

void model_heads(CaseSink& sink) {
  struct Model {
    const char* name;
    std::int64_t heads, kv_heads, d, window;
  };
  for (const Model& m : {Model{"smollm2", 9, 3, 64, 0},
                         {"tinyllama", 32, 4, 64, 0},
                         {"llama_7b", 32, 32, 128, 0},
                         {"mistral_7b", 32, 8, 128, 64},
                         {"qwen25_3b", 16, 2, 128, 0}})
    for (const quern_dtype cache : {QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0})
      for (const PagedBatch& batch : {decode(100, 32), prefill(20, 0, 32),
                                      PagedBatch{{{5, 1}, {63, 1}, {64, 1}, {130, 1}, {0, 1}, {31, 1}, {32, 1}, {200, 1}}, 32}}) {
        Shape s;
        s.heads = m.heads;
        s.kv_heads = m.kv_heads;
        s.d = s.dv = m.d;
        s.window = m.window;
        s.k = s.v = cache;
        s.batch = batch;
        Case c = make(cache == QUERN_F16 ? Profile::quick : Profile::full, s);
        c.note += std::string(".") + m.name;
        sink.add(std::move(c));
      }
}

void layouts_and_faults(CaseSink& sink) {
  for (const quern_dtype cache : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0}) {
    Shape s;
    s.k = s.v = cache;
    s.batch = mixed();
    for (const Layout& layout : {rows_apart(1), ordered({0, 2, 1, 3}), ordered({1, 0, 2, 3}), shifted()}) {
      Shape w = s;
      w.cache_layout = layout;
      sink.add(make(Profile::quick, w));
    }
    for (const Layout& layout : {rows_apart(3), ordered({1, 0, 2}), shifted()}) {
      Shape w = s;
      w.q_layout = layout;
      sink.add(make(Profile::quick, w));
      w.q_layout = {};
      w.y_layout = layout;
      sink.add(make(Profile::quick, w));
    }
    // Row 1 names a sequence that does not exist, row 3 a position behind the table: zeros, and the others as ever.
    Case c = make(Profile::quick, s);
    std::vector<std::int64_t> slots, positions;
    for (const PagedBatch::Row& r : s.batch.rows()) slots.push_back(r.slot), positions.push_back(r.position);
    slots[1] = 7;
    positions[3] = s.batch.table_width() * s.batch.page + 3;
    c.inputs[in_slot] = given(c.inputs[in_slot], "slot_out_of_range", slots);
    c.inputs[in_position] = given(c.inputs[in_position], "position_out_of_range", positions);
    c.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(c);
    c = make(Profile::quick, s);
    std::vector<std::int64_t> table = s.batch.table();
    table[static_cast<std::size_t>(s.batch.table_width() + 2)] = s.batch.pages();  // page 2 of sequence 1: that row alone is zeros
    c.inputs[in_table] = given(c.inputs[in_table], "page_out_of_range", table);
    c.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(c);
    c = make(Profile::full, s);  // no row at all
    c.inputs[in_q].dims[0] = c.inputs[in_slot].dims[0] = c.inputs[in_position].dims[0] = c.outputs[0].dims[0] = 0;
    c.inputs[in_slot] = given(c.inputs[in_slot], "none", std::vector<std::int64_t>{});
    c.inputs[in_position] = given(c.inputs[in_position], "none", std::vector<std::int64_t>{});
    sink.add(c);
  }
}

/// A NaN or an infinity stays with the rows and heads that see it, whatever tile it shares with others; scores whose exp overflows without the
/// largest, or vanishes without it; keys of zeros, whose blocks have a scale of 0.
void hard_values(CaseSink& sink) {
  PagedBatch decodes{{}, 16};
  for (std::int64_t i = 0; i < 16; ++i) decodes.sequences.push_back({30 + 3 * i, 1});
  for (const quern_dtype cache : cache_dtypes) {
    Shape s;
    s.k = s.v = cache;
    for (const Hard hard : {Hard::nan_q, Hard::nan_k, Hard::nan_v, Hard::infinite_v}) {
      s.hard = hard;
      if (hard == Hard::infinite_v && !is_float(cache)) continue;
      for (const PagedBatch& batch :
           {mixed(), PagedBatch{{{0, 5}, {3, 40}}, 32}}) {  // the second: a prefill that sees it from its middle on
        if (batch.page == 32 && (hard == Hard::nan_v || hard == Hard::infinite_v)) continue;
        s.batch = batch;
        sink.add(make(cache == QUERN_F16 || batch.page == 16 ? Profile::quick : Profile::full, s));
      }
    }
    s.batch = decodes;
    s.hard = Hard::far_k;
    s.data_q = DataKind::positive;  // so that a key of one number is far above gaussian ones
    if (is_float(cache)) sink.add(make(Profile::quick, s));
    s.batch = {{{0, 40}, {20, 17}}, 16};
    if (is_float(cache)) sink.add(make(Profile::quick, s));
    s.hard = Hard::none;
    s.data_k = DataKind::positive;
    for (const double scale : {-8.0, -256.0}) {  // scores near -250, and near -1e4
      s.scale = scale;
      s.batch = mixed();
      sink.add(make(Profile::quick, s));
    }
    s = {};
    s.k = s.v = cache;
    s.hard = Hard::zero_k;
    s.batch = mixed();
    sink.add(make(Profile::quick, s));
  }
}

void generate(CaseSink& sink) {
  dtypes(sink);
  heads_and_sizes(sink);
  rules(sink);
  batches(sink);
  model_heads(sink);
  layouts_and_faults(sink);
  hard_values(sink);
}

}  // namespace

Case attention_case(Profile profile, const AttentionShape& shape) { return make(profile, shape); }

extern const Family attention_family;
const Family attention_family = {"attention", generate};

}  // namespace quern::conformance
