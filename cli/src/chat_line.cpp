// The parts of the chat that need neither a terminal nor the library.
#include "chat.hpp"

#include "output.hpp"

namespace quern::cli {

ChatCommand parse_chat_line(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  if (first == std::string_view::npos) return ChatCommand::nothing;
  const std::string_view word = line.substr(first, line.find_last_not_of(" \t") - first + 1);
  if (word.front() != '/') return ChatCommand::say;
  if (word == "/exit" || word == "/quit") return ChatCommand::exit;
  if (word == "/help") return ChatCommand::help;
  if (word == "/clear") return ChatCommand::clear;
  if (word == "/history") return ChatCommand::history;
  return ChatCommand::unknown;
}

std::string history_page(const std::vector<Message>& messages) {
  std::string page;
  for (const Message& message : messages) page += message.role + ": " + message.content + "\n";
  return page.empty() ? "nothing was said yet\n" : page;
}

}  // namespace quern::cli
