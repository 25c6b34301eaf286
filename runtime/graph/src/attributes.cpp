// Attributes of a node, and their names.
#include "attribute_table.hpp"

#include "quern/graph/graph.hpp"
#include "quern/graph/op_info.hpp"

#include <cassert>

namespace quern::graph {
namespace {

Attribute& slot(std::vector<Attribute>& list, std::uint32_t key) {
  for (Attribute& attribute : list)
    if (attribute.key == key) return attribute;
  return list.emplace_back(Attribute{key, 0});
}

const OpAttribute& formal(const Node& node, std::uint32_t key) {
  const OpInfo* op = find_op(node.op);
  assert(op && op->attribute(key) && "an attribute that the op does not have");
  return *op->attribute(key);
}

}  // namespace

Attributes& Attributes::set(std::uint32_t key, std::int64_t value) {
  slot(list_, key) = Attribute{key, QUERN_ATTR_I64, value, 0};
  return *this;
}

Attributes& Attributes::set(std::uint32_t key, double value) {
  slot(list_, key) = Attribute{key, QUERN_ATTR_F64, 0, value};
  return *this;
}

const Attribute* Attributes::find(std::uint32_t key) const {
  for (const Attribute& attribute : list_)
    if (attribute.key == key) return &attribute;
  return nullptr;
}

std::string attribute_name(std::uint32_t key) {
  for (const AttributeKey& row : attribute_keys)
    if (row.key == key) return std::string(row.name);
  return concat("attribute ", key);
}

std::int64_t integer_attribute(const Node& node, std::uint32_t key) {
  const Attribute* given = node.attributes.find(key);
  return given ? given->i : formal(node, key).integer;
}

double number_attribute(const Node& node, std::uint32_t key) {
  const Attribute* given = node.attributes.find(key);
  return given ? given->f : formal(node, key).number;
}

}  // namespace quern::graph
