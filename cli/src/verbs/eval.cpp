// quern eval MODEL FILE: reads a text token by token and compares each prediction with the next one. With --data, the loss of examples.
#include "verbs.hpp"

#include "engine.hpp"
#include "input.hpp"
#include "numbers.hpp"
#include "progress.hpp"
#include "shapes.hpp"
#include "training_settings.hpp"
#include "where.hpp"

#include "quern/base/files.hpp"

#include <bit>
#include <cmath>
#include <span>

namespace quern::cli {
namespace {

void check_logits(const base::FileProblem& problem) {
  if (problem) throw Failure(exit_refused, "the logits cannot be written: " + problem.text);
}

void write_logits(base::NewFile& file, const quern_evaluation_info& info) {
  static_assert(std::endian::native == std::endian::little, "the file is little-endian");
  check_logits(file.append(std::as_bytes(std::span(info.logits, static_cast<std::size_t>(info.logit_count)))));
  check_logits(file.commit());
}

int evaluate_data(const CommandLine& line, const Settings& settings) {
  const EvalFlags& flags = line.eval;
  require_text(flags.model.path, "the path of the model");  // settings are JSON
  require_text(*flags.data, "the path of the data");
  // The rate is required of settings, and nothing is trained here.
  const Json given = {{"base_model", flags.model.path}, {"datasets", {{{"path", *flags.data}}}}, {"learning_rate", 1e-4}};
  const OpenedTraining training = open_settings(given.dump(), flags.overrides, nullptr);
  const Runtime runtime = open_runtime(settings);
  check(quern_runtime_ready(runtime.get()));
  const std::optional<ScaledAdapter> named = adapter_of("eval", flags.model);
  quern_merge_adapter adapter{};
  adapter.struct_size = sizeof adapter;
  if (named) adapter.path = named->path.c_str(), adapter.scale = named->scale;
  Progress progress("reading", *flags.data, "examples", line.quiet);
  quern_training_callbacks callbacks{};
  callbacks.struct_size = sizeof callbacks;
  callbacks.user = &progress;
  callbacks.warning = [](void*, const char* sentence) { write_error_line(std::string("warning: ") + sentence); };
  callbacks.progress = [](void* bar, std::uint64_t done, std::uint64_t total) {
    static_cast<Progress*>(bar)->show(done, total);
    return 0;
  };
  const quern_training_callbacks* told = &callbacks;
  const quern_merge_adapter* used = named ? &adapter : nullptr;
  const Text text = make<Text>(quern_training_evaluate_json, runtime.get(), training.get(), flags.model.path.c_str(), used, told);
  progress.end();
  const Json result = Json::parse(view(text));
  if (line.json) {
    write_json(result);
  } else {
    const auto number = [&](const char* name, int digits) {
      const Json& value = result.at(name);
      return value.is_null() ? std::string("not finite") : fixed(value.get<double>(), digits);
    };
    write_out(data_line("data", result.at("data")) + "\nloss        " + number("loss", 6) + "\nperplexity  " + number("perplexity", 4) +
              "\n");
  }
  return exit_ok;
}

}  // namespace

int eval_verb(const CommandLine& line, const Settings& settings) {
  const EvalFlags& flags = line.eval;
  if (flags.data) return evaluate_data(line, settings);
  const std::string text = read_file(flags.file);
  base::NewFile logits;  // made before anything is computed, so that a wrong path costs nothing
  if (flags.logits_file) check_logits(base::NewFile::create(*flags.logits_file, logits));
  const Runtime runtime = open_runtime(settings);
  check(quern_runtime_ready(runtime.get()));
  check_architecture(flags.model.path);
  // The vocabulary first: the number of tokens is the context that the model is loaded for. The text stands alone: no token is
  // added at either end.
  const auto ids =
      tokenize(open_vocabulary(flags.model.path, flags.model.tokenizer_pre).get(), text, QUERN_TOKENIZE_NO_BOS | QUERN_TOKENIZE_NO_EOS);
  if (ids.empty()) throw Failure(exit_refused, flags.file + ": is empty; there is nothing to predict");
  const std::optional<ScaledAdapter> adapter = adapter_of("eval", flags.model);
  const Model model = load_model(runtime.get(), {.path = flags.model.path,
                                                 .context = ids.size(),
                                                 .activations = flags.model.activations,
                                                 .kv = flags.model.kv,
                                                 .tokenizer_pre = flags.model.tokenizer_pre,
                                                 .adapter = adapter,
                                                 .progress = !line.quiet});
  const Session session = open_session(model.get(), adapter);
  Progress progress("reading", flags.file, "tokens", line.quiet);
  quern_evaluate_options options{};
  options.struct_size = sizeof options;
  options.flags = flags.logits_file ? std::uint32_t{QUERN_EVALUATE_LOGITS} : std::uint32_t{0};
  options.progress = [](void* bar, std::uint64_t done, std::uint64_t total) {
    static_cast<Progress*>(bar)->show(done, total);
    return 0;
  };
  options.progress_user = &progress;
  const quern_evaluate_options* chosen = &options;
  const auto evaluation = make<Evaluation>(quern_evaluate_with, session.get(), 0u, ids.data(), ids.size(), chosen);
  progress.end();
  const quern_evaluation* handle = evaluation.get();
  const auto info = get<quern_evaluation_info>(quern_evaluation_get_info, handle);
  if (flags.logits_file) write_logits(logits, info);
  const Where where = where_it_ran(model.get(), session.get(), flags.model.path);

  if (line.json) {
    write_json(eval_json(where.ran_on, info, flags.positions));
  } else {
    const double mean = info.count > 1 ? info.nll_sum / static_cast<double>(info.count - 1) : std::nan("");
    std::string out = "tokens      " + std::to_string(info.count) + "\n";
    if (info.count > 1) out += "nll_mean    " + fixed(mean, 6) + "\nperplexity  " + fixed(std::exp(mean), 4) + "\n";
    if (flags.positions) {
      out += "position argmax margin nll\n";
      for (std::uint64_t at = 0; at < info.count; ++at)
        out += std::to_string(at) + " " + std::to_string(info.argmax[at]) + " " + fixed(info.margin[at], 4) + " " +
               (at + 1 < info.count ? fixed(info.nll[at], 4) : "-") + "\n";
    }
    write_out(out);
  }
  if (!line.quiet) write_error_line(closing_line(where, rate(info.count, info.seconds), "read"));
  return exit_ok;
}

}  // namespace quern::cli
