#include "parser.hpp"

#include "flag_words.hpp"
#include "flags.hpp"
#include "help_page.hpp"

namespace quern::cli {
namespace {

/// Help pages are written by help_page.cpp.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode mode) const override {
    return help_page(*app, mode == CLI::AppFormatMode::All);
  }
};

const NumberRule context_rule{.least = 1, .remedy = "leave it out for the smaller of the model's and 4096"};

void add_explain_flag(CLI::App& app, bool& explain) {
  app.add_flag("--explain", explain,
               "say which kernels a step has for which rows, what stands alone, and why; the JSON has it as \"plan\"");
}

VerbApp add_run(CLI::App& program, CommandLine& line) {
  CLI::App* app =
      program.add_subcommand("run",
                             "Answer a prompt, or chat. The prompt is the argument; what a pipe or a file on standard input brings follows "
                             "it after a blank line, or is the prompt. Without any of them, and without --messages, a chat starts.");
  RunFlags& run = line.run;
  add_model_flags(*app, run.model, line.named);
  add_adapter_flag(*app, run.model.adapter);
  add_tokenizer_flag(*app, run.model.tokenizer_pre);
  app->add_option("PROMPT", run.prompt, "what to answer; - is standard input");
  add_prompt_flag(*app, line.named, "what to answer, in place of PROMPT");
  add_list_option(*app, "--file", run.files, "FILE", "put the text of a file behind the prompt; may be repeated; - is standard input");
  app->add_option("--messages", run.messages_file, "a JSON list of {\"role\", \"content\"}, or that as \"messages\"; - is standard input")
      ->type_name("FILE")
      ->default_str("none");
  app->add_option(flag_names("--system"), run.system, "a system message in front")->type_name("TEXT")->default_str("none");
  app->add_option("--system-file", run.system_file, "the same, from a file; - is standard input")->type_name("FILE")->default_str("none");
  app->add_flag("--special-in-messages", run.special_in_messages,
                "the text of a special token in a message becomes that token: whoever writes it can forge turns");
  app->add_flag("--no-loop-guard", run.no_loop_guard, "let an answer go on that repeats the same words over and over");
  app->add_flag("--raw", run.raw, "give the model the prompt as it is, without its chat template");
  add_number_option(*app, "--context", run.context, "tokens of context", context_rule)->default_str("the smaller of the model's and 4096");
  add_list_option(*app, "--stop", run.stop, "TEXT", "end the answer before this text; may be repeated");
  add_number_option(*app, "--logprobs", [&run](std::uint64_t n) { run.logprobs = static_cast<std::uint32_t>(n); },
                    "log-probabilities, and the N best alternatives, in the JSON", {1, 20})
      ->default_str("none");
  app->add_flag("--jsonl", run.jsonl, "print one JSON object for each event of the answer, as it comes");
  app->add_flag("--plain", run.plain, "on a terminal, print the answer as it is: no Markdown, no colours, no wrapped words");
  app->add_flag("--no-history", run.no_history, "the chat neither reads nor keeps the lines that were typed in earlier ones");
  app->add_option("--trace", run.trace_file, "write what each step did, and when, for Perfetto or chrome://tracing")
      ->type_name("FILE")
      ->default_str("none");
  add_explain_flag(*app, run.explain);
  add_answer_flags(*app, run);
  add_setting_flags(*app, line.settings, for_backends | for_models);
  return {Verb::run, app};
}

VerbApp add_tokenize(CLI::App& program, CommandLine& line) {
  CLI::App* app =
      program.add_subcommand("tokenize", "Print the token ids of a text (the argument, or all of standard input) or of a rendered chat.");
  TokenizeFlags& tokenize = line.tokenize;
  add_model_place(*app, tokenize.path, line.named, "a model: a file (one that holds only a vocabulary will do), or a name");
  app->add_option("TEXT", tokenize.text, "the text");
  add_prompt_flag(*app, line.named, "the text, in place of TEXT");
  app->add_option("--messages", tokenize.messages_file, "render these messages with the model's chat template")
      ->type_name("FILE")
      ->default_str("none");
  app->add_flag("--special-in-messages", tokenize.special_in_messages,
                "with --messages: the text of a special token in a message becomes that token");
  add_tokenizer_flag(*app, tokenize.tokenizer_pre);
  app->add_flag("--no-bos", tokenize.no_bos, "add no token in front");
  app->add_flag("--no-eos", tokenize.no_eos, "add no token behind");
  app->add_flag("--no-special", tokenize.no_special, "the text of special tokens is plain text");
  add_setting_flags(*app, line.settings, for_models);
  return {Verb::tokenize, app};
}

