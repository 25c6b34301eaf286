// Templates over chats with tools, calls, results, reasoning and contents in parts, against Jinja2.
//
// The committed file has templates of our own; scripts/template_corpus.py writes one of the templates that packages carry, and names it in
// QUERN_TEMPLATE_CORPUS.
#include "golden_data.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/chat.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace quern {
namespace {

/// What came of a template and a chat: a text, or an error.
struct Outcome {
  std::string text;
  quern_status error = QUERN_OK;
};

Outcome outcome(const ChatTemplate& parsed, const Chat& chat, const TemplateOptions& options) {
  try {
    return {parsed.render_as_given(chat, options).text};
  } catch (const Error& error) { return {error.what(), error.code()}; }
}

/// "" where Jinja2 and Quern agree, or where Quern refuses a construct by its name; else what differs.
std::string difference(const nlohmann::json& wanted, const Outcome& got) {
  if (got.error == QUERN_UNSUPPORTED) return "";
  if (wanted.contains("rendered")) {
    const std::string text = wanted.at("rendered");
    return got.error == QUERN_OK && got.text == text ? "" : concat("Jinja2 renders\n", text, "\nQuern ", got.error, "\n", got.text);
  }
  if (wanted.contains("raises")) {
    const std::string why = wanted.at("raises");
    const bool same = got.error == QUERN_INVALID_ARGUMENT && got.text.find(why) != std::string::npos;
    return same ? "" : concat("Jinja2 raises ", why, "; Quern ", got.error, "\n", got.text);
  }
  return got.error != QUERN_OK ? "" : concat("Jinja2 fails with ", wanted.at("fails").get<std::string>(), "; Quern renders\n", got.text);
}

class Corpus {
 public:
  explicit Corpus(const nlohmann::json& file) : templates_(file.at("templates")) {
    for (const auto& [name, chat] : file.at("chats").items()) chats_.emplace(name, parse_chat(chat.get<std::string>()));
  }

  /// Renders all; returns how many of the renders were refused by a construct's name.
  std::size_t compare() const {
    std::map<std::string, std::size_t> refused;
    std::size_t renders = 0;
    for (const auto& [name, one] : templates_.items()) {
      SCOPED_TRACE(name);
      compare_one(name, one, refused);
      renders += one.at("cases").size();
    }
    std::size_t sum = 0;
    for (const auto& [why, count] : refused) {
      std::printf("refused %zu times: %s\n", count, why.c_str());
      sum += count;
    }
    std::printf("%zu templates, %zu renders, %zu of them refused\n", templates_.size(), renders, sum);
    return sum;
  }

 private:
  void compare_one(const std::string& name, const nlohmann::json& one, std::map<std::string, std::size_t>& refused) const {
    std::optional<ChatTemplate> parsed;
    try {
      parsed = ChatTemplate::parse(one.at("source").get<std::string>(), name);
    } catch (const Error& error) {
      if (one.contains("syntax_error")) return;
      if (error.code() != QUERN_UNSUPPORTED) ADD_FAILURE() << error.what();
      refused[error.what()] += one.at("cases").size();
      return;
    }
    if (one.contains("syntax_error")) ADD_FAILURE() << "parsed, where Jinja2 says " << one.at("syntax_error");
    for (const auto& wanted : one.at("cases")) {
      const std::string chat = wanted.at("chat");
      const Outcome got = outcome(*parsed, chats_.at(chat), options_from(wanted.at("options")));
      if (got.error == QUERN_UNSUPPORTED) ++refused[got.text];
      const std::string differs = difference(wanted, got);
      if (differs.empty()) continue;
      ADD_FAILURE() << "chat " << chat << ", " << wanted.at("options") << ": " << differs;
      return;  // one difference of a template says enough
    }
  }

  nlohmann::json templates_;
  std::map<std::string, Chat> chats_;
};

TEST(ChatTemplateCorpus, TemplatesRenderWhatJinjaRenders) {
  EXPECT_EQ(Corpus(read_json("corpus.json")).compare(), 0u);
  if (const char* path = std::getenv("QUERN_TEMPLATE_CORPUS")) {
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    Corpus(nlohmann::json::parse(file)).compare();
  }
}

}  // namespace
}  // namespace quern
