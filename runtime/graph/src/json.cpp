// See json.hpp.
#include "quern/graph/json.hpp"

#include "json_lexer.hpp"

#include "quern/graph/error.hpp"

#include <limits>
#include <utility>

namespace quern {

struct JsonBuilder {
  JsonBuilder(std::size_t values, std::span<const Json::Taken> taken)
      : values_(values), left_(values), taken_(taken), was_taken_(taken.size()) {}

  Json root;
  std::string why;

  bool read(std::string_view json) {
    JsonLexer lexer(json);
    using enum JsonLexer::Token;
    for (JsonLexer::Token token = lexer.next();;) {  // begins a value
      if (token == begin_object || token == begin_list) {
        if (!open(token == begin_object)) return false;
        token = lexer.next();
        if (!is_end(token)) {
          if (in_object() && !read_name(lexer, token)) return false;
          continue;
        }
        close();
      } else if (!put(lexer, token)) {
        return false;
      }
      for (;;) {  // behind a value
        token = lexer.next();
        if (open_.empty()) return token == end || refuse(lexer);
        if (is_end(token)) {
          close();
          continue;
        }
        if (token != comma) return refuse(lexer);
        token = lexer.next();
        if (in_object() && !read_name(lexer, token)) return false;
        break;
      }
    }
  }

 private:
  bool refuse(const JsonLexer& lexer) {
    why = concat(lexer.is_encoding_wrong() ? "not UTF-8 at byte " : "not JSON at byte ", lexer.place());
    return false;
  }
  bool in_object() const noexcept { return open_.back()->is_object(); }
  bool is_end(JsonLexer::Token token) const noexcept {
    return token == (in_object() ? JsonLexer::Token::end_object : JsonLexer::Token::end_list);
  }

  /// `token` is the name; the next one is then that of the value.
  bool read_name(JsonLexer& lexer, JsonLexer::Token& token) {
    if (token != JsonLexer::Token::text) return refuse(lexer);
    if (open_.back() == taking_) name_ = lexer.text();
    else std::get<Json::Members>(open_.back()->value_).push_back({std::string(lexer.text()), Json()});
    if (lexer.next() != JsonLexer::Token::colon) return refuse(lexer);
    token = lexer.next();
    return true;
  }

  bool put(const JsonLexer& lexer, JsonLexer::Token token) {
    using enum JsonLexer::Token;
    switch (token) {
      case text: return add(Json(std::string(lexer.text())));
      case count: return add(Json(lexer.count()));
      case integer: return add(Json(lexer.integer()));
      case fraction: return add(Json(lexer.fraction()));
      case truth: return add(Json(true));
      case falsehood: return add(Json(false));
      case null: return add(Json());
      default: return refuse(lexer);
    }
  }

  /// Where a value goes: behind the name that was read last, or at the end of the list. What is open stands at the end of its parent, so
  /// that its place stays until it is closed.
  Json& place(Json value) {
    if (open_.empty()) return root = std::move(value);
    if (open_.back() == taking_) return entry_ = std::move(value);
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
  bool add(Json value) {
    if (!count_value()) return false;
    const Json& placed = place(std::move(value));
    if (&placed == &entry_) give();
    return true;
  }
  bool open(bool is_object) {
    if (open_.size() == Json::deepest) {
      why = concat("nested deeper than ", Json::deepest, " levels");
      return false;
    }
    if (!count_value()) return false;
    const std::size_t list = open_.empty() ? taken_.size() : list_of_taken();
    open_.push_back(!is_object && is_list_again() ? &emptied_entry() : &place(is_object ? Json(Json::Members()) : Json(Json::List())));
    if (list == taken_.size()) return true;
    if (was_taken_[list]) {
      why = concat("JSON with the member '", taken_[list].name, "' twice");
      return false;
    }
    was_taken_[list] = true;
    taking_ = open_.back();
    take_ = &taken_[list].take;
    left_at_entry_ = left_;
    return true;
  }
  void close() {
    const Json* const closed = open_.back();
    open_.pop_back();
    if (closed == taking_) taking_ = nullptr;
    else if (closed == &entry_) give();
  }

  /// Whether the entry that is opened is a list as the one before: its room serves again.
  bool is_list_again() const noexcept { return taking_ != nullptr && open_.back() == taking_ && entry_.list() != nullptr; }
  Json& emptied_entry() noexcept {
    std::get<Json::List>(entry_.value_).clear();
    return entry_;
  }

  void give() {
    (*take_)(taking_->is_object() ? &name_ : nullptr, entry_);
    left_ = left_at_entry_;
  }
  /// Which of them the value is that follows; taken_.size() for none.
  std::size_t list_of_taken() const noexcept {
    std::size_t at = 0;
    while (at < taken_.size() && !begins(taken_[at])) ++at;
    return at;
  }
  bool begins(const Json::Taken& taken) const noexcept {
    if (taken.outer.empty()) return open_.size() == 1 && has_last(0, taken.name);
    return open_.size() == 2 && has_last(0, taken.outer) && has_last(1, taken.name);
  }
  /// Whether the object of this level had this name last.
  bool has_last(std::size_t level, std::string_view name) const noexcept {
    const Json::Members* const members = open_[level]->members();
    return members != nullptr && !members->empty() && members->back().name == name;
  }

  std::size_t values_;
  std::size_t left_;         // values that may still come; reading ends where one is too many
  std::vector<Json*> open_;  // from the root to the innermost that is not closed
  std::span<const Json::Taken> taken_;
  std::vector<bool> was_taken_;
  const Json* taking_ = nullptr;  // the list of taken_ that is open
  const std::function<void(const std::string*, const Json&)>* take_ = nullptr;
  Json entry_;        // of it
  std::string name_;  // of the entry
  std::size_t left_at_entry_ = 0;
};

std::optional<Json> Json::parse(std::string_view text, std::size_t values, std::string* why, std::span<const Taken> taken) {
  JsonBuilder builder(values, taken);
  if (!builder.read(text)) {
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
