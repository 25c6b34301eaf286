// See options.hpp.
#include "cli/options.hpp"

#include "cli/flags.hpp"
#include "quern/base/nearest.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace quern::conformance {
namespace {

/// Verbs for the processes that the suite starts: their flags are their parent's, and variables are not asked again.
bool is_hidden(const std::string& verb) { return verb == "survey" || verb == "device-process" || verb == "completions"; }

bool takes_argument(const std::string& verb) {
  const auto row = std::ranges::find(verb_table(), verb, &VerbRow::name);
  return verb == "device-process" || verb == "completions" || (row != verb_table().end() && !row->argument.empty());
}

void set_flag(Options& o, const Flag& flag, const std::string& value, bool variable) {
  flag.set(o, value);
  GivenFlag& given = o.given[std::string(flag.name)];
  given.value += (given.value.empty() ? "" : ", ") + value;
  given.variable = variable;
}

/// What the flag says against the variable's value names the variable.
void take_variable(Options& o, const Flag& flag, const std::string& variable, const std::string& value) {
  if (flag.value.empty() && value != "0" && value != "1") throw UsageError(variable + ": '" + value + "' is not 1 or 0");
  if (flag.value.empty() && value == "0") {
    o.given[std::string(flag.name)] = {value, true};
    return;
  }
  try {
    set_flag(o, flag, value, true);
  } catch (const UsageError& error) { throw UsageError(variable + std::string(error.what()).substr(flag.name.size())); }
}

void take_variables(Options& o, const Environment& environment) {
  for (const Flag& flag : flag_table()) {
    const std::string variable = variable_of(flag);
    if (variable.empty() || o.given.contains(std::string(flag.name))) continue;
    const auto value = environment(variable.c_str());
    if (!value) continue;
    if (variable.starts_with("QUERN_CONFORMANCE_")) take_variable(o, flag, variable, *value);
    else o.given[std::string(flag.name)] = {*value, true};  // the loader takes it
  }
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return {};
  return std::string(value);
}

std::vector<std::string> Selection::arguments() const {
  std::vector<std::string> list;
  const auto add = [&](const char* flag, const std::string& value) { list.insert(list.end(), {flag, value}); };
  if (!backend.empty()) add("--backend", backend);
  if (!device.empty()) add("--device", device);
  for (const std::string& p : plugins) add("--plugin", p);
  if (threads != 0) add("--threads", std::to_string(threads));
  for (const auto& [key, value] : plugin_options) add("--option", key + "=" + value);
  return list;
}

Options parse_options(const std::vector<std::string>& arguments, const Environment& environment) {
  Options o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string word = arguments[i], value;
    if (!word.starts_with("-")) {
      if (o.verb.empty()) o.verb = word;
      else if (takes_argument(o.verb) && o.argument.empty()) o.argument = word;
      else throw UsageError("'" + word + "' is one word too many");
      continue;
    }
    if (word == "-h") word = "--help";
    const std::size_t equals = word.find('=');
    const bool inside = equals != std::string::npos;
    if (inside) value = word.substr(equals + 1), word = word.substr(0, equals);
    const auto flag = std::ranges::find(flag_table(), word, &Flag::name);
    if (flag == flag_table().end()) {
      std::vector<std::string> names;
      for (const Flag& known : flag_table()) names.emplace_back(known.name);
      throw UsageError("'" + word + "' is no option" + did_you_mean(word, names) + "; --help lists them");
    }
    if (flag->value.empty()) {
      if (inside) throw UsageError(word + " takes no value");
      set_flag(o, *flag, "1", false);
      continue;
    }
    if (!inside && i + 1 == arguments.size()) throw UsageError(word + " needs a value");
    set_flag(o, *flag, inside ? value : arguments[++i], false);
  }
  if (!o.help && !o.version && !is_hidden(o.verb)) take_variables(o, environment);
  return o;
}

}  // namespace quern::conformance
