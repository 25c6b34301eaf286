#include "chat_settings.hpp"

#include "failure.hpp"
#include "flags.hpp"

#include "quern/base/nearest.hpp"
#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <span>

namespace quern::cli {
namespace {

constexpr const char* settable[] = {"temperature",       "top-k",          "top-p", "min-p",      "repeat-penalty", "presence-penalty",
                                    "frequency-penalty", "penalty-window", "seed",  "max-tokens", "prefill"};

}  // namespace

std::vector<std::string> ChatSettings::names() { return {std::begin(settable), std::end(settable)}; }

ChatSettings::ChatSettings(RunFlags& flags, const std::vector<FlagState>& given) : flags_(flags) {
  CLI::App app;
  RunFlags unused;
  add_answer_flags(app, unused);
  for (const char* name : settable) {
    standard_[name] = app.get_option(std::string("--") + name)->get_default_str();
    const auto state = std::ranges::find(given, std::string("--") + name, &FlagState::flag);
    if (state != given.end() && state->given.origin != Origin::standard) given_[name] = state->given.value;
  }
}

void ChatSettings::set(const std::string& name_and_value) {
  constexpr const char* blanks = " \t\n";
  const std::size_t end = std::min(name_and_value.find_first_of(blanks), name_and_value.size());
  std::string name = name_and_value.substr(0, end);
  if (name.starts_with("--")) name.erase(0, 2);
  std::ranges::replace(name, '_', '-');
  const std::vector<std::string> known = names();
  if (std::ranges::find(known, name) == known.end())
    throw Failure(exit_usage, in_quotes(name) + " is no setting of an answer" + did_you_mean(name, known) + "; see /set");
  const std::size_t value = name_and_value.find_first_not_of(blanks, end);
  if (value == std::string::npos) throw Failure(exit_usage, name + " needs a value: /set " + name + " VALUE, or /set " + name + " default");
  std::map<std::string, std::string> changed = given_;
  changed[name] = name_and_value.substr(value);
  if (changed[name] == "default") changed.erase(name);
  apply(changed);
  given_ = std::move(changed);
}

void ChatSettings::apply(const std::map<std::string, std::string>& given) {
  RunFlags fresh;
  CLI::App app;
  add_answer_flags(app, fresh);
  std::vector<std::string> arguments;
  for (const auto& [name, value] : given) arguments.push_back("--" + name + "=" + value);
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    std::string text = error.what();
    if (text.starts_with("--")) text.erase(0, 2);
    throw Failure(exit_usage, printable(text));
  }
  fresh.sampling.bias = flags_.sampling.bias;
  flags_.sampling = fresh.sampling;
  flags_.max_tokens = fresh.max_tokens;
  flags_.prefill = fresh.prefill;
}

std::string ChatSettings::page() const {
  std::string page;
  for (const char* setting : settable) {
    std::string name = setting;
    const auto given = given_.find(name);
    const std::string value = given != given_.end() ? given->second : standard_.at(name) + " (default)";
    name.resize(19, ' ');
    page += name + value + "\n";
  }
  return page;
}

}  // namespace quern::cli