VerbApp add_eval(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("eval", "How well the model predicts a text, or the answers of a data set: loss and perplexity.");
  EvalFlags& eval = line.eval;
  add_model_flags(*app, eval.model, line.named);
  add_adapter_flag(*app, eval.model.adapter);
  add_tokenizer_flag(*app, eval.model.tokenizer_pre);
  app->add_option("FILE", eval.file, "the text, taken byte for byte; - is standard input");
  app->add_option("KEY=VALUE", eval.overrides, "with --data, settings as of quern train: sequence_len=4096");
  app->add_option("--data", eval.data, "in place of FILE: examples as quern train reads them; the loss over the tokens that count")
      ->type_name("FILE")
      ->default_str("none");
  app->add_flag("--positions", eval.positions, "argmax, margin and nll at every token, in the JSON");
  app->add_option("--logits", eval.logits_file, "write the last position's logits, little-endian f32")
      ->type_name("OUT")
      ->default_str("none");
  app->add_option("--reference", eval.reference, "another model of the same vocabulary; print how far the predictions lie from its own")
      ->type_name("MODEL")
      ->default_str("none");
  app->add_option("--reference-adapter", eval.reference_adapter, "a LoRA adapter for the reference")
      ->type_name("DIR[:SCALE]")
      ->default_str("none");
  add_setting_flags(*app, line.settings, for_backends | for_models);
  return {Verb::eval, app};
}

BenchFormat bench_format_of(const std::string& word) {
  return word == "table"      ? BenchFormat::table
         : word == "markdown" ? BenchFormat::markdown
         : word == "csv"      ? BenchFormat::csv
                              : BenchFormat::json;
}

VerbApp add_bench(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("bench", "Tokens per second, and the share of the bandwidth and arithmetic that the machine has.");
  BenchFlags& bench = line.bench;
  add_model_flags(*app, bench.model, line.named);
  add_adapter_flag(*app, bench.model.adapter);
  add_tokenizer_flag(*app, bench.model.tokenizer_pre);
  BenchLists& lists = bench.lists;
  add_numbers_option(*app, "--prompt-tokens", lists.prompts, 1, "tokens of a prefill; like the flags below a number, or a list: 64,512");
  add_numbers_option(*app, "--decode-tokens", lists.decodes, 1, "tokens of a decode; the second of a list goes with the second prompt");
  add_count_option(*app, "--repetitions", lists.repetitions, "measured repetitions");
  add_numbers_option(*app, "--batch", lists.batches, 1, "sequences at a time");
  add_numbers_option(*app, "--depth", lists.depths, 0, "tokens already in each sequence");
  app->add_option_function<std::string>(
         "--format", [&bench](const std::string& word) { bench.format = bench_format_of(word); },
         "how to print it; without it a page, or a table of several")
      ->check(CLI::IsMember({"table", "markdown", "csv", "json"}).description(""))
      ->type_name("table|markdown|csv|json")
      ->default_str("none");
  app->add_option("--plot", bench.plot_file, "draw speed over depth, batch, threads and prompt, as SVG")
      ->type_name("FILE")
      ->default_str("none");
  add_explain_flag(*app, bench.explain);
  add_setting_flags(*app, line.settings, for_backends | for_models);
  return {Verb::bench, app};
}

VerbApp add_devices(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("devices", "List the devices, best first.");
  app->add_flag("--tree", line.devices.tree, "show cards, and below each what every backend made of it");
  add_setting_flags(*app, line.settings, for_backends);
  return {Verb::devices, app};
}

VerbApp add_monitor(CLI::App& program, CommandLine& line) {
  CLI::App* app =
      program.add_subcommand("monitor", "What NVIDIA's cards do, and the tokens per second of your quern run processes, again and again.");
  app->add_option("--interval", line.monitor.interval, "seconds between two readings")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.05, 86400.0))
      ->default_str("1");
  add_number_option(
      *app, "--count", [&line](std::uint64_t n) { line.monitor.count = n; }, "readings, 0 for no end")
      ->default_str("0; with --json 1");
  return {Verb::monitor, app};
}

