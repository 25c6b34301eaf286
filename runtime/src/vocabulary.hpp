// The tokenizer and the chat template of a model file; needs no weights and no device.
#pragma once

#include "quern/models/chat_template.hpp"
#include "quern/models/gguf.hpp"
#include "quern/models/tokenizer.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quern::runtime {

/// A rendered chat, and which of its bytes came from the messages.
struct Prompt {
  std::string text;
  std::vector<TextRange> foreign;
};

class Vocabulary {
 public:
  /// Reads what it needs and keeps nothing of the file. A template that cannot be rendered is an error of render() only:
  /// the model still answers raw prompts.
  explicit Vocabulary(const gguf::File& file);

  const Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
  const std::optional<std::string>& template_source() const noexcept { return source_; }
  const std::string& file_name() const noexcept { return file_name_; }
  /// Bytes of one token, stable for the life of the vocabulary.
  const TokenBytes& bytes_of(std::int32_t token) const;

  /// The CPU time that reading and rendering the template may take, for what begins after this call.
  void set_template_seconds(double seconds) const noexcept { template_seconds_ = seconds; }

  Prompt render(const std::vector<Message>& messages, bool add_generation_prompt) const;
  /// Special tokens come only of what lies between the `foreign` ranges. The template writes the BOS itself or not;
  /// either way it stands once at the start, as the tokenizer wants it. Stops with Error(QUERN_CONTEXT_FULL) where there
  /// are more ids than the file's context has: no model of it could read them.
  std::vector<std::int32_t> encode_chat(std::string_view rendered, std::span<const TextRange> foreign, bool no_bos) const;

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<std::string> source_;
  std::string file_name_;
  std::optional<std::uint64_t> context_;  // tokens, as the file says
  mutable std::atomic<double> template_seconds_ = TemplateLimits().cpu_seconds;
  mutable std::mutex mutex_;
  mutable std::optional<ChatTemplate> template_;  // parsed at first use
  mutable std::vector<std::unique_ptr<TokenBytes>> bytes_;
};

}  // namespace quern::runtime
