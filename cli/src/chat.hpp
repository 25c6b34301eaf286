// The interactive chat: turns with memory, on a terminal.
#pragma once

#include "answer.hpp"
#include "command_line.hpp"
#include "settings.hpp"

namespace quern::cli {

/// Runs until /exit, the end of standard input, or Ctrl-C twice; Ctrl-C once stops an answer, and at the prompt drops the line. Returns
/// the exit code.
int chat_loop(const quern_model* model, quern_session* session, const CommandLine& line, const RunFlags& flags, const Settings& settings,
              ActivityWriter& activity);

}  // namespace quern::cli
