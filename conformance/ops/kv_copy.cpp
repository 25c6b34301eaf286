// kv_copy: whole pages within a cache; bit for bit, and what is no target keeps its bits.
#include "ops/given.hpp"
#include "quern/quern_plan.h"

#include <algorithm>

namespace quern::conformance {
namespace {

void reference(const ReferenceCall& call, Expected& expected) {
  const Tensor &cache = call.inputs[0], &from = call.inputs[1], &to = call.inputs[2];
  const auto before = cache.bytes();
  ExpectedOutput& y = expected.outputs[0];
  y.rule = Rule::bits;
  y.bytes.assign(before.begin(), before.end());
  const std::int64_t pages = cache.dims()[0];
  const auto bytes = static_cast<std::int64_t>(before.size()) / pages;
  for (std::int64_t i = 0; i < from.count(); ++i) {
    const auto source = static_cast<std::int64_t>(from.at(i)), target = static_cast<std::int64_t>(to.at(i));
    if (!row_live(call, 0) || source < 0 || source >= pages || target < 0 || target >= pages) continue;
    std::copy_n(before.begin() + source * bytes, bytes, y.bytes.begin() + target * bytes);
  }
}

Case make(Profile profile, ValueSpec cache, std::string name, const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to) {
  const Dims list = {static_cast<std::int64_t>(from.size())};
  Case c;
  c.group = "attention";
  c.op = QUERN_OP_KV_COPY;
  c.profile = profile;
  c.level = level_inference;
  c.outputs = {in_place(cache, 0)};
  c.inputs = {std::move(cache), given(input(QUERN_I32, list), name, from), given(input(QUERN_I32, list), name, to)};
  c.reference = reference;
  return c;
}

void generate(CaseSink& sink) {
  for (const quern_dtype dtype : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_Q8_0, QUERN_Q4_0}) {
    const DataKind data = is_float(dtype) ? DataKind::specials : DataKind::gaussian;  // NaN payloads go as they are
    for (const Dims& dims : {Dims{9, 2, 16, 64}, Dims{9, 3, 32, 128}, Dims{9, 1, 1, 32}, Dims{9, 4, 64, 96}}) {
      sink.add(make(Profile::quick, input(dtype, dims, data), "one", {2}, {7}));
      sink.add(make(Profile::quick, input(dtype, dims, data), "several", {0, 8, 2, 2}, {5, 1, 7, 3}));
      sink.add(make(Profile::full, input(dtype, dims, data), "none", {}, {}));
      for (const std::int64_t live : {0, 1})
        sink.add(with_predicate(make(Profile::quick, input(dtype, dims, data), "one", {2}, {7}), {live}, live == 0 ? "dead" : "live"));
      Case faulty = make(Profile::quick, input(dtype, dims, data), "out_of_range", {0, 9, 2, -1, 8}, {5, 1, 1000000, 3, 6});
      faulty.faults = QUERN_FAULT_INDEX_RANGE;
      sink.add(faulty);
    }
    const Dims dims = {9, 2, 16, 64};
    for (const Layout& layout : {rows_apart(1), ordered({0, 2, 1, 3}), ordered({1, 0, 2, 3}), shifted()})
      sink.add(make(Profile::quick, input(dtype, dims, data, layout), "several", {0, 8, 2, 2}, {5, 1, 7, 3}));
    sink.add(make(Profile::full, input(dtype, {70, 8, 32, 128}, data), "many", {0, 1, 2, 3, 4, 5, 6, 7, 69},
                  {60, 61, 62, 63, 64, 65, 66, 67, 10}));
    sink.add(make(dtype == QUERN_F16 ? Profile::quick : Profile::full, input(dtype, {4200, 1, 4, 32}, data), "far_apart",
                  {1, 4199, 1023, 0, 4096}, {4198, 1024, 1025, 4097, 2}));
  }
}

}  // namespace

extern const Family kv_copy_family;
const Family kv_copy_family = {"kv_copy", generate};

}  // namespace quern::conformance
