#include "engine.hpp"

#include "log.hpp"
#include "progress.hpp"

namespace quern::cli {
namespace {

int on_progress(void* user, std::uint64_t done, std::uint64_t total) {
  draw_progress("loading", *static_cast<const std::string*>(user), done, total);
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

Model load_model(quern_runtime* runtime, const LoadOptions& options) {
  std::string label = options.path.substr(options.path.find_last_of('/') + 1);
  quern_model_options model_options{};
  model_options.struct_size = sizeof model_options;
  model_options.context = options.context;
  model_options.sequences = options.sequences;
  model_options.activations = options.activations;
  model_options.kv = options.kv;
  if (options.progress) {
    model_options.progress = on_progress;
    model_options.progress_user = &label;
  }
  quern_model* model = nullptr;
  const quern_status status = quern_model_load(runtime, options.path.c_str(), &model_options, &model);
  erase_progress();
  check(status, options.path);
  return Model(model);
}

Vocabulary open_vocabulary(const std::string& path) {
  quern_vocabulary* vocabulary = nullptr;
  check(quern_vocabulary_open(path.c_str(), &vocabulary), path);
  return Vocabulary(vocabulary);
}

void limit_template(const quern_vocabulary* vocabulary, const Settings& settings) {
  if (settings.template_seconds != 0) check(quern_vocabulary_set_template_seconds(vocabulary, settings.template_seconds));
}

std::vector<std::int32_t> tokenize(const quern_vocabulary* vocabulary, std::string_view text, std::uint32_t flags) {
  return collect_ids(text.size() + 8, [&](std::int32_t* ids, std::uint64_t capacity, std::uint64_t* count) {
    return quern_tokenize(vocabulary, text.data(), text.size(), flags, ids, capacity, count);
  });
}

std::vector<std::int32_t> tokenize_rendered(const quern_vocabulary* vocabulary, const Text& rendered,
                                            std::uint32_t flags) {
  return collect_ids(quern_text_size(rendered.get()) + 8, [&](std::int32_t* ids, std::uint64_t capacity, std::uint64_t* count) {
    return quern_tokenize_rendered(vocabulary, rendered.get(), flags, ids, capacity, count);
  });
}

Text render_chat(const quern_vocabulary* vocabulary, const std::vector<Message>& messages,
                 const std::string& path) {
  if (quern_vocabulary_chat_template(vocabulary) == nullptr)
    throw Failure(exit_refused, path + ": the model has no chat template; use --raw to give it the prompt as it is");
  std::vector<quern_message> list;
  for (const Message& message : messages)
    list.push_back({sizeof(quern_message), message.role.c_str(), message.content.c_str(), message.content.size()});
  quern_text* rendered = nullptr;
  const quern_status status = quern_render_chat(vocabulary, list.data(), list.size(), 0, &rendered);
  if (status == QUERN_INVALID_ARGUMENT)  // the template refuses these messages: data, not usage
    throw Failure(exit_refused, path + ": " + quern_last_error());
  check(status, path);
  return Text(rendered);
}

}  // namespace quern::cli
