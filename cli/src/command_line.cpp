#include "command_line.hpp"

#include "failure.hpp"
#include "nearest.hpp"
#include "output.hpp"
#include "parser.hpp"
#include "twins.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <span>
#include <sstream>

namespace quern::cli {
namespace {

void check_run(const CommandLine& line) {
  const RunFlags& run = line.run;
  if (run.prompt && run.messages_file) throw Failure(exit_usage, "run: give a PROMPT or --messages, not both");
  if (run.raw && run.special_in_messages)
    throw Failure(exit_usage, "run: --raw takes a prompt as it is, special tokens included; --special-in-messages is for the chat template");
  if (run.raw && run.messages_file)
    throw Failure(exit_usage, "run: --raw takes a prompt as it is, and --messages needs the chat template");
  if (run.system && run.system_file) throw Failure(exit_usage, "run: give --system or --system-file, not both");
  const char* system = run.system ? "--system" : run.system_file ? "--system-file" : nullptr;
  if (run.raw && system != nullptr) throw Failure(exit_usage, std::string("run: --raw has no place for ") + system + "; put it in the prompt");
  if (system != nullptr && run.messages_file)
    throw Failure(exit_usage, "run: with --messages, the system message belongs in the file");
  if (!run.files.empty() && run.messages_file) throw Failure(exit_usage, "run: --file follows a prompt; with --messages, its text belongs in the messages");
  if (run.raw && !run.prefill.empty()) throw Failure(exit_usage, "run: --raw has no place for --prefill; put it at the end of the prompt");
  if (line.json && run.jsonl) throw Failure(exit_usage, "run: --json prints one object and --jsonl one for each event; give one of them");
  const auto named = std::ranges::count(run.files, "-") + (run.prompt == "-") + (run.messages_file == "-") + (run.system_file == "-");
  if (named > 1) throw Failure(exit_usage, "run: standard input can be read once, and - stands for it " + std::to_string(named) + " times");
  for (const std::string& stop : run.stop)
    if (stop.empty()) throw Failure(exit_usage, "run: --stop needs a text that is not empty");
}

void check_estimate(const CommandLine& line) {
  const quern_shape& shape = line.estimate.shape;
  const bool any = shape.hidden != 0 || shape.feed_forward != 0 || shape.layers != 0 || shape.vocabulary != 0 ||
                   shape.heads != 0 || shape.kv_heads != 0 || shape.head_size != 0 || shape.tied != 0;
  const bool all = shape.hidden != 0 && shape.feed_forward != 0 && shape.layers != 0 && shape.vocabulary != 0 &&
                   shape.heads != 0;
  if (any && !line.estimate.model.path.empty())
    throw Failure(exit_usage, "estimate: give a MODEL or shape numbers, not both");
  if (line.estimate.model.path.empty() && !all)
    throw Failure(exit_usage, "estimate: give a MODEL, or --hidden --ffn --layers --vocab --heads, none of them 0");
}

void check(const CommandLine& line) {
  if (line.verb == Verb::run) check_run(line);
  if (line.verb == Verb::estimate) check_estimate(line);
  if (line.verb == Verb::tokenize && line.tokenize.text && line.tokenize.messages_file)
    throw Failure(exit_usage, "tokenize: give a TEXT or --messages, not both");
  if (line.verb == Verb::tokenize && line.tokenize.special_in_messages && !line.tokenize.messages_file)
    throw Failure(exit_usage, "tokenize: --special-in-messages needs --messages; the special tokens of a TEXT are recognised unless --no-special is given");
  if (line.verb == Verb::tokenize && line.tokenize.no_special && line.tokenize.messages_file)
    throw Failure(exit_usage, "tokenize: a rendered chat has special tokens; --no-special cannot apply to --messages");
}

std::string joined_words(std::span<const std::string> words, const char* between) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : between) + word;
  return all;
}

/// The long and short names of an app's flags, "--top-k" and "-n".
std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// The first flag that neither the verb nor the program has, without its value; "" if there is none.
std::string unknown_flag(const std::vector<std::string>& left_over, const std::vector<std::string>& known) {
  for (const std::string& word : left_over) {
    if (word.size() < 2 || word.front() != '-' || word == "--") continue;
    const std::string flag = word.substr(0, word.find('='));
    if (std::ranges::find(known, flag) == known.end()) return flag;
  }
  return "";
}

/// What was left over, in the order of the command line; the parser's own list may be backwards.
std::vector<std::string> in_given_order(const std::vector<std::string>& arguments, std::vector<std::string> left_over) {
  std::vector<std::string> ordered;
  for (const std::string& argument : arguments) {
    const auto found = std::ranges::find(left_over, argument);
    if (found == left_over.end()) continue;
    ordered.push_back(argument);
    left_over.erase(found);
  }
  return ordered;
}

