// Which bytes of a rendered chat {% generation %} wrote.
#include "quern/models/chat.hpp"
#include "quern/models/chat_template.hpp"

#include "quern/graph/error.hpp"

#include <gtest/gtest.h>

namespace quern {
namespace {

/// The text with what was generated in brackets.
std::string marked(const RenderedChat& chat) {
  std::string text = chat.text;
  for (auto range = chat.generated.rbegin(); range != chat.generated.rend(); ++range) {
    text.insert(range->end, "]");
    text.insert(range->begin, "[");
  }
  return text;
}

RenderedChat render(const std::string& source) {
  return ChatTemplate::parse(source, "t").render_marked({{"user", "hi"}, {"assistant", "yes"}, {"user", "so"}, {"assistant", "no"}}, {});
}

constexpr const char* each =
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}.{% endgeneration %}"
    "{% else %}{{ m.content }}?{% endif %}{% endfor %}";

TEST(Generation, IsTheTextInsideTheBlocks) {
  EXPECT_EQ(marked(render(each)), "hi?[yes.]so?[no.]");
  EXPECT_FALSE(render(each).generated_elsewhere);
}

TEST(Generation, ThatWritesNothingIsNoRange) { EXPECT_EQ(marked(render("a{% generation %}{% endgeneration %}b")), "ab"); }

TEST(Generation, BlocksThatTouchAreOneRange) {
  EXPECT_EQ(marked(render("{% generation %}a{% endgeneration %}{% generation %}b{% endgeneration %}c")), "[ab]c");
  EXPECT_EQ(marked(render("{% generation %}a{% generation %}b{% endgeneration %}{% endgeneration %}c")), "[ab]c");
}

TEST(Generation, InATextThatIsWrittenLaterHasNoPlace) {
  for (const char* source : {"{% macro f() %}{% generation %}a{% endgeneration %}{% endmacro %}{{ f() }}",
                             "{% set t %}{% generation %}a{% endgeneration %}{% endset %}{{ t }}",
                             "{% filter trim %}{% generation %}a{% endgeneration %}{% endfilter %}"}) {
    const RenderedChat chat = render(source);
    EXPECT_EQ(marked(chat), "a");
    EXPECT_TRUE(chat.generated_elsewhere) << source;
  }
  // A block around a macro's text is in the output itself.
  EXPECT_EQ(marked(render("{% macro f() %}a{% endmacro %}{% generation %}{{ f() }}{% endgeneration %}b")), "[a]b");
}

TEST(Generation, ComesThroughRenderChat) {
  const ChatTemplate source = ChatTemplate::parse(each, "t");
  EXPECT_EQ(marked(render_chat(source, chat_of({{"user", "a"}, {"assistant", "b"}}), {})), "a?[b.]");
}

TEST(Generation, RangesCountAgainstTheMemory) {
  TemplateOptions options;
  options.limits.memory_bytes = 200 * 1024;
  const std::string loop = "{% for i in range(5000) %}", end = "b{% endfor %}";
  EXPECT_EQ(ChatTemplate::parse(loop + "a" + end, "t").render_marked({}, options).text.size(), 10'000u);
  const ChatTemplate source = ChatTemplate::parse(loop + "{% generation %}a{% endgeneration %}" + end, "t");
  try {
    source.render_marked({}, options);
    FAIL() << "rendered";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("beyond the limit of 204800"), std::string::npos) << error.what();
  }
}

TEST(ChatFrom, ChecksATreeAsParseChatChecksAText) {
  const auto message = Json::parse(R"([{"role": "user", "content": "a"}])");
  EXPECT_EQ(chat_from(*message, Json()).messages.list()->size(), 1u);
  EXPECT_THROW(chat_from(Json(), Json()), Error);
  EXPECT_THROW(chat_from(*message, Json(true)), Error);
  EXPECT_THROW(chat_from(*Json::parse(R"([{"role": 1, "content": "a"}])"), Json()), Error);
}

}  // namespace
}  // namespace quern
