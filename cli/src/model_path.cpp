#include "model_path.hpp"

#include "api.hpp"

#include <filesystem>

namespace quern::cli {

std::string model_path(const std::string& given, const Settings& settings) {
  std::error_code ignored;
  // A link to nowhere is a path as well: who opens it names where it leads.
  if (std::filesystem::exists(given, ignored) || std::filesystem::is_symlink(given, ignored)) return given;
  const quern_hub_options options = settings.hub_options();
  quern_text* path = nullptr;
  const quern_status status = quern_find_model(given.c_str(), &options, &path);
  const Text owner(path);
  if (status == QUERN_OK) return std::string(view(owner));
  const std::string reason = quern_last_error();
  if (status == QUERN_INVALID_ARGUMENT) return given;  // not a name: a path, and who opens it says that it is missing
  throw Failure(exit_code_of(status), status == QUERN_NOT_FOUND ? given + ": there is no such file, and " + reason : reason);
}

}  // namespace quern::cli
