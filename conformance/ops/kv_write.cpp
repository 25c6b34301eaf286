// kv_write: row t of x goes to its page, encoded in the cache's format; every other slot keeps its bits.
//
// Float caches: x rounded to nearest even, bit for bit. Block formats: |x - decode(encode(x))| within encode_bound.hpp where a row was
// written; elsewhere the decoded values are those from before, exactly.
#include "ops/attention_case.hpp"
#include "ops/encode_bound.hpp"
#include "ops/hard_values.hpp"
#include "quern/quern_plan.h"

#include <algorithm>

namespace quern::conformance {
namespace {

/// The index over [pages, kv_heads, page] of head h of row t, or -1: nothing is written.
class Places {
 public:
  explicit Places(const ReferenceCall& call)
      : table_(call.inputs[1]), slot_(call.inputs[2]), position_(call.inputs[3]), cache_(call.states[0]), call_(call) {}

  std::int64_t of(std::int64_t t, std::int64_t h) const {
    const auto position = static_cast<std::int64_t>(position_.at(t)), slot = static_cast<std::int64_t>(slot_.at(t));
    const std::int64_t size = cache_.dim_from_end(1), heads = cache_.dim_from_end(2), index = position / size;
    if (!row_live(call_, t) || position < 0 || slot < 0 || slot >= table_.dims()[0] || index >= table_.dims()[1]) return -1;
    const auto page = static_cast<std::int64_t>(table_.at(slot * table_.dims()[1] + index));
    return page < 0 || page >= cache_.dims()[0] ? -1 : (page * heads + h) * size + position % size;
  }

 private:
  const Tensor &table_, &slot_, &position_, &cache_;
  const ReferenceCall& call_;
};

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &x = call.inputs[0], &cache = call.states[0];
  const std::int64_t d = cache.dim_from_end(0), heads = cache.dim_from_end(2);
  const Places places(call);
  ExpectedOutput& y = expected.outputs[0];
  const bool floats = is_float(cache.dtype());
  y.rule = floats ? Rule::bits : Rule::bounded;
  if (floats) y.bytes.assign(cache.bytes().begin(), cache.bytes().end());
  const Tensor after = floats ? Tensor(cache.dtype(), cache.dims(), y.bytes) : Tensor();
  if (!floats) {
    y.value = cache.values();
    y.bound.assign(y.value.size(), 0.0);
  }
  std::vector<double> row(static_cast<std::size_t>(d)), bounds;
  for (std::int64_t t = 0; t < x.dims()[0]; ++t)
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t at = places.of(t, h);
      if (at < 0) continue;
      x.read((t * heads + h) * d, d, row.data());
      bounds.clear();
      if (!floats) append_encode_bounds(cache.dtype(), row.data(), d, bounds);
      for (std::int64_t i = 0; i < d; ++i) {
        const auto from = static_cast<std::size_t>(i), to = static_cast<std::size_t>(at * d + i);
        if (floats) {
          after.set(at * d + i, row[from]);
        } else {
          y.value[to] = row[from];
          y.bound[to] = bounds[from];
        }
      }
    }
}

using Shape = KvWriteShape;

Case make(Profile profile, const Shape& s) {
  const auto rows = static_cast<std::int64_t>(s.batch.rows().size());
  Case c;
  c.group = "attention";
  c.op = QUERN_OP_KV_WRITE;
  c.profile = profile;
  c.level = level_inference;
  c.inputs = {input(s.x, {rows, s.kv_heads, s.d}, s.data, s.x_layout), s.batch.table_input(), s.batch.slot_input(),
              s.batch.position_input()};
  c.outputs = {state(s.cache, {s.batch.pages(), s.kv_heads, s.batch.page, s.d}, DataKind::gaussian, s.cache_layout)};
  c.note = s.batch.name();
  c.reference = reference;
  return c;
}

