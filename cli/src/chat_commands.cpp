#include "chat_commands.hpp"

#include "quern/base/nearest.hpp"
#include "quern/base/terminal_text.hpp"

#include <algorithm>

namespace quern::cli {
namespace {

constexpr ChatCommand commands[] = {
    {ChatVerb::help, "/help", "", "this list", ChatArgument::none},
    {ChatVerb::file, "/file", "FILE", "put the text of a file behind the next message; @FILE inside a message does the same",
     ChatArgument::file},
    {ChatVerb::edit, "/edit", "", "change the last message and ask again", ChatArgument::none},
    {ChatVerb::regenerate, "/regenerate", "", "answer the last message anew", ChatArgument::none},
    {ChatVerb::undo, "/undo", "", "forget the last message and its answer", ChatArgument::none},
    {ChatVerb::copy, "/copy", "", "copy the last answer to the clipboard of the terminal", ChatArgument::none},
    {ChatVerb::history, "/history", "", "what was said", ChatArgument::none},
    {ChatVerb::clear, "/clear", "", "forget what was said, but not the system message", ChatArgument::none},
    {ChatVerb::system, "/system", "[TEXT]", "show the system message, or set it; off is none", ChatArgument::text},
    {ChatVerb::set, "/set", "[NAME VALUE]", "show the settings of an answer, or change one; the value default takes it back",
     ChatArgument::setting},
    {ChatVerb::show, "/show", "", "the model, where it runs, and the settings", ChatArgument::none},
    {ChatVerb::context, "/context", "", "how full the context is", ChatArgument::none},
    {ChatVerb::stats, "/stats", "", "tokens and speed so far", ChatArgument::none},
    {ChatVerb::models, "/models", "", "the models on this machine", ChatArgument::none},
    {ChatVerb::save, "/save", "FILE", "write the chat to a file; quern run --messages reads it too", ChatArgument::file},
    {ChatVerb::load, "/load", "FILE", "go on with a chat from a file", ChatArgument::file},
    {ChatVerb::exit, "/exit", "", "leave; also /quit, /bye and Ctrl-D", ChatArgument::none},
};

constexpr std::string_view command_blanks = " \t\n";

std::string_view bare_line(std::string_view text) {
  const std::size_t first = text.find_first_not_of(command_blanks);
  return first == std::string_view::npos ? std::string_view() : text.substr(first, text.find_last_not_of(command_blanks) - first + 1);
}

std::string_view meant(std::string_view word) { return word == "/quit" || word == "/bye" ? "/exit" : word == "/?" ? "/help" : word; }

}  // namespace

std::span<const ChatCommand> chat_commands() { return commands; }

ChatLine parse_chat_line(std::string_view line) {
  const std::string_view text = bare_line(line);
  if (text.empty()) return {};
  const std::string_view word = meant(text.substr(0, text.find_first_of(command_blanks)));
  if (word.front() != '/' || word.find('/', 1) != std::string_view::npos) return {ChatVerb::say, ""};
  const auto found = std::ranges::find(commands, word, &ChatCommand::name);
  if (found == std::end(commands)) {
    std::vector<std::string> names;
    for (const ChatCommand& command : commands) names.emplace_back(command.name);
    return {ChatVerb::unknown, "unknown command " + in_quotes(word) + did_you_mean(word, names) + "; /help lists them"};
  }
  const std::size_t end = text.find_first_of(command_blanks);
  const std::string argument(end == std::string_view::npos ? std::string_view() : bare_line(text.substr(end)));
  const std::string name = found->name;
  if (found->argument == ChatArgument::none && !argument.empty())
    return {ChatVerb::unknown, name + " takes nothing behind it; without the /, the line is a message"};
  if (argument.empty() && *found->placeholder != '\0' && *found->placeholder != '[')
    return {ChatVerb::unknown, name + " needs a name: " + name + " " + found->placeholder};
  return {found->verb, argument};
}

std::string chat_help() {
  std::size_t width = 0;
  const auto head = [](const ChatCommand& command) {
    return std::string(command.name) + (*command.placeholder == '\0' ? "" : " ") + command.placeholder;
  };
  for (const ChatCommand& command : commands) width = std::max(width, head(command).size());
  std::string page;
  for (const ChatCommand& command : commands) {
    std::string name = head(command);
    name.resize(width + 2, ' ');
    page += name + command.help + "\n";
  }
  return page +
         "Enter sends. Alt-Enter begins a new line, and so does Enter behind an opening \"\"\". Tab completes commands and files.\n"
         "Ctrl-R searches earlier lines. Ctrl-C stops an answer or drops the line; twice quickly, it leaves.\n";
}

}  // namespace quern::cli
