// quern run MODEL [PROMPT]: one answer, or the chat of chat.cpp where there is no prompt.
#include "verbs.hpp"

#include "answer.hpp"
#include "answer_view.hpp"
#include "chat.hpp"
#include "engine.hpp"
#include "new_trace.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "where.hpp"

#include "quern/base/files.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace quern::cli {
namespace {

/// What is to be answered: messages for the template, or with --raw the text as it is.
struct Question {
  std::vector<Message> messages;
  std::string raw_text;
  Chat chat = nullptr;  // of --messages, in place of both
};

bool names_input(const RunFlags& flags) { return std::ranges::find(flags.files, "-") != flags.files.end() || flags.system_file == "-"; }

/// The prompt, what standard input brings, or both. A prompt of "-" is standard input by name. A flag that names standard input has it.
std::string prompt_and_input(const RunFlags& flags) {
  if (flags.prompt == "-") return read_stdin();
  if (!flags.prompt && flags.files.empty()) return names_input(flags) ? "" : read_stdin();
  const std::string input = names_input(flags) ? "" : read_beside_prompt([] {
    write_error_line("waiting for the end of standard input, which belongs to the prompt; < /dev/null leaves it out");
  });
  return with_input(flags.prompt.value_or(""), input);
}

/// With the texts of --file behind it.
std::string question_text(const RunFlags& flags) {
  std::string text = prompt_and_input(flags);
  for (const std::string& file : flags.files) text = appended(std::move(text), flags.raw ? read_file(file) : read_text(file));
  return text;
}

Question read_question(const RunFlags& flags) {
  Question question;
  if (flags.messages_file) {
    question.chat = read_chat(*flags.messages_file);
    return question;
  }
  std::string text = question_text(flags);
  if (text.empty()) throw Failure(exit_usage, "run: the prompt is empty; give it as an argument, on standard input or with --messages");
  if (flags.raw) {
    question.raw_text = std::move(text);
    return question;
  }
  require_text(text, "the prompt");
  if (flags.system) require_text(*flags.system, "the system message");
  if (flags.system) question.messages.push_back({"system", *flags.system});
  question.messages.push_back({"user", std::move(text)});
  return question;
}

/// Made before the weights are loaded: a model that this version does not run, one that cannot answer a chat, or a prompt
/// that is malformed, is refused at once.
Prompt prompt_of(const Question& question, const RunFlags& flags, const Settings& settings) {
  const std::string& path = flags.model.path;
  check_architecture(path);
  const Vocabulary vocabulary = open_vocabulary(path, flags.model.tokenizer_pre);
  limit_template(vocabulary.get(), settings);
  if (flags.raw) return {tokenize(vocabulary.get(), question.raw_text, 0), ""};
  const Text rendered = question.chat ? render_chat(vocabulary.get(), question.chat.get(), path)
                                      : render_chat(vocabulary.get(), question.messages, path);
  return prompt_to_answer(vocabulary.get(), rendered, flags);
}

/// One line for each event. The JSON of --json is the last one, with "event": "end".
class EventLines {
 public:
  explicit EventLines(const RunFlags& flags) : flags_(flags) {}
  void start(std::size_t prompt_tokens, std::uint64_t seed) const {
    write_json({{"event", "start"}, {"model", flags_.model.path}, {"prompt_tokens", prompt_tokens}, {"seed", seed}});
    if (!flags_.prefill.empty()) write_json({{"event", "text"}, {"text", flags_.prefill}, {"id", nullptr}});
  }
  void token(const quern_token_event& event) const {
    Json line{{"event", "text"}, {"text", std::string(event.piece, static_cast<std::size_t>(event.piece_size))}};
    line["id"] = event.token >= 0 ? Json(event.token) : Json(nullptr);
    if (flags_.logprobs > 0 && event.token >= 0) {
      std::vector<Alternative> best;
      for (std::uint32_t i = 0; i < event.top_count; ++i) best.push_back({event.top[i], event.top_logprobs[i]});
      put_logprob(line, event.logprob, best);
    }
    write_json(line);
  }
  void end(const Json& report) const {
    Json line{{"event", "end"}};
    line.update(report);
    write_json(line);
  }

