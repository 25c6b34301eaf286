#include "command_line.hpp"

#include "failure.hpp"
#include "flag_words.hpp"
#include "flags.hpp"
#include "help_page.hpp"
#include "output.hpp"
#include "parser.hpp"
#include "twins.hpp"

#include "quern/base/nearest.hpp"
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
    throw Failure(exit_usage,
                  "run: --raw takes a prompt as it is, special tokens included; --special-in-messages is for the chat template");
  if (run.raw && run.messages_file) throw Failure(exit_usage, "run: --raw takes a prompt as it is, and --messages needs the chat template");
  if (run.system && run.system_file) throw Failure(exit_usage, "run: give --system or --system-file, not both");
  const char* system = run.system ? "--system" : run.system_file ? "--system-file" : nullptr;
  if (run.raw && system != nullptr)
    throw Failure(exit_usage, std::string("run: --raw has no place for ") + system + "; put it in the prompt");
  if (system != nullptr && run.messages_file) throw Failure(exit_usage, "run: with --messages, the system message belongs in the file");
  if (!run.files.empty() && run.messages_file)
    throw Failure(exit_usage, "run: --file follows a prompt; with --messages, its text belongs in the messages");
  if (run.raw && !run.prefill.empty()) throw Failure(exit_usage, "run: --raw has no place for --prefill; put it at the end of the prompt");
  if (line.json && run.jsonl) throw Failure(exit_usage, "run: --json prints one object and --jsonl one for each event; give one of them");
  const auto named = std::ranges::count(run.files, "-") + (run.prompt == "-") + (run.messages_file == "-") + (run.system_file == "-");
  if (named > 1)
    throw Failure(exit_usage,
                  "run: standard input can be read once, and - stands for it " + std::to_string(named) + " times; give it once");
  for (const std::string& stop : run.stop)
    if (stop.empty()) throw Failure(exit_usage, "run: --stop needs a text that is not empty");
}

void check_estimate(const CommandLine& line) {
  const quern_shape& shape = line.estimate.shape;
  const bool any = shape.hidden != 0 || shape.feed_forward != 0 || shape.layers != 0 || shape.vocabulary != 0 || shape.heads != 0 ||
                   shape.kv_heads != 0 || shape.head_size != 0 || shape.tied != 0;
  const bool all = shape.hidden != 0 && shape.feed_forward != 0 && shape.layers != 0 && shape.vocabulary != 0 && shape.heads != 0;
  if (line.estimate.model.adapter && (line.estimate.train || any))
    throw Failure(exit_usage, "estimate: --adapter is read with a MODEL; leave it out");
  if (line.estimate.train) {
    if (any) throw Failure(exit_usage, "estimate: --train reads the shape from base_model; leave the shape numbers out");
    return;
  }
  if (!line.estimate.overrides.empty())
    throw Failure(exit_usage, "estimate: KEY=VALUE " + in_quotes(line.estimate.overrides.front(), 60) +
                                  " is a setting of fine-tuning; give --train CFG too, or leave it out");
  if (any && !line.estimate.model.path.empty()) throw Failure(exit_usage, "estimate: give a MODEL or shape numbers, not both");
  if (line.estimate.model.path.empty() && !all)
    throw Failure(exit_usage, "estimate: give a MODEL, or --hidden --ffn --layers --vocab --heads, none of them 0");
}

void check_eval(const CommandLine& line) {
  const EvalFlags& eval = line.eval;
  if (eval.reference_adapter && !eval.reference)
    throw Failure(exit_usage, "eval: --reference-adapter is for the model of --reference; give that too, or leave it out");
  if (!eval.data) {
    if (!eval.overrides.empty())
      throw Failure(exit_usage, "eval: KEY=VALUE " + in_quotes(eval.overrides.front(), 60) +
                                    " is a setting of how a data set is read; give --data FILE too, or leave it out");
    return;
  }
  const std::pair<const char*, bool> of_text[] = {{"--positions", eval.positions},
                                                  {"--logits", eval.logits_file.has_value()},
                                                  {"--reference", eval.reference.has_value()},
                                                  {"--tokenizer-pre", !eval.model.tokenizer_pre.empty()},
                                                  {"--activations", eval.model.activations != QUERN_ACTIVATIONS_AUTO},
                                                  {"--kv", eval.model.kv != QUERN_KV_DEFAULT}};
  for (const auto& [flag, given] : of_text)
    if (given) throw Failure(exit_usage, std::string("eval: --data computes as quern train does; leave ") + flag + " out");
}

/// -t takes a list here; one number stays the setting that it is for the other verbs.
void take_thread_list(CommandLine& line) {
  const auto given = line.settings.find("threads");
  if (given == line.settings.end() || given->second.find(',') == std::string::npos) return;
  for (const std::uint64_t value : parse_numbers("bench: --threads", given->second, 1, 4096))
    line.bench.lists.threads.push_back(static_cast<std::uint32_t>(value));
  line.settings.erase(given);
}

