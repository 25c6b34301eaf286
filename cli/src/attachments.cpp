#include "attachments.hpp"

#include "characters.hpp"
#include "chat_commands.hpp"
#include "chat_settings.hpp"
#include "input.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace quern::cli {
namespace {

constexpr std::string_view between_words = " \t\n";

bool begins_word(std::string_view text, std::size_t at) {
  return at == 0 || between_words.find(text[at - 1]) != std::string_view::npos || text[at - 1] == '(';
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(home_expanded(path), ignored);
}

struct NamedFile {
  std::string path;
  std::size_t end;  // behind its word
};

/// The path of the word that begins with the '@' at `at`. Punctuation at its end belongs to the sentence, unless there is such a file.
NamedFile path_at(std::string_view text, std::size_t at) {
  if (text.substr(at + 1).starts_with('"')) {
    const std::size_t end = text.find('"', at + 2);
    if (end != std::string_view::npos) return {std::string(text.substr(at + 2, end - at - 2)), end + 1};
  }
  const std::size_t end = std::min(text.find_first_of(between_words, at), text.size());
  std::string path(text.substr(at + 1, end - at - 1));
  while (!path.empty() && !is_there(path) && std::string_view(".,;:!?)\"'").find(path.back()) != std::string_view::npos) path.pop_back();
  return {path, end};
}

bool looks_like_a_path(const std::string& word) {
  const std::size_t dot = word.find('.');
  return word.find('/') != std::string::npos || (dot != std::string::npos && dot + 1 < word.size());
}

/// Files and folders whose paths begin with `begin`, sorted; hidden ones where it asks for them, and none that a terminal would not show.
std::vector<std::string> paths_from(const std::string& begin) {
  constexpr std::size_t most_entries = 10'000;  // of one folder that are looked at
  const std::size_t slash = begin.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : begin.substr(0, slash + 1), name = begin.substr(folder.size());
  std::error_code failed;
  std::vector<std::string> found;
  std::size_t seen = 0;
  std::filesystem::directory_iterator entry(folder.empty() ? "." : home_expanded(folder),
                                            std::filesystem::directory_options::skip_permission_denied, failed);
  for (; !failed && entry != std::filesystem::directory_iterator() && ++seen <= most_entries; entry.increment(failed)) {
    const std::string here = entry->path().filename().string();
    if (!here.starts_with(name) || (here.front() == '.' && !name.starts_with('.')) || printable(here) != here) continue;
    std::error_code unknown;
    found.push_back(folder + here + (entry->is_directory(unknown) ? "/" : ""));
  }
  std::ranges::sort(found);
  return found;
}

Completion complete_command(std::string_view text, std::size_t cursor) {
  const std::string_view begun = text.substr(0, cursor);
  const std::size_t end = begun.find(' ');
  Completion completion{true, 0, {}};
  if (end == std::string_view::npos) {
    for (const ChatCommand& command : chat_commands())
      if (std::string_view(command.name).starts_with(begun)) completion.words.push_back(std::string(command.name) + " ");
    return completion;
  }
  const auto command = std::ranges::find(chat_commands(), begun.substr(0, end), &ChatCommand::name);
  if (command == chat_commands().end()) return completion;
  completion.from = std::min(begun.find_first_not_of(' ', end), cursor);
  const std::string argument(begun.substr(completion.from));
  if (command->argument == ChatArgument::file) completion.words = paths_from(argument);
  if (command->argument == ChatArgument::setting)
    for (const std::string& name : ChatSettings::names())
      if (name.starts_with(argument)) completion.words.push_back(name + " ");
  return completion;
}

}  // namespace

std::string home_expanded(const std::string& path) {
  const char* home = ::secure_getenv("HOME");
  return path.starts_with("~/") && home != nullptr && *home != '\0' ? home + path.substr(1) : path;
}

Attached attach_files(const std::string& message) {
  Attached attached{message, {}, {}};
  for (std::size_t at = message.find('@'); at != std::string::npos; at = message.find('@', at + 1)) {
    if (!begins_word(message, at)) continue;
    const auto [path, end] = path_at(message, at);
    if (path.empty()) continue;
    if (is_there(path)) {
      if (std::ranges::find(attached.files, path) != attached.files.end()) continue;
      attached.message = appended(std::move(attached.message), read_text(home_expanded(path)));
      attached.files.push_back(path);
    } else if (looks_like_a_path(path)) {
      attached.missing.push_back(path);
    }
    at = end - 1;
  }
  return attached;
}

Completion complete_chat(std::string_view text, std::size_t cursor) {
  if (text.starts_with('/')) return complete_command(text, cursor);
  const std::string_view begun = text.substr(0, cursor);
  for (std::size_t at = begun.rfind('@'); at != std::string_view::npos; at = at == 0 ? std::string_view::npos : begun.rfind('@', at - 1)) {
    if (!begins_word(begun, at)) continue;
    const bool quoted = begun.substr(at + 1).starts_with('"');
    const std::string_view path = begun.substr(at + (quoted ? 2 : 1));
    if (path.find_first_of(quoted ? "\"\n" : " \t\n") != std::string_view::npos) continue;
    Completion completion{true, at, {}};
    for (const std::string& found : paths_from(std::string(path))) {
      const bool quotes = quoted || found.find_first_of(" \t") != std::string::npos;
      const bool folder = found.ends_with('/');
      completion.words.push_back((quotes ? "@\"" : "@") + found + (folder ? "" : quotes ? "\" " : " "));
    }
    return completion;
  }
  return {};
}

}  // namespace quern::cli
