#include "config.hpp"

#include <utility>

namespace quern::directory {
namespace {

bool is_absent(const Json* value) noexcept { return value == nullptr || value->is_null(); }

}  // namespace

std::optional<std::uint64_t> count_of(const JsonFile& file, std::string_view name, const Json* value, std::uint64_t least,
                                      std::uint64_t most) {
  if (is_absent(value)) return std::nullopt;
  if (value->count() == nullptr) throw file.bad(name, "is not a whole number of 0 or more");
  if (*value->count() < least || *value->count() > most)
    throw file.bad(name, concat("is ", *value->count(), "; it must be ", least, " to ", most));
  return *value->count();
}

std::optional<double> number_of(const JsonFile& file, std::string_view name, const Json* value) {
  if (is_absent(value)) return std::nullopt;
  const std::optional<double> number = value->number();
  if (!number) throw file.bad(name, "is not a number");
  return number;
}

std::optional<bool> bool_of(const JsonFile& file, std::string_view name, const Json* value) {
  if (is_absent(value)) return std::nullopt;
  if (value->boolean() == nullptr) throw file.bad(name, "is neither true nor false");
  return *value->boolean();
}

std::optional<std::string> text_of(const JsonFile& file, std::string_view name, const Json* value) {
  if (is_absent(value)) return std::nullopt;
  if (value->text() == nullptr) throw file.bad(name, "is not text");
  return *value->text();
}

Config::Config(JsonFile file) : file_(std::move(file)) {
  const Json* text = file_.json().find("text_config");
  if (is_absent(text)) return;
  if (!text->is_object()) throw file_.bad("text_config", "is not an object");
  text_ = text;
}

const Json* Config::find(std::string_view name) const noexcept {
  const Json* const inside = text_ == nullptr ? nullptr : text_->find(name);
  return inside != nullptr ? inside : file_.json().find(name);
}

std::optional<std::uint64_t> Config::find_count(std::string_view name, std::uint64_t least, std::uint64_t most) const {
  return count_of(file_, name, find(name), least, most);
}
std::optional<double> Config::find_number(std::string_view name) const { return number_of(file_, name, find(name)); }
std::optional<bool> Config::find_bool(std::string_view name) const { return bool_of(file_, name, find(name)); }
std::optional<std::string> Config::find_text(std::string_view name) const { return text_of(file_, name, find(name)); }

}  // namespace quern::directory
