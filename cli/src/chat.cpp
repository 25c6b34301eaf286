#include "chat.hpp"

#include "engine.hpp"
#include "line_editor.hpp"
#include "output.hpp"
#include "where.hpp"

namespace quern::cli {
namespace {

constexpr const char* help =
    "/help     this list\n"
    "/history  what was said\n"
    "/clear    forget it\n"
    "/exit     leave (or Ctrl-D)\n"
    "Ctrl-C stops an answer. Up and down bring back earlier lines.\n";

std::vector<Message> opening(const RunFlags& flags) {
  if (!flags.system) return {};
  return {{"system", *flags.system}};
}

/// Asks and adds both sides to the history; a failure leaves the history as it was.
void take_turn(const quern_model* model, quern_session* session, const RunFlags& flags, const std::string& said,
               std::vector<Message>& history, bool quiet, ActivityWriter& activity) {
  const InterruptGuard guard(session);
  const quern_vocabulary* vocabulary = quern_model_vocabulary(model);
  std::vector<Message> turns = history;
  turns.push_back({"user", said});
  const auto prompt = tokenize_rendered(vocabulary, render_chat(vocabulary, turns, flags.model.path),
                                        special_flag(flags.special_in_messages));
  const Answer made = answer(session, prompt, flags, seed_of(flags.sampling), [](const quern_token_event& event) {
    write_out({event.piece, static_cast<std::size_t>(event.piece_size)});
  }, guard, activity);
  write_out("\n");
  turns.push_back({"assistant", made.text});
  history = std::move(turns);
  if (made.finish == QUERN_FINISH_CANCELLED) write_error_line("[stopped]");
  if (made.finish == QUERN_FINISH_CONTEXT) write_error_line("[the context is full; /clear starts again]");
  if (!quiet)
    write_error_line("[" + closing_line(where_it_ran(model, session, flags.model.path), made.tokens_per_second(), "generated") +
                     "]");
}

}  // namespace

int chat_loop(const quern_model* model, quern_session* session, const RunFlags& flags, bool quiet, ActivityWriter& activity) {
  const InterruptGuard at_the_prompt(nullptr);
  LineEditor editor("> ");
  std::vector<Message> history = opening(flags);
  if (!quiet) write_error_line("/help lists the commands; Ctrl-D leaves");
  while (const std::optional<std::string> said = editor.read_line()) {
    switch (parse_chat_line(*said)) {
      case ChatCommand::exit:
        return exit_ok;
      case ChatCommand::help:
        write_out(help);
        break;
      case ChatCommand::history:
        write_out(history_page(history));
        break;
      case ChatCommand::clear:
        history = opening(flags);
        write_out("forgotten\n");
        break;
      case ChatCommand::unknown:
        write_error_line("unknown command '" + printable(*said) + "'; /help lists them");
        break;
      case ChatCommand::say:
        try {
          take_turn(model, session, flags, *said, history, quiet, activity);
        } catch (const Failure& failure) {
          // A prompt that no longer fits can be mended here, and a line that is refused is forgotten; anything else cannot.
          if (failure.code() != exit_context && failure.code() != exit_refused) throw;
          write_error_line(std::string("quern: ") + failure.what() +
                           (failure.code() == exit_context ? "; /clear starts again" : "; the line is forgotten"));
        }
        break;
      case ChatCommand::nothing:
        break;
    }
  }
  return exit_ok;
}

}  // namespace quern::cli
