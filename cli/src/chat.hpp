// The interactive chat: turns with memory, on a terminal.
#pragma once

#include "answer.hpp"
#include "input.hpp"

#include <optional>
#include <string>
#include <vector>

namespace quern::cli {

/// What a line at the prompt asks for.
enum class ChatCommand { say, help, clear, history, exit, unknown, nothing };

/// "/exit" and "/quit", "/help", "/clear", "/history"; other lines that begin with '/' are unknown, blank ones nothing.
ChatCommand parse_chat_line(std::string_view line);

/// The turns as they are shown by /history.
std::string history_page(const std::vector<Message>& messages);

/// Runs until /exit or the end of standard input; Ctrl-C stops an answer, and at the prompt drops the line. Returns
/// the exit code.
int chat_loop(const quern_model* model, quern_session* session, const RunFlags& flags, bool quiet, ActivityWriter& activity);

}  // namespace quern::cli
