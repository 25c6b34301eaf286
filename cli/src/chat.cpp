#include "chat.hpp"

#include "answer_view.hpp"
#include "attachments.hpp"
#include "characters.hpp"
#include "chat_commands.hpp"
#include "chat_settings.hpp"
#include "conversation.hpp"
#include "engine.hpp"
#include "line_editor.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "terminal_window.hpp"
#include "typed_lines.hpp"
#include "verbs/verbs.hpp"
#include "where.hpp"

#include "quern/base/files.hpp"

#include <algorithm>
#include <cctype>

namespace quern::cli {
namespace {

/// A line of the program between what the user and the model say.
void say_note(const std::string& text) {
  const std::string rows = wrapped(printable(text), window_size().columns);
  if (window_has_styles() && draws_on_error()) draw_on_error(Drawing().style(Style::dim).rows(rows).no_style().rows("\n"));
  else write_error_page(rows + "\n");
}

std::string count_of(std::uint64_t count, const std::string& one) { return with_commas(count) + " " + one + (count == 1 ? "" : "s"); }

/// 134515008 is "134.5M".
std::string in_millions(std::uint64_t count) {
  const double millions = static_cast<double>(count) / 1e6;
  return millions < 1000 ? fixed(millions, millions < 10 ? 2 : 1) + "M" : fixed(millions / 1000, 1) + "B";
}

class ChatRoom {
 public:
  ChatRoom(const quern_model* model, quern_session* session, const CommandLine& line, const RunFlags& flags, const Settings& settings,
           ActivityWriter& activity)
      : model_(model),
        session_(session),
        info_(get<quern_model_info>(quern_model_get_info, model)),
        flags_(flags),
        answer_settings_(flags_, line.flags),
        settings_(settings),
        quiet_(line.quiet),
        activity_(activity) {
    conversation_.set_system(flags.system.value_or(""));
    editor_.set_completion(complete_chat);
    if (flags.no_history) return;
    std::string problem;
    editor_.set_typed(typed_.read(problem));
    say_problem(problem);
    editor_.set_keeper([this](const std::string& typed) {
      std::string trouble;
      typed_.add(typed, trouble);
      say_problem(trouble);
    });
  }

  void set_interrupts(InterruptGuard& guard) {
    editor_.set_interrupts([&guard] { return guard.take_interrupt(); });
  }

  void show_banner() const {
    const std::size_t columns = window_size().columns;
    const std::string name = *info_.name != '\0' ? info_.name : flags_.model.path;
    write_error_line(cut_to_columns(name + " (" + info_.weights + ", " + in_millions(info_.parameters) + " parameters) on " + info_.device +
                                        " (" + info_.device_description + "), kernels " + info_.kernels,
                                    columns));
    write_error_line(cut_to_columns("context " + with_commas(info_.context) + " tokens; /help lists the commands, Ctrl-D leaves", columns));
  }

  /// Until the user leaves.
  void talk() {
    while (!leaves_) {
      const std::optional<std::string> typed = editor_.read_line();
      if (!typed) return;
      try {
        take_line(*typed);
      } catch (const Failure& failure) {
        // What the user typed, or a file, is the trouble: it can be mended here. Anything else cannot.
        if (failure.code() != exit_context && failure.code() != exit_refused && failure.code() != exit_usage) throw;
        write_error_line(std::string("quern: ") + failure.what());
      }
    }
  }

 private:
  void say_problem(const std::string& problem) const {
    if (!problem.empty()) write_error_line("lines that are typed are not kept: " + problem + "; --no-history keeps none");
  }

  void take_line(const std::string& typed) {
    const ChatLine line = parse_chat_line(typed);
    switch (line.verb) {
      case ChatVerb::nothing: break;
      case ChatVerb::say: say(typed); break;
      case ChatVerb::unknown: write_error_line(line.argument); break;
      case ChatVerb::help: write_out(chat_help()); break;
      case ChatVerb::file: add_file(line.argument); break;
      case ChatVerb::edit: edit(); break;
      case ChatVerb::regenerate: regenerate(); break;
      case ChatVerb::undo: undo(); break;
      case ChatVerb::copy: copy(); break;
      case ChatVerb::history: write_out(history_page(conversation_.messages())); break;
      case ChatVerb::clear:
        conversation_.clear();
        waiting_.clear();
        write_out("forgotten\n");
        break;
      case ChatVerb::system: change_system(line.argument); break;
      case ChatVerb::set:
        if (!line.argument.empty()) answer_settings_.set(line.argument);
        write_out(line.argument.empty() ? answer_settings_.page() : "set\n");
        break;
      case ChatVerb::show: show(); break;
      case ChatVerb::context: write_out(context_words() + "\n"); break;
      case ChatVerb::stats: write_out(stats()); break;
      case ChatVerb::models: list_verb(CommandLine(), settings_); break;
      case ChatVerb::save: save(line.argument); break;
      case ChatVerb::load: load(line.argument); break;
      case ChatVerb::exit: leaves_ = true; break;
    }
  }

