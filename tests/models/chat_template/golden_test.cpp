// Renderings against Jinja2's own: whole templates of many families, and small snippets one by one.
#include "golden_data.hpp"

#include "quern/graph/error.hpp"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(ChatTemplateGolden, SmolLm2RendersWhatTransformersRenders) {
  const ChatTemplate parsed = ChatTemplate::parse(read_text("smollm2.jinja"), "smollm2.jinja");
  const auto chats = read_json("smollm2.json");
  ASSERT_FALSE(chats.empty());
  for (const auto& chat : chats) {
    EXPECT_EQ(parsed.render(messages_from(chat.at("messages")), {}), chat.at("rendered").get<std::string>()) << chat.at("name");
  }
}

// The message of raise_exception, or the rendered text.
struct Outcome {
  std::string text;
  bool refused = false;
};

Outcome outcome(const ChatTemplate& parsed, const nlohmann::json& messages, const nlohmann::json& options) {
  try {
    return {parsed.render(messages_from(messages), options_from(options)), false};
  } catch (const Error& error) {
    if (error.code() != QUERN_INVALID_ARGUMENT) throw;
    return {error.what(), true};
  }
}

TEST(ChatTemplateGolden, EveryFamilyRendersWhatJinjaRenders) {
  const auto goldens = read_json("families.json");
  const auto& chats = goldens.at("chats");
  std::size_t families = 0;
  std::size_t rendered = 0;
  for (const auto& [name, cases] : goldens.at("templates").items()) {
    const ChatTemplate parsed = ChatTemplate::parse(read_text(name), name);
    ++families;
    for (const auto& one : cases) {
      const auto& chat = chats.at(one.at("chat").get<std::string>());
      const Outcome got = outcome(parsed, chat, one.at("options"));
      SCOPED_TRACE(name + ", chat " + one.at("chat").get<std::string>() + ", " + one.at("options").dump());
      if (one.contains("raises")) {
        EXPECT_TRUE(got.refused);
        EXPECT_NE(got.text.find(one.at("raises").get<std::string>()), std::string::npos) << got.text;
      } else {
        EXPECT_FALSE(got.refused);
        EXPECT_EQ(got.text, one.at("rendered").get<std::string>());
      }
      ++rendered;
    }
  }
  EXPECT_GE(families, 12u);
  EXPECT_GE(rendered, families * 20);
}

TEST(ChatTemplateGolden, EverySnippetRendersWhatJinjaRenders) {
  const auto goldens = read_json("snippets.json");
  const auto messages = messages_from(goldens.at("messages"));
  const TemplateOptions options = options_from(goldens.at("options"));
  std::size_t compared = 0;
  for (const auto& snippet : goldens.at("snippets")) {
    const std::string source = snippet.at("source");
    SCOPED_TRACE(source);
    try {
      const std::string got = ChatTemplate::parse(source, "snippet").render(messages, options);
      if (snippet.contains("error")) {
        ADD_FAILURE() << "rendered " << got << " where Jinja2 raises " << snippet.at("error");
      } else {
        EXPECT_EQ(got, snippet.at("rendered").get<std::string>());
      }
    } catch (const Error& error) {
      if (!snippet.contains("error")) {
        ADD_FAILURE() << "failed with " << error.what() << " where Jinja2 renders " << snippet.at("rendered");
      }
    }
    ++compared;
  }
  EXPECT_GE(compared, 300u);
}

}  // namespace
}  // namespace quern
