#include "twins.hpp"

#include "failure.hpp"

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

/// Gives the option the variable's value; what the option says against it names the variable.
void take(CLI::Option& option, const std::string& verb, const std::string& variable, const std::string& value) {
  const auto refuse = [&](std::string text) {
    const std::string flag = flag_name(option);
    if (const auto at = text.find(flag); at != std::string::npos) text.replace(at, flag.size(), variable);
    if (!text.starts_with(verb + ": ")) text = verb + ": " + text;
    throw Failure(exit_usage, text);
  };
  if (!takes_value(option)) {
    const auto on = parse_boolean(value);
    if (!on) refuse(variable + ": '" + value + "' is not 1 or 0");
    if (!*on) return;
  }
  try {
    option.add_result(takes_value(option) ? value : "true");
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    refuse(error.what());
  } catch (const Failure& failure) {
    refuse(failure.what());
  }
}

}  // namespace

std::string flag_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : "--" + option.get_lnames().front();
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::string variable_of(const CLI::Option& option) {
  const std::string flag = flag_name(option);
  if (flag.empty() || flag == "--help" || flag == "--version" || flag == "--show-config") return "";
  if (const Setting* setting = setting_of(flag)) return setting->variable;
  std::string variable = "QUERN_" + flag.substr(2);
  std::ranges::transform(variable, variable.begin(),
                         [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
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

}  // namespace quern::cli
