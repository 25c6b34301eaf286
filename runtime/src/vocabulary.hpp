// The tokenizer and the chat template of a model file; needs no weights and no device.
#pragma once

#include "quern/models/chat.hpp"
#include "quern/models/chat_template.hpp"
#include "quern/models/gguf.hpp"
#include "quern/models/tokenizer.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::runtime {

/// A rendered chat, and which of its bytes came from the messages.
struct Prompt {
  std::string text;
  std::vector<TextRange> foreign;
  std::string refusal;  // why no ids may be made of it; "" if they may
};

/// What any thread may make at first use. Never replaced.
template <typename T>
class MadeOnce {
 public:
  MadeOnce() = default;
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;
  ~MadeOnce() { delete made_.load(std::memory_order_relaxed); }
  template <typename Make>
  const T& get(const Make& make) {
    const T* here = made_.load(std::memory_order_acquire);
    if (here != nullptr) return *here;
    auto ours = std::make_unique<const T>(make());
    if (made_.compare_exchange_strong(here, ours.get(), std::memory_order_acq_rel)) return *ours.release();
    return *here;
  }

 private:
  std::atomic<const T*> made_{nullptr};
};

class Vocabulary {
 public:
  /// Reads what it needs and keeps nothing of the file. A template that cannot be rendered is an error of render() only:
  /// the model still answers raw prompts.
  /// `tokenizer_pre` is as in tokenizer_from_gguf().
  explicit Vocabulary(const gguf::File& file, std::string_view tokenizer_pre = {});

  const Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
  const std::optional<std::string>& template_source() const noexcept { return source_; }
  const std::string& file_name() const noexcept { return file_name_; }
  /// What a user should know of the tokenizer, as a sentence; empty if there is nothing.
  const std::string& warning() const noexcept { return warning_; }
  /// Bytes of one token, stable for the life of the vocabulary.
  const TokenBytes& bytes_of(std::int32_t token) const;

  /// The CPU time that reading and rendering the template may take, for what begins after this call.
  void set_template_seconds(double seconds) const noexcept { template_seconds_ = seconds; }

  /// Throws Error(QUERN_UNSUPPORTED) where the file has no template, or an empty one, besides what render_chat() throws.
  Prompt render(const Chat& chat, bool add_generation_prompt) const;
  /// Special tokens come only of what lies between the `foreign` ranges. The template writes the BOS itself or not;
  /// either way it stands once at the start, as the tokenizer wants it. Stops with Error(QUERN_CONTEXT_FULL) where there
  /// are more ids than the file's context has: no model of it could read them.
  std::vector<std::int32_t> encode_chat(std::string_view rendered, std::span<const TextRange> foreign, bool no_bos) const;

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<std::string> source_;
  std::string file_name_, warning_;
  std::optional<std::uint64_t> context_;  // tokens, as the file says
  mutable std::atomic<double> template_seconds_ = TemplateLimits().cpu_seconds;
  // Made at first use, without a lock, which a fork on another thread would leave held in the child: who is second throws its own away.
  mutable MadeOnce<ChatTemplate> template_;
  mutable std::vector<MadeOnce<TokenBytes>> bytes_;
};

}  // namespace quern::runtime
