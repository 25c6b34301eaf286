// The commands of the chat: one table, from which the help page and the completion come. A test holds the manual to it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

/// What a line at the prompt asks for.
enum class ChatVerb {
  say,
  nothing,
  unknown,  // no command
  help,
  file,
  edit,
  regenerate,
  undo,
  copy,
  history,
  clear,
  system,
  set,
  show,
  context,
  stats,
  models,
  save,
  load,
  exit
};

/// What stands behind a command.
enum class ChatArgument { none, text, file, setting };

struct ChatCommand {
  ChatVerb verb;
  const char* name;         ///< "/save"
  const char* placeholder;  ///< "FILE", "[TEXT]" where it may be left out, or ""
  const char* help;
  ChatArgument argument;
};

std::span<const ChatCommand> chat_commands();

struct ChatLine {
  ChatVerb verb = ChatVerb::nothing;
  std::string argument;  ///< without blanks around it; of an unknown command what to say of it
};

/// "/exit" is a command, and so is "/save a.json". A first word with another '/' in it ("/usr/bin is full") is text.
/// A command with a word too many or too few is unknown.
ChatLine parse_chat_line(std::string_view line);

/// What /help prints.
std::string chat_help();

}  // namespace quern::cli