  /// A message, with the files that it names and those of /file.
  void say(const std::string& typed) {
    if (const std::size_t bad = first_bad_byte(typed); bad < typed.size())
      throw Failure(exit_refused, flags_.model.path + ": your message is not UTF-8: byte " + with_commas(bad + 1) +
                                      " belongs to no character; the line is forgotten");
    Attached attached = attach_files(typed);
    for (const std::string& missing : attached.missing) say_note("[@" + missing + " stays a word: there is no such file]");
    for (const std::string& text : waiting_) attached.message = appended(std::move(attached.message), text);
    if (!send(attached.message)) return;
    last_typed_ = typed;
    last_files_ = std::move(waiting_);
    waiting_.clear();
  }

  /// Whether the message was answered. What was said stays as it was where it was not.
  bool send(const std::string& message) {
    Conversation next = conversation_;
    next.add("user", message);
    try {
      if (!answer_to(next)) {
        say_note("[not sent; the up key brings the message back]");
        return false;
      }
    } catch (const Failure& failure) {
      if (failure.code() == exit_refused) throw Failure(exit_refused, std::string(failure.what()) + "; the line is forgotten");
      throw;
    }
    conversation_ = std::move(next);
    return true;
  }

  /// The prompt of a chat, where it has at most so many tokens.
  std::optional<Prompt> prompt_within(const Conversation& chat, std::uint64_t most) const {
    const quern_vocabulary* vocabulary = quern_model_vocabulary(model_);
    try {
      Prompt prompt = prompt_to_answer(vocabulary, render_chat(vocabulary, chat.messages(), flags_.model.path), flags_);
      if (prompt.ids.size() <= most) return prompt;
    } catch (const Failure& failure) {
      if (failure.code() != exit_context) throw;
    }
    return {};
  }

  /// The prompt with room for an answer of which `said` tokens are there already. A chat that is too long loses its oldest messages, if the
  /// user agrees; else there is no prompt.
  std::optional<Prompt> fitting_prompt(Conversation& chat, std::uint64_t said) {
    const auto most = [&](std::uint64_t share) { return share > said ? share - said : 0; };
    if (std::optional<Prompt> prompt = prompt_within(chat, most(info_.context - 1))) return prompt;
    Conversation shorter = chat;
    std::optional<Prompt> prompt;
    std::size_t dropped = 0;
    while (!prompt && shorter.drop_oldest()) {
      ++dropped;
      prompt = prompt_within(shorter, most(info_.context - info_.context / 4));  // a quarter is for the answer
    }
    if (!prompt) prompt = prompt_within(shorter, most(info_.context - 1));
    if (!prompt) {
      const std::string size = count_of(info_.context, "token");
      if (said > 0) throw Failure(exit_context, "the context is full: it holds " + size + "; /clear starts again");
      throw Failure(exit_context,
                    "your message is too long: the context holds " + size + "; shorten it, or start again with a larger --context");
    }
    say_note("[the context is full: it holds " + count_of(info_.context, "token") + "; without the oldest " +
             (dropped == 1 ? "message" : with_commas(dropped) + " messages") + " of your " + with_commas(chat.questions()) +
             ", and what was answered, there is room]");
    const std::optional<std::string> reply = editor_.ask("forget the oldest and go on? [Y/n] ");
    if (!reply || (!reply->empty() && std::tolower(static_cast<unsigned char>(reply->front())) != 'y')) return {};
    chat = std::move(shorter);
    return prompt;
  }

