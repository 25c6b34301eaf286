// config.json: fields by name and type, those of the text model first.
#pragma once

#include "json_file.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::directory {

class Config {
 public:
  explicit Config(JsonFile file);

  const JsonFile& file() const noexcept { return file_; }
  /// The object of the text model inside a multimodal one; null if there is none.
  const Json* text_config() const noexcept { return text_; }

  /// The field of text_config, else the one outside. Null if neither has it; a JSON null is a value.
  const Json* find(std::string_view name) const noexcept;

  // Nothing where the field is absent or null; Error(QUERN_BAD_MODEL) naming it where it is of another type or out of range.
  std::optional<std::uint64_t> find_count(std::string_view name, std::uint64_t least, std::uint64_t most) const;
  std::optional<double> find_number(std::string_view name) const;
  std::optional<bool> find_bool(std::string_view name) const;
  std::optional<std::string> find_text(std::string_view name) const;

 private:
  JsonFile file_;
  const Json* text_ = nullptr;
};

// The same for an object inside the file; `field` names the object in errors.
std::optional<std::uint64_t> count_of(const JsonFile& file, std::string_view name, const Json* value, std::uint64_t least,
                                      std::uint64_t most);
std::optional<double> number_of(const JsonFile& file, std::string_view name, const Json* value);
std::optional<bool> bool_of(const JsonFile& file, std::string_view name, const Json* value);
std::optional<std::string> text_of(const JsonFile& file, std::string_view name, const Json* value);

}  // namespace quern::directory
