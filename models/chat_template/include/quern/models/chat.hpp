// A chat with all that its messages may hold, read from JSON, and its prompt.
//
// A message is what OpenAI's clients write: `content` is a text, a list of text parts, or null beside tool calls; every other
// member (name, tool_calls, tool_call_id, reasoning_content ...) goes to the template as it is, as transformers does it.
#pragma once

#include "quern/graph/json.hpp"
#include "quern/models/chat_template.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace quern {

struct Chat {
  Json messages;  ///< a list of objects
  Json tools;     ///< a list, or null
};

/// The most bytes that parse_chat() takes: a tree of JSON takes up to thirty times its text.
inline constexpr std::size_t largest_chat = 16 * 1024 * 1024;

/// `[{"role": "user", "content": "..."}, ...]`, or that as member `messages` of an object, which may have `tools` too.
/// Throws Error(QUERN_INVALID_ARGUMENT) for text that is no JSON or too long, and for another shape; the error names the
/// message from 1, and a part of a content that is no text by its type.
Chat parse_chat(std::string_view json);

/// The same from JSON that was read: `messages` as the list above, `tools` a list or null. Throws as parse_chat() for another shape.
Chat chat_from(Json messages, Json tools);

/// A chat of these messages alone.
Chat chat_of(const std::vector<Message>& messages);

/// The prompt for a chat. A content in parts is given in parts to a template that reads parts, and as their joined text to one
/// that does not; a text is given as a part to a template that reads nothing else. What a template makes that puts the text of no message into the
/// prompt has a `refusal`. Throws as ChatTemplate::render().
RenderedChat render_chat(const ChatTemplate& source, const Chat& chat, const TemplateOptions& options);

}  // namespace quern
