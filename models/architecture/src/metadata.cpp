// Reads "{architecture}.key" from a model file, each number inside a stated range.
#include "metadata.hpp"

namespace quern::models {

std::string Metadata::key(std::string_view suffix) const { return concat(architecture_, ".", suffix); }

std::uint32_t Metadata::checked(std::string_view suffix, std::uint64_t value, std::uint32_t least, std::uint32_t most) const {
  if (value < least || value > most) throw bad(suffix, "is ", value, "; it must be ", least, " to ", most);
  return static_cast<std::uint32_t>(value);
}

double Metadata::checked(std::string_view suffix, double value, double above, double most) const {
  // Kernels see an f32, which must not have become zero.
  if (!(static_cast<float>(value) > above && value <= most))
    throw bad(suffix, "is ", value, "; it must be above ", above, " and at most ", most);
  return value;
}

std::uint32_t Metadata::require_count(std::string_view suffix, std::uint32_t least, std::uint32_t most) const {
  return checked(suffix, file_.require_u64(key(suffix)), least, most);
}

std::optional<std::uint32_t> Metadata::find_count(std::string_view suffix, std::uint32_t least, std::uint32_t most) const {
  const std::optional<std::uint64_t> value = file_.find_u64(key(suffix));
  if (!value) return std::nullopt;
  return checked(suffix, *value, least, most);
}

double Metadata::require_number(std::string_view suffix, double above, double most) const {
  return checked(suffix, file_.require_f64(key(suffix)), above, most);
}

std::optional<double> Metadata::find_number(std::string_view suffix, double above, double most) const {
  const std::optional<double> value = file_.find_f64(key(suffix));
  if (!value) return std::nullopt;
  return checked(suffix, *value, above, most);
}

std::optional<std::string_view> Metadata::find_string(std::string_view suffix) const { return file_.find_string(key(suffix)); }

}  // namespace quern::models