VerbApp add_trace(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("trace", "Say where the time of a run went that --trace recorded, and draw its timeline.");
  app->add_option("FILE", line.trace.file, "what --trace of quern run or quern train wrote")->required();
  app->add_option("--html", line.trace.html, "the page with the timeline")->type_name("FILE")->default_str("beside the trace");
  return {Verb::trace, app};
}

VerbApp add_doctor(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("doctor", "Say of each backend and device whether it is used, why not, and what to do.");
  app->add_flag("--try", line.doctor.try_devices, "run a small product and a tiny model on every device, and compare");
  add_setting_flags(*app, line.settings, for_backends);
  return {Verb::doctor, app};
}

VerbApp add_show(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("show", "What the file of a model or of an adapter has.");
  add_model_place(*app, line.show.path, line.named, "a model: a file, or a name; or an adapter: a peft folder, or a GGUF file");
  app->add_flag("--tensors", line.show.tensors, "list the tensors too (the JSON always has them)");
  add_setting_flags(*app, line.settings, for_models);
  return {Verb::show, app};
}

VerbApp add_estimate(CLI::App& program, CommandLine& line) {
  CLI::App* app =
      program.add_subcommand("estimate", "Memory that a model needs: of a file, or of a llama-like model with these shape numbers.");
  EstimateFlags& estimate = line.estimate;
  quern_shape& shape = estimate.shape;
  add_model_flags(*app, estimate.model, line.named);
  add_adapter_flag(*app, estimate.model.adapter);
  app->add_option("KEY=VALUE", estimate.overrides, "with --train, settings that replace those of its file: lora_r=16");
  app->add_option("--train", estimate.train, "what fine-tuning by this settings file needs, by part; no weight is loaded")
      ->type_name("CFG")
      ->default_str("none");
  const auto number = [&](const char* flag, std::uint64_t& value, const char* help) {
    return add_number_option(*app, flag, value, help, {.least = 1})->group("Shape")->default_str("none");
  };
  number("--hidden", shape.hidden, "width of a token");
  number("--ffn", shape.feed_forward, "width of the feed-forward part");
  number("--layers", shape.layers, "layers");
  number("--vocab", shape.vocabulary, "entries of the vocabulary");
  number("--heads", shape.heads, "attention heads");
  number("--kv-heads", shape.kv_heads, "key/value heads")->default_str("as many as heads");
  number("--head-size", shape.head_size, "width of a head")->default_str("hidden / heads");
  app->add_flag(
         "--tied", [&shape](std::int64_t) { shape.tied = 1; }, "the head is the embedding")
      ->group("Shape");
  add_number_option(*app, "--context", estimate.context, "tokens of a sequence", context_rule)
      ->default_str("the smaller of the model's and 4096");
  add_count_option(*app, "--sequences", estimate.sequences, "sequences at a time");
  add_setting_flags(*app, line.settings, for_backends | for_models);
  return {Verb::estimate, app};
}

