#include "command_line.hpp"

#include "failure.hpp"
#include "flags.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <sstream>

namespace quern::cli {
namespace {

struct VerbApp {
  Verb verb;
  CLI::App* app;
};

constexpr const char* footer =
    "Settings: a flag is stronger than its QUERN_ variable, that than $XDG_CONFIG_HOME/quern/quern.conf and\n"
    "/etc/quern/quern.conf. Exit codes: 0 ok, 2 usage, 3 backend or device unavailable, 4 model or data\n"
    "refused, 5 does not fit, 6 context limit, 70 bug. More in quern(1).";

VerbApp add_run(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand(
      "run", "Answer a prompt, or chat. The prompt is the argument, or all of standard input when that is not a "
             "terminal; without either, and without --messages, a chat starts.");
  RunFlags& run = line.run;
  add_model_flags(*app, run.model);
  app->add_option("PROMPT", run.prompt, "what to answer");
  app->add_option("--messages", run.messages_file, "a JSON list of {\"role\", \"content\"}; - is standard input")
      ->type_name("FILE");
  app->add_option("--system", run.system, "a system message in front")->type_name("TEXT");
  app->add_flag("--raw", run.raw, "give the model the prompt as it is, without its chat template");
  add_number_option(*app, "--max-tokens", run.max_tokens, "the most tokens to generate (default: to the end)");
  add_number_option(*app, "--context", run.context, "tokens of context (default: the smaller of the model's and 4096)");
  add_list_option(*app, "--stop", run.stop, "TEXT", "end the answer before this text; may be repeated");
  add_number_option(*app, "--logprobs", [&run](std::uint64_t n) { run.logprobs = static_cast<std::uint32_t>(n); },
                    "log-probabilities, and the N best alternatives, in the JSON", 1, 20);
  add_sampling_flags(*app, run.sampling);
  add_setting_flags(*app, line.settings, for_backends | for_models);
  return {Verb::run, app};
}

VerbApp add_tokenize(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand(
      "tokenize", "Print the token ids of a text (the argument, or all of standard input) or of a rendered chat.");
  TokenizeFlags& tokenize = line.tokenize;
  app->add_option("MODEL", tokenize.path, "a model: a file (one that holds only a vocabulary will do), or a name")->required();
  app->add_option("TEXT", tokenize.text, "the text");
  app->add_option("--messages", tokenize.messages_file, "render these messages with the model's chat template")
      ->type_name("FILE");
  app->add_flag("--no-bos", tokenize.no_bos, "add no token in front");
  app->add_flag("--no-special", tokenize.no_special, "the text of special tokens is plain text");
  add_setting_flags(*app, line.settings, for_models);
  return {Verb::tokenize, app};
}

VerbApp add_eval(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("eval", "How well the model predicts a text: mean NLL and perplexity.");
  EvalFlags& eval = line.eval;
  add_model_flags(*app, eval.model);
  app->add_option("FILE", eval.file, "the text, taken byte for byte; - is standard input")->required();
  app->add_flag("--positions", eval.positions, "argmax, margin and nll at every token, in the JSON");
  app->add_option("--logits", eval.logits_file, "write the last position's logits, little-endian f32")
      ->type_name("OUT");
  add_setting_flags(*app, line.settings, for_backends | for_models);
  return {Verb::eval, app};
}

VerbApp add_bench(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand(
      "bench", "Tokens per second, and the share of the bandwidth and arithmetic that the machine has.");
  BenchFlags& bench = line.bench;
  add_model_flags(*app, bench.model);
  add_count_option(*app, "-p,--prompt-tokens", bench.prompt_tokens, "tokens of a prefill");
  add_count_option(*app, "-n,--decode-tokens", bench.decode_tokens, "tokens of a decode");
  add_count_option(*app, "-r,--repetitions", bench.repetitions, "measured repetitions");
  add_count_option(*app, "-b,--batch", bench.batch, "sequences at a time");
  add_number_option(*app, "-d,--depth", bench.depth, "tokens already in each sequence");
  add_setting_flags(*app, line.settings, for_backends | for_models, "-t");
  return {Verb::bench, app};
}

VerbApp add_devices(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("devices", "List the devices, best first.");
  add_setting_flags(*app, line.settings, for_backends);
  return {Verb::devices, app};
}

VerbApp add_doctor(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand(
      "doctor", "Say of each backend and device whether it is used, why not, and what to do.");
  add_setting_flags(*app, line.settings, for_backends);
  return {Verb::doctor, app};
}

VerbApp add_show(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("show", "What a model file says of itself.");
  app->add_option("MODEL", line.show.path, "the model: a file, or a name as quern list prints it")->required();
  app->add_flag("--tensors", line.show.tensors, "list the tensors too (the JSON always has them)");
  add_setting_flags(*app, line.settings, for_models);
  return {Verb::show, app};
}

VerbApp add_estimate(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand(
      "estimate", "Memory that a model needs: of a file, or of a llama-like model with these shape numbers.");
  EstimateFlags& estimate = line.estimate;
  quern_shape& shape = estimate.shape;
  add_model_flags(*app, estimate.model)->required(false);
  const auto number = [&](const char* flag, std::uint64_t& value, const char* help) {
    add_number_option(*app, flag, value, help)->group("Shape");
  };
  number("--hidden", shape.hidden, "width of a token");
  number("--ffn", shape.feed_forward, "width of the feed-forward part");
  number("--layers", shape.layers, "layers");
  number("--vocab", shape.vocabulary, "entries of the vocabulary");
  number("--heads", shape.heads, "attention heads");
  number("--kv-heads", shape.kv_heads, "key/value heads (default: as many as heads)");
  number("--head-size", shape.head_size, "width of a head (default: hidden / heads)");
  app->add_flag("--tied", [&shape](std::int64_t) { shape.tied = 1; }, "the head is the embedding")->group("Shape");
  add_number_option(*app, "--context", estimate.context, "tokens of a sequence");
  add_count_option(*app, "--sequences", estimate.sequences, "sequences at a time");
  add_setting_flags(*app, line.settings, for_backends | for_models);
  return {Verb::estimate, app};
}

VerbApp add_pull(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("pull", "Download a model, and print the path of its file.");
  app->add_option("NAME", line.hub.name, "owner/name[@REVISION][:QUANT or :FILE] of the hub, or a URL")->required();
  app->add_option("--sha256", line.hub.sha256, "refuse a file that has another SHA-256")->type_name("DIGITS");
  add_setting_flags(*app, line.settings, for_hub);
  return {Verb::pull, app};
}

VerbApp add_list(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("list", "List the models that were downloaded.");
  add_setting_flags(*app, line.settings, for_hub);
  return {Verb::list, app};
}

VerbApp add_rm(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("rm", "Remove a model that was downloaded.");
  app->add_option("NAME", line.hub.name, "as quern list prints it; without quantisation, all models of the repository")->required();
  add_setting_flags(*app, line.settings, for_hub);
  return {Verb::rm, app};
}

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

CommandLine parse_command_line(const std::vector<std::string>& arguments, const std::string& version) {
  CommandLine line;
  CLI::App program("Runs large language models on whatever compute this machine has.", "quern");
  program.footer(footer);
  program.set_version_flag("--version", version, "print version, build and plugin ABI");
  program.require_subcommand(1);
  const VerbApp verbs[] = {add_run(program, line),     add_tokenize(program, line), add_eval(program, line),
                           add_bench(program, line),   add_devices(program, line),  add_doctor(program, line),
                           add_show(program, line),    add_estimate(program, line), add_pull(program, line),
                           add_list(program, line),    add_rm(program, line)};
  add_manner_flags(program, line.verbose, line.quiet);
  for (const VerbApp& verb : verbs) {
    verb.app->add_flag("--json", line.json, "print exactly one JSON object on standard output");
    add_manner_flags(*verb.app, line.verbose, line.quiet);
    verb.app->footer("");
  }
  try {
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    std::ostringstream text, ignored;
    if (program.exit(error, text, ignored) == 0) throw Answered{text.str()};
    throw Failure(exit_usage, usage_text(program, arguments, error.what()));
  }
  line.verb = std::ranges::find_if(verbs, [](const VerbApp& verb) { return verb.app->parsed(); })->verb;
  if (line.verbose) line.settings.try_emplace("log", "debug");
  check(line);
  return line;
}

}  // namespace quern::cli
