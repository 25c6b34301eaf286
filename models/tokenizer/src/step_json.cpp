// Fields of the steps of a tokenizer.
#include "step_json.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

namespace quern::tokenizer {

StepJson::StepJson(std::string_view field, const Json& json) : field_(field), json_(json) {
  const Json* const type = json.find("type");
  if (type == nullptr || type->text() == nullptr) throw Error(QUERN_BAD_MODEL, concat("'", field, "' has a step without a 'type'"));
  type_ = *type->text();
}

void StepJson::bad(std::string_view what) const {
  throw Error(QUERN_BAD_MODEL, concat("'", field_, "' has a step ", in_quotes(type_, 32), " ", what));
}
void StepJson::unsupported(std::string_view what) const {
  throw Error(QUERN_UNSUPPORTED, concat("'", field_, "' has a step ", in_quotes(type_, 32), " ", what));
}

bool StepJson::flag(std::string_view name, bool otherwise) const {
  const Json* const value = json_.find(name);
  if (value == nullptr || value->is_null()) return otherwise;
  if (value->boolean() == nullptr) bad(concat("whose '", name, "' is neither true nor false"));
  return *value->boolean();
}

std::string StepJson::text(std::string_view name, std::string_view otherwise) const {
  const Json* const value = json_.find(name);
  if (value == nullptr || value->is_null()) return std::string(otherwise);
  if (value->text() == nullptr) bad(concat("whose '", name, "' is no text"));
  return *value->text();
}

std::string StepJson::require_text(std::string_view name) const {
  const Json* const value = json_.find(name);
  if (value == nullptr || value->text() == nullptr) bad(concat("without the text '", name, "'"));
  return *value->text();
}

std::uint64_t StepJson::number(std::string_view name, std::uint64_t otherwise) const {
  const Json* const value = json_.find(name);
  if (value == nullptr || value->is_null()) return otherwise;
  if (value->count() == nullptr) bad(concat("whose '", name, "' is no whole number"));
  return *value->count();
}

std::vector<StepJson> steps_of(std::string_view field, const Json* json, std::string_view list) {
  std::vector<StepJson> steps;
  if (json == nullptr || json->is_null()) return steps;
  const StepJson step(field, *json);
  if (step.type() != "Sequence") {
    steps.push_back(step);
    return steps;
  }
  const Json* const inside = json->find(list);
  if (inside == nullptr || inside->list() == nullptr) step.bad(concat("without the list '", list, "'"));
  for (const Json& part : *inside->list())
    for (StepJson& one : steps_of(field, &part, list)) steps.push_back(std::move(one));
  constexpr std::size_t most = 64;
  if (steps.size() > most)
    throw Error(QUERN_UNSUPPORTED, concat("'", field, "' has ", steps.size(), " steps; at most ", most, " are computed"));
  return steps;
}

Pattern::Pattern(const StepJson& step) {
  const Json* const pattern = step.find("pattern");
  const Json* const plain = pattern == nullptr ? nullptr : pattern->find("String");
  const Json* const expression = pattern == nullptr ? nullptr : pattern->find("Regex");
  if (plain != nullptr && plain->text() != nullptr) text = *plain->text();
  else if (expression != nullptr && expression->text() != nullptr) regex = std::make_shared<const Regex>(*expression->text());
  else step.bad("without a 'pattern' that is a String or a Regex");
}

void Pattern::each_match(std::string_view in, RegexBudget& budget, const std::function<void(TextRange)>& found) const {
  if (regex != nullptr) {
    RegexMatches matches(*regex, in, budget);
    while (const auto match = matches.next()) found(*match);
  } else if (!text.empty()) {
    for (std::size_t at = 0; (at = in.find(text, at)) != in.npos; at += text.size()) found({at, at + text.size()});
  }
}

}  // namespace quern::tokenizer
