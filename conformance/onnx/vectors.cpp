// See vectors.hpp.
#include "onnx/vectors.hpp"

#include "case_table/case_table.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace quern::conformance::onnx {
namespace {

class Reader {
 public:
  Reader(std::string_view text, std::span<const std::byte> data) : text_(text), data_(data) {}

  std::vector<Vector> read() {
    while (next_line()) {
      const std::string_view kind = word();
      if (kind == "onnx") continue;
      if (kind == "case") {
        read_.emplace_back();
        vector().name = word();
        vector().rtol = number(word());
        vector().atol = number(word());
      } else if (kind == "node") {
        node();
      } else {
        value(kind);
      }
    }
    return std::move(read_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::logic_error("onnx/vectors.txt, line " + std::to_string(number_) + ": " + what);
  }
  bool next_line() {
    if (text_.empty()) return false;
    const std::size_t end = text_.find('\n');
    line_ = text_.substr(0, end);
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
    ++number_;
    return true;
  }
  std::string_view word() {
    const std::size_t end = line_.find(' ');
    const std::string_view found = line_.substr(0, end);
    line_.remove_prefix(end == std::string_view::npos ? line_.size() : end + 1);
    if (found.empty()) fail("a word is missing");
    return found;
  }
  Vector& vector() {
    if (read_.empty()) fail("no case is open");
    return read_.back();
  }
  template <class T>
  T parse(std::string_view w) const {
    T x{};
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), x);
    if (error != std::errc() || end != w.data() + w.size()) fail("'" + std::string(w) + "' is no number");
    return x;
  }
  double number(std::string_view w) const { return parse<double>(w); }

  quern_dtype dtype(std::string_view w) const {
    for (const quern_dtype d : {QUERN_F32, QUERN_F16, QUERN_BF16, QUERN_I32})
      if (dtype_name(d) == w) return d;
    fail("'" + std::string(w) + "' is no dtype");
  }
  Dims dims(std::string_view w) const {
    Dims d;
    while (w != "scalar" && !w.empty()) {
      const std::size_t end = w.find('x');
      d.push_back(parse<std::int64_t>(w.substr(0, end)));
      w.remove_prefix(end == std::string_view::npos ? w.size() : end + 1);
    }
    return d;
  }
  std::span<const std::byte> bytes(const Value& v, std::string_view w) const {
    if (w == "-") return {};
    const auto at = parse<std::uint64_t>(w), size = packed_bytes(v.dtype, v.dims);
    if (at > data_.size() || size > data_.size() - at)
      fail(std::to_string(size) + " bytes at " + std::to_string(at) + ", of " + std::to_string(data_.size()));
    return data_.subspan(at, size);
  }

  void value(std::string_view kind) {
    Value v;
    if (parse<std::size_t>(word()) != vector().values.size()) fail("values are numbered in order");
    if (kind == "view") {
      v.role = Value::Role::view;
      v.dims = dims(word());
      v.of = parse<std::size_t>(word());
      if (v.of >= vector().values.size() || vector().values[v.of].role == Value::Role::view) fail("a view is of an earlier value");
      v.dtype = vector().values[v.of].dtype;
      if (element_count(v.dims) != element_count(vector().values[v.of].dims)) fail("a view has as many elements as its value");
    } else {
      v.dtype = dtype(word());
      v.dims = dims(word());
      if (const std::string_view order = word(); order != "-")
        for (const char c : order) v.layout.order.push_back(static_cast<std::uint32_t>(c - '0'));
      if (kind == "in" || kind == "state") v.data = bytes(v, word());
      if (kind == "out" || kind == "state") v.expected = bytes(v, word());
      if (kind == "in") v.role = Value::Role::input;
      else if (kind == "state") v.role = Value::Role::state;
      else if (kind == "out") v.role = Value::Role::output;
      else fail("'" + std::string(kind) + "' is no line of this file");
    }
    vector().values.push_back(std::move(v));
  }

