// The variables that a template sees, and the promises of the class.
#include "golden_data.hpp"

#include "quern/graph/error.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace quern {
namespace {

std::string render(const std::string& source, const TemplateOptions& options = {}, const std::vector<Message>& messages = {}) {
  return ChatTemplate::parse(source, "t").render(messages, options);
}

TEST(ChatTemplateOptions, TokensAreUndefinedUntilTheyAreGiven) {
  const std::string source = "{{ bos_token is defined }} {{ eos_token is defined }} [{{ bos_token }}]";
  EXPECT_EQ(render(source), "False False []");
  TemplateOptions options;
  options.bos_token = "<s>";
  options.eos_token = "";
  EXPECT_EQ(render(source, options), "True True [<s>]");
}

TEST(ChatTemplateOptions, ToolsAndDocumentsAreNoneAndThePromptIsOnByDefault) {
  EXPECT_EQ(render("{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }}"), "True True True");
  TemplateOptions options;
  options.add_generation_prompt = false;
  EXPECT_EQ(render("{{ add_generation_prompt }}", options), "False");
}

TEST(ChatTemplateOptions, VariablesKeepTheirTypes) {
  TemplateOptions options;
  options.variables["s"] = "text";
  options.variables["b"] = false;
  options.variables["i"] = std::int64_t{7};
  options.variables["r"] = 0.25;
  EXPECT_EQ(render("{{ s is string }} {{ b is false }} {{ i is integer }} {{ r is float }} {{ s }}{{ b }}{{ "
                   "i }}{{ r }}",
                   options),
            "True True True True textFalse70.25");
}

TEST(ChatTemplateOptions, AVariableCannotReplaceTheMessages) {
  TemplateOptions options;
  options.variables["messages"] = "mine";
  EXPECT_EQ(render("{{ messages|length }}", options, {{"user", "hi"}}), "1");
}

TEST(ChatTemplateOptions, AVariableCanHideAFunction) {
  TemplateOptions options;
  options.variables["strftime_now"] = "mine";
  EXPECT_EQ(render("{{ strftime_now }}", options), "mine");
}

TEST(ChatTemplateOptions, VariablesThatTheTemplateDoesNotReadChangeNothing) {
  TemplateOptions options;
  options.variables["unused"] = "x";
  EXPECT_EQ(render("plain", options), "plain");
}

TEST(ChatTemplateOptions, TheTimeIsTheOneGivenAndTheWeekdayFollowsFromTheDate) {
  TemplateOptions options;
  options.now = golden_time();
  options.now->tm_wday = 3;  // wrong, and not read
  EXPECT_EQ(render("{{ strftime_now('%a %d %b %Y') }}", options), "Sat 09 Mar 2024");
  options.now->tm_mon = 1;
  options.now->tm_mday = 29;
  options.now->tm_hour = 12;
  EXPECT_EQ(render("{{ strftime_now('%A %j %I%p %H') }}", options), "Thursday 060 12PM 12");
  options.now->tm_year = 99;
  options.now->tm_mday = 28;
  options.now->tm_hour = 0;
  EXPECT_EQ(render("{{ strftime_now('%A %j %I%p %c|%x|%X|%r|%n%t%Z%z') }}", options),
            "Sunday 059 12AM Sun Feb 28 00:05:03 1999|02/28/99|00:05:03|12:05:03 AM|\n\t");
}

TEST(ChatTemplate, OneTemplateRendersOnManyThreadsAtOnce) {
  const ChatTemplate parsed = ChatTemplate::parse(read_text("qwen3.jinja"), "qwen3.jinja");
  const std::vector<Message> messages = {{"system", "s"}, {"user", "q"}, {"assistant", "<think>\nt\n</think>\n\na"}};
  const std::string expected = parsed.render(messages, {});
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int& count : wrong) {
    threads.emplace_back([&count, &messages, &expected, copy = parsed] {
      for (int i = 0; i < 200; ++i) count += copy.render(messages, {}) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(ChatTemplate, ATemplateOutlivesWhatItWasParsedFrom) {
  std::optional<ChatTemplate> parsed;
  {
    std::string source = "{{ 'a literal that is too long for the small string buffer' }}{{ missing.x }}";
    parsed = ChatTemplate::parse(source, std::string("a name that is too long for the small string buffer"));
    source.assign(source.size(), '#');
  }
  const ChatTemplate copy = *parsed;
  parsed.reset();
  try {
    copy.render({}, {});
    FAIL() << "rendered";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a name that is too long for the small string buffer: chat template, line 1: 'missing' is undefined");
  }
}

TEST(ChatTemplate, AnEmptyTemplateRendersNothing) { EXPECT_EQ(render(""), ""); }

TEST(ChatTemplate, LineEndingsOfTheSourceBecomeNewlines) {
  EXPECT_EQ(render("a\r\nb\rc\n"), "a\nb\nc");
  EXPECT_EQ(render("{% if true %}\r\nx{% endif %}\r\n\r\n\r\n"), "x\n");
}

TEST(ChatTemplate, ContentKeepsItsLineEndings) { EXPECT_EQ(render("{{ messages[0].content }}", {}, {{"user", "a\r\nb\r"}}), "a\r\nb\r"); }

TEST(ChatTemplate, AMacroThatOutlivesItsLoopKeepsTheTurnItWasDefinedIn) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}"
                   "{% if loop.first %}{% set ns.f = m %}{% endif %}{% endfor %}{{ ns.f() }}"),
            "1");
}

TEST(ChatTemplate, ALoopVariableThatOutlivesItsLoopSeesNoFurtherItems) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% for i in [1, 2, 3] if i %}{% set ns.l = loop %}{% break "
                   "%}{% endfor %}"
                   "{{ ns.l.index }} {{ ns.l.last }} {{ ns.l.length }}"),
            "1 True 1");
}

}  // namespace
}  // namespace quern
