// From settings to a loaded model, and from words to ids: what the computing verbs share.
#pragma once

#include "api.hpp"
#include "command_line.hpp"
#include "input.hpp"
#include "settings.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::cli {

/// A runtime with the program's log. Throws Failure(exit_usage) for a setting that the library refuses.
Runtime open_runtime(const Settings& settings);

/// An adapter as flags name it: "out:0.5" is the folder out at half its strength.
struct ScaledAdapter {
  std::string path;
  double scale = 1;
};
/// A path may have colons: only a number behind the last one is a scale. Throws Failure(exit_usage) for one of 0 or none that is finite.
ScaledAdapter scaled_adapter(const std::string& verb, const std::string& text);

struct LoadOptions {
  std::string path;
  std::uint64_t context = 0;
  std::uint32_t sequences = 1;
  std::uint32_t activations = QUERN_ACTIVATIONS_AUTO;
  std::uint32_t kv = QUERN_KV_DEFAULT;
  std::string tokenizer_pre = {};
  std::optional<ScaledAdapter> adapter = {};  // that its sessions may use
  bool progress = true;
};

/// Loads a model, with a bar on a terminal. Failures name the path.
Model load_model(quern_runtime* runtime, const LoadOptions& options);

/// The adapter of --adapter for this verb; nothing without the flag.
std::optional<ScaledAdapter> adapter_of(const std::string& verb, const ModelFlags& flags);
/// A loaded adapter; null for nothing.
Adapter load_adapter(quern_model* model, const std::optional<ScaledAdapter>& adapter);
/// A session of one sequence, which uses the adapter that the model was loaded for.
Session open_session(quern_model* model, const std::optional<ScaledAdapter>& adapter);

/// `tokenizer_pre` is empty for the rule of the file.
Vocabulary open_vocabulary(const std::string& path, const std::string& tokenizer_pre);

/// Writes what the library finds doubtful about a vocabulary that no model was loaded for; a loaded model's is in the log.
void warn_of(const quern_vocabulary* vocabulary, const std::string& path);

/// Refuses a file whose architecture or shape this version does not run, before anything of its vocabulary is looked at. Reads its
/// header only.
void check_architecture(const std::string& path);

/// The chat in a JSON file ("-" is standard input). Throws Failure(exit_refused) naming the file.
Chat read_chat(const std::string& file);

/// The time that the template may take, where the settings give one.
void limit_template(const quern_vocabulary* vocabulary, const Settings& settings);

/// Ids of a text, flags as quern_tokenize.
std::vector<std::int32_t> tokenize(const quern_vocabulary* vocabulary, std::string_view text, std::uint32_t flags);

/// The chat as the model's template renders it, generation prompt included. Throws Failure(exit_refused) naming the
/// path, and --raw where the model has no template.
Text render_chat(const quern_vocabulary* vocabulary, const std::vector<Message>& messages, const std::string& path);
Text render_chat(const quern_vocabulary* vocabulary, const quern_chat* chat, const std::string& path);

/// Ids of a rendered chat, in which no message's text is a special token; flags as quern_tokenize_rendered.
std::vector<std::int32_t> tokenize_rendered(const quern_vocabulary* vocabulary, const Text& rendered, std::uint32_t flags);

/// Ids of a text that continues another one: without a token or a blank in front. The text of special tokens becomes these.
std::vector<std::int32_t> tokenize_more(const quern_vocabulary* vocabulary, const std::string& text);

/// What is given to the model, with the end of its text: from there the answer goes on.
struct Prompt {
  std::vector<std::int32_t> ids;
  std::string end;
};

/// A rendered chat and, behind it, how the answer has to begin.
Prompt prompt_to_answer(const quern_vocabulary* vocabulary, const Text& rendered, const RunFlags& flags);

/// The flag of quern_tokenize_rendered for --special-in-messages.
inline std::uint32_t special_flag(bool special_in_messages) noexcept {
  return special_in_messages ? std::uint32_t{QUERN_TOKENIZE_SPECIAL_IN_MESSAGES} : 0;
}

}  // namespace quern::cli
