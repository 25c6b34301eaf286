// See command.hpp.
#include "command.hpp"

#include "codes.hpp"

#include <filesystem>
#include <iterator>
#include <map>

namespace quern::loader {
namespace {

struct CodeRow {
  const char* code;
  const char* meaning;
  const char* command;
};

constexpr CodeRow code_rows[] = {
#define QUERN_LOADER_CODE(name, code, meaning, command) {code, meaning, command},
#include "codes.def"
#undef QUERN_LOADER_CODE
};

const CodeRow* row_of(const std::string& code) {
  for (const CodeRow& row : code_rows)
    if (code == row.code) return &row;
  return nullptr;
}

using Words = std::map<std::string, std::string>;

constexpr const char* apt_install = "sudo apt install";

std::string filled(std::string text, const Words& words) {
  for (const auto& [name, value] : words) {
    const std::string mark = "{" + name + "}";
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
      text.replace(at, mark.size(), value);
  }
  return text;
}

/// The package of "install X", "install X or Y"; empty for another sentence.
std::string package_in(const std::string& remedy) {
  constexpr std::string_view start = "install ";
  if (!remedy.starts_with(start)) return {};
  const std::size_t end = remedy.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.+-", start.size());
  const std::string name = remedy.substr(start.size(), end == std::string::npos ? end : end - start.size());
  const std::string rest = end == std::string::npos ? "" : remedy.substr(end);
  const bool named = name.find_first_of("-.0123456789") != std::string::npos;  // "a", "another", "the" are no packages
  return named && (rest.empty() || rest.starts_with(" or ") || rest.starts_with(",")) ? name : std::string();
}

/// The package of "install the Vulkan loader (Debian: libvulkan1)"; empty where several are named, or one with conditions.
std::string debian_package_in(const std::string& remedy) {
  constexpr std::string_view start = "(Debian: ";
  const std::size_t at = remedy.find(start);
  if (at == std::string::npos) return {};
  const std::size_t end = remedy.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.+-", at + start.size());
  const bool alone = end != std::string::npos && remedy[end] == ')';
  return alone ? remedy.substr(at + start.size(), end - at - start.size()) : std::string();
}

/// What stands in backquotes in a remedy: the command that a plugin knows better than its code does.
std::string command_in(const std::string& remedy) {
  const std::size_t start = remedy.find('`');
  const std::size_t end = start == std::string::npos ? start : remedy.find('`', start + 1);
  return end == std::string::npos ? std::string() : remedy.substr(start + 1, end - start - 1);
}

/// "cuda" of "/x/libbackend_cuda.so".
std::string id_of_file(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  constexpr std::string_view start = "libbackend_", end = ".so";
  if (!name.starts_with(start) || !name.ends_with(end) || name.size() <= start.size() + end.size()) return {};
  return name.substr(start.size(), name.size() - start.size() - end.size());
}

std::string command_of(const std::string& code, const std::string& remedy, const Words& words) {
  if (const std::string package = package_in(remedy); !package.empty()) return filled("{install} " + package, words);
  if (std::string command = command_in(remedy); !command.empty()) return command;
  const auto install = words.find("install");
  if (const std::string package = debian_package_in(remedy); !package.empty() && install != words.end() && install->second == apt_install)
    return install->second + " " + package;
  const CodeRow* row = row_of(code);
  if (row == nullptr) return {};
  const std::string text = std::string(row->command) == "=" ? remedy : filled(row->command, words);
  return text.find('{') != std::string::npos && text.find("${") == std::string::npos ? std::string() : text;
}

Words words_of_system(const std::string& etc_root) {
  std::error_code none;
  if (std::filesystem::exists(etc_root + "/debian_version", none))
    return {{"install", apt_install}, {"reinstall", "sudo apt install --reinstall"}};
  return {{"install", "sudo dnf install"}, {"reinstall", "sudo dnf reinstall"}};
}

}  // namespace

std::string meaning_of(const std::string& code) {
  const CodeRow* row = row_of(code);
  return row == nullptr ? "" : row->meaning;
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+:@%,=";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

void add_commands(Report& report, const std::string& etc_root) {
  const Words system = words_of_system(etc_root);
  for (ReportEntry& e : report.entries) {
    Words words = system;
    if (!e.path.empty()) words["path"] = shell_word(e.path);
    const std::string id = e.id.empty() ? id_of_file(e.path) : e.id;
    if (!id.empty()) words["id"] = id;
    for (const auto& [name, value] : e.words) words[name] = value;
    const bool works = e.status == Status::usable || e.status == Status::limited;
    e.command = works ? std::string() : command_of(e.code, e.remedy, words);
    for (DeviceReport& d : e.devices) {
      words["label"] = d.label;
      d.command = d.rank >= 0 ? std::string() : command_of(d.code, d.remedy, words);
    }
  }
}

}  // namespace quern::loader
