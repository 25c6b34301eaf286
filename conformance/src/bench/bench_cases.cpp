// See bench_cases.hpp.
#include "bench/bench_cases.hpp"

#include "bench/work.hpp"
#include "ops/family.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace quern::conformance {
namespace {

Reference reference_of(const CaseTable& table, std::uint32_t op) {
  for (const Case& c : table.all())
    if (!c.script && !c.graph && c.op == op && c.group != "onnx") return c.reference;
  throw std::logic_error("no family has " + op_name(op));
}

Case named(Case c) {
  c.group = "peak";
  c.name = case_name(c);
  return c;
}

std::vector<PeakCase> make_peaks(const CaseTable& table) {
  std::vector<PeakCase> list;
  Case copy;
  copy.op = QUERN_OP_COPY;
  copy.reference = reference_of(table, QUERN_OP_COPY);
  for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{1} << 24, std::int64_t{1} << 26, std::int64_t{1} << 28}) {
    copy.inputs = {input(QUERN_F32, {elements}, DataKind::exponents)};
    copy.outputs = {output(QUERN_F32, {elements})};
    list.push_back({elements == 1 ? Peak::latency : Peak::bandwidth, named(copy)});
  }
  Case product;
  product.op = QUERN_OP_MATMUL;
  product.reference = reference_of(table, QUERN_OP_MATMUL);
  constexpr std::uint32_t floats = QUERN_CONVERT_F16 | QUERN_CONVERT_BF16;
  struct Kind {
    Peak peak;
    quern_dtype weights;
    std::uint32_t conversions;
  };
  const Kind kinds[] = {
      {Peak::f32, QUERN_F32, 0}, {Peak::narrow, QUERN_F16, floats}, {Peak::quantised, QUERN_Q4_0, floats | QUERN_CONVERT_INT8}};
  for (const Kind& kind : kinds)
    for (const std::int64_t n : {512, 1024, 2048, 4096, 8192}) {
      product.inputs = {input(QUERN_F32, {n, n}, DataKind::uniform), constant(kind.weights, {n, n}, DataKind::uniform)};
      product.outputs = {output(QUERN_F32, {n, n})};
      product.fast_conversions = kind.conversions;
      list.push_back({kind.peak, named(product)});
    }
  return list;
}

std::string dtypes_of(const Case& c) {
  std::string text = op_name(c.op);
  for (const auto* list : {&c.inputs, &c.outputs})
    for (const ValueSpec& v : *list) text += " " + dtype_name(v.dtype);
  return text;
}

}  // namespace

const char* peak_name(Peak peak) {
  switch (peak) {
    case Peak::latency: return "copy of one element";
    case Peak::bandwidth: return "copy";
    case Peak::f32: return "f32 products";
    case Peak::narrow: return "f16 products";
    case Peak::quantised: return "q4_0 products";
  }
  throw std::logic_error("a peak without a name");
}

const std::vector<PeakCase>& peak_cases(const CaseTable& table) {
  static const std::vector<PeakCase> list = make_peaks(table);
  return list;
}

const Case* find_bench_case(const CaseTable& table, const std::string& name) {
  if (!name.starts_with("peak.")) return table.find(name);
  for (const PeakCase& p : peak_cases(table))
    if (p.what.name == name) return &p.what;
  return nullptr;
}

Peak peak_of(const Case& c, bool fast) {
  for (const ValueSpec& v : c.inputs)
    if (!v.absent() && format_of(v.dtype) != nullptr) return Peak::quantised;
  const bool narrow = std::ranges::any_of(c.inputs, [](const ValueSpec& v) { return v.dtype == QUERN_F16 || v.dtype == QUERN_BF16; });
  return narrow || fast ? Peak::narrow : Peak::f32;
}

std::vector<const Case*> timed_cases(const std::vector<const Case*>& cases, bool largest_only) {
  std::vector<const Case*> timed;
  std::map<std::string, const Case*> largest;
  const auto size = [](const Case* c) {
    const Work work = work_of(*c);
    return work.bytes + work.flops;
  };
  for (const Case* c : cases) {
    const bool elements = std::ranges::any_of(c->outputs, [](const ValueSpec& v) { return !v.absent() && element_count(v.dims) > 0; });
    if (c->script || c->faults != 0 || !elements) continue;
    timed.push_back(c);
    const Case*& best = largest[dtypes_of(*c)];
    if (best == nullptr || size(c) > size(best)) best = c;
  }
  if (largest_only) std::erase_if(timed, [&](const Case* c) { return largest[dtypes_of(*c)] != c; });
  return timed;
}

}  // namespace quern::conformance
