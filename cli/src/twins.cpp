#include "twins.hpp"

#include "failure.hpp"
#include "flag_words.hpp"
#include "parser.hpp"

#include "quern/base/nearest.hpp"
#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <cctype>

namespace quern::cli {
namespace {

const Setting* setting_of(const std::string& flag) {
  const auto settings = all_settings();
  const auto found = std::ranges::find(settings, flag, [](const Setting& setting) { return std::string(setting.flag); });
  return found == settings.end() ? nullptr : &*found;
}

std::string joined(const std::vector<std::string>& values) {
  std::string all;
  for (const std::string& value : values) all += (all.empty() ? "" : ", ") + value;
  return all;
}

/// Gives the option a value; what the option says against it names `origin`, the variable or the line of the file.
void take(CLI::Option& option, const std::string& verb, const std::string& origin, const std::string& value) {
  const auto refuse = [&](std::string text) {
    const std::string flag = flag_name(option);
    if (const auto at = text.find(flag); at != std::string::npos) text.replace(at, flag.size(), origin);
    if (!text.starts_with(verb + ": ")) text = verb + ": " + text;
    throw Failure(exit_usage, text);
  };
  if (!takes_value(option)) {
    const auto on = parse_boolean(value);
    if (!on) refuse(origin + ": '" + value + "' is not 1 or 0");
    if (!*on) return;
  }
  try {
    option.add_result(takes_value(option) ? value : "true");
    option.run_callback();
  } catch (const CLI::ParseError& error) { refuse(error.what()); } catch (const Failure& failure) {
    refuse(failure.what());
  }
}

/// Where a default system message has no place.
bool brings_its_own_messages(const CLI::App& verb) {
  for (const char* flag : {"--raw", "--messages"})
    if (const CLI::Option* option = verb.get_option_no_throw(flag); option != nullptr && option->count() > 0) return true;
  return false;
}

}  // namespace

std::string flag_name(const CLI::Option& option) { return option.get_lnames().empty() ? "" : "--" + option.get_lnames().front(); }

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::string variable_of(const CLI::Option& option) {
  const std::string flag = flag_name(option);
  if (flag.empty() || flag == "--help" || flag == "--help-all" || flag == "--version" || flag == "--show-config") return "";
  if (const Setting* setting = setting_of(flag)) return setting->variable;
  std::string variable = "QUERN_" + flag.substr(2);
  std::ranges::transform(variable, variable.begin(), [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
  return variable;
}

std::vector<FlagState> take_twins(CLI::App& verb, const Environment& environment) {
  std::vector<FlagState> states;
  for (CLI::Option* listed : verb.get_options()) {
    CLI::Option& option = *listed;
    const std::string variable = variable_of(option);
    if (variable.empty()) continue;
    FlagState state{flag_name(option), variable, setting_of(flag_name(option)), {}};
    state.given.value = takes_value(option) ? option.get_default_str() : "off";
    if (option.count() > 0) {
      state.given = {takes_value(option) ? joined(option.results()) : "on", Origin::flag, state.flag};
    } else if (const auto value = environment(variable.c_str()); value && state.setting == nullptr) {
      take(option, verb.get_name(), variable, *value);
      state.given = {takes_value(option) ? *value : (option.count() > 0 ? "on" : "off"), Origin::environment, variable};
    }
    states.push_back(std::move(state));
  }
  return states;
}

void take_file(CLI::App& verb, std::vector<FlagState>& states, const Config& config, const std::vector<std::string>& model_names) {
  for (FlagState& state : states) {
    if (state.setting != nullptr || state.given.origin != Origin::standard || !in_file(state.flag)) continue;
    if (state.flag == "--system" && brings_its_own_messages(verb)) continue;
    const std::string key = file_key(state.flag);
    const ConfigValue* found = nullptr;
    for (const std::string& name : model_names)
      if (const auto entry = config.find(section_key(name, key)); entry != config.end() && found == nullptr) found = &entry->second;
    if (const auto entry = config.find(key); entry != config.end() && found == nullptr) found = &entry->second;
    if (found == nullptr) continue;
    take(*verb.get_option(state.flag), verb.get_name(), found->origin + ": " + key, found->value);
    state.given = {found->value, Origin::file, found->origin};
  }
}

std::vector<std::string> misspelt_variables(const std::vector<std::string>& names) {
  constexpr std::string_view ours = "QUERN_";
  // Of tests, of the conformance suite and of the Python package.
  constexpr std::string_view of_others[] = {"TEST_", "CONFORMANCE_", "STEP_", "LIBRARY"};
  CommandLine unused;
  const Parser parser(unused, "");
  std::vector<std::string> known;  // without QUERN_, which would make any two names alike
  for (const VerbApp& verb : parser.verbs)
    for (const CLI::Option* option : verb.app->get_options())
      if (const std::string variable = variable_of(*option); variable.starts_with(ours)) known.push_back(variable.substr(ours.size()));
  std::vector<std::string> sentences;
  for (const std::string& name : names) {
    if (!name.starts_with(ours)) continue;
    const std::string rest = name.substr(ours.size());
    if (std::ranges::any_of(of_others, [&](std::string_view prefix) { return rest.starts_with(prefix); })) continue;
    if (std::ranges::find(known, rest) != known.end()) continue;
    const std::string meant = nearest(rest, known);
    if (!meant.empty()) sentences.push_back(printable(name) + " is not a variable of quern; did you mean QUERN_" + meant + "?");
  }
  return sentences;
}

}  // namespace quern::cli
