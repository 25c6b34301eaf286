// See dense_attention.hpp.
#include "ops/dense_attention.hpp"

#include <algorithm>
#include <limits>
#include <memory>

namespace quern::conformance {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool in_range(const DenseShape& s, std::int64_t query, std::int64_t key) {
  const std::int64_t at = query + s.offset;
  return (!s.causal || key <= at) && (s.window == 0 || key > at - s.window);
}

/// Entry of a mask: key 3 of every 7 is hidden from all, and so is every key from query 1 where there are three.
double mask_entry(const DenseShape& s, std::int64_t row, std::int64_t query, std::int64_t key) {
  const CounterRandom random = CounterRandom::of("dense attention mask").stream(static_cast<std::uint64_t>(row));
  const auto at = static_cast<std::uint64_t>(key);
  const bool hidden = key % 7 == 3 || (query == 1 && s.queries > 2) || random.below(at, 3) == 0;
  if (s.mask == DenseMask::boolean) return hidden ? 0.0 : 1.0 + static_cast<double>(random.below(at, 200));
  const double least = s.mask == DenseMask::additive ? -infinity : s.mask_dtype == QUERN_F16 ? -65504.0 : -1e30;
  return hidden ? least : random.stream(1).gaussian(at);
}

bool hides_for_all(const DenseShape& s, std::int64_t key) {
  bool seen = false;
  for (std::int64_t t = 0; t < s.queries; ++t) seen = seen || in_range(s, t, key);
  const bool hidden = (s.mask == DenseMask::additive || s.mask == DenseMask::boolean) && key % 7 == 3;
  return s.queries > 0 && (!seen || hidden);
}

ValueSpec keys_input(const std::shared_ptr<const DenseShape>& s, std::int64_t size, bool values) {
  return filled(input(s->dtype, {s->batch, s->keys, s->kv_heads, size}, s->data, s->layout),
                std::string(data_name(s->data)) + "_unseen_nan", [s, values](const Tensor& x, const CounterRandom& random) {
                  fill(x, s->data, random);
                  const std::int64_t row = x.dim_from_end(0) * x.dim_from_end(1);
                  for (std::int64_t i = 0; i < x.count(); ++i) {
                    const std::int64_t key = i / row % s->keys;
                    if (hides_for_all(*s, key)) x.set(i, i % 3 == 1 ? infinity : std::numeric_limits<double>::quiet_NaN());
                    else if (values && s->data == DataKind::gaussian && !in_range(*s, 0, key))
                      x.set(i, x.at(i) + 1000.0);  // hidden from some
                  }
                });
}

Dims mask_dims(const DenseShape& s) {
  if (s.mask_rank == 1) return {1, s.keys};
  if (s.mask_rank == 3) return {s.heads, s.queries, s.keys};
  if (s.mask_rank == 4) return {s.batch, 1, s.queries, s.keys};
  return {s.queries, s.keys};
}
const char* mask_name(DenseMask mask) {
  return mask == DenseMask::additive ? "strewn_inf" : mask == DenseMask::floor ? "strewn_least" : "strewn_hidden";
}

}  // namespace

void add_dense_inputs(Case& c, const DenseShape& shape) {
  const auto s = std::make_shared<const DenseShape>(shape);
  c.inputs = {input(s->dtype, {s->batch, s->queries, s->heads, s->d}, s->data, s->layout), keys_input(s, s->d, false),
              keys_input(s, s->dv, true)};
}

void add_mask_and_sinks(Case& c, const DenseShape& shape) {
  const auto s = std::make_shared<const DenseShape>(shape);
  if (s->mask != DenseMask::none) {
    const quern_dtype dtype = s->mask == DenseMask::boolean ? QUERN_U8 : s->mask_dtype;
    c.inputs.push_back(filled(input(dtype, mask_dims(*s)), mask_name(s->mask), [s](const Tensor& mask, const CounterRandom&) {
      for (std::int64_t i = 0; i < mask.count(); ++i) mask.set(i, mask_entry(*s, i / s->keys, i / s->keys % s->queries, i % s->keys));
    }));
  } else if (s->sinks) {
    c.inputs.push_back(absent());
  }
  if (s->sinks) c.inputs.push_back(input(QUERN_F32, {s->heads}));
}