  /// Answers the last message and adds the answer. False where the prompt is too long and stays so.
  bool answer_to(Conversation& chat) {
    std::optional<Prompt> prompt = fitting_prompt(chat, 0);
    if (!prompt) return false;
    std::string text = flags_.prefill;
    std::vector<std::int32_t> ids;
    RunFlags flags = flags_;
    const std::uint64_t seed = seed_of(flags.sampling) + again_;
    Answer made;
    do {
      const InterruptGuard guard(session_, InterruptGuard::Typing::hidden);
      AnswerView view(flags.plain);
      view.follow(prompt->end + text);
      if (ids.empty()) view.add(text);
      prompt->ids.insert(prompt->ids.end(), ids.begin(), ids.end());
      const auto show = [&](const quern_token_event& event) { view.add({event.piece, static_cast<std::size_t>(event.piece_size)}); };
      made = answer(session_, prompt->ids, flags, seed, show, guard, activity_);
      view.end();
      text += made.text;
      ids.insert(ids.end(), made.ids.begin(), made.ids.end());
      count(made, prompt->ids.size());
      if (flags.max_tokens > 0) flags.max_tokens -= std::min<std::uint64_t>(made.ids.size(), flags.max_tokens - 1);
    } while (made.finish == QUERN_FINISH_CONTEXT && (prompt = prompt_to_go_on(chat, ids.size())));
    if (made.finish == QUERN_FINISH_CANCELLED) {
      editor_.note_interrupt();
      say_note("[stopped; Ctrl-C again leaves]");
    }
    explain_loop(made);
    chat.add("assistant", text);
    if (!quiet_) {
      std::uint64_t held = 0;
      check(quern_sequence_length(session_, 0, &held));
      say_note("[" + count_of(ids.size(), "token") + ", " + fixed(made.tokens_per_second(), 1) + " tokens/s, context " + fullness(held) +
               "]");
    }
    return true;
  }

  /// Of an answer that filled the context.
  std::optional<Prompt> prompt_to_go_on(Conversation& chat, std::uint64_t said) {
    try {
      std::optional<Prompt> prompt = fitting_prompt(chat, said);
      if (!prompt) say_note("[the context is full; /clear starts again]");
      return prompt;
    } catch (const Failure& failure) {
      if (failure.code() != exit_context) throw;
      say_note(std::string("[") + failure.what() + "]");
      return {};
    }
  }

  void count(const Answer& made, std::size_t prompt_tokens) {
    ++answers_;
    tokens_ += made.ids.size();
    decoded_ += made.ids.empty() ? 0 : made.ids.size() - 1;
    decode_seconds_ += made.decode_seconds;
    read_ += prompt_tokens - made.reused_tokens;
    reused_ += made.reused_tokens;
    prompt_seconds_ += made.prompt_seconds;
  }

  std::string fullness(std::uint64_t held) const {
    return std::to_string(held * 100 / std::max<std::uint64_t>(info_.context, 1)) + " % full";
  }

  /// Takes the last message and its answer back, and does `again`. They stay where nothing new was said.
  template <typename Again>
  void ask_again(const Again& again) {
    const Conversation before = conversation_;
    conversation_.undo();
    const std::size_t said = conversation_.questions();
    try {
      again();
    } catch (...) {
      conversation_ = before;
      throw;
    }
    if (conversation_.questions() == said) conversation_ = before;
  }

  std::string last_message() const {
    Conversation copy = conversation_;
    const std::optional<std::string> text = copy.undo();
    if (!text) throw Failure(exit_refused, "there is no message yet");
    return *text;
  }

  /// As it was typed, where it was typed here; what came from a file is text, whatever files it may name.
  void edit() {
    const std::string last = last_message();
    const bool typed_here = !last_typed_.empty();
    const std::optional<std::string> changed = editor_.change_line(typed_here ? last_typed_ : last);
    if (!changed) {
      leaves_ = true;
    } else if (parse_chat_line(*changed).verb != ChatVerb::say) {
      say_note("[the last message stays as it was]");
    } else if (typed_here) {
      waiting_.insert(waiting_.begin(), last_files_.begin(), last_files_.end());
      ask_again([&] { say(*changed); });
    } else {
      ask_again([&] { send(*changed); });
    }
  }

  void regenerate() {
    const std::string last = last_message();
    ++again_;  // another draw, also with --seed
    ask_again([&] { send(last); });
  }

  void undo() {
    last_message();
    conversation_.undo();
    last_typed_.clear();
    write_out("the last message and its answer are forgotten\n");
  }

  void copy() const {
    constexpr std::size_t most = 74'994;  // what xterm and tmux take
    const std::string text = conversation_.last_answer();
    if (text.empty()) throw Failure(exit_refused, "there is no answer yet to copy");
    if (!window_can_draw())
      throw Failure(exit_refused, "the clipboard is the terminal's, and standard output is none; /save writes the chat to a file");
    if (text.size() > most)
      throw Failure(exit_refused, "the answer has " + with_commas(text.size()) + " bytes, and terminals copy " + with_commas(most) +
                                      " at most; /save writes the chat to a file");
    draw_out(Drawing().copy(text));
    write_out("the last answer was given to the terminal's clipboard (" + count_of(text.size(), "byte") + ")\n");
  }

