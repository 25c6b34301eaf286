// Chat templates: the model's own Jinja, rendered as Hugging Face transformers renders it.
//
// A template is part of a model file and so it is hostile input. It sees only the messages and the options
// given to render(): no file, no clock, no environment, no attribute of anything but data. What it may use of
// the machine is bounded by TemplateLimits. README.md lists the language and the known differences from
// Jinja2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace quern {

struct Chat;
namespace jinja {
struct Template;
}

/// One turn of a chat. Both are UTF-8; a template sees a mapping with the keys 'role' and 'content'.
struct Message {
  std::string role;
  std::string content;
};

/// What one render may use. Beyond any of these it ends with Error(QUERN_BAD_MODEL) that names the limit.
struct TemplateLimits {
  std::uint64_t steps = 10'000'000;                  ///< evaluated nodes, loop turns, and 64-byte pieces of text handled
  std::uint64_t output_bytes = 16ull * 1024 * 1024;  ///< the rendered text
  /// All that is held at one time: the parsed template, values with their spare room, and the rendered text.
  std::uint64_t memory_bytes = 64ull * 1024 * 1024;
  /// Seconds on the clock of the calling thread's CPU time, once for parse() and once for render(). Work is looked at
  /// every few microseconds, so that the error comes within milliseconds of the limit.
  double cpu_seconds = 2;
  double cpu_seconds_used = 0;  ///< of these, what earlier renders of the same chat have taken
};

/// A variable that a caller adds, such as enable_thinking.
using TemplateVariable = std::variant<std::string, bool, std::int64_t, double>;

struct TemplateOptions {
  bool add_generation_prompt = true;
  /// Undefined in the template while unset, as for a tokenizer that has no such token.
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  /// More variables by name. 'messages' cannot be replaced; 'tools' and 'documents' are none unless given
  /// here.
  std::map<std::string, TemplateVariable> variables;
  /// The local calendar time that strftime_now() formats; tm_year, tm_mon, tm_mday, tm_hour, tm_min, tm_sec
  /// are read, and the weekday and the day of the year follow from them. Without it a template that asks for
  /// the time is refused.
  std::optional<std::tm> now;
  TemplateLimits limits;
};

/// Bytes of a rendered text, from `begin` to the one before `end`.
struct ForeignRange {
  std::size_t begin = 0, end = 0;
};

/// A prompt, and which of its bytes came from outside the template: from a message or a variable, or from a
/// number or another value that is no text. The ranges are sorted and do not touch. An empty one is a place
/// where something foreign was and is gone. The rest is the template's own text, and that of bos_token,
/// eos_token and the roles that chats know (README.md): only there does the text of a special token mean that
/// token.
struct RenderedChat {
  std::string text;
  std::vector<ForeignRange> foreign;
  std::string refusal = {};  ///< why it is no prompt for its messages; "" if it is one
  /// What the template wrote inside {% generation %}: the text of the model, for the masks of training. Sorted; none is empty, and none
  /// touches the next.
  std::vector<ForeignRange> generated = {};
  /// Some of it went into a block, a macro or a filter, so that nothing is known of its place in the text.
  bool generated_elsewhere = false;
};

/// A parsed template. Immutable: copies share it, and any number of threads may render it at the same time.
class ChatTemplate {
 public:
  /// Parses UTF-8 Jinja source with trim_blocks and lstrip_blocks set. `name_for_errors` opens every error
  /// text (the model file's name, say).
  ///
  /// Throws Error(QUERN_BAD_MODEL) with the line for a syntax error, text that is not UTF-8, more than 1 MiB
  /// of source, nesting deeper than 200, or more memory or time than `limits` give; Error(QUERN_UNSUPPORTED) with the
  /// construct and the line for a tag that is not offered. A filter, test, function or method that is not is refused
  /// when it is reached.
  static ChatTemplate parse(std::string_view source, std::string name_for_errors, const TemplateLimits& limits = {});

  /// The prompt text for `messages`.
  ///
  /// Throws Error(QUERN_INVALID_ARGUMENT) if the template calls raise_exception (the text holds its message),
  /// if a message or an option is not UTF-8, or if the template asks for the time and options.now is unset;
  /// Error(QUERN_BAD_MODEL) with the line where Jinja2 would fail too (a type error, an undefined value used)
  /// and where a limit is passed; Error(QUERN_UNSUPPORTED) with the line for what shows only at run time (an
  /// integer beyond 64 bits, a filter, test, function or method that is not offered).
  RenderedChat render_marked(const std::vector<Message>& messages, const TemplateOptions& options) const;

  /// The text alone.
  std::string render(const std::vector<Message>& messages, const TemplateOptions& options) const {
    return render_marked(messages, options).text;
  }
  /// The same for a chat (chat.hpp): all members of its messages, and its tools, as they are.
  RenderedChat render_as_given(const Chat& chat, const TemplateOptions& options) const;

  /// What opens its error texts.
  const std::string& name() const noexcept;

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Template> parsed) noexcept : parsed_(std::move(parsed)) {}

  std::shared_ptr<const jinja::Template> parsed_;
};

}  // namespace quern
