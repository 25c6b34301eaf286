#include "engine.hpp"

#include "log.hpp"
#include "progress.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace quern::cli {
namespace {

int on_progress(void* user, std::uint64_t done, std::uint64_t total) {
  static_cast<Progress*>(user)->show(done, total);
  return 0;
}

/// Runs a function of the (ids, capacity, count) kind, once where the guess is enough.
template <typename Function>
std::vector<std::int32_t> collect_ids(std::size_t guess, Function function) {
  std::vector<std::int32_t> ids(guess);
  std::uint64_t count = 0;
  quern_status status = function(ids.data(), ids.size(), &count);
  if (status == QUERN_INVALID_ARGUMENT && count > ids.size()) {
    ids.resize(count);
    status = function(ids.data(), ids.size(), &count);
  }
  check(status);
  ids.resize(count);
  return ids;
}

}  // namespace

Runtime open_runtime(const Settings& settings) {
  set_log_level(settings.log_level);
  quern_runtime_options options = settings.options();
  options.log = log_from_library;
  return make<Runtime>(quern_runtime_create, &options);
}

ScaledAdapter scaled_adapter(const std::string& verb, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  ScaledAdapter adapter{text, 1};
  if (colon == text.npos || colon + 1 == text.size()) return adapter;
  double scale = 0;
  const auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), scale);
  if (error != std::errc() || end != text.data() + text.size()) return adapter;
  if (!std::isfinite(scale) || scale == 0)
    throw Failure(exit_usage, verb + ": the scale of " + text +
                                  " is 0 or no finite number, and nothing would be added; give another number behind the colon");
  return {text.substr(0, colon), scale};
}

std::optional<ScaledAdapter> adapter_of(const std::string& verb, const ModelFlags& flags) {
  if (!flags.adapter) return std::nullopt;
  return scaled_adapter(verb, *flags.adapter);
}

Adapter load_adapter(quern_model* model, const std::optional<ScaledAdapter>& adapter) {
  return adapter ? make<Adapter>(quern_adapter_load, model, adapter->path.c_str()) : Adapter();
}

Session open_session(quern_model* model, const std::optional<ScaledAdapter>& adapter) {
  auto session = make<Session>(quern_session_create, model, nullptr);
  if (adapter) check(quern_session_use_adapter(session.get(), 0, load_adapter(model, adapter).get(), adapter->scale));
  return session;
}

Model load_model(quern_runtime* runtime, const LoadOptions& options) {
  Progress progress("loading", options.path.substr(options.path.find_last_of('/') + 1), nullptr, !options.progress);
  quern_model_options model_options{};
  model_options.struct_size = sizeof model_options;
  model_options.context = options.context;
  model_options.sequences = options.sequences;
  model_options.activations = options.activations;
  model_options.kv = options.kv;
  model_options.tokenizer_pre = options.tokenizer_pre.empty() ? nullptr : options.tokenizer_pre.c_str();
  const char* adapter = options.adapter ? options.adapter->path.c_str() : nullptr;
  model_options.adapters = &adapter;
  model_options.adapter_count = options.adapter ? 1 : 0;
  model_options.progress = on_progress;
  model_options.progress_user = &progress;
  quern_model* model = nullptr;
  const quern_status status = quern_model_load(runtime, options.path.c_str(), &model_options, &model);
  progress.end();
  check(status, options.path);
  return Model(model);
}

Vocabulary open_vocabulary(const std::string& path, const std::string& tokenizer_pre) {
  quern_vocabulary_options options{};
  options.struct_size = sizeof options;
  options.tokenizer_pre = tokenizer_pre.empty() ? nullptr : tokenizer_pre.c_str();
  quern_vocabulary* vocabulary = nullptr;
  const quern_status status = quern_vocabulary_open_with(path.c_str(), &options, &vocabulary);
  if (status == QUERN_INVALID_ARGUMENT) throw Failure(exit_usage, std::string("--tokenizer-pre: ") + quern_last_error());
  check(status, path);
  return Vocabulary(vocabulary);
}

void limit_template(const quern_vocabulary* vocabulary, const Settings& settings) {
  if (settings.template_seconds != 0) check(quern_vocabulary_set_template_seconds(vocabulary, settings.template_seconds));
}

void warn_of(const quern_vocabulary* vocabulary, const std::string& path) {
  const std::string warning = quern_vocabulary_warning(vocabulary);
  if (!warning.empty()) log_from_library(nullptr, QUERN_LEVEL_WARN, "vocabulary", (path + ": " + warning).c_str());
}

