// A tree of our reader beside that of nlohmann_json.
#pragma once

#include "quern/graph/json.hpp"

#include <nlohmann/json.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace quern::test {

/// Whether a text is read as another reader reads it.
inline bool is_same(const Json& ours, const nlohmann::json& theirs) {
  if (const Json::List* const list = ours.list()) {
    if (!theirs.is_array() || theirs.size() != list->size()) return false;
    for (std::size_t i = 0; i < list->size(); ++i)
      if (!is_same((*list)[i], theirs[i])) return false;
    return true;
  }
  if (const Json::Members* const members = ours.members()) {
    for (const auto& [name, value] : *members)
      if (!theirs.is_object() || !theirs.contains(name) || !is_same(*ours.find(name), theirs[name])) return false;
    return theirs.is_object();
  }
  if (ours.text() != nullptr) return theirs.is_string() && theirs.get<std::string>() == *ours.text();
  if (ours.boolean() != nullptr) return theirs.is_boolean() && theirs.get<bool>() == *ours.boolean();
  if (ours.count() != nullptr) return theirs.is_number_unsigned() && theirs.get<std::uint64_t>() == *ours.count();
  if (ours.integer()) return theirs.is_number_integer() && theirs.get<std::int64_t>() == *ours.integer();
  if (ours.number())
    return theirs.is_number_float() && std::bit_cast<std::uint64_t>(theirs.get<double>()) == std::bit_cast<std::uint64_t>(*ours.number());
  return ours.is_null() && theirs.is_null();
}

}  // namespace quern::test
