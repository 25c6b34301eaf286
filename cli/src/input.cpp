#include "input.hpp"

#include "failure.hpp"

#include "quern/base/files.hpp"
#include "quern/base/terminal_text.hpp"

#include <nlohmann/json.hpp>

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::cli {
namespace {

using nlohmann::json;

constexpr std::uint64_t most_input = std::uint64_t{1} << 30;

/// The reader of JSON recurses once for each level; messages have two.
void refuse_deep_nesting(std::string_view text, const std::string& name) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string) {
      if (c == '\\')
        ++at;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > 64) throw Failure(exit_refused, name + ": nested deeper than 64 levels");
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

std::string string_member(const json& object, const char* member, const std::string& where) {
  const auto found = object.find(member);
  if (found == object.end() || !found->is_string())
    throw Failure(exit_refused, where + ": '" + member + "' is " +
                                    (found == object.end() ? "missing" : std::string("a ") + found->type_name()) +
                                    ", and has to be a string");
  return found->get<std::string>();
}

}  // namespace

std::string read_stdin() {
  std::string bytes;
  if (const base::FileProblem problem = base::read_descriptor(STDIN_FILENO, "standard input", bytes, most_input))
    throw Failure(exit_refused, problem.text);
  return bytes;
}

std::string read_beside_prompt(void (*waiting)()) {
  struct stat found {};
  if (fstat(STDIN_FILENO, &found) != 0) return "";
  if (!S_ISFIFO(found.st_mode) && !S_ISREG(found.st_mode) && !S_ISSOCK(found.st_mode)) return "";
  constexpr int patience_milliseconds = 2000;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, patience_milliseconds) == 0) waiting();
  return read_stdin();
}

std::string with_input(std::string prompt, const std::string& input) {
  if (input.empty()) return prompt;
  return prompt.empty() ? input : prompt + "\n\n" + input;
}

std::string read_file(const std::string& path) {
  if (path == "-") return read_stdin();
  std::string bytes;
  // Pipes too: --messages /dev/stdin, or what a shell gives for <(command).
  if (const base::FileProblem problem = base::read_file(path, bytes, {.most = most_input, .pipes = base::Pipes::read}))
    throw Failure(exit_refused, problem.text);
  return bytes;
}

std::vector<Message> parse_messages(std::string_view json_text, const std::string& name) {
  refuse_deep_nesting(json_text, name);
  json document;
  try {
    document = json::parse(json_text);
  } catch (const json::exception& error) {
    throw Failure(exit_refused, name + ": not JSON: " + error.what());
  }
  if (!document.is_array() || document.empty())
    throw Failure(exit_refused, name + ": expected a list of messages such as [{\"role\": \"user\", \"content\": "
                                       "\"...\"}], found " +
                                    (document.is_array() ? "an empty list" : std::string("a ") + document.type_name()));
  std::vector<Message> messages;
  for (const json& element : document) {
    const std::string where = name + ": message " + std::to_string(messages.size() + 1);
    if (!element.is_object()) throw Failure(exit_refused, where + " is a " + element.type_name() + ", not an object");
    for (const auto& member : element.items())
      if (member.key() != "role" && member.key() != "content")
        throw Failure(exit_refused, where + ": member " + in_quotes(member.key()) + " is not known; role and content are");
    messages.push_back({string_member(element, "role", where), string_member(element, "content", where)});
  }
  return messages;
}

}  // namespace quern::cli