VerbApp add_pull(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("pull", "Download a model, and print the path of its file.");
  app->add_option("NAME", line.hub.name, "owner/name[@REVISION][:QUANT or :FILE] of the hub, or a URL")->required();
  app->add_option("--sha256", line.hub.sha256, "refuse a file that has another SHA-256")->type_name("DIGITS")->default_str("none");
  app->add_option("--memory", line.hub.memory, "refuse weights that these limits together do not hold, such as cuda:0=8G,cpu=4G")
      ->type_name("LIMITS")
      ->default_str("no limit");
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

VerbApp add_ps(CLI::App& program) { return {Verb::ps, program.add_subcommand("ps", "List your quern processes that answer now.")}; }

VerbApp add_train(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("train", "Fine-tune a model by a settings file: LoRA, QLoRA, or all of its weights.");
  TrainFlags& train = line.train;
  app->add_option("CFG", train.file, "the settings, YAML; with --init, the model that they are for");
  app->add_option("KEY=VALUE", train.overrides, "settings that replace those of the file: lora_r=16");
  app->add_flag("--resume", train.resume, "go on from the last checkpoint of output_dir");
  app->add_flag("--dry-run", train.dry_run, "read and check all, print what would be done, and stop before the first step");
  app->add_flag("--check-gradients", train.check_gradients,
                "compare the gradients of the first batch with differences of the loss, print a table, and stop");
  app->add_option("--show-data", train.show_data, "print so many examples with what of them counts, and stop")
      ->type_name("COUNT")
      ->default_str("none");
  app->add_option("--trace", train.trace_file, "write what each micro-batch and update did, and when, for Perfetto or chrome://tracing")
      ->type_name("FILE")
      ->default_str("none");
  app->add_option("--init", train.init, "print a commented settings file for a new run")
      ->check(CLI::IsMember({"lora", "qlora", "full"}).description(""))
      ->type_name("lora|qlora|full")
      ->default_str("none");
  add_setting_flags(*app, line.settings, for_backends | for_models);
  return {Verb::train, app};
}

VerbApp add_merge(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("merge", "Add adapters to a model's weights, and write it as a GGUF file.");
  AdapterFlags& flags = line.adapter;
  app->add_option("BASE", flags.base, "the GGUF file that the adapters were trained on")->required();
  app->add_option("ADAPTER", flags.adapters, "a PEFT folder or a GGUF adapter, with :SCALE behind it for another strength")->required();
  app->add_option("-o,--output", flags.out, "the file to write")->required()->type_name("FILE")->default_str("none");
  app->add_option("--type", flags.type, "format of the matrices: keep, f32, f16, bf16 or a block format; without it adapted ones are f16")
      ->type_name("TYPE")
      ->default_str("none");
  add_setting_flags(*app, line.settings, for_backends);
  return {Verb::merge, app};
}

VerbApp add_quantize(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("quantize", "Write a model with its weights in other types.");
  QuantizeFlags& flags = line.quantize;
  app->add_option("MODEL", flags.in, "a GGUF file, a Hugging Face directory, or a name")->required();
  app->add_option("OUT", flags.out, "the file or directory to write; it must not exist")->required();
  app->add_option("TYPE", flags.type,
                  "of a GGUF file: F32, F16, BF16, Q8_0, Q6_K, Q5_K_M, Q5_K_S, Q4_K_M, Q4_K_S, Q5_1, Q5_0, Q4_1 or Q4_0");
  app->add_option("--to", flags.to, "write a quantised Hugging Face directory: awq, compressed-tensors, fp8 or fp8-channel")
      ->type_name("FORM")
      ->default_str("a GGUF file");
  app->add_option("--target-bits", flags.target_bits, "in place of a type: those of least error within so many bits a weight")
      ->type_name("BITS")
      ->default_str("none");
  app->add_option("--imatrix", flags.imatrix, "an importance matrix of quern imatrix: columns with large inputs count more")
      ->type_name("FILE")
      ->default_str("none");
  add_list_option(*app, "--tensor-type", flags.tensor_types, "REGEX=TYPE",
                  "the type of tensors in whose names the expression is found; may be repeated, the first that matches counts");
  app->add_option("--output-type", flags.output_type, "the type of output.weight, or of the table that is used as such")
      ->type_name("TYPE")
      ->default_str("by the type of the file");
  app->add_option("--embedding-type", flags.embedding_type, "the type of token_embd.weight")
      ->type_name("TYPE")
      ->default_str("by the type of the file");
  app->add_flag("--pure", flags.pure, "give all matrices the type that the file is named after");
  app->add_flag("--allow-requantize", flags.allow_requantize, "take weights that are quantised already; what they lost stays lost");
  app->add_flag("--dry-run", flags.dry_run, "print the types and sizes, and write nothing");
  add_setting_flags(*app, line.settings, for_backends | for_models);
  return {Verb::quantize, app};
}

VerbApp add_imatrix(CLI::App& program, CommandLine& line) {
  CLI::App* app =
      program.add_subcommand("imatrix", "Measure how large the inputs of a model's weights are over a text, for quern quantize.");
  ImatrixFlags& flags = line.imatrix;
  app->add_option("MODEL", flags.model, "a GGUF file, a Hugging Face directory, or a name")->required();
  app->add_option("TEXT", flags.text, "the text, taken byte for byte; - is standard input")->required();
  app->add_option("-o,--output", flags.out, "the file to write")->required()->type_name("FILE")->default_str("none");
  add_list_option(*app, "--in", flags.inputs, "FILE",
                  "add an importance matrix of the same model, GGUF or llama.cpp's .dat; may be repeated");
  add_number_option(*app, "--chunks", flags.chunks, "read so many chunks of 512 tokens at most", {.least = 1})
      ->default_str("the whole text");
  add_setting_flags(*app, line.settings, for_backends | for_models);
  return {Verb::imatrix, app};
}

VerbApp add_export(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("export", "Write an adapter as a PEFT folder, or as a GGUF adapter for llama.cpp.");
  AdapterFlags& flags = line.adapter;
  app->add_option("BASE", flags.base, "the GGUF file that the adapter was trained on")->required();
  app->add_option("ADAPTER", flags.adapters, "a PEFT folder or a GGUF adapter")->required()->expected(1);
  app->add_option("-o,--output", flags.out, "the folder or file to write")->required()->type_name("PLACE")->default_str("none");
  app->add_option_function<std::string>(
         "--format", [&flags](const std::string& word) { flags.gguf = word == "gguf"; }, "the kind of adapter to write")
      ->check(CLI::IsMember({"peft", "gguf"}).description(""))
      ->type_name("peft|gguf")
      ->default_str("peft");
  app->add_option("--type", flags.type, "of its numbers")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}).description(""))
      ->type_name("f32|f16|bf16")
      ->default_str("f32");
  return {Verb::export_adapter, app};
}

