#include "typed_lines.hpp"

#include "output.hpp"

#include "quern/base/files.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace quern::cli {
namespace {

constexpr std::size_t most_lines = 1000;
constexpr std::size_t longest_line = 64 << 10;
constexpr std::uint64_t most_file = 8 << 20;

std::string folder_of_state() {
  if (const char* state = ::secure_getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') return std::string(state) + "/quern";
  if (const char* home = ::secure_getenv("HOME"); home != nullptr && *home == '/') return std::string(home) + "/.local/state/quern";
  return "";
}

}  // namespace

TypedLines::TypedLines() {
  if (const std::string folder = folder_of_state(); !folder.empty()) path_ = folder + "/chat_history";
}

std::vector<std::string> TypedLines::read(std::string& problem) {
  std::vector<std::string> lines;
  if (path_.empty()) return lines;
  std::string text;
  const base::FileProblem found = base::read_file(path_, text, {.most = most_file, .links = base::AtLink::refuse});
  if (found.fault == base::FileFault::not_found) return lines;
  if (found) {
    problem = found.text;
    path_.clear();
    return lines;
  }
  std::size_t in_file = 0;
  for (std::size_t from = 0; from < text.size(); ++in_file) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    // A list or an object has brackets that nest; a text begins with its quote, and anything else is no line of ours.
    const std::string_view bytes = std::string_view(text).substr(from, end - from);
    const Json line = bytes.starts_with('"') ? Json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false) : Json();
    if (line.is_string() && line.get_ref<const std::string&>().size() <= longest_line) lines.push_back(line.get<std::string>());
    from = end + 1;
  }
  if (lines.size() > most_lines) lines.erase(lines.begin(), lines.end() - most_lines);
  if (in_file > 2 * most_lines || text.size() > most_file / 2) {
    std::string shorter;
    for (const std::string& line : lines) shorter += json_line(line);
    if (shorter.size() > most_file / 2) shorter.clear();
    if (const base::FileProblem written = base::write_file(path_, shorter)) problem = written.text;
  }
  return lines;
}

void TypedLines::add(const std::string& line, std::string& problem) {
  if (path_.empty() || line.size() > longest_line) return;
  base::FileProblem failed = base::make_folders(path_.substr(0, path_.rfind('/')));
  base::GrowingFile file;
  if (!failed) failed = base::GrowingFile::open(path_, base::GrowingFile::Begin::keep, file);
  if (!failed) failed = file.append(json_line(line));
  if (!failed) return;
  problem = failed.text;
  path_.clear();
}

}  // namespace quern::cli
