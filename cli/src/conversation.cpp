#include "conversation.hpp"

#include "failure.hpp"
#include "numbers.hpp"
#include "output.hpp"

#include <algorithm>

namespace quern::cli {

void Conversation::set_system(std::string text) { system_ = std::move(text); }

std::string Conversation::system() const { return system_; }

std::optional<std::string> Conversation::undo() {
  const auto last = std::find_if(turns_.rbegin(), turns_.rend(), [](const Message& turn) { return turn.role == "user"; });
  if (last == turns_.rend()) return {};
  std::string text = last->content;
  turns_.erase(last.base() - 1, turns_.end());
  return text;
}

bool Conversation::drop_oldest() {
  const auto is_users = [](const Message& turn) { return turn.role == "user"; };
  const auto first = std::ranges::find_if(turns_, is_users);
  if (first == turns_.end()) return false;
  const auto second = std::find_if(first + 1, turns_.end(), is_users);
  if (second == turns_.end()) return false;
  turns_.erase(turns_.begin(), second);
  return true;
}

std::size_t Conversation::questions() const { return static_cast<std::size_t>(std::ranges::count(turns_, "user", &Message::role)); }

std::string Conversation::last_answer() const {
  const auto last = std::find_if(turns_.rbegin(), turns_.rend(), [](const Message& turn) { return turn.role == "assistant"; });
  return last == turns_.rend() ? "" : last->content;
}

std::vector<Message> Conversation::messages() const {
  std::vector<Message> all;
  if (!system_.empty()) all.push_back({"system", system_});
  all.insert(all.end(), turns_.begin(), turns_.end());
  return all;
}

std::string history_page(const std::vector<Message>& messages) {
  std::string page;
  for (const Message& message : messages) page += message.role + ": " + message.content + "\n";
  return page.empty() ? "nothing was said yet\n" : page;
}

std::string saved_chat(const Conversation& conversation) {
  Json messages = Json::array();
  for (const Message& message : conversation.messages()) messages.push_back({{"role", message.role}, {"content", message.content}});
  Json chat;
  chat["messages"] = std::move(messages);
  return json_line(chat);
}

Conversation read_saved_chat(const std::string& json, const std::string& file) {
  const auto refuse = [&](const std::string& why) { throw Failure(exit_refused, file + ": is no saved chat: " + why); };
  constexpr int deepest = 8;  // a chat needs three; deeper ones would cost memory and nothing reads them
  if (json.size() > most_saved_bytes) refuse("it has more than " + byte_words(most_saved_bytes));
  constexpr std::size_t most_events = 12 * most_saved_messages;  // of the parser; a message of two members has six
  bool deep = false;
  std::size_t events = 0;
  const Json value = Json::parse(
      json,
      [&](int depth, Json::parse_event_t, Json&) {
        deep = deep || depth > deepest;
        return ++events <= most_events && depth <= deepest;  // what is refused is read to its end, but not kept
      },
      /*allow_exceptions=*/false);
  if (deep) refuse("lists or objects lie in more than " + std::to_string(deepest) + " others");
  if (events > most_events) refuse("it holds more than " + with_commas(most_saved_messages) + " messages have");
  if (value.is_discarded()) refuse("it is not JSON");
  const Json* list = &value;
  if (value.is_object() && value.contains("messages")) list = &value["messages"];
  if (!list->is_array()) refuse("it has no list of messages");
  if (list->size() > most_saved_messages) refuse("it has more than " + with_commas(most_saved_messages) + " messages");
  Conversation conversation;
  std::size_t number = 0;
  for (const Json& message : *list) {
    const std::string which = "message " + std::to_string(++number);
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) refuse(which + " has no role");
    if (!message.contains("content") || !message["content"].is_string()) refuse(which + " has no text as its content");
    const std::string role = message["role"].get<std::string>();
    std::string content = message["content"].get<std::string>();
    if (role == "system" && number == 1) conversation.set_system(std::move(content));
    else if (role == "user" || role == "assistant") conversation.add(role, std::move(content));
    else refuse(which + " has the role " + in_quotes(role) + "; a chat has user and assistant, and system in front");
  }
  return conversation;
}

}  // namespace quern::cli