void check_bench(CommandLine& line) {
  if (line.json && line.bench.format != BenchFormat::page && line.bench.format != BenchFormat::json)
    throw Failure(exit_usage, "bench: --json is --format json; give one format");
  if (line.json) line.bench.format = BenchFormat::json;
  take_thread_list(line);
  bench_plans(line.bench.lists);  // refuses what is too much
}

void check(CommandLine& line) {
  if (line.verb == Verb::bench) check_bench(line);
  if (line.verb == Verb::run) check_run(line);
  if (line.verb == Verb::estimate) check_estimate(line);
  if (line.verb == Verb::eval) check_eval(line);
  if (line.verb == Verb::tokenize && line.tokenize.text && line.tokenize.messages_file)
    throw Failure(exit_usage, "tokenize: give a TEXT or --messages, not both");
  if (line.verb == Verb::tokenize && line.tokenize.special_in_messages && !line.tokenize.messages_file)
    throw Failure(
        exit_usage,
        "tokenize: --special-in-messages needs --messages; the special tokens of a TEXT are recognised unless --no-special is given");
  if (line.verb == Verb::tokenize && line.tokenize.no_special && line.tokenize.messages_file)
    throw Failure(exit_usage,
                  "tokenize: --no-special cannot apply to --messages, since a rendered chat has special tokens; leave one of them out");
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
  const CLI::Option* named_model = verb.get_option_no_throw("--model");
  const CLI::Option* last = nullptr;  // the last positional
  for (const CLI::Option* option : verb.get_options([](const CLI::Option*) { return true; }))
    if (option->get_positional() && option->count() > 0) last = option;
  const std::string name = last == nullptr ? "" : last->get_name();
  if (name == "PROMPT" || name == "TEXT") {
    std::vector<std::string> words;
    if (named_model != nullptr && named_model->count() > 0) words = verb.get_option("MODEL")->results();
    words.insert(words.end(), last->results().begin(), last->results().end());
    words.insert(words.end(), left_over.begin(), left_over.end());
    const std::vector<std::string> given = in_given_order(arguments, std::move(words));
    return name + " is one argument, and these are " + std::to_string(given.size()) + "; quote them: \"" +
           printable(joined_words(given, " ")) + "\"";
  }
  return in_quotes(joined_words(left_over, "' '"), 200) + " is more than " + verb.get_name() + " takes";
}

/// What to do in place of a flag of another program; "" where there is none.
std::string foreign_flag_text(const std::vector<std::string>& arguments, const std::vector<std::string>& known) {
  for (const std::string& word : arguments) {
    if (word == "--") break;
    const std::string flag = word.substr(0, word.find('='));
    const std::string_view fact = in_place_of(flag);
    if (!fact.empty() && std::ranges::find(known, flag) == known.end()) return flag + " is not a flag of quern: " + std::string(fact);
  }
  return "";
}

/// The parser's message, in our manner: the verb in front, and where to look.
std::string usage_text(const CLI::App& program, const std::vector<std::string>& arguments, const std::string& what,
                       bool left_over = false) {
  const auto chosen = program.get_subcommands();
  const std::string name = chosen.empty() ? "" : chosen.front()->get_name();
  const std::vector<std::string> outer = flags_of(program);
  if (const std::string text = foreign_flag_text(arguments, name.empty() ? outer : flags_of(*chosen.front())); !text.empty())
    return (name.empty() ? "" : name + ": ") + text;
  if (name.empty()) {
    if (const std::string flag = unknown_flag(arguments, outer); !flag.empty() && arguments.front() == flag)
      return printable(flag) + " is not a flag of quern" + did_you_mean(flag, outer) + "; see quern --help";
    const auto word = std::ranges::find_if(arguments, [](const std::string& one) { return !one.starts_with('-'); });
    if (word != arguments.end()) {
      std::vector<std::string> verbs;
      std::vector<std::string> known{"help", "version"};
      for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; })) {
        verbs.push_back(verb->get_name());
        known.push_back(verb->get_name());
        for (const std::string& also : verb->get_aliases()) known.push_back(also);
      }
      return in_quotes(*word, 200) + " is not a verb" + did_you_mean(*word, known) + "; the verbs are " + joined_words(verbs, ", ") +
             "; see quern --help";
    }
  }
  std::string message = left_over && !name.empty() ? left_over_text(program, *chosen.front(), arguments)
                                                   : printable(what.substr(0, what.find('\n')));
  while (!message.empty() && message.back() == '.') message.pop_back();
  return (name.empty() ? "" : name + ": ") + message + "; see quern " + (name.empty() ? "" : name + " ") + "--help";
}

