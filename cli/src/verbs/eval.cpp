// quern eval MODEL FILE: reads a text token by token and compares each prediction with the next one. With --data, the loss of examples.
#include "verbs.hpp"

#include "divergence.hpp"
#include "engine.hpp"
#include "input.hpp"
#include "model_path.hpp"
#include "numbers.hpp"
#include "progress.hpp"
#include "shapes.hpp"
#include "training_settings.hpp"
#include "where.hpp"

#include "quern/base/files.hpp"

#include <algorithm>
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

/// The model of --reference. It and the model that is evaluated read the text in windows, each from position 0.
class Reference {
 public:
  Reference(const CommandLine& line, const Settings& settings, quern_runtime* runtime, const std::vector<std::int32_t>& ids,
            std::string_view text)
      : path_(model_path(*line.eval.reference, settings, {.pull = line.named.pull, .offer = !line.quiet, .quiet = line.quiet})),
        quiet_(line.quiet),
        ids_(ids) {
    if (line.eval.reference_adapter) adapter_ = scaled_adapter("eval", *line.eval.reference_adapter);
    const Vocabulary vocabulary = open_vocabulary(path_, line.eval.model.tokenizer_pre);
    if (tokenize(vocabulary.get(), text, QUERN_TOKENIZE_NO_BOS | QUERN_TOKENIZE_NO_EOS) != ids)
      throw Failure(exit_refused, path_ + ": reads the text as other tokens; a reference needs the model's own vocabulary");
    const std::uint64_t of_a_position = quern_vocabulary_size(vocabulary.get()) * sizeof(float);
    window_ = std::clamp<std::uint64_t>(most_logits / of_a_position, 1, std::min<std::uint64_t>(most_window, ids.size()));
    model_ = load_model(runtime, {.path = path_,
                                  .context = window_,
                                  .activations = line.eval.model.activations,
                                  .kv = line.eval.model.kv,
                                  .tokenizer_pre = line.eval.model.tokenizer_pre,
                                  .adapter = adapter_,
                                  .progress = !line.quiet});
    session_ = open_session(model_.get(), adapter_);
  }

  void compare(quern_session* session) {
    Progress progress("comparing", path_, "tokens", quiet_);
    for (std::uint64_t at = 0; at < ids_.size(); at += window_) {
      const auto window = std::span(ids_).subspan(at, std::min<std::uint64_t>(window_, ids_.size() - at));
      const Evaluation reference = logits_of(session_.get(), window), model = logits_of(session, window);
      const quern_evaluation *a = reference.get(), *b = model.get();
      const auto of_reference = get<quern_evaluation_info>(quern_evaluation_get_info, a);
      const auto of_model = get<quern_evaluation_info>(quern_evaluation_get_info, b);
      if (of_reference.logit_count != of_model.logit_count)
        throw Failure(exit_refused, path_ + ": has " + std::to_string(of_reference.logit_count / window.size()) +
                                        " tokens, and the model has " + std::to_string(of_model.logit_count / window.size()) +
                                        "; a reference needs the same vocabulary");
      const std::size_t each = of_model.logit_count / window.size();
      for (std::size_t i = 0; i < window.size(); ++i)
        divergence_.add({of_reference.logits + i * each, each}, {of_model.logits + i * each, each});
      progress.show(at + window.size(), ids_.size());
    }
    progress.end();
  }

  Json json() const {  // of what is not finite the JSON has null
    return {
        {"model", path_}, {"kl_mean", divergence_.mean()}, {"kl_max", divergence_.most}, {"same_best", same_best()}, {"window", window_}};
  }
  std::string words() const {
    return "kl_mean     " + scientific(divergence_.mean()) + "\nkl_max      " + scientific(divergence_.most) + "\nsame_best   " +
           fixed(100 * same_best(), 2) + " %\n";
  }

 private:
  static constexpr std::uint64_t most_window = 512, most_logits = std::uint64_t{128} << 20;  // bytes of each model's logits

  static Evaluation logits_of(quern_session* session, std::span<const std::int32_t> ids) {
    return make<Evaluation>(quern_evaluate, session, 0u, ids.data(), std::uint64_t{ids.size()}, std::uint32_t{QUERN_EVALUATE_ALL_LOGITS});
  }
  double same_best() const { return static_cast<double>(divergence_.same_best) / static_cast<double>(divergence_.positions); }

  std::string path_;
  bool quiet_;
  const std::vector<std::int32_t>& ids_;
  std::optional<ScaledAdapter> adapter_;
  std::uint64_t window_ = 0;
  Model model_;
  Session session_;
  Divergence divergence_;
};

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
  std::optional<Reference> reference;
  if (flags.reference) reference.emplace(line, settings, runtime.get(), ids, text);
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
  if (reference) reference->compare(session.get());
  const Where where = where_it_ran(model.get(), session.get(), flags.model.path);

  if (line.json) {
    Json json = eval_json(where.ran_on, info, flags.positions);
    if (reference) json["reference"] = reference->json();
    write_json(json);
  } else {
    const double mean = info.count > 1 ? info.nll_sum / static_cast<double>(info.count - 1) : std::nan("");
    std::string out = "tokens      " + std::to_string(info.count) + "\n";
    if (info.count > 1) out += "nll_mean    " + fixed(mean, 6) + "\nperplexity  " + fixed(std::exp(mean), 4) + "\n";
    if (reference) out += reference->words();
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
