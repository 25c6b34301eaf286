// What the user demands or forbids, as one rule over plugin ids.
#include "demand.hpp"

#include "quern/graph/error.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace quern::loader {
namespace {

constexpr const char* cpu = "cpu";

bool contains(const std::vector<std::string>& list, const std::string& value) { return std::ranges::find(list, value) != list.end(); }

template <typename T>
std::string assignment(const Setting<T>& setting) {
  if constexpr (std::is_same_v<T, bool>) return setting.source + "=1";
  if constexpr (std::is_same_v<T, std::string>) return setting.source + "=" + setting.value;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    std::string text;
    for (const std::string& part : setting.value) text += (text.empty() ? "" : ",") + part;
    return setting.source + "=" + text;
  }
}

}  // namespace

Demand::Demand(const Settings& settings) : settings_(settings) {
  device_ = parse_device_name(settings.device.value, settings.device.source);
  ids_ = settings.backends.value;
  lists_backends_ = !ids_.empty();
  const std::string named = device_ ? device_->plugin_id : std::string();
  if (lists_backends_ && !named.empty() && !contains(ids_, named))
    contradiction_ =
        concat(assignment(settings.device), " names a device of '", named, "', and ", assignment(settings.backends), " does not list it");
  if (!lists_backends_ && !named.empty()) ids_ = {named};
  if (settings.force_cpu.value) {
    if (lists_backends_ && !contains(ids_, cpu))
      contradiction_ =
          concat(assignment(settings.force_cpu), " allows nothing but the CPU, and ", assignment(settings.backends), " does not list it");
    else if (!named.empty() && named != cpu)
      contradiction_ =
          concat(assignment(settings.force_cpu), " allows nothing but the CPU, and ", assignment(settings.device), " names another device");
    ids_ = {cpu};
  }
}

Verdict Demand::gate(const std::string& id, const std::string& name) const {
  for (const std::string& glob : settings_.disabled.value)
    if (::fnmatch(glob.c_str(), id.c_str(), 0) == 0)
      return {code::disabled,
              concat(name, ": disabled by ", assignment(settings_.disabled)),
              concat("take '", glob, "' out of ", settings_.disabled.source),
              {}};
  if (settings_.force_cpu.value && id != cpu)
    return {code::forced_cpu,
            concat(name, ": not opened, because ", assignment(settings_.force_cpu), " allows nothing but the CPU"),
            concat("unset ", settings_.force_cpu.source),
            {}};
  if (!ids_.empty() && !contains(ids_, id))
    return {code::not_demanded, concat(name, ": not opened, because ", words(), " asks for others"), {}, {}};
  return {};
}

std::string Demand::words() const {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : " and ") + part; };
  if (settings_.force_cpu.value) add(assignment(settings_.force_cpu));
  if (lists_backends_) add(assignment(settings_.backends));
  if (device_) add(assignment(settings_.device));
  return text;
}

}  // namespace quern::loader
