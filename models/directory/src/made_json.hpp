// JSON that is made here: parts of a tokenizer.json that other files stand for.
#pragma once

#include "quern/graph/json.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace quern::directory {

inline Json json_object(std::initializer_list<std::pair<std::string_view, Json>> members) {
  Json::Members made;
  for (const auto& [name, value] : members) made.push_back({std::string(name), value});
  return Json(std::move(made));
}

inline Json json_text(std::string_view text) { return Json(std::string(text)); }

inline Json byte_level(bool use_regex) {
  return json_object({{"type", json_text("ByteLevel")}, {"add_prefix_space", Json(false)}, {"use_regex", Json(use_regex)}});
}

/// Pieces are the matches of an expression, spelled in the byte alphabet; what lies between them is left out.
inline Json byte_level_matches(std::string_view expression) {
  const Json split = json_object({{"type", json_text("Split")},
                                  {"pattern", json_object({{"Regex", json_text(expression)}})},
                                  {"behavior", json_text("Removed")},
                                  {"invert", Json(true)}});
  return json_object({{"type", json_text("Sequence")}, {"pretokenizers", Json(Json::List{split, byte_level(false)})}});
}

}  // namespace quern::directory
