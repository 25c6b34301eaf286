// See process_traces.hpp.
#include "worker/process_traces.hpp"

#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>

extern char** environ;

namespace quern::conformance {
namespace {

std::map<std::string, std::string> now() {
  std::map<std::string, std::string> parts;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    const std::string entry = *e;
    const std::size_t equals = entry.find('=');
    parts["the environment variable " + entry.substr(0, equals)] = equals == std::string::npos ? "" : entry.substr(equals + 1);
  }
  for (int s = 1; s < SIGRTMAX; ++s) {
    struct sigaction action {};
    if (::sigaction(s, nullptr, &action) == 0)
      parts["the handler of signal " + std::to_string(s)] = std::to_string(reinterpret_cast<std::uintptr_t>(action.sa_handler));
  }
  std::error_code gone;
  parts["the working directory"] = std::filesystem::current_path(gone).string();
  parts["the locale"] = ::setlocale(LC_ALL, nullptr);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  parts["the creation mask"] = std::to_string(mask);
  parts["the rounding mode"] = std::to_string(::fegetround());
  return parts;
}

}  // namespace

ProcessTraces::ProcessTraces() : parts_(now()) {}

std::string ProcessTraces::changed() {
  std::map<std::string, std::string> after = now();
  std::string text;
  const auto say = [&](const std::string& what) {
    if (text.empty()) text = what;
  };
  for (const auto& [name, value] : after) {
    const auto was = parts_.find(name);
    if (was == parts_.end()) say(name + " was not there and is '" + value + "'");
    else if (was->second != value) say(name + " was '" + was->second + "' and is '" + value + "'");
  }
  for (const auto& [name, value] : parts_)
    if (!after.contains(name)) say(name + " was '" + value + "' and is not there any more");
  parts_ = std::move(after);
  return text;
}

}  // namespace quern::conformance