/// Why words or flags are left over when a verb has taken what it knows.
std::string left_over_text(const CLI::App& program, const CLI::App& verb, const std::vector<std::string>& arguments) {
  const std::vector<std::string> left_over = in_given_order(arguments, verb.remaining());
  std::vector<std::string> known = flags_of(verb);
  const std::vector<std::string> outer = flags_of(program);
  known.insert(known.end(), outer.begin(), outer.end());
  if (const std::string flag = unknown_flag(left_over, known); !flag.empty())
    return printable(flag) + " is not a flag of " + verb.get_name() + did_you_mean(flag, known);
  const CLI::Option* last = nullptr;  // the last positional
  for (const CLI::Option* option : verb.get_options([](const CLI::Option*) { return true; }))
    if (option->get_positional() && option->count() > 0) last = option;
  const std::string name = last == nullptr ? "" : last->get_name();
  if (name == "PROMPT" || name == "TEXT") {
    std::vector<std::string> words = last->results();
    words.insert(words.end(), left_over.begin(), left_over.end());
    const std::vector<std::string> given = in_given_order(arguments, std::move(words));
    return name + " is one argument, and these are " + std::to_string(given.size()) + "; quote them: \"" +
           printable(joined_words(given, " ")) + "\"";
  }
  return in_quotes(joined_words(left_over, "' '"), 200) + " is more than " + verb.get_name() + " takes";
}

/// The parser's message, in our manner: the verb in front, and where to look.
std::string usage_text(const CLI::App& program, const std::vector<std::string>& arguments, const std::string& what, bool left_over = false) {
  const auto chosen = program.get_subcommands();
  const std::string name = chosen.empty() ? "" : chosen.front()->get_name();
  const std::vector<std::string> outer = flags_of(program);
  if (name.empty()) {
    if (const std::string flag = unknown_flag(arguments, outer); !flag.empty() && arguments.front() == flag)
      return printable(flag) + " is not a flag of quern" + did_you_mean(flag, outer) + "; see quern --help";
    const auto word = std::ranges::find_if(arguments, [](const std::string& one) { return !one.starts_with('-'); });
    if (word != arguments.end()) {
      std::vector<std::string> verbs;
      for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; })) verbs.push_back(verb->get_name());
      return in_quotes(*word, 200) + " is not a verb" + did_you_mean(*word, verbs) + "; the verbs are " + joined_words(verbs, ", ") + "; see quern --help";
    }
  }
  std::string message = left_over && !name.empty() ? left_over_text(program, *chosen.front(), arguments) : printable(what.substr(0, what.find('\n')));
  while (!message.empty() && message.back() == '.') message.pop_back();
  return (name.empty() ? "" : name + ": ") + message + "; see quern " + (name.empty() ? "" : name + " ") + "--help";
}

CommandLine parse(const std::vector<std::string>& arguments, const std::string& version, const Environment& environment,
                  bool nothing_required) {
  CommandLine line;
  Parser parser(line, version);
  parser.program.require_subcommand(nothing_required ? 0 : 1, 1);
  if (nothing_required) {
    for (const VerbApp& verb : parser.verbs)
      for (CLI::Option* option : verb.app->get_options([](const CLI::Option*) { return true; })) option->required(false);
  }
  try {
    parser.program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    std::ostringstream text, ignored;
    if (parser.program.exit(error, text, ignored) == 0) throw Answered{text.str()};
    throw Failure(exit_usage, usage_text(parser.program, arguments, error.what(), dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr));
  }
  const auto chosen = std::ranges::find_if(parser.verbs, [](const VerbApp& verb) { return verb.app->parsed(); });
  if (chosen == parser.verbs.end()) {
    line.flags = take_twins(parser.program, environment);
    if (!line.show_config) throw Failure(exit_usage, usage_text(parser.program, arguments, "a verb is needed"));
    for (const Setting& setting : all_settings())
      line.flags.push_back({setting.flag, setting.variable, &setting, {}});
  } else {
    line.verb = chosen->verb;
    line.verb_name = chosen->app->get_name();
    line.flags = take_twins(*chosen->app, environment);
    for (FlagState& state : line.flags) {  // -v, -q and --json may also stand in front of the verb
      const CLI::Option* outer = parser.program.get_option_no_throw(state.flag);
      if (outer != nullptr && outer->count() > 0) state.given = {"on", Origin::flag, state.flag};
    }
  }
  const auto verbose = std::ranges::find(line.flags, "--verbose", &FlagState::flag);
  const bool from_variable = verbose != line.flags.end() && verbose->given.origin == Origin::environment;
  if (line.verbose && !(from_variable && environment("QUERN_LOG"))) line.settings.try_emplace("log", "debug");
  if (!line.show_config) check(line);
  return line;
}

}  // namespace

std::string* CommandLine::model() {
  switch (verb) {
    case Verb::run:
      return &run.model.path;
    case Verb::tokenize:
      return &tokenize.path;
    case Verb::eval:
      return &eval.model.path;
    case Verb::bench:
      return &bench.model.path;
    case Verb::show:
      return &show.path;
    case Verb::estimate:
      return estimate.model.path.empty() ? nullptr : &estimate.model.path;
    default:
      return nullptr;
  }
}

CommandLine parse_command_line(const std::vector<std::string>& arguments, const std::string& version,
                               const Environment& environment) {
  // --show-config needs nothing that its verb needs; whether it was given is known after parsing only.
  const auto last = std::ranges::find(arguments, "--");
  const bool may_show_config = std::find(arguments.begin(), last, "--show-config") != last;
  CommandLine line = parse(arguments, version, environment, may_show_config);
  return may_show_config && !line.show_config ? parse(arguments, version, environment, false) : line;
}

}  // namespace quern::cli
