// Fields of the steps of a tokenizer (the parts of tokenizer.json beside its vocabulary), with errors that name them.
#pragma once

#include "regex.hpp"

#include "quern/graph/json.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quern::tokenizer {

/// One step: an object with a 'type'.
class StepJson {
 public:
  /// Throws Error(QUERN_BAD_MODEL) if `json` is no object with a type.
  StepJson(std::string_view field, const Json& json);

  const std::string& type() const noexcept { return type_; }
  bool flag(std::string_view name, bool otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::string require_text(std::string_view name) const;
  std::uint64_t number(std::string_view name, std::uint64_t otherwise) const;
  const Json* find(std::string_view name) const noexcept { return json_.find(name); }

  [[noreturn]] void bad(std::string_view what) const;
  [[noreturn]] void unsupported(std::string_view what) const;

 private:
  std::string field_, type_;
  const Json& json_;
};

/// The parts of a Sequence, or the one step; `list` names the list of a Sequence. Nothing for null.
std::vector<StepJson> steps_of(std::string_view field, const Json* json, std::string_view list);

/// A 'pattern': {"String": ...} or {"Regex": ...}.
struct Pattern {
  std::string text;
  std::shared_ptr<const Regex> regex;  // null: the text itself

  Pattern() = default;
  explicit Pattern(const StepJson& step);
  /// Calls `found` for each match, from the left; none overlaps another.
  void each_match(std::string_view in, RegexBudget& budget, const std::function<void(TextRange)>& found) const;
};

}  // namespace quern::tokenizer
