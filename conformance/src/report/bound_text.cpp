// See bound_text.hpp.
#include "report/bound_text.hpp"

#include "judge/judge.hpp"
#include "worker/arena.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace quern::conformance {
namespace {

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

constexpr std::size_t shown_elements = 4;

/// One element: value, parts, sum.
std::string element_text(const ExpectedOutput& e, quern_dtype dtype, std::size_t i) {
  const double r = e.value[i], store = store_bound(dtype, r);
  std::string text = "  element " + std::to_string(e.index.empty() ? static_cast<std::int64_t>(i) : e.index[i]) + ": expected " + number(r);
  if (e.rule == Rule::value) {
    text += " exactly";
  } else {
    text += ", exact " + number(e.bound[i] + store) + " = E_acc " + number(e.bound[i]) + " + E_out " + number(store);
  }
  if (!e.deviation.empty()) {
    const std::vector<double>& fast = e.accumulation(Numerics::fast);
    const double accumulation = fast.empty() ? 0 : fast[i];
    text += "; fast " + number(accumulation + store + 8 * e.deviation[i]) + " = E_acc " + number(accumulation) + " + E_out " +
            number(store) + " + E_in 8 x " + number(e.deviation[i]);
  }
  if (!e.scale.empty()) text += "; S " + number(e.scale[i]);
  return text + "\n";
}

/// The elements to show: the first ones, and those whose E_acc is the smallest and the largest share of the value.
std::vector<std::size_t> shown(const ExpectedOutput& e) {
  std::vector<std::size_t> list;
  for (std::size_t i = 0; i < std::min(shown_elements, e.value.size()); ++i) list.push_back(i);
  if (e.rule != Rule::bounded || e.value.size() <= shown_elements) return list;
  const auto share = [&](std::size_t i) { return std::isfinite(e.value[i]) && e.value[i] != 0 ? e.bound[i] / std::fabs(e.value[i]) : NAN; };
  std::size_t tight = e.value.size(), wide = e.value.size();
  for (std::size_t i = 0; i < e.value.size(); ++i) {
    if (std::isnan(share(i))) continue;
    if (tight == e.value.size() || share(i) < share(tight)) tight = i;
    if (wide == e.value.size() || share(i) > share(wide)) wide = i;
  }
  for (const std::size_t i : {tight, wide})
    if (i < e.value.size() && std::ranges::find(list, i) == list.end()) list.push_back(i);
  return list;
}

std::string output_text(const ExpectedOutput& e, quern_dtype dtype) {
  switch (e.rule) {
    case Rule::unset: return "the reference expects nothing: " + e.problem + "\n";
    case Rule::bits: return "these bits and no others\n";
    case Rule::value: break;
    case Rule::bounded: break;
  }
  std::string text = e.rule == Rule::value ? "the f64 value, rounded to f32 and then to " + dtype_name(dtype) + "\n"
                                           : "within the bound of each element\n";
  if (!e.scale.empty())
    text += "  a sum of K = " + number(e.length) + " terms: T1 allows " + number(accumulation_bound(Tier::t1, e.length, 1)) + " S, T2 " +
            number(accumulation_bound(Tier::t2, e.length, 1)) + " S\n";
  for (const std::size_t i : shown(e)) text += element_text(e, dtype, i);
  return text;
}

std::string source_of(const Case& c) {
  if (c.family == "variants")
    return "conformance/ops, the file of " + c.group + "; the variant itself is in conformance/src/case_table/variants.def";
  return "conformance/ops/" + c.family + ".cpp, or its _reference.cpp";
}

}  // namespace

std::string bound_text(const Case& c, std::uint64_t seed) {
  const std::string head = c.name + (seed == 0 ? "" : ", seed " + std::to_string(seed)) + "\n";
  if (c.script)
    return head + "a script: its claims hold or do not; no claim has a bound but those that name one (conformance/abi, conformance/ops)\n";
  if (c.graph)
    return head +
           "a whole graph: each value has the bound of its op's cases where the inputs of its node are seen, else their errors are carried along "
           "(conformance/graphs/reference/node_reference.hpp)\n";
  std::vector<std::byte> arena(input_bytes(c));
  const CaseData data = map_data(c, arena);
  fill_data(c, data, seed);
  Expected expected;
  expected.outputs.resize(c.outputs.size());
  c.reference({c, data.inputs, data.states}, expected);
  std::string text = head;
  for (std::size_t o = 0; o < c.outputs.size(); ++o)
    if (!c.outputs[o].absent())
      text += "output " + std::to_string(o) + " (" + dtype_name(c.outputs[o].dtype) +
              "): " + output_text(expected.outputs[o], c.outputs[o].dtype);
  return text +
         "derivation: |y - r| <= E_acc + E_out, in fast numerics + E_in (README.md of the suite, Tolerances)\n"
         "  E_out  the rounding of the store: u of the output's dtype times |r| (1 + 2^-4), and half its smallest subnormal\n"
         "  E_acc  the arithmetic: of a sum T1 (2 sqrt K + 8) u S or T2 (K/8 + 2 sqrt K + 16) u S, else what stands beside the reference\n"
         "  E_in   8 deviations of the conversions of inputs that the node allows\n"
         "  the reference and its own bound: " +
         source_of(c) + "\n";
}

}  // namespace quern::conformance
