// quern run MODEL [PROMPT]: one answer, or the chat of chat.cpp where there is no prompt.
#include "verbs.hpp"

#include "answer.hpp"
#include "chat.hpp"
#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "where.hpp"

#include "quern/base/files.hpp"

#include <unistd.h>

#include <chrono>

namespace quern::cli {
namespace {

/// What is to be answered: messages for the template, or with --raw the text as it is.
struct Question {
  std::vector<Message> messages;
  std::string raw_text;
  Chat chat = nullptr;  // of --messages, in place of both
};

/// The prompt, what standard input brings, or both. A prompt of "-" is standard input by name.
std::string question_text(const RunFlags& flags) {
  if (!flags.prompt || *flags.prompt == "-") return read_stdin();
  return with_input(*flags.prompt, read_beside_prompt([] {
                      write_error_line("waiting for the end of standard input, which belongs to the prompt; < /dev/null leaves it out");
                    }));
}

Question read_question(const RunFlags& flags) {
  Question question;
  if (flags.messages_file) {
    question.chat = read_chat(*flags.messages_file);
    return question;
  }
  std::string text = question_text(flags);
  if (text.empty())
    throw Failure(exit_usage, "run: the prompt is empty; give it as an argument, on standard input or with --messages");
  if (flags.raw) {
    question.raw_text = std::move(text);
    return question;
  }
  if (flags.system) question.messages.push_back({"system", *flags.system});
  question.messages.push_back({"user", std::move(text)});
  return question;
}

/// Made before the weights are loaded: a model that this version does not run, one that cannot answer a chat, or a prompt
/// that is malformed, is refused at once.
std::vector<std::int32_t> ids_of(const Question& question, const RunFlags& flags, const Settings& settings) {
  const std::string& path = flags.model.path;
  check_architecture(path);
  const Vocabulary vocabulary = open_vocabulary(path, flags.model.tokenizer_pre);
  limit_template(vocabulary.get(), settings);
  if (flags.raw) return tokenize(vocabulary.get(), question.raw_text, 0);
  const Text rendered = question.chat ? render_chat(vocabulary.get(), question.chat.get(), path)
                                      : render_chat(vocabulary.get(), question.messages, path);
  return tokenize_rendered(vocabulary.get(), rendered, special_flag(flags.special_in_messages));
}

RunReport report_of(const Answer& made, const std::vector<std::int32_t>& prompt, const Where& where) {
  RunReport report;
  report.where = where.ran_on;
  report.prompt_ids = prompt;
  report.ids = made.ids;
  report.text = made.text;
  report.finish = quern_finish_name(made.finish);
  report.reused_tokens = made.reused_tokens;
  report.prompt_seconds = made.prompt_seconds;
  report.decode_seconds = made.decode_seconds;
  report.logprobs = made.logprobs;
  report.best = made.best;
  report.statistics = where.statistics;
  return report;
}

/// Opens the file before anything is computed, so that a wrong path costs nothing.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) { check_trace(base::NewFile::create(path, file_)); }
  void write(quern_session* session) {
    const auto json = make<Text>(quern_session_trace_json, session);
    const std::string_view bytes = view(json);
    check_trace(file_.append(bytes));
    check_trace(file_.append("\n"));
    check_trace(file_.commit());
  }

 private:
  static void check_trace(const base::FileProblem& problem) {
    if (problem) throw Failure(exit_refused, "the trace cannot be written: " + problem.text);
  }
  base::NewFile file_;
};

}  // namespace

int run_verb(const CommandLine& line, const Settings& settings) {
  const RunFlags& flags = line.run;
  const bool chat = !flags.prompt && !flags.messages_file && isatty(STDIN_FILENO) == 1;
  if (chat && line.json) throw Failure(exit_usage, "run: the chat has no --json; give a prompt or --messages");
  if (chat && flags.trace_file) throw Failure(exit_usage, "run: the chat has no --trace; give a prompt or --messages");
  if (chat && flags.raw) throw Failure(exit_usage, "run: the chat needs the chat template; --raw needs a prompt");
  // The chat has no prompt yet; any will do to see that the model can answer one.
  const std::vector<std::int32_t> prompt =
      ids_of(chat ? Question{{{"user", "Hello"}}, "", nullptr} : read_question(flags), flags, settings);
  std::optional<TraceFile> trace;
  if (flags.trace_file) trace.emplace(*flags.trace_file);

  const auto started = std::chrono::steady_clock::now();
  const Runtime runtime = open_runtime(settings);
  const Model model = load_model(runtime.get(), {.path = flags.model.path,
                                                 .context = flags.context,
                                                 .activations = flags.model.activations,
                                                 .kv = flags.model.kv,
                                                 .tokenizer_pre = flags.model.tokenizer_pre,
                                                 .progress = !line.quiet});
  limit_template(quern_model_vocabulary(model.get()), settings);
  const auto session = make<Session>(quern_session_create, model.get(), nullptr);
  const std::chrono::duration<double> load = std::chrono::steady_clock::now() - started;
  if (line.verbose) {
    const quern_model* loaded = model.get();
    write_error_page(view(make<Text>(quern_model_placement_words, loaded)));
  }
  ActivityWriter activity(flags.model.path);
  if (chat) return chat_loop(model.get(), session.get(), flags, line.quiet, activity);

  if (trace) check(quern_session_trace_start(session.get()));
  const std::uint64_t seed = seed_of(flags.sampling);
  const InterruptGuard guard(session.get());
  const Answer made = answer(session.get(), prompt, flags, seed, !line.json, guard, activity);
  if (trace) trace->write(session.get());
  const Where where = where_it_ran(model.get(), session.get(), flags.model.path);
  if (line.json) {
    RunReport report = report_of(made, prompt, where);
    report.seed = seed;
    report.load_seconds = load.count();
    write_json(run_json(report));
  } else {
    write_out("\n");
  }
  explain_loop(made);
  if (!line.quiet)
    write_error_line(closing_line(where, made.tokens_per_second(), "generated") + ", " + counted(made.ids.size(), "token") +
                     ", finish " + quern_finish_name(made.finish));
  return exit_ok;
}

}  // namespace quern::cli