void check_architecture(const std::string& path) {
  quern_estimate* estimate = nullptr;
  check(quern_estimate_file(nullptr, path.c_str(), nullptr, &estimate), path);
  quern_estimate_release(estimate);
}

Chat read_chat(const std::string& file) {
  const std::string json = read_file(file);
  quern_chat* chat = nullptr;
  const quern_status status = quern_chat_from_json(json.data(), json.size(), &chat);
  if (status == QUERN_INVALID_ARGUMENT) throw Failure(exit_refused, file + ": " + quern_last_error());
  check(status);
  return Chat(chat);
}

std::vector<std::int32_t> tokenize(const quern_vocabulary* vocabulary, std::string_view text, std::uint32_t flags) {
  return collect_ids(text.size() + 8, [&](std::int32_t* ids, std::uint64_t capacity, std::uint64_t* count) {
    return quern_tokenize(vocabulary, text.data(), text.size(), flags, ids, capacity, count);
  });
}

std::vector<std::int32_t> tokenize_more(const quern_vocabulary* vocabulary, const std::string& text) {
  constexpr std::uint32_t flags = QUERN_TOKENIZE_NO_BOS | QUERN_TOKENIZE_NO_EOS;
  // Some vocabularies put a blank in front of a text. Behind a newline it stands in front of that, and both go.
  const std::vector<std::int32_t> newline = tokenize(vocabulary, "\n", flags);
  std::vector<std::int32_t> ids = tokenize(vocabulary, "\n" + text, flags);
  if (ids.size() < newline.size() || !std::equal(newline.begin(), newline.end(), ids.begin())) return tokenize(vocabulary, text, flags);
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(newline.size()));
  return ids;
}

std::vector<std::int32_t> tokenize_rendered(const quern_vocabulary* vocabulary, const Text& rendered, std::uint32_t flags) {
  try {
    return collect_ids(quern_text_size(rendered.get()) + 8, [&](std::int32_t* ids, std::uint64_t capacity, std::uint64_t* count) {
      return quern_tokenize_rendered(vocabulary, rendered.get(), flags, ids, capacity, count);
    });
  } catch (const Failure& failure) {
    if (failure.code() != exit_context) throw;
    throw Failure(exit_context, std::string("the prompt is too long: ") + failure.what());
  }
}

Prompt prompt_to_answer(const quern_vocabulary* vocabulary, const Text& rendered, const RunFlags& flags) {
  constexpr std::size_t end_bytes = 64;  // as far back as a mark of thinking may stand
  Prompt prompt{tokenize_rendered(vocabulary, rendered, special_flag(flags.special_in_messages)), ""};
  const std::string_view text = view(rendered);
  prompt.end = text.substr(text.size() - std::min(text.size(), end_bytes));
  if (flags.prefill.empty()) return prompt;
  const std::vector<std::int32_t> begun = tokenize_more(vocabulary, flags.prefill);
  prompt.ids.insert(prompt.ids.end(), begun.begin(), begun.end());
  return prompt;
}

namespace {

void require_template(const quern_vocabulary* vocabulary, const std::string& path) {
  const char* source = quern_vocabulary_chat_template(vocabulary);
  if (source == nullptr || *source == '\0')
    throw Failure(exit_refused, path + ": the model has " + (source == nullptr ? "no" : "an empty") +
                                    " chat template; use --raw to give it the prompt as it is");
}

Text take_rendered(quern_status status, quern_text* rendered, const std::string& path) {
  if (status == QUERN_INVALID_ARGUMENT) {  // the template refuses these messages: data, not usage
    const std::string text = quern_last_error();
    throw Failure(exit_refused, text.find(path) == std::string::npos ? path + ": " + text : text);
  }
  check(status, path);
  return Text(rendered);
}

}  // namespace

Text render_chat(const quern_vocabulary* vocabulary, const std::vector<Message>& messages, const std::string& path) {
  require_template(vocabulary, path);
  std::vector<quern_message> list;
  for (const Message& message : messages)
    list.push_back({sizeof(quern_message), message.role.c_str(), message.content.c_str(), message.content.size()});
  quern_text* rendered = nullptr;
  const quern_status status = quern_render_chat(vocabulary, list.data(), list.size(), 0, &rendered);
  return take_rendered(status, rendered, path);
}

Text render_chat(const quern_vocabulary* vocabulary, const quern_chat* chat, const std::string& path) {
  require_template(vocabulary, path);
  quern_text* rendered = nullptr;
  const quern_status status = quern_chat_render(vocabulary, chat, 0, &rendered);
  return take_rendered(status, rendered, path);
}

}  // namespace quern::cli