VerbApp add_convert(CLI::App& program, CommandLine& line) {
  CLI::App* app = program.add_subcommand("convert", "Write a model in another form: a GGUF file, or a Hugging Face directory.");
  ConvertFlags& flags = line.convert;
  app->add_option("IN", flags.from, "a Hugging Face directory or a GGUF file")->required();
  app->add_option("OUT", flags.out, "what to write: a GGUF file where the name ends with .gguf, else a directory")->required();
  app->add_option("--type", flags.type, "of the matrices; auto keeps theirs, and makes bf16 of block formats in a directory")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16"}).description(""))
      ->type_name("auto|f32|f16|bf16")
      ->default_str("auto");
  app->add_flag("--vocab-only", flags.vocabulary_only, "write a GGUF file of the vocabulary alone");
  app->add_option(flag_names("--shard-size"), flags.shard_size,
                  "the most bytes of tensors in one file: 2G; without it directories have 5 GB, and a GGUF file is not split")
      ->type_name("BYTES")
      ->default_str("none");
  add_setting_flags(*app, line.settings, for_backends);
  return {Verb::convert, app};
}

struct VerbSynonym {
  const char *verb, *also;
};
constexpr VerbSynonym verb_synonyms[] = {{"run", "chat"}, {"list", "ls"}, {"rm", "remove"}, {"pull", "download"}, {"eval", "perplexity"}};

}  // namespace

Parser::Parser(CommandLine& line, const std::string& version)
    : program("Runs large language models on whatever compute this machine has.", "quern") {
  const auto formatter = std::make_shared<HelpFormatter>();
  program.formatter(formatter);  // the verbs inherit it, and the flags of help
  program.set_help_flag("-h,--help", "show this page");
  program.set_help_all_flag("--help-all", "show all flags, other names of each, and its variable");
  program.set_version_flag("--version", version, "print version, build and plugin ABI");
  program.add_flag("--show-config", line.show_config, "print every setting with its value and where that comes from");
  program.add_flag("--json", line.json, "print --show-config as one JSON object");
  add_manner_flags(program, line.verbose, line.quiet);
  verbs = {add_run(program, line),
           add_tokenize(program, line),
           add_eval(program, line),
           add_bench(program, line),
           add_devices(program, line),
           add_doctor(program, line),
           add_show(program, line),
           add_estimate(program, line),
           add_pull(program, line),
           add_list(program, line),
           add_rm(program, line),
           add_monitor(program, line),
           add_ps(program),
           add_trace(program, line),
           add_train(program, line),
           add_merge(program, line),
           add_export(program, line),
           add_quantize(program, line),
           add_imatrix(program, line),
           add_convert(program, line)};
  for (const VerbSynonym& synonym : verb_synonyms) program.get_subcommand(synonym.verb)->alias(synonym.also);
  for (const VerbApp& verb : verbs) {
    verb.app->add_flag("--json", line.json, "print exactly one JSON object on standard output");
    verb.app->add_flag("--show-config", line.show_config, "print what each flag would have, and where that comes from; do nothing else");
    add_manner_flags(*verb.app, line.verbose, line.quiet);
  }
}

}  // namespace quern::cli
