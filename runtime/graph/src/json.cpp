// See json.hpp. The text is nlohmann_json's to read, event by event; the tree is ours.
#include "quern/graph/json.hpp"

#include "quern/graph/error.hpp"

#include <nlohmann/json.hpp>

#include <limits>
#include <utility>

namespace quern {

struct JsonBuilder : nlohmann::json_sax<nlohmann::json> {
  explicit JsonBuilder(std::size_t values) : values_(values), left_(values) {}

  Json root;
  std::string why;

  bool null() override { return put(Json()); }
  bool boolean(bool value) override { return put(Json(value)); }
  bool number_integer(number_integer_t value) override { return put(Json(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override { return put(Json(std::uint64_t{value})); }
  bool number_float(number_float_t value, const string_t&) override { return put(Json(value)); }
  bool string(string_t& value) override { return put(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& name) override {
    std::get<Json::Members>(open_.back()->value_).push_back({std::move(name), Json()});
    return true;
  }
  bool start_object(std::size_t) override { return open(Json(Json::Members())); }
  bool start_array(std::size_t) override { return open(Json(Json::List())); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t read, const std::string&, const nlohmann::detail::exception& error) override {
    const bool encoding = std::string_view(error.what()).find("UTF-8") != std::string_view::npos;
    why = concat(encoding ? "not UTF-8 at byte " : "not JSON at byte ", read > 0 ? read - 1 : 0);
    return false;
  }

 private:
  /// Where a value goes: behind the key that was read last, or at the end of the list. What is open stands at the end of its parent, so
  /// that its place stays until it is closed.
  Json& place(Json value) {
    if (open_.empty()) return root = std::move(value);
    auto& parent = open_.back()->value_;
    if (auto* members = std::get_if<Json::Members>(&parent)) return members->back().value = std::move(value);
    return std::get<Json::List>(parent).emplace_back(std::move(value));
  }
  bool count_value() {
    if (left_-- > 0) return true;
    why = concat("more than ", values_, " values");
    return false;
  }
  bool put(Json value) {
    if (!count_value()) return false;
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() == Json::deepest) {
      why = concat("nested deeper than ", Json::deepest, " levels");
      return false;
    }
    if (!count_value()) return false;
    Json& placed = place(std::move(value));
    open_.push_back(&placed);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::size_t values_;
  std::size_t left_;         // values that may still come; reading ends where one is too many
  std::vector<Json*> open_;  // from the root to the innermost that is not closed
};

std::optional<Json> Json::parse(std::string_view text, std::size_t values, std::string* why) {
  JsonBuilder builder(values);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    if (why != nullptr) *why = std::move(builder.why);
    return std::nullopt;
  }
  return std::move(builder.root);
}

Json::Json(const Json& other) {
  std::visit(
      [this](const auto& value) {
        auto copy = value;  // throws, if at all, before value_ is touched
        value_ = std::move(copy);
      },
      other.value_);
}

std::optional<std::int64_t> Json::integer() const noexcept {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return *value;
  const std::uint64_t* value = count();
  if (value == nullptr || *value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<double> Json::number() const noexcept {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = count()) return static_cast<double>(*value);
  if (const auto value = integer()) return static_cast<double>(*value);
  return std::nullopt;
}

const Json* Json::find(std::string_view name) const noexcept {
  const Members* all = members();
  if (all == nullptr) return nullptr;
  for (auto member = all->rbegin(); member != all->rend(); ++member)
    if (member->name == name) return &member->value;
  return nullptr;
}

}  // namespace quern