  std::vector<std::size_t> ids(std::string_view w) {
    std::vector<std::size_t> list;
    while (!w.empty()) {
      const std::size_t end = w.find(',');
      const std::string_view one = w.substr(0, end);
      list.push_back(one == "-" ? no_value : parse<std::size_t>(one));
      if (list.back() != no_value && list.back() >= vector().values.size()) fail("there is no value " + std::string(one));
      w.remove_prefix(end == std::string_view::npos ? w.size() : end + 1);
    }
    return list;
  }
  std::uint32_t op(std::string_view w) const {
#define QUERN_OP(id, NAME, name, ...) \
  if (w == #name) return id;
#include "quern/ops.def"
#undef QUERN_OP
    fail("'" + std::string(w) + "' is no op");
  }
  std::uint32_t key(std::string_view w) const {
#define QUERN_KEY(id, NAME, name, type) \
  if (w == #name) return id;
#include "quern/keys.def"
#undef QUERN_KEY
    fail("'" + std::string(w) + "' is no attribute");
  }
  void node() {
    Node n;
    n.op = op(word());
    n.inputs = ids(word());
    n.outputs = ids(word());
    while (!line_.empty()) {
      const std::string_view w = word();
      const std::size_t equals = w.find('=');
      if (equals == std::string_view::npos) fail("'" + std::string(w) + "' is not KEY=VALUE");
      n.attributes.push_back({key(w.substr(0, equals)), number(w.substr(equals + 1))});
    }
    vector().nodes.push_back(std::move(n));
  }

  std::string_view text_, line_;
  std::span<const std::byte> data_;
  int number_ = 0;
  std::vector<Vector> read_;
};

/// The bytes of `from` as a tensor of other dims.
Tensor reshaped(const Tensor& from, const Dims& dims) { return Tensor(from.dtype(), dims, from.bytes()); }

Tensor tensor_of(const Value& v, std::span<const std::byte> data) {
  Tensor tensor(v.dtype, v.dims);
  if (!data.empty()) std::memcpy(tensor.bytes().data(), data.data(), data.size());
  return tensor;
}

}  // namespace

std::vector<Vector> parse_vectors(std::string_view text, std::span<const std::byte> data) { return Reader(text, data).read(); }

Case node_case(const Vector& vector, std::size_t n) {
  const Node& node = vector.nodes.at(n);
  Case c;
  c.op = node.op;
  c.attributes = node.attributes;
  const auto spec = [&](std::size_t id) {
    ValueSpec v;
    if (id == no_value) return v;
    const Value& value = vector.values.at(id);
    v.dtype = value.dtype;
    v.dims = value.dims;
    v.layout = value.layout;
    if (value.role == Value::Role::state) v.kind = QUERN_VALUE_STATE;
    if (value.role == Value::Role::output) v.kind = QUERN_VALUE_OUTPUT;
    if (value.data.empty()) return v;
    v.fill = [data = value.data](const Tensor& t, const CounterRandom&) { std::memcpy(t.bytes().data(), data.data(), data.size()); };
    v.fill_name = "onnx";
    return v;
  };
  for (const std::size_t id : node.inputs) {
    c.inputs.push_back(spec(id));
    if (id != no_value && c.inputs.back().kind == QUERN_VALUE_OUTPUT) c.inputs.back().kind = QUERN_VALUE_INPUT;
  }
  for (const std::size_t id : node.outputs) c.outputs.push_back(spec(id));
  return c;
}

std::vector<Tensor> stored(const Case& node, const Expected& expected) {
  std::vector<Tensor> tensors;
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    const ValueSpec& spec = node.outputs[o];
    tensors.push_back(spec.absent() ? Tensor() : Tensor(spec.dtype, spec.dims));
    if (spec.absent()) continue;
    const ExpectedOutput& e = expected.outputs.at(o);
    const Tensor& y = tensors.back();
    if (e.rule == Rule::bits && e.bytes.size() == y.bytes().size()) {
      if (!e.bytes.empty()) std::memcpy(y.bytes().data(), e.bytes.data(), e.bytes.size());
    } else if (e.rule != Rule::unset && e.index.empty() && e.value.size() == static_cast<std::size_t>(y.count())) {
      for (std::size_t i = 0; i < e.value.size(); ++i) y.set(static_cast<std::int64_t>(i), e.value[i]);
    } else {
      throw std::logic_error("the reference of " + op_name(node.op) + " does not give every element");
    }
  }
  return tensors;
}

std::vector<Tensor> reference_values(const Vector& vector, const References& references) {
  std::vector<Tensor> values(vector.values.size());
  for (std::size_t v = 0; v < values.size(); ++v)
    if (const Value& value = vector.values[v]; !value.data.empty() || element_count(value.dims) == 0)
      values[v] = tensor_of(value, value.data);
  const auto read = [&](std::size_t id) {
    if (id == no_value) return Tensor();
    const Value& value = vector.values[id];
    return value.role == Value::Role::view ? reshaped(values.at(value.of), value.dims) : values[id];
  };
  for (std::size_t n = 0; n < vector.nodes.size(); ++n) {
    const Case node = node_case(vector, n);
    std::vector<Tensor> inputs, states;
    for (const std::size_t id : vector.nodes[n].inputs) inputs.push_back(read(id));
    for (const std::size_t id : vector.nodes[n].outputs)
      states.push_back(id != no_value && vector.values[id].role == Value::Role::state ? read(id) : Tensor());
    Expected expected;
    expected.outputs.resize(node.outputs.size());
    references.at(n)({node, inputs, states}, expected);
    const std::vector<Tensor> outputs = stored(node, expected);
    for (std::size_t o = 0; o < outputs.size(); ++o)
      if (vector.nodes[n].outputs[o] != no_value) values[vector.nodes[n].outputs[o]] = outputs[o];
  }
  return values;
}

std::string disagreement(const Vector& vector, std::size_t value, const Tensor& found) {
  const Value& v = vector.values.at(value);
  if (v.expected.empty()) return {};
  const Tensor onnx = tensor_of(v, v.expected);
  for (std::int64_t i = 0; i < onnx.count(); ++i) {
    const double r = found.at(i), e = onnx.at(i);
    const bool same = std::isnan(e) ? std::isnan(r) : r == e || std::fabs(r - e) <= vector.atol + vector.rtol * std::fabs(e);
    if (same) continue;
    char text[160];
    std::snprintf(text, sizeof text, "value %zu, element %lld: our reference gives %.9g, ONNX %.9g", value, static_cast<long long>(i), r,
                  e);
    return text;
  }
  return {};
}

}  // namespace quern::conformance::onnx
