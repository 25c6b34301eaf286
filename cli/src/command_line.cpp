#include "command_line.hpp"

#include "failure.hpp"
#include "parser.hpp"
#include "twins.hpp"

#include <algorithm>
#include <sstream>

namespace quern::cli {
namespace {

void check_run(const CommandLine& line) {
  const RunFlags& run = line.run;
  if (run.prompt && run.messages_file) throw Failure(exit_usage, "run: give a PROMPT or --messages, not both");
  if (run.raw && run.messages_file)
    throw Failure(exit_usage, "run: --raw takes a prompt as it is, and --messages needs the chat template");
  if (run.raw && run.system) throw Failure(exit_usage, "run: --raw has no place for --system; put it in the prompt");
  if (run.system && run.messages_file)
    throw Failure(exit_usage, "run: with --messages, the system message belongs in the file");
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
  if (line.verb == Verb::tokenize && line.tokenize.no_special && line.tokenize.messages_file)
    throw Failure(exit_usage, "tokenize: a rendered chat has special tokens; --no-special cannot apply to --messages");
}

/// The parser's message, in our manner: the verb in front, and where to look.
std::string usage_text(const CLI::App& program, const std::vector<std::string>& arguments, const std::string& what) {
  const auto chosen = program.get_subcommands();
  const std::string name = chosen.empty() ? "" : chosen.front()->get_name();
  const auto word = std::ranges::find_if(arguments, [](const std::string& one) { return !one.starts_with('-'); });
  if (name.empty() && word != arguments.end()) {
    std::string verbs;
    for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; }))
      verbs += (verbs.empty() ? "" : ", ") + verb->get_name();
    return "'" + *word + "' is not a verb; the verbs are " + verbs + "; see quern --help";
  }
  std::string message = what.substr(0, what.find('\n'));
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
    throw Failure(exit_usage, usage_text(parser.program, arguments, error.what()));
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
