// Reads the golden renderings that scripts/make_template_goldens.py wrote with Jinja2.
#pragma once

#include "quern/models/chat_template.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace quern {

inline std::string read_text(const std::string& name) {
  const std::string path = std::string(QUERN_SOURCE_DIR) + "/tests/data/chat_template/" + name;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline nlohmann::json read_json(const std::string& name) { return nlohmann::json::parse(read_text(name)); }

inline std::vector<Message> messages_from(const nlohmann::json& list) {
  std::vector<Message> messages;
  for (const auto& message : list) messages.push_back({message.at("role"), message.at("content")});
  return messages;
}

/// The time that the goldens were made with: Saturday 9 March 2024, 07:05:03.
inline std::tm golden_time() {
  std::tm time{};
  time.tm_year = 124;
  time.tm_mon = 2;
  time.tm_mday = 9;
  time.tm_hour = 7;
  time.tm_min = 5;
  time.tm_sec = 3;
  return time;
}

inline TemplateOptions options_from(const nlohmann::json& fields) {
  TemplateOptions options;
  options.now = golden_time();
  for (const auto& [name, value] : fields.items()) {
    if (name == "add_generation_prompt") {
      options.add_generation_prompt = value.get<bool>();
    } else if (name == "bos_token") {
      options.bos_token = value.get<std::string>();
    } else if (name == "eos_token") {
      options.eos_token = value.get<std::string>();
    } else if (value.is_boolean()) {
      options.variables[name] = value.get<bool>();
    } else if (value.is_number_integer()) {
      options.variables[name] = value.get<std::int64_t>();
    } else if (value.is_number_float()) {
      options.variables[name] = value.get<double>();
    } else {
      options.variables[name] = value.get<std::string>();
    }
  }
  return options;
}

}  // namespace quern
