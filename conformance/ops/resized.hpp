// A case of another family with other shapes: for the families that come behind it and add sizes to its ops.
#pragma once

#include "ops/family.hpp"

#include <stdexcept>

namespace quern::conformance {

/// A family's first case of an op and its dtypes, inputs then outputs.
inline Case like(const CaseSink& sink, std::uint32_t op, const std::vector<quern_dtype>& dtypes) {
  for (const Case& c : sink.cases()) {
    if (c.script || c.graph || c.op != op || c.predicated || c.faults != 0 || c.derive != nullptr) continue;
    std::vector<quern_dtype> has;
    for (const auto* list : {&c.inputs, &c.outputs})
      for (const ValueSpec& v : *list) has.push_back(v.dtype);
    if (has == dtypes) return c;
  }
  throw std::logic_error("no family has a case of " + op_name(op) + " with the dtypes of a large one");
}

/// The same with other shapes, packed; values of one dtype as before, the data of those that have no fill of their own.
inline Case resized(Case c, Profile profile, const std::vector<Dims>& inputs, const Dims& output_dims, DataKind data) {
  c.profile = profile;
  c.note.clear();
  c.level = level_inference;
  c.every_kernel = false;
  c.deadline_seconds = profile == Profile::huge ? 600 : 120;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (c.inputs[i].absent()) continue;
    ValueSpec v = input(c.inputs[i].dtype, inputs[i], data);
    v.kind = c.inputs[i].kind;
    c.inputs[i] = std::move(v);
  }
  c.outputs = {output(c.outputs[0].dtype, output_dims)};
  return c;
}

}  // namespace quern::conformance