std::string place_of_text(Verb verb) { return verb == Verb::run ? "PROMPT" : "TEXT"; }

/// The argument behind MODEL; null where the verb has none that may take MODEL's place.
std::optional<std::string>* second_place(CommandLine& line) {
  if (line.verb == Verb::run) return &line.run.prompt;
  return line.verb == Verb::tokenize ? &line.tokenize.text : nullptr;
}

bool from_variable(const CommandLine& line, const std::string& flag) {
  const auto state = std::ranges::find(line.flags, flag, &FlagState::flag);
  return state != line.flags.end() && state->given.origin == Origin::environment;
}

std::string* place_of_model(CommandLine& line) { return line.verb == Verb::estimate ? &line.estimate.model.path : line.model(); }

/// Puts what --model and --prompt gave in their places. An argument that then stands where MODEL would be is what follows MODEL.
/// What a variable gives yields to the command line.
void place_named(CommandLine& line) {
  if (line.verb == Verb::estimate && line.estimate.train) {  // the first argument is a KEY=VALUE there, and base_model is the model
    EstimateFlags& estimate = line.estimate;
    if (!estimate.model.path.empty()) estimate.overrides.insert(estimate.overrides.begin(), std::move(estimate.model.path));
    estimate.model.path.clear();
    return;
  }
  std::string* model = place_of_model(line);
  if (model == nullptr) return;
  if (line.verb == Verb::eval && line.eval.data) {  // what follows MODEL is a KEY=VALUE there
    const auto move_front = [&](std::string& place) {
      if (!place.empty()) line.eval.overrides.insert(line.eval.overrides.begin(), std::move(place));
      place.clear();
    };
    move_front(line.eval.file);
    if (line.named.model && !from_variable(line, "--model")) move_front(*model);
  }
  std::optional<std::string>* text = second_place(line);
  const bool of_shape = line.verb == Verb::estimate && line.estimate.shape.hidden != 0;  // which needs no model
  if (line.named.model && !(from_variable(line, "--model") && of_shape) && !(from_variable(line, "--model") && !model->empty())) {
    if (!model->empty()) {
      if (line.verb == Verb::eval && line.eval.file.empty()) {
        line.eval.file = std::move(*model);
      } else if (text != nullptr && !*text) {
        *text = std::move(*model);
      } else {
        throw Failure(exit_usage, line.verb_name + ": MODEL is given twice: " + in_quotes(*model, 200) + " and --model " +
                                      in_quotes(*line.named.model, 200));
      }
    }
    *model = *line.named.model;
  }
  if (line.named.prompt && text != nullptr && !(from_variable(line, "--prompt") && *text)) {
    if (*text) {
      const std::string name = place_of_text(line.verb);
      throw Failure(exit_usage, line.verb_name + ": " + name + " is given twice: " + in_quotes(**text, 60) + " and --prompt " +
                                    in_quotes(*line.named.prompt, 60));
    }
    *text = *line.named.prompt;
  }
}

void require_model(CommandLine& line) {
  const std::string* model = line.model();
  if (line.verb != Verb::estimate && model != nullptr && model->empty())
    throw Failure(exit_usage, line.verb_name + ": MODEL is missing: give a file, or a name that quern list prints; see quern " +
                                  line.verb_name + " --help");
  if (line.verb == Verb::eval && line.eval.file.empty() && !line.eval.data)
    throw Failure(exit_usage, "eval: FILE is missing: give a file of text, or - for standard input, or --data; see quern eval --help");
}

const CLI::App* verb_named(const CLI::App& program, const std::string& word) {
  const auto verbs = program.get_subcommands([&](const CLI::App* verb) { return verb->check_name(word); });
  return verbs.empty() ? nullptr : verbs.front();
}

/// Calls `use(word, option)` for each word of the command line that stands where a flag may; `option` is the verb's, null where it has none.
template <typename Words, typename Use>
void for_each_flag(const CLI::App& program, Words& arguments, Use use) {
  const CLI::App* verb = nullptr;
  bool is_value = false;
  for (auto& word : arguments) {
    if (word == "--") break;
    if (is_value) {
      is_value = false;
      continue;
    }
    if (!word.starts_with('-')) {
      if (verb == nullptr) verb = verb_named(program, word);
      continue;
    }
    const auto option_of = [&] { return verb == nullptr ? nullptr : verb->get_option_no_throw(word.substr(0, word.find('='))); };
    use(word, option_of);
    const CLI::Option* option = option_of();
    is_value = option != nullptr && takes_value(*option) && word.find('=') == std::string::npos;
  }
}

