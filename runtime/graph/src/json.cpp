// See json.hpp. The text is nlohmann_json's to read, event by event; the tree is ours.
#include "quern/graph/json.hpp"

#include "quern/graph/error.hpp"

#include <nlohmann/json.hpp>

#include <limits>
#include <utility>

namespace quern {

struct JsonBuilder : nlohmann::json_sax<nlohmann::json> {
  JsonBuilder(std::size_t values, const Json::EditedList* edited) : values_(values), left_(values), edited_(edited) {}

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
    auto& list = std::get<Json::List>(parent);
    if (list.empty()) list.reserve(2);  // a pair, as merges are, has its place at once
    return list.emplace_back(std::move(value));
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
    const bool is_edited = edited_ != nullptr && open_.size() == 2 && is_last(0, edited_->outer) && is_last(1, edited_->name);
    Json& placed = place(std::move(value));
    open_.push_back(&placed);
    if (is_edited) edits_ = &placed;
    return true;
  }
  bool close() {
    Json* const closed = open_.back();
    open_.pop_back();
    if (closed == edits_) edits_ = nullptr;
    else if (edits_ != nullptr && open_.back() == edits_) edited_->edit(*closed);
    return true;
  }
  /// Whether the object of this level had this name last.
  bool is_last(std::size_t level, std::string_view name) const {
    const Json::Members* const members = open_[level]->members();
    return members != nullptr && members->back().name == name;
  }

  std::size_t values_;
  std::size_t left_;         // values that may still come; reading ends where one is too many
  std::vector<Json*> open_;  // from the root to the innermost that is not closed
  const Json::EditedList* edited_;
  Json* edits_ = nullptr;  // that list while it is open
};

std::optional<Json> Json::parse(std::string_view text, std::size_t values, std::string* why, const EditedList* edited) {
  JsonBuilder builder(values, edited);
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
