// Reads a chat from JSON. Nothing of it is rendered here.
#include "quern/models/chat.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>

namespace quern {

namespace {

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw Error(QUERN_INVALID_ARGUMENT, concat(parts...));
}

/// "a string" and the like, as JSON names it.
const char* kind_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.text() != nullptr) return "a string";
  if (value.boolean() != nullptr) return "a boolean";
  if (value.list() != nullptr) return "a list";
  return value.is_object() ? "an object" : "a number";
}

void require_text(const Json* value, const char* member, const std::string& where) {
  if (value == nullptr) refuse(where, ": '", member, "' is missing, and has to be a string");
  if (value->text() == nullptr) refuse(where, ": '", member, "' is ", kind_of(*value), ", and has to be a string");
}

void check_part(const Json& part, const std::string& where) {
  if (!part.is_object()) refuse(where, " is ", kind_of(part), ", not an object");
  const Json* type = part.find("type");
  require_text(type, "type", where);
  if (*type->text() != "text") refuse(where, " is of type ", in_quotes(*type->text()), "; only parts of type 'text' are offered");
  require_text(part.find("text"), "text", where);
}

void check_content(const Json& message, const std::string& where) {
  const Json* content = message.find("content");
  if (content == nullptr || content->is_null()) {
    const Json* calls = message.find("tool_calls");
    if (calls != nullptr && calls->list() != nullptr && !calls->list()->empty()) return;
    refuse(where, ": 'content' is ", content == nullptr ? "missing" : "null",
           ", and has to be a string or a list of text parts where there are no 'tool_calls'");
  }
  if (content->text() != nullptr) return;
  if (content->list() == nullptr) refuse(where, ": 'content' is ", kind_of(*content), ", and has to be a string or a list of text parts");
  std::size_t number = 0;
  for (const Json& part : *content->list()) check_part(part, concat(where, ": part ", ++number, " of 'content'"));
}

void check_message(const Json& message, std::size_t number) {
  const std::string where = concat("message ", number);
  if (!message.is_object()) refuse(where, " is ", kind_of(message), ", not an object");
  require_text(message.find("role"), "role", where);
  check_content(message, where);
  for (const char* member : {"name", "tool_call_id"})
    if (const Json* value = message.find(member); value != nullptr && !value->is_null()) require_text(value, member, where);
  if (const Json* calls = message.find("tool_calls"); calls != nullptr && !calls->is_null() && calls->list() == nullptr)
    refuse(where, ": 'tool_calls' is ", kind_of(*calls), ", and has to be a list");
}

/// The message without the members that are null: clients write null for what is not there, and templates print it or look whether a
/// member is there.
Json without_nulls(const Json& message) {
  Json::Members members;
  for (const Json::Member& member : *message.members())
    if (!member.value.is_null()) members.push_back(member);
  return Json(std::move(members));
}

}  // namespace

Chat parse_chat(std::string_view json) {
  if (json.size() > largest_chat) refuse("the messages have ", json.size(), " bytes; at most ", largest_chat, " are read");
  std::string why;
  std::optional<Json> document = Json::parse(json, Json::most_values, &why);
  if (!document) throw Error(QUERN_INVALID_ARGUMENT, std::move(why));
  const Json::Members* members = document->members();
  if (members == nullptr) return chat_from(std::move(*document), Json());
  Chat chat;
  for (const Json::Member& member : *members) {
    if (member.name == "messages") {
      chat.messages = member.value;
    } else if (member.name == "tools") {
      chat.tools = member.value;
    } else {
      refuse("member ", in_quotes(member.name), " is not known; beside 'messages' there may be 'tools'");
    }
  }
  if (document->find("messages") == nullptr) refuse("the object has no member 'messages'");
  return chat_from(std::move(chat.messages), std::move(chat.tools));
}

Chat chat_from(Json messages_of_chat, Json tools) {
  Chat chat{std::move(messages_of_chat), std::move(tools)};
  if (!chat.tools.is_null() && chat.tools.list() == nullptr) refuse("'tools' is ", kind_of(chat.tools), ", and has to be a list");
  const Json::List* messages = chat.messages.list();
  if (messages == nullptr || messages->empty())
    refuse("expected a list of messages such as [{\"role\": \"user\", \"content\": \"...\"}], found ",
           messages == nullptr ? kind_of(chat.messages) : "an empty list");
  Json::List kept;
  for (const Json& message : *messages) {
    check_message(message, kept.size() + 1);
    kept.push_back(without_nulls(message));
  }
  chat.messages = Json(std::move(kept));
  return chat;
}

Chat chat_of(const std::vector<Message>& messages) {
  Json::List list;
  for (const Message& message : messages)
    list.emplace_back(Json::Members{{"role", Json(message.role)}, {"content", Json(message.content)}});
  return {Json(std::move(list)), Json()};
}

}  // namespace quern
