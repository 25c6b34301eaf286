// See variants.hpp.
#include "case_table/variants.hpp"

#include "ops/given.hpp"

#include <algorithm>
#include <map>

namespace quern::conformance {
namespace {

struct RowOp {
  std::uint32_t op;
  std::uint32_t inputs, outputs;
  bool row_predicate;
};
constexpr RowOp row_ops[] = {
#define QUERN_ROW_OP(OP, inputs, outputs, row_predicate) {QUERN_OP_##OP, inputs, outputs, row_predicate},
#include "case_table/variants.def"
#undef QUERN_ROW_OP
};

constexpr int bases = 2;                          // of an op and a combination of dtypes
constexpr std::int64_t most_elements = 1 << 16;   // of a value: variants are about the frame, not about the arithmetic
constexpr std::uint64_t most_patched = 64 << 10;  // bytes that every plugin takes in one run

bool has(std::uint32_t mask, std::size_t i) { return (mask >> i & 1u) != 0; }

/// A plain quick case whose values with rows are packed and have the same two rows or more.
bool is_base(const Case& c, const RowOp& row) {
  if (c.script || c.op != row.op || c.profile != Profile::quick || c.faults != 0 || c.ranged.most != 0 || c.predicated ||
      c.derive != nullptr || c.patched)
    return false;
  if (c.inputs.empty() || c.inputs[0].absent() || c.inputs[0].dims.size() < 2 || c.inputs[0].dims[0] < 2) return false;
  const auto sound = [&](const ValueSpec& v, bool with_rows) {
    if (v.absent()) return !with_rows;
    if (v.in_place_of >= 0 || !v.layout.packed() || v.layout.shifted || v.kind == QUERN_VALUE_STATE ||
        element_count(v.dims) > most_elements || v.fill)
      return false;
    return !with_rows || (v.dims.size() == c.inputs[0].dims.size() && v.dims[0] == c.inputs[0].dims[0]);
  };
  if (c.op == QUERN_OP_MATMUL && (c.inputs[0].dims.size() != 2 || c.inputs.size() > 2 || !c.attributes.empty())) return false;
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    if (!sound(c.inputs[i], has(row.inputs, i))) return false;
  for (std::size_t o = 0; o < c.outputs.size(); ++o)
    if (!sound(c.outputs[o], has(row.outputs, o))) return false;
  return true;
}

void add_ranged(CaseSink& sink, Case c, const RowOp& row) {
  c.ranged = {c.inputs[0].dims[0] + 7, row.inputs & ((1u << c.inputs.size()) - 1), row.outputs, false};
  sink.add(c);
  c.ranged.on_device = true;
  sink.add(std::move(c));
}

/// The reference of the case without its predicate; what is not live stays as it was.
Reference under_predicate(Reference reference) {
  return [reference = std::move(reference)](const ReferenceCall& call, Expected& expected) {
    const std::vector<Tensor> operands(call.inputs.begin(), call.inputs.end() - 1);
    const std::vector<double> live = call.inputs.back().values();
    reference({call.what, operands, call.states}, expected);
    for (std::size_t o = 0; o < expected.outputs.size(); ++o) {
      if (call.states[o].absent()) continue;
      for (std::size_t r = 0; r < live.size(); ++r)
        if (live[r] == 0) expected.outputs[o].keep(call.states[o], r, live.size());
    }
  };
}

void add_predicated(CaseSink& sink, const Case& base, const RowOp& row) {
  const auto under = [&](const std::vector<std::int64_t>& live, const std::string& name) {
    Case c = with_predicate(base, live, name);
    for (ValueSpec& v : c.outputs)
      if (!v.absent()) v.kind = QUERN_VALUE_STATE;
    c.reference = under_predicate(base.reference);
    sink.add(std::move(c));
  };
  under({1}, "live");
  under({0}, "dead");
  if (!row.row_predicate) return;
  std::vector<std::int64_t> live;
  for (std::int64_t r = 0; r < base.inputs[0].dims[0]; ++r) live.push_back(r % 3 == 1 ? 0 : 1 + r);
  under(live, "live_rows");
}

void add_patched(CaseSink& sink, Case c) {
  std::uint64_t bytes = 0;
  for (const ValueSpec& v : c.inputs) bytes += v.absent() || v.kind != QUERN_VALUE_INPUT ? 0 : packed_bytes(v.dtype, v.dims);
  if (bytes == 0 || bytes > most_patched) return;
  c.patched = true;
  sink.add(std::move(c));
}

}  // namespace

void add_variants(CaseSink& sink) {
  struct Base {
    Case what;  // a copy, since the sink's move when it gets more
    const RowOp* row;
  };
  std::vector<Base> chosen;
  for (const RowOp& row : row_ops) {
    std::map<std::vector<quern_dtype>, int> taken;
    for (const Case& c : sink.cases()) {
      if (!is_base(c, row)) continue;
      std::vector<quern_dtype> dtypes;
      for (const auto* list : {&c.inputs, &c.outputs})
        for (const ValueSpec& v : *list) dtypes.push_back(v.dtype);
      if (taken[dtypes]++ < bases) chosen.push_back({c, &row});
    }
  }
  for (const Base& base : chosen) {
    add_ranged(sink, base.what, *base.row);
    add_predicated(sink, base.what, *base.row);
    add_patched(sink, base.what);
  }
}

}  // namespace quern::conformance