  void add_file(const std::string& path) {
    std::string text = read_text(home_expanded(path));
    write_out(printable(path) + " (" + count_of(text.size(), "byte") + ") goes with the next message\n");
    waiting_.push_back(std::move(text));
  }

  void change_system(const std::string& text) {
    if (text.empty()) {
      write_out(conversation_.system().empty() ? "there is no system message\n" : conversation_.system() + "\n");
      return;
    }
    conversation_.set_system(text == "off" ? "" : text);
    write_out(text == "off" ? "there is no system message now\n" : "the system message is set\n");
  }

  void show() const {
    const RanOn ran_on = where_it_ran(model_, session_, flags_.model.path).ran_on;
    const std::string system = conversation_.system();
    write_out("model              " + printable(ran_on.model) + " (" + printable(info_.architecture) + ", " + info_.weights + ", " +
              in_millions(info_.parameters) + " parameters)\n" + "device             " + ran_on.backend + " on " + ran_on.device + " (" +
              printable(info_.device_description) + "), kernels " + ran_on.kernels + "\n" + "context            " +
              with_commas(info_.context) + " tokens\n" + "system             " + (system.empty() ? "none" : printable_start(system, 200)) +
              "\n" + answer_settings_.page());
  }

  std::string context_words() const {
    if (conversation_.messages().empty()) return "0 of " + count_of(info_.context, "token");
    const std::optional<Prompt> prompt = prompt_within(conversation_, info_.context);
    if (!prompt) return "full: what was said has more than " + count_of(info_.context, "token");
    return with_commas(prompt->ids.size()) + " of " + count_of(info_.context, "token") + ", " + fullness(prompt->ids.size()) + "; " +
           count_of(conversation_.questions(), "message") + " of yours";
  }

  std::string stats() const {
    const Where where = where_it_ran(model_, session_, flags_.model.path);
    return "answers   " + with_commas(answers_) + "\n" + "prompts   " + count_of(read_, "token") + ", " +
           fixed(rate(read_, prompt_seconds_), 1) + " tokens/s; " + with_commas(reused_) + " more were there already\n" + "answered  " +
           count_of(tokens_, "token") + ", " + fixed(rate(decoded_, decode_seconds_), 1) + " tokens/s\n" + "device    " +
           where.ran_on.backend + " on " + where.ran_on.device + ", kernels " + where.ran_on.kernels + "\n";
  }

  void save(const std::string& path) const {
    if (const base::FileProblem problem = base::write_file(home_expanded(path), saved_chat(conversation_)))
      throw Failure(exit_refused, "the chat is not saved: " + problem.text);
    write_out("saved to " + printable(path) + "\n");
  }

  void load(const std::string& path) {
    std::string json;
    if (const base::FileProblem problem = base::read_file(home_expanded(path), json, {.most = most_saved_bytes}))
      throw Failure(exit_refused, problem.text);
    conversation_ = read_saved_chat(json, path);
    last_typed_.clear();
    write_out("loaded: " + count_of(conversation_.questions(), "message") + " of yours\n");
  }

  const quern_model* model_;
  quern_session* session_;
  quern_model_info info_;
  RunFlags flags_;
  ChatSettings answer_settings_;
  const Settings& settings_;
  bool quiet_;
  ActivityWriter& activity_;
  LineEditor editor_{"> "};
  TypedLines typed_;
  Conversation conversation_;
  std::vector<std::string> waiting_;     ///< texts of /file
  std::string last_typed_;               ///< the last message before files were put behind it; "" where it was not typed here
  std::vector<std::string> last_files_;  ///< what waiting_ was then
  bool leaves_ = false;
  std::uint64_t again_ = 0;
  std::uint64_t answers_ = 0, tokens_ = 0, decoded_ = 0, read_ = 0, reused_ = 0;
  double prompt_seconds_ = 0, decode_seconds_ = 0;
};

}  // namespace

int chat_loop(const quern_model* model, quern_session* session, const CommandLine& line, const RunFlags& flags, const Settings& settings,
              ActivityWriter& activity) {
  InterruptGuard at_the_prompt(nullptr, InterruptGuard::Typing::shown, InterruptGuard::Second::counts);
  ChatRoom room(model, session, line, flags, settings, activity);
  room.set_interrupts(at_the_prompt);
  if (!line.quiet) room.show_banner();
  room.talk();
  return exit_ok;
}

}  // namespace quern::cli
