// Where the texts of messages lie in a rendered chat.
#pragma once

#include "quern/models/chat.hpp"
#include "quern/models/chat_template.hpp"
#include "quern/training/records.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace quern::training {

/// The most text that is rendered for one example where a render for each message is needed.
inline constexpr std::size_t most_rendered_bytes = std::size_t{64} << 20;

using RenderChat = std::function<RenderedChat(const Chat&, bool add_generation_prompt)>;

struct AnswerPlace {
  std::size_t message = 0;         // from 0
  std::size_t begin = 0, end = 0;  // of its content and its tool calls, in the rendered text
  bool is_verbatim = false;        // there stands the content, without some of the white space at its ends
  bool ends_with_call = false;     // `end` is somewhere in the last call, behind the name of its function
};

/// The text of a content: of a list its parts joined, "" for null.
std::string content_of(const Json& message);
bool has_tool_calls(const Json& message);

/// The places of the messages `wanted`, which have a text or tool calls. `whole` is the chat as `render` writes it.
/// Takes one more render, and one or two more for a message whose place that does not show.
/// Throws Error(QUERN_BAD_MODEL) naming the message and the reason where the template does not write a text as it is given, up to white
/// space. A thought at the start (up to </think>) may be left out.
std::vector<AnswerPlace> find_answers(const Chat& chat, const RenderedChat& whole, const std::vector<std::size_t>& wanted,
                                      const RenderChat& render);

}  // namespace quern::training
