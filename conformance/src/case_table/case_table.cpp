// See case_table.hpp.
#include "case_table/case_table.hpp"

#include "case_table/variants.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace quern::conformance {

#define QUERN_CONFORMANCE_FAMILY(name) extern const Family name##_family;
#include "op_families.def"
#include "case_table/graph_families.def"
#undef QUERN_CONFORMANCE_FAMILY
extern const Family onnx_family;
extern const Family abi_family;  // abi/abi.cpp

namespace {

const char* key_name(std::uint32_t key) {
  switch (key) {
#define QUERN_KEY(id, NAME, name, type) \
  case id: \
    return #name;
#include "quern/keys.def"
#undef QUERN_KEY
    default: throw std::logic_error("a case has an attribute without a key");
  }
}

/// A number without dots, which separate the parts of a name: 0.5 is 0p5.
std::string number_name(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", x);
  for (char& c : text)
    if (c == '.') c = 'p';
  return text;
}

std::string shape_name(const ValueSpec& v) {
  if (v.absent()) return "none";
  if (v.dims.empty()) return "scalar";
  std::string text;
  for (const std::int64_t d : v.dims) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text;
}

std::string layout_name(const ValueSpec& v) {
  if (v.absent()) return "none";
  const std::string place = v.in_place_of >= 0 ? (v.observed ? "after" : "in_place") + std::to_string(v.in_place_of) : v.layout.name();
  return v.kind == QUERN_VALUE_CONSTANT ? place + "_const" : place;
}

std::string fill_name(const ValueSpec& v) { return v.absent() ? "none" : v.fill ? v.fill_name : data_name(v.data); }

/// "f32-q4_0-f32": one word a value. Where all are one word, that word.
template <class F>
std::string joined(const std::vector<const ValueSpec*>& values, const F& word) {
  std::string text, first;
  bool same = true;
  for (const ValueSpec* v : values) {
    const std::string w = word(*v);
    if (text.empty()) first = w;
    same = same && w == first;
    text += (text.empty() ? "" : "-") + w;
  }
  return values.empty() ? "none" : same ? first : text;
}

}  // namespace

const char* profile_name(Profile profile) { return profile == Profile::quick ? "quick" : profile == Profile::full ? "full" : "huge"; }

std::string op_name(std::uint32_t op) {
  switch (op) {
#define QUERN_OP(id, NAME, name, ...) \
  case id: \
    return #name;
#include "quern/ops.def"
#undef QUERN_OP
    default: return "op" + std::to_string(op);
  }
}

std::string case_name(const Case& c) {
  std::vector<const ValueSpec*> values, filled;
  for (const ValueSpec& v : c.inputs) values.push_back(&v), filled.push_back(&v);
  for (const ValueSpec& v : c.outputs) {
    values.push_back(&v);
    if (v.kind == QUERN_VALUE_STATE && v.in_place_of < 0) filled.push_back(&v);
  }
  std::string attributes;
  for (const Attribute& a : c.attributes)
    attributes += (attributes.empty() ? "" : "_") + std::string(key_name(a.key)) + "=" + number_name(a.value);
  std::string name = c.group + "." + op_name(c.op) + "." + joined(values, [](const ValueSpec& v) { return dtype_name(v.dtype); }) + "." +
                     joined(values, shape_name) + "." + (attributes.empty() ? "plain" : attributes) + "." + joined(values, layout_name) +
                     "." + joined(filled, fill_name);
  if (c.ranged.most != 0) name += (c.ranged.on_device ? ".device_ranged" : ".ranged") + std::to_string(c.ranged.most);
  if (c.patched) name += ".patched";
  if (!c.note.empty()) name += "." + c.note;
  return name;
}

int least_level(const Case& c) {
  const auto all = [&](const auto& holds) { return std::ranges::all_of(c.inputs, holds) && std::ranges::all_of(c.outputs, holds); };
  const bool plain_copy = c.op == QUERN_OP_COPY && all([](const ValueSpec& v) {
                            return v.dtype == QUERN_F32 || v.dtype == QUERN_F16 || v.dtype == QUERN_BF16 || v.dtype == QUERN_I32;
                          });
  const bool plain_product = c.op == QUERN_OP_MATMUL && c.inputs.size() == 2 && c.attributes.empty() && all([](const ValueSpec& v) {
                               return (v.dtype == QUERN_F32 || v.dtype == QUERN_F16) && v.dims.size() == 2 && v.layout.packed();
                             });
  return plain_copy || plain_product ? level_basic : level_inference;
}

void CaseSink::add(Case c) {
  if (!c.reference) throw std::logic_error("a case of " + c.group + " has no reference");
  c.name = case_name(c);
  c.level = std::max(c.level, least_level(c));
  keep(std::move(c));
}

void CaseSink::add_script(std::string name, std::string group, Profile profile, int level, std::function<void(ScriptContext&)> script) {
  if (!script) throw std::logic_error("the script of " + name + " is empty");
  if (!name.starts_with(group + ".")) throw std::logic_error("the script " + name + " does not begin with its group, " + group);
  Case c;
  c.name = std::move(name);
  c.group = std::move(group);
  c.profile = profile;
  c.level = level;
  c.script = std::move(script);
  keep(std::move(c));
}

void CaseSink::add_graph(std::string name, Case c) {
  if (c.graph == nullptr) throw std::logic_error("the case " + name + " has no graph");
  c.name = std::move(name);
  keep(std::move(c));
}

void CaseSink::keep(Case c) {
  if (!names_.insert(c.name).second) throw std::logic_error("two cases are named " + c.name);
  c.family = family_;
  cases_.push_back(std::move(c));
}

CaseTable::CaseTable() {
  CaseSink sink;
  const auto take = [&](const Family& family) {
    sink.begin_family(std::string(family.name));
    family.generate(sink);
  };
#define QUERN_CONFORMANCE_FAMILY(name) take(name##_family);
#include "op_families.def"
#include "case_table/graph_families.def"
#undef QUERN_CONFORMANCE_FAMILY
  take(onnx_family);  // behind the others: it has their references
  sink.begin_family("variants");
  add_variants(sink);
  take(abi_family);
  cases_ = sink.take();
  for (const Case& c : cases_) by_name_.emplace(c.name, &c);
}

const Case* CaseTable::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

std::vector<const Case*> CaseTable::of(Profile profile) const {
  std::vector<const Case*> chosen;
  for (const Case& c : cases_)
    if (c.profile == profile || (profile == Profile::full && c.profile == Profile::quick)) chosen.push_back(&c);
  return chosen;
}

}  // namespace quern::conformance