void add_dense_attributes(Case& c, const DenseShape& s) {
  const double scale = s.scale != 0 ? s.scale : std::exp2(-std::round(std::log2(static_cast<double>(s.d)) / 2));
  c.attributes = {{QUERN_KEY_SCALE, scale}};
  if (!s.causal) c.attributes.push_back({QUERN_KEY_CAUSAL, 0});
  if (s.offset != 0) c.attributes.push_back({QUERN_KEY_QUERY_OFFSET, static_cast<double>(s.offset)});
  if (s.window != 0) c.attributes.push_back({QUERN_KEY_WINDOW, static_cast<double>(s.window)});
  if (s.softcap != 0) c.attributes.push_back({QUERN_KEY_SOFTCAP, s.softcap});
  if (s.max_bias != 0) c.attributes.push_back({QUERN_KEY_MAX_BIAS, s.max_bias});
}

void each_dense_shape(const std::function<void(Profile, const DenseShape&)>& add) {
  struct Heads {
    std::int64_t heads, kv_heads;
  };
  struct Sizes {
    std::int64_t d, dv;
  };
  for (const quern_dtype dtype : float_dtypes) {
    DenseShape base;
    base.dtype = dtype;
    for (const std::int64_t n : {1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129}) {  // beside the tiles
      DenseShape s = base;
      s.queries = s.keys = n;
      s.batch = n < 20 ? 2 : 1;
      add(n < 64 || dtype == QUERN_F32 ? Profile::quick : Profile::full, s);
      s.causal = false;
      add(Profile::full, s);
      s.keys = n + 9;
      s.offset = 9;
      s.causal = true;
      add(n < 64 ? Profile::quick : Profile::full, s);
    }
    for (const Heads h : {Heads{1, 1}, {3, 1}, {9, 3}, {4, 4}, {8, 1}, {7, 1}, {16, 2}}) {
      DenseShape s = base;
      s.heads = h.heads;
      s.kv_heads = h.kv_heads;
      s.queries = s.keys = 18;
      add(Profile::quick, s);
      s.batch = 3;
      s.causal = false;
      add(Profile::full, s);
    }
    for (const Sizes z : {Sizes{1, 1},
                          {8, 24},
                          {33, 33},
                          {40, 40},
                          {64, 64},
                          {80, 80},
                          {96, 96},
                          {112, 112},
                          {128, 128},
                          {192, 128},
                          {256, 256},
                          {128, 64}}) {
      DenseShape s = base;
      s.d = z.d;
      s.dv = z.dv;
      s.queries = s.keys = 11;
      add(Profile::quick, s);
      s.queries = s.keys = 70;
      add(Profile::full, s);
    }
    DenseShape s = base;
    s.queries = 20;
    s.keys = 29;
    s.offset = 9;
    for (const std::int64_t window : {1, 2, 7, 16, 64}) {
      DenseShape w = s;
      w.window = window;
      add(Profile::quick, w);
      w.causal = false;
      add(Profile::full, w);
      w.causal = true;
      w.softcap = 30;
      w.sinks = true;
      add(Profile::full, w);
      w = s;
      w.queries = w.keys = 140;  // tiles that the window leaves out as a whole
      w.offset = 0;
      w.window = window;
      add(Profile::full, w);
    }
    DenseShape outside = s;  // windows that end before the first key: rows that see nothing
    outside.causal = false;
    outside.window = 4;
    outside.offset = 40;
    add(Profile::quick, outside);
    for (const double softcap : {0.5, 30.0, 50.0}) {
      DenseShape w = s;
      w.softcap = softcap;
      w.scale = 1;
      add(Profile::quick, w);
    }
    for (const DenseMask mask : {DenseMask::additive, DenseMask::floor, DenseMask::boolean})
      for (const int rank : {1, 2, 3, 4})
        for (const quern_dtype mask_dtype : {QUERN_F32, QUERN_F16, QUERN_BF16}) {
          if (mask == DenseMask::boolean && mask_dtype != QUERN_F32) continue;
          DenseShape w = s;
          w.batch = 2;
          w.mask = mask;
          w.mask_rank = rank;
          w.mask_dtype = mask_dtype;
          add(mask_dtype == QUERN_F32 ? Profile::quick : Profile::full, w);
          w.causal = false;
          add(Profile::full, w);
          w.sinks = true;
          w.softcap = 30;
          add(Profile::full, w);
          if (mask != DenseMask::additive || mask_dtype == QUERN_BF16) continue;
          for (const std::int64_t heads : {4, 6, 12}) {
            DenseShape biased = w;
            biased.sinks = false;
            biased.heads = heads;
            biased.max_bias = 8;
            add(heads == 6 && rank == 2 ? Profile::quick : Profile::full, biased);
          }
        }
    DenseShape w = s;
    w.sinks = true;
    add(Profile::quick, w);
    w.scale = -0.5;
    add(Profile::full, w);
  }
}

