#include "json_file.hpp"

#include "quern/base/files.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"

#include <utility>

namespace quern::directory {

std::string path_in(const std::string& folder, std::string_view name) { return concat(folder, folder.ends_with('/') ? "" : "/", name); }

std::optional<JsonFile> JsonFile::find(std::string path, std::uint64_t bytes, std::span<const Json::Taken> taken) {
  std::string text;
  if (const base::FileProblem problem = base::read_file(path, text, {.most = bytes})) {
    if (problem.fault == base::FileFault::not_found && base::dangling_target(path).empty()) return std::nullopt;
    if (problem.fault == base::FileFault::too_large) throw Error(QUERN_BAD_MODEL, problem.text);
    check_read(problem);
  }
  std::string why;
  std::optional<Json> json = Json::parse(text, Json::most_values, &why, taken);
  if (!json) throw Error(QUERN_BAD_MODEL, concat(path, ": is ", why));
  if (!json->is_object()) throw Error(QUERN_BAD_MODEL, concat(path, ": is not a JSON object"));
  return made_of(std::move(path), std::move(*json));
}

JsonFile JsonFile::made_of(std::string path, Json json) {
  JsonFile file;
  file.path_ = std::move(path);
  file.json_ = std::move(json);
  return file;
}

Error JsonFile::bad(std::string_view field, std::string_view text) const {
  return Error(QUERN_BAD_MODEL, concat(path_, ": ", in_quotes(field), " ", text));
}

Error JsonFile::unsupported(std::string_view field, std::string_view text) const {
  return Error(QUERN_UNSUPPORTED, concat(path_, ": ", in_quotes(field), " ", text));
}

}  // namespace quern::directory
