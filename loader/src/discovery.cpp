// Which files may be plugins: directories in order, names sorted, each real file once.
#include "discovery.hpp"

#include "codes.hpp"
#include "trust.hpp"
#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

namespace quern::loader {
namespace {

constexpr std::size_t max_files = 256;  // of one directory

ReportEntry note(const std::string& path, Status status, const char* code, std::string cause, std::string remedy) {
  ReportEntry entry;
  entry.path = path;
  entry.stage = Stage::search;
  entry.status = status;
  entry.code = code;
  entry.cause = std::move(cause);
  entry.remedy = std::move(remedy);
  return entry;
}

bool is_plugin_name(const std::string& name) {
  constexpr std::string_view prefix = "libbackend_", suffix = ".so";
  return name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix);
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  if (!real && errno == ENOMEM) throw std::bad_alloc();  // not "no such folder"
  return real ? std::string(real.get()) : std::string();
}

std::optional<Others> others_at(const std::string& directory) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) return std::nullopt;
  if (auto found = others_who_may_write(directory, info)) return found;
  return others_above(directory);
}

const char* code_of(const Others& others) { return others.owner ? code::foreign_owner : code::directory_writable; }

class Search {
 public:
  explicit Search(Discovery& found) : found_(found) {}

  /// source: who named it. must_exist: its absence is worth a note.
  void directory(const std::string& path, const std::string& source, bool must_exist) {
    if (path.empty()) return;
    if (path.front() != '/') {
      add(path, Status::refused, code::directory_relative,
          concat("'", path, "' (from ", source, ") is not an absolute path, and plugins are never looked for from the current directory"),
          "give the whole path");
      return;
    }
    const std::string real = real_path(path);
    struct stat info {};
    if (real.empty() || ::stat(real.c_str(), &info) != 0) {
      const int error = errno;
      const std::string target = base::dangling_target(path);
      if (must_exist)
        add(path, Status::warning, code::directory_unreadable,
            concat("'", path, "' (from ", source, ") cannot be searched: ",
                   target.empty() ? std::strerror(error) : "it is a link to '" + target + "', and there is no such folder"),
            "check the path");
      return;
    }
    if (!S_ISDIR(info.st_mode)) {
      add(path, Status::refused, code::directory_unreadable, concat("'", path, "' (from ", source, ") is not a directory"),
          "name the directory that holds the plugins");
      return;
    }
    if (const auto others = others_who_may_write(path, info)) {
      add(path, Status::refused, code_of(*others),
          concat("'", path, "' (from ", source, ") may be written to by ", others->who, ", so nothing in it is loaded"), others->remedy);
      return;
    }
    if (const auto above = others_above(real)) {
      add(path, Status::refused, code_of(*above),
          concat("'", path, "' (from ", source, ") lies in '", above->path, "', which ", above->who,
                 " may write to, so nothing in it is loaded"),
          above->remedy);
      return;
    }
    if (!seen_.insert({info.st_dev, info.st_ino}).second) return;
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(real.c_str()), &::closedir);
    if (!open && errno == ENOMEM) throw std::bad_alloc();
    if (!open) {
      add(path, Status::warning, code::directory_unreadable,
          concat("'", path, "' (from ", source, ") cannot be searched: ", std::strerror(errno)), "check its permissions");
      return;
    }
    found_.directories.push_back(real);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(open.get()))
      if (is_plugin_name(entry->d_name)) names.emplace_back(entry->d_name);
    std::ranges::sort(names);
    if (names.size() > max_files) {
      add(path, Status::warning, code::directory_unreadable,
          concat("'", path, "' holds ", names.size(), " plugins; only the first ", max_files, " are looked at"), "");
      names.resize(max_files);
    }
    for (const std::string& name : names) file(real + "/" + name);
  }

 private:
  void file(const std::string& path) {
    const std::string real = real_path(path);
    struct stat info {};
    if (real.empty() || ::stat(real.c_str(), &info) != 0) {
      add(path, Status::refused, code::file_unreadable, base::file_problem(path, "read", errno).text, "remove the link or repair it");
      return;
    }
    if (!seen_.insert({info.st_dev, info.st_ino}).second) {
      add(path, Status::skipped, code::same_file, concat(path, ": the same file as one found before"), "");
      return;
    }
    const std::string home = real.substr(0, real.rfind('/'));
    if (home != path.substr(0, path.rfind('/')))  // the folder that was searched is judged
      if (const auto others = others_at(home)) {
        add(path, Status::refused, code_of(*others),
            concat(path, ": leads into '", others->path, "', which ", others->who, " may write to"), others->remedy);
        return;
      }
    found_.files.push_back(real);
  }

  void add(const std::string& path, Status status, const char* code, std::string cause, std::string remedy) {
    found_.notes.push_back(note(path, status, code, std::move(cause), std::move(remedy)));
  }

  Discovery& found_;
  std::set<std::pair<dev_t, ino_t>> seen_;  // directories and files
};

}  // namespace

Discovery discover(const Settings& settings, const std::vector<std::string>& default_directories) {
  Discovery found;
  Search search(found);
  for (const std::string& text : settings.ignored) found.notes.push_back(note("", Status::warning, code::environment_ignored, text, ""));
  for (const Setting<std::vector<std::string>>* list : {&settings.directories, &settings.extra_path})
    for (const std::string& path : list->value) search.directory(path, list->source, true);
  if (settings.backend_path.is_set()) {
    for (const std::string& path : settings.backend_path.value) search.directory(path, settings.backend_path.source, true);
    return found;
  }
  for (const std::string& path : default_directories) {
    if (real_path(path).empty()) continue;
    search.directory(path, "the default", true);
    return found;
  }
  std::string tried;
  for (const std::string& path : default_directories) tried += (tried.empty() ? "" : ", ") + path;
  if (found.directories.empty())
    found.notes.push_back(note("", Status::warning, code::no_directory,
                               tried.empty() ? "the place of the runtime library cannot be told, because it was loaded by a relative path"
                                             : concat("there is no plugin directory; looked for ", tried),
                               "install a backend package such as quern-backend-cpu, or set QUERN_BACKEND_PATH"));
  return found;
}

}  // namespace quern::loader