void refuse_unseen(const Expected& expected, const char* op) {
  for (const ExpectedOutput& output : expected.outputs)
    for (const double r : output.value)
      if (std::isnan(r)) throw UnseenRead(std::string("the reference of ") + op + " read a key that no query sees");
}

DenseAttention::DenseAttention(const ReferenceCall& call, std::size_t mask, std::size_t sinks)
    : call_(call), mask_(mask), sinks_(sinks), q_(call.inputs[0].values()), k_(call.inputs[1].values()), v_(call.inputs[2].values()) {
  const Tensor &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2];
  batch_ = q.dim_from_end(3);
  queries_ = q.dim_from_end(2);
  heads_ = q.dim_from_end(1);
  d_ = q.dim_from_end(0);
  keys_ = k.dim_from_end(2);
  kv_heads_ = k.dim_from_end(1);
  dv_ = v.dim_from_end(0);
}

DenseAttention::DenseAttention(const ReferenceCall& call, std::size_t start)
    : DenseAttention(call, call.inputs.size(), call.inputs.size()) {
  examples_.resize(static_cast<std::size_t>(queries_), {0, 0});
  std::vector<std::int64_t> starts;
  for (const double x : call.inputs[start].values()) starts.push_back(static_cast<std::int64_t>(x));
  if (starts.empty() || starts.front() != 0 || starts.back() > queries_ || !std::ranges::is_sorted(starts)) return;
  for (std::size_t e = 0; e + 1 < starts.size(); ++e)
    for (std::int64_t row = starts[e]; row < starts[e + 1]; ++row) examples_[static_cast<std::size_t>(row)] = {starts[e], starts[e + 1]};
}

std::optional<double> DenseAttention::sink(std::int64_t head) const {
  if (call_.inputs.size() <= sinks_ || call_.inputs[sinks_].absent()) return std::nullopt;
  return call_.inputs[sinks_].at(head);
}

std::optional<double> DenseAttention::mask_at(std::int64_t batch, std::int64_t query, std::int64_t head, std::int64_t key) const {
  if (call_.inputs.size() <= mask_ || call_.inputs[mask_].absent()) return 0.0;
  const Tensor& mask = call_.inputs[mask_];
  const std::int64_t place[] = {key, query, head, batch};
  std::int64_t at = 0, step = 1;
  for (std::size_t d = 0; d < std::size(place); ++d) {  // a dimension of 1 stands for all
    if (mask.dim_from_end(d) != 1) at += place[d] * step;
    step *= mask.dim_from_end(d);
  }
  const double m = mask.at(at);
  if (mask.dtype() == QUERN_U8) return m == 0.0 ? std::nullopt : std::optional<double>(0.0);
  if (m == -infinity) return std::nullopt;
  return m;
}

void DenseAttention::fill_row(AttentionRow& row, std::int64_t batch, std::int64_t query, std::int64_t head) const {
  row.clear();
  const std::int64_t at = query + static_cast<std::int64_t>(call_.attribute(QUERN_KEY_QUERY_OFFSET, 0)),
                     window = static_cast<std::int64_t>(call_.attribute(QUERN_KEY_WINDOW, 0));
  const double slope = alibi_slope(call_.attribute(QUERN_KEY_MAX_BIAS, 0), head, heads_);
  const Example seen = examples_.empty() ? Example{0, keys_} : examples_[static_cast<std::size_t>(query)];
  const std::int64_t end = call_.attribute(QUERN_KEY_CAUSAL, 1) != 0 ? std::min(at + 1, seen.end) : seen.end;
  for (std::int64_t j = window > 0 ? std::max(seen.first, at - window + 1) : seen.first; j < end; ++j)
    if (const std::optional<double> m = mask_at(batch, query, head, j))
      row.add(j, this->query(batch, query, head), key(batch, j, head), d_, *m, slope);
}

}  // namespace quern::conformance
