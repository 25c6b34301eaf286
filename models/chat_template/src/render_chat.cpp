// Gives the content of messages to a template in the form that it reads, and sees that it reads any.
//
// A template tells nobody which form that is. A render shows it: the text of a message is among the foreign bytes of the prompt, and
// not as a part of a list that was printed. All renders of one chat share one limit of CPU time.
#include "quern/models/chat.hpp"

#include "budget.hpp"
#include "quern/graph/error.hpp"
#include "text.hpp"

#include <algorithm>

namespace quern {

namespace {

enum class Form : std::uint8_t { text, parts };

Json part_of(std::string text) {
  Json::Members members;
  members.push_back({"type", Json(std::string("text"))});
  members.push_back({"text", Json(std::move(text))});
  return Json(std::move(members));
}

std::string joined(const Json& content) {
  if (const std::string* text = content.text()) return *text;
  std::string all;
  if (const Json::List* parts = content.list())
    for (const Json& part : *parts) all += *part.find("text")->text();
  return all;
}

/// The chat with every content in this form; `change` makes the text that it gets.
template <typename Change>
Chat in_form(const Chat& chat, Form form, const Change& change) {
  Json::List messages;
  for (const Json& message : *chat.messages.list()) {
    Json::Members members = *message.members();
    for (Json::Member& member : members) {
      if (member.name != "content" || member.value.is_null()) continue;
      std::string text = change(joined(member.value));
      if (form == Form::text) {
        member.value = Json(std::move(text));
        continue;
      }
      Json::List parts;
      parts.push_back(part_of(std::move(text)));
      member.value = Json(std::move(parts));
    }
    messages.emplace_back(std::move(members));
  }
  Chat made;
  made.messages = Json(std::move(messages));
  made.tools = chat.tools;
  return made;
}

std::string as_it_is(std::string text) { return text; }
std::string as_word(std::string text) { return text.empty() ? text : "zqtextofamessageqz"; }

bool has_parts(const Chat& chat) {
  return std::ranges::any_of(*chat.messages.list(), [](const Json& message) {
    const Json* content = message.find("content");
    return content != nullptr && content->list() != nullptr;
  });
}

bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// A template may trim a text, cut its end or break its lines, so the start of its first line is looked for.
std::string_view start_of(std::string_view text) {
  constexpr std::size_t most = 48;
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  text = jinja::cut_text(text.substr(0, text.find_first_of("\r\n")), most);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Whether these foreign bytes hold the start of a text, and not as the member of a list that was printed or written as JSON.
bool holds(std::string_view foreign, std::string_view start) {
  for (std::size_t at = foreign.find(start); at != std::string_view::npos; at = foreign.find(start, at + 1)) {
    const std::string_view before = foreign.substr(0, at);
    if (!before.ends_with("'text': '") && !before.ends_with("\"text\": \"") && !before.ends_with("\"text\":\"")) return true;
  }
  return false;
}

bool shows(const RenderedChat& prompt, std::string_view text) {
  const std::string_view start = start_of(text);
  return !start.empty() && std::ranges::any_of(prompt.foreign, [&](const ForeignRange& range) {
    return holds(std::string_view(prompt.text).substr(range.begin, range.end - range.begin), start);
  });
}

/// Whether the text of some message is in the prompt.
bool shows_a_text(const RenderedChat& prompt, const Chat& chat) {
  return std::ranges::any_of(*chat.messages.list(), [&](const Json& message) {
    const Json* content = message.find("content");
    if (content == nullptr) return false;
    if (content->text() != nullptr) return shows(prompt, *content->text());
    return content->list() != nullptr &&
           std::ranges::any_of(*content->list(), [&](const Json& part) { return shows(prompt, *part.find("text")->text()); });
  });
}

bool says_nothing(const Chat& chat) {
  return std::ranges::all_of(*chat.messages.list(), [](const Json& message) {
    const Json* content = message.find("content");
    return content == nullptr || std::ranges::all_of(joined(*content), is_space);
  });
}

/// Renders of one chat.
class Renders {
 public:
  Renders(const ChatTemplate& source, const TemplateOptions& options)
      : source_(source), options_(options), started_(jinja::cpu_seconds()) {}

  RenderedChat render(const Chat& chat) {
    options_.limits.cpu_seconds_used = jinja::cpu_seconds() - started_;
    return source_.render_as_given(chat, options_);
  }
  /// Nothing where the template refuses the chat, or no time is left.
  std::optional<RenderedChat> attempt(const Chat& chat) {
    try {
      return render(chat);
    } catch (const Error&) { return std::nullopt; }
  }

 private:
  const ChatTemplate& source_;
  TemplateOptions options_;
  double started_;
};

}  // namespace

RenderedChat render_chat(const ChatTemplate& source, const Chat& chat, const TemplateOptions& options) {
  Renders renders(source, options);
  const bool given_in_parts = has_parts(chat);
  if (given_in_parts) {
    if (std::optional<RenderedChat> prompt = renders.attempt(chat); prompt && shows_a_text(*prompt, chat)) return *std::move(prompt);
  }
  std::optional<Chat> joined_parts;
  if (given_in_parts) joined_parts = in_form(chat, Form::text, as_it_is);
  const Chat& in_text = joined_parts ? *joined_parts : chat;
  RenderedChat prompt = renders.render(in_text);
  if (says_nothing(in_text) || shows_a_text(prompt, in_text)) return prompt;
  // It may change the texts so that none is found, or look at what they say: then it writes another prompt for others.
  const std::optional<RenderedChat> of_words = renders.attempt(in_form(chat, Form::text, as_word));
  if (!of_words || of_words->text != prompt.text) return prompt;
  if (!given_in_parts) {
    const Chat in_parts = in_form(chat, Form::parts, as_it_is);
    if (std::optional<RenderedChat> read = renders.attempt(in_parts); read && shows_a_text(*read, in_parts)) return *std::move(read);
  }
  prompt.refusal = concat(source.name(),
                          ": the chat template puts the text of no message into the prompt (key "
                          "'tokenizer.chat_template'); give the whole prompt as raw text instead");
  return prompt;
}

}  // namespace quern