 private:
  const RunFlags& flags_;
};

RunReport report_of(const Answer& made, std::string_view text, const std::vector<std::int32_t>& prompt, const Where& where) {
  RunReport report;
  report.where = where.ran_on;
  report.prompt_ids = prompt;
  report.ids = made.ids;
  report.text = text;
  report.finish = quern_finish_name(made.finish);
  report.reused_tokens = made.reused_tokens;
  report.prompt_seconds = made.prompt_seconds;
  report.decode_seconds = made.decode_seconds;
  report.logprobs = made.logprobs;
  report.best = made.best;
  report.statistics = where.statistics;
  return report;
}

}  // namespace

int run_verb(const CommandLine& line, const Settings& settings) {
  RunFlags flags = line.run;
  if (flags.system_file) {
    flags.system = read_text(*flags.system_file);
    if (flags.system->ends_with('\n')) flags.system->pop_back();
  }
  const bool chat = !flags.prompt && !flags.messages_file && flags.files.empty() && isatty(STDIN_FILENO) == 1;
  if (chat && (line.json || flags.jsonl))
    throw Failure(exit_usage, std::string("run: the chat has no ") + (line.json ? "--json" : "--jsonl") + "; give a prompt or --messages");
  if (chat && flags.trace_file) throw Failure(exit_usage, "run: the chat has no --trace; give a prompt or --messages");
  if (chat && flags.raw) throw Failure(exit_usage, "run: the chat needs the chat template; --raw needs a prompt");
  // The chat has no prompt yet; any will do to see that the model can answer one.
  const auto [prompt, end_of_prompt] = prompt_of(chat ? Question{{{"user", "Hello"}}, "", nullptr} : read_question(flags), flags, settings);
  std::optional<NewTrace> trace;
  if (flags.trace_file) trace.emplace(*flags.trace_file);

  const auto started = std::chrono::steady_clock::now();
  const Runtime runtime = open_runtime(settings);
  const std::optional<ScaledAdapter> adapter = adapter_of("run", flags.model);
  const Model model = load_model(runtime.get(), {.path = flags.model.path,
                                                 .context = flags.context,
                                                 .activations = flags.model.activations,
                                                 .kv = flags.model.kv,
                                                 .tokenizer_pre = flags.model.tokenizer_pre,
                                                 .adapter = adapter,
                                                 .progress = !line.quiet});
  limit_template(quern_model_vocabulary(model.get()), settings);
  const Session session = open_session(model.get(), adapter);
  const std::chrono::duration<double> load = std::chrono::steady_clock::now() - started;
  if (line.verbose) {
    const quern_model* loaded = model.get();
    write_error_page(view(make<Text>(quern_model_placement_words, loaded)));
  }
  if (flags.explain && !line.json && !flags.jsonl) write_error_page(plan_words(model.get()));
  ActivityWriter activity(flags.model.path);
  if (chat) return chat_loop(model.get(), session.get(), line, flags, settings, activity);

  if (trace) check(quern_session_trace_start(session.get()));
  const std::uint64_t seed = seed_of(flags.sampling);
  check_context(model.get(), prompt.size(), "the prompt");
  const InterruptGuard guard(session.get());
  const EventLines lines(flags);
  AnswerView view(flags.plain || flags.raw);
  TokenSink sink;
  if (flags.jsonl) {
    lines.start(prompt.size(), seed);
    sink = [&](const quern_token_event& event) { lines.token(event); };
  } else if (!line.json) {
    view.follow(end_of_prompt);
    view.add(flags.prefill);
    sink = [&](const quern_token_event& event) { view.add({event.piece, static_cast<std::size_t>(event.piece_size)}); };
  }
  const Answer made = answer(session.get(), prompt, flags, seed, sink, guard, activity);
  const std::string text = flags.prefill + made.text;
  if (trace) trace->write(make<Text>(quern_session_trace_json, session.get()));
  const Where where = where_it_ran(model.get(), session.get(), flags.model.path);
  if (line.json || flags.jsonl) {
    RunReport report = report_of(made, text, prompt, where);
    report.seed = seed;
    report.load_seconds = load.count();
    if (flags.explain) report.plan = plan_json(model.get());
    if (flags.jsonl) lines.end(run_json(report));
    else write_json(run_json(report));
  } else {
    view.end();
  }
  explain_loop(made);
  if (!line.quiet)
    write_error_line(closing_line(where, made.tokens_per_second(),
                                  "generated, " + counted(made.ids.size(), "token") + ", finish " + quern_finish_name(made.finish)));
  return exit_ok;
}

}  // namespace quern::cli
