#include "model_path.hpp"

#include "api.hpp"
#include "download.hpp"
#include "input.hpp"
#include "output.hpp"

#include "quern/base/nearest.hpp"

#include <unistd.h>

#include <filesystem>
#include <vector>

namespace quern::cli {
namespace {

/// Names of models in the cache, and files beside where `given` would be.
std::vector<std::string> names_here(const std::string& given, const quern_hub_options& options) {
  std::vector<std::string> names;
  quern_text* raw = nullptr;
  const quern_status status = quern_cached_models_json(&options, &raw);
  const Text text(raw);
  if (status == QUERN_OK) {
    const Json json = Json::parse(view(text));
    for (const Json& model : json.at("models")) names.push_back(model.at("name").get<std::string>());
  }
  const std::string folder = given.substr(0, given.find_last_of('/') + 1);
  constexpr std::size_t most = 10000;
  std::error_code failed;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : folder, failed);
  for (std::size_t seen = 0; !failed && entry != std::filesystem::directory_iterator() && seen < most; entry.increment(failed), ++seen)
    if (std::string name = entry->path().filename().string(); name.ends_with(".gguf")) names.push_back(folder + name);
  return names;
}

bool wants_download(const std::string& given) {
  write_error_page(printable(given) + " is not on this machine. Download it now? [y/N] ");
  const std::string answer = read_answer();
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

std::string model_path(const std::string& given, const Settings& settings, const Absent& absent) {
  std::error_code ignored;
  // A link to nowhere is a path as well: who opens it names where it leads.
  if (std::filesystem::exists(given, ignored) || std::filesystem::is_symlink(given, ignored)) return given;
  const quern_hub_options options = settings.hub_options();
  quern_text* path = nullptr;
  const quern_status status = quern_find_model(given.c_str(), &options, &path);
  const Text owner(path);
  if (status == QUERN_OK) return std::string(view(owner));
  const std::string reason = quern_last_error();
  const std::string meant = did_you_mean(given, names_here(given, options));
  if (status == QUERN_INVALID_ARGUMENT) {  // not a name: a path
    if (meant.empty()) return given;       // who opens it says that it is missing
    throw Failure(exit_refused, printable(given) + ": there is no such file" + meant);
  }
  if (status == QUERN_NOT_FOUND) {
    const bool just_absent = reason.starts_with(printable(given) + " is not in ");  // and not a file of the cache that is broken
    if (absent.pull ||
        (absent.offer && just_absent && meant.empty() && isatty(STDIN_FILENO) == 1 && draws_on_error() && wants_download(given)))
      return download_model(given, {}, settings, absent.quiet);
    std::string text = just_absent ? "it" + reason.substr(printable(given).size()) : reason;  // the name is said once
    if (just_absent && !meant.empty()) text = text.substr(0, text.find(';')) + meant;
    throw Failure(exit_refused, printable(given) + ": there is no such file, and " + text);
  }
  throw Failure(exit_code_of(status), reason);
}

}  // namespace quern::cli
