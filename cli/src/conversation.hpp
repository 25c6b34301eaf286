// What was said in a chat, and its form in a file. Pure.
#pragma once

#include "input.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace quern::cli {

class Conversation {
 public:
  /// "" is none.
  void set_system(std::string text);
  std::string system() const;

  void add(std::string role, std::string text) { turns_.push_back({std::move(role), std::move(text)}); }
  /// Forgets the user's last message and what followed it; gives its text, or nothing where there is none.
  std::optional<std::string> undo();
  /// Forgets the oldest message of the user and what followed it, but neither the system message nor the last message of the user.
  /// False where there is nothing to forget.
  bool drop_oldest();
  void clear() { turns_.clear(); }

  std::size_t questions() const;    ///< messages of the user
  std::string last_answer() const;  ///< "" where there is none
  /// The system message and the turns.
  std::vector<Message> messages() const;

 private:
  std::string system_;
  std::vector<Message> turns_;
};

/// The turns as they are shown by /history.
std::string history_page(const std::vector<Message>& messages);

/// {"messages": [{"role", "content"}]}, which quern run --messages reads too.
std::string saved_chat(const Conversation& conversation);

/// A file may hold so much of a chat.
constexpr std::size_t most_saved_bytes = 16 << 20, most_saved_messages = 10'000;

/// A chat from the text of a file that anybody may have written: a list of messages, or an object with it as "messages". The roles are
/// system (of the first message alone), user and assistant; a content is a text. Throws Failure(exit_refused), naming the file.
Conversation read_saved_chat(const std::string& json, const std::string& file);

}  // namespace quern::cli