/// "-hf" is no cluster of short flags where a flag may stand: its long name takes its place.
std::vector<std::string> with_long_names(const CLI::App& program, std::vector<std::string> arguments) {
  for_each_flag(program, arguments, [](std::string& word, const auto&) {
    if (const std::string_view name = long_name_of(word); !name.empty()) word = name;
  });
  return arguments;
}

CommandLine parse(const std::vector<std::string>& arguments, const std::string& version, const Environment& environment,
                  const std::function<Config()>& config, bool nothing_required) {
  CommandLine line;
  Parser parser(line, version);
  parser.program.require_subcommand(nothing_required ? 0 : 1, 1);
  if (nothing_required) {
    for (const VerbApp& verb : parser.verbs)
      for (CLI::Option* option : verb.app->get_options([](const CLI::Option*) { return true; })) option->required(false);
  }
  try {
    std::vector<std::string> words = with_long_names(parser.program, arguments);
    std::ranges::reverse(words);
    parser.program.parse(words);
  } catch (const CLI::ParseError& error) {
    std::ostringstream text, ignored;
    if (parser.program.exit(error, text, ignored) == 0) throw Answered{text.str()};
    throw Failure(exit_usage,
                  usage_text(parser.program, arguments, error.what(), dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr));
  }
  const auto chosen = std::ranges::find_if(parser.verbs, [](const VerbApp& verb) { return verb.app->parsed(); });
  if (chosen == parser.verbs.end()) {
    line.flags = take_twins(parser.program, environment);
    if (!line.show_config) throw Failure(exit_usage, usage_text(parser.program, arguments, "a verb is needed"));
    for (const Setting& setting : all_settings()) line.flags.push_back({setting.flag, setting.variable, &setting, {}});
  } else {
    line.verb = chosen->verb;
    line.verb_name = chosen->app->get_name();
    line.flags = take_twins(*chosen->app, environment);
    for (FlagState& state : line.flags) {  // -v, -q and --json may also stand in front of the verb
      const CLI::Option* outer = parser.program.get_option_no_throw(state.flag);
      if (outer != nullptr && outer->count() > 0) state.given = {"on", Origin::flag, state.flag};
    }
  }
  place_named(line);
  if (chosen != parser.verbs.end() && config) {
    const std::string* model = line.model();
    take_file(*chosen->app, line.flags, config(), model == nullptr ? std::vector<std::string>{} : section_names(*model));
  }
  const auto verbose = std::ranges::find(line.flags, "--verbose", &FlagState::flag);
  const bool verbose_from_variable = verbose != line.flags.end() && verbose->given.origin == Origin::environment;
  if (line.verbose && !(verbose_from_variable && environment("QUERN_LOG"))) line.settings.try_emplace("log", "debug");
  if (!line.show_config) {
    require_model(line);
    check(line);
  }
  return line;
}

}  // namespace

std::string* CommandLine::model() {
  switch (verb) {
    case Verb::run: return &run.model.path;
    case Verb::tokenize: return &tokenize.path;
    case Verb::eval: return &eval.model.path;
    case Verb::bench: return &bench.model.path;
    case Verb::show: return &show.path;
    case Verb::convert: return &convert.from;
    case Verb::quantize: return &quantize.in;
    case Verb::imatrix: return &imatrix.model;
    case Verb::estimate: return estimate.model.path.empty() ? nullptr : &estimate.model.path;
    default: return nullptr;
  }
}

std::vector<std::string> other_names_used(const std::vector<std::string>& arguments) {
  CommandLine unused;
  const Parser parser(unused, "");
  std::vector<std::string> sentences;
  for_each_flag(parser.program, arguments, [&](const std::string& word, const auto& option_of) {
    const CLI::Option* option = option_of();
    const std::string name = word.substr(0, word.find('='));
    if (option != nullptr && name.starts_with("--") && name != flag_name(*option))
      sentences.push_back(name + " was read as " + flag_name(*option));
  });
  return sentences;
}

CommandLine parse_command_line(const std::vector<std::string>& arguments, const std::string& version, const Environment& environment,
                               const std::function<Config()>& config) {
  if (arguments.empty()) throw Answered{start_page()};
  if (arguments.front() == "help") {
    std::vector<std::string> page(arguments.begin() + 1, arguments.end());
    page.push_back("--help");
    return parse_command_line(page, version, environment, config);
  }
  if (arguments.front() == "version" && arguments.size() == 1) throw Answered{version + "\n"};
  // --show-config needs nothing that its verb needs; whether it was given is known after parsing only.
  const auto last = std::ranges::find(arguments, "--");
  const bool may_show_config = std::find(arguments.begin(), last, "--show-config") != last;
  CommandLine line = parse(arguments, version, environment, config, may_show_config);
  return may_show_config && !line.show_config ? parse(arguments, version, environment, config, false) : line;
}

}  // namespace quern::cli
