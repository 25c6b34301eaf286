// A chat as the model's template writes it, and which of its bytes the loss counts.
//
// The conversation is rendered once, whole. What counts comes from {% generation %} where the template has it and the chat asks for nothing
// else. Otherwise each answer is replaced by a word, and the text around that word bounds the answer's place in the real text. Prefixes are
// not compared: a template may change earlier turns once another one follows, as Qwen3's does.
#pragma once

#include "quern/models/chat_template.hpp"
#include "quern/training/data_options.hpp"
#include "quern/training/records.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace quern::training {

/// Bytes of a rendered text from `begin` to the one before `end`; each token that begins there counts `weight`.
struct ByteSpan {
  std::size_t begin = 0, end = 0;
  float weight = 1;
};

struct RenderedRecord {
  RenderedChat text;
  std::vector<ByteSpan> spans;     // in order, and none overlaps the next
  std::uint32_t open_answers = 0;  // answers that count and that no token follows which ends a turn
};

/// Renders for one model. Any number of threads may use it at the same time.
class ChatRenderer {
 public:
  /// Parses the template. Throws Error(QUERN_UNSUPPORTED) where the model has none, and what ChatTemplate::parse() throws.
  ChatRenderer(const TextModel& model, const std::optional<std::tm>& now);

  /// Throws what render_chat() throws, and Error(QUERN_BAD_MODEL) with the message and the reason where the place of a message that counts
  /// cannot be told, without file and line.
  RenderedRecord render(const ChatRecord& record, const DatasetOptions& options) const;

  /// The prompt that `quern run` makes of the chat: it ends where an answer begins.
  RenderedChat prompt(const Chat& chat) const { return render_once(chat, true); }

 private:
  RenderedChat render_once(const Chat& chat, bool add_generation_prompt) const;

  const Tokenizer& tokenizer_;
  TemplateOptions options_;
  ChatTemplate template_;
  std::string header_;  // what the template writes where an answer is to begin; "" where that cannot be told
};

}  // namespace quern::training
