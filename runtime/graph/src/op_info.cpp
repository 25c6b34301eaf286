// Parses the rows of ops.def.
#include "quern/graph/op_info.hpp"

#include "attribute_table.hpp"

#include <cassert>
#include <charconv>
#include <cstdlib>

namespace quern::graph {
namespace {

struct Row {
  std::uint32_t id;
  const char *name, *group, *inputs, *outputs, *attributes, *gradient;
};

constexpr Row rows[] = {
#define QUERN_OP(id, NAME, name, group, inputs, outputs, attributes, gradient) {id, #name, #group, inputs, outputs, attributes, gradient},
#include "quern/ops.def"
#undef QUERN_OP
};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> list;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    if (space != 0) list.push_back(text.substr(0, space));
    if (space == std::string_view::npos) break;
    text.remove_prefix(space + 1);
  }
  return list;
}

OpSlot parse_slot(std::string_view word) {
  OpSlot slot;
  if (word.front() == '*') slot.variadic = true, word.remove_prefix(1);
  if (word.back() == '?') slot.optional = true, word.remove_suffix(1);
  slot.name = word;
  return slot;
}

template <typename Number>
Number parse_number(std::string_view text) {
  Number number{};
  [[maybe_unused]] const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  assert(result.ec == std::errc{} && result.ptr == text.data() + text.size() && "a default in ops.def is not a number");
  return number;
}

OpAttribute parse_attribute(std::string_view word) {
  const std::size_t equals = word.find('=');
  OpAttribute attribute;
  attribute.name = word.substr(0, equals);
  for (const AttributeKey& row : attribute_keys)
    if (row.name == attribute.name) attribute.key = row.key, attribute.type = row.type;
  assert(attribute.key != 0 && "an attribute in ops.def has no key in quern_ops.h");
  attribute.required = equals == std::string_view::npos;
  if (attribute.required) return attribute;
  const std::string_view text = word.substr(equals + 1);
  if (attribute.type == QUERN_ATTR_I64) attribute.integer = parse_number<std::int64_t>(text);
  else attribute.number = parse_number<double>(text);
  return attribute;
}

std::vector<OpInfo> parse_all() {
  std::vector<OpInfo> ops;
  for (const Row& row : rows) {
    OpInfo& op = ops.emplace_back();
    op.id = row.id, op.name = row.name, op.group = row.group, op.gradient = row.gradient;
    for (const std::string_view word : words(row.inputs)) op.inputs.push_back(parse_slot(word));
    for (const std::string_view word : words(row.outputs)) op.outputs.push_back(parse_slot(word));
    for (const std::string_view word : words(row.attributes)) op.attributes.push_back(parse_attribute(word));
  }
  return ops;
}

}  // namespace

const OpAttribute* OpInfo::attribute(std::uint32_t key) const noexcept {
  for (const OpAttribute& formal : attributes)
    if (formal.key == key) return &formal;
  return nullptr;
}

const std::vector<OpInfo>& all_ops() {
  static const std::vector<OpInfo> ops = parse_all();
  return ops;
}

const OpInfo* find_op(std::uint32_t id) {
  for (const OpInfo& op : all_ops())
    if (op.id == id) return &op;
  return nullptr;
}

const OpInfo* find_op(std::string_view name) {
  for (const OpInfo& op : all_ops())
    if (op.name == name) return &op;
  return nullptr;
}

std::string op_name(std::uint32_t op) {
  const OpInfo* info = find_op(op);
  return info ? info->name : concat("op ", op);
}

}  // namespace quern::graph