void generate(CaseSink& sink) {
  const PagedBatch several = {{{0, 5}, {37, 1}, {15, 3}, {64, 1}}, 16};
  PagedBatch idle = several;
  idle.idle_rows = 3;
  PagedBatch interleaved = several;
  interleaved.interleaved = true;
  for (const quern_dtype cache : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0}) {
    Shape s;
    s.cache = cache;
    for (const quern_dtype x : float_dtypes) {
      s.x = x;
      for (const PagedBatch& batch : {PagedBatch{{{20, 1}}, 16}, PagedBatch{{{0, 33}}, 16}, several, idle, interleaved}) {
        s.batch = batch;
        for (const DataKind data : {DataKind::gaussian, DataKind::exponents}) {
          s.data = data;
          sink.add(make(data == DataKind::exponents ? Profile::quick : Profile::full, s));
        }
      }
      s.batch = idle;
      for (const DataKind data : {DataKind::positive, DataKind::heavy, DataKind::one_hot}) {
        s.data = data;
        sink.add(make(Profile::full, s));
      }
      s.data = DataKind::exponents;
    }
    s.x = QUERN_F32;
    s.batch = several;
    struct Heads {
      std::int64_t kv_heads, d;
    };
    for (const Heads h : {Heads{1, 32}, {3, 64}, {4, 96}, {8, 128}, {2, 256}, {1, 80}, {5, 33}, {32, 128}}) {
      if (h.d % unit_of(cache).elements != 0) continue;
      s.kv_heads = h.kv_heads;
      s.d = h.d;
      sink.add(make(h.kv_heads <= 8 ? Profile::quick : Profile::full, s));
    }
    s.kv_heads = 2;
    s.d = 64;
    for (const std::int64_t page : {1, 8, 32, 64, 128, 5}) {
      s.batch.page = page;
      sink.add(make(page == 32 ? Profile::quick : Profile::full, s));
    }
    s.batch = several;
    for (const Layout& layout : {rows_apart(1), ordered({0, 2, 1, 3}), ordered({1, 0, 2, 3}), shifted()}) {
      s.cache_layout = layout;
      sink.add(make(Profile::quick, s));
    }
    s.cache_layout = {};
    for (const Layout& layout : {rows_apart(3), ordered({1, 0, 2}), shifted()}) {
      s.x_layout = layout;
      sink.add(make(Profile::quick, s));
    }
    s.x_layout = {};
    // Rows of zeros and of subnormals among usual ones: the reciprocal of a block's scale is infinite. Beyond f16: infinity in it.
    Case tiny = make(Profile::quick, s);
    tiny.inputs[0] = filled(std::move(tiny.inputs[0]), "tiny_blocks", fill_tiny_blocks);
    sink.add(std::move(tiny));
    if (is_float(cache)) {
      Case large = make(Profile::quick, s);
      large.inputs[0] = filled(std::move(large.inputs[0]), "beyond_f16", fill_beyond_f16);
      sink.add(std::move(large));
    }

    const Case plain = make(Profile::quick, s);
    const auto rows = static_cast<std::size_t>(plain.inputs[0].dims[0]);
    sink.add(with_predicate(plain, {0}, "dead"));
    sink.add(with_predicate(plain, {1}, "live"));
    std::vector<std::int64_t> live;
    for (std::size_t t = 0; t < rows; ++t) live.push_back(t % 3 != 1);
    sink.add(with_predicate(plain, live, "rows_live"));
    std::vector<std::int64_t> slots, positions;
    for (const PagedBatch::Row& r : s.batch.rows()) slots.push_back(r.slot), positions.push_back(r.position);
    slots[0] = 4;  // no such sequence
    slots[2] = -3;
    positions[5] = s.batch.table_width() * s.batch.page;  // behind the table
    Case faulty = plain;
    faulty.inputs[2] = given(plain.inputs[2], "slot_out_of_range", slots);
    faulty.inputs[3] = given(plain.inputs[3], "position_out_of_range", positions);
    faulty.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(faulty);
    faulty = plain;
    std::vector<std::int64_t> table = s.batch.table();
    table[0] = s.batch.pages();
    table[static_cast<std::size_t>(s.batch.table_width()) + 2] = -1;
    faulty.inputs[1] = given(plain.inputs[1], "page_out_of_range", table);
    faulty.faults = QUERN_FAULT_INDEX_RANGE;
    sink.add(faulty);
    Case none = plain;
    none.profile = Profile::full;
    for (const std::size_t i : {0u, 2u, 3u}) none.inputs[i].dims[0] = 0;
    none.inputs[2] = given(none.inputs[2], "none", std::vector<std::int64_t>{});
    none.inputs[3] = given(none.inputs[3], "none", std::vector<std::int64_t>{});
    sink.add(none);
  }
}

}  // namespace

Case kv_write_case(Profile profile, const KvWriteShape& shape) { return make(profile, shape); }

extern const Family kv_write_family;
const Family kv_write_family = {"kv_write", generate};

}  // namespace quern::conformance
