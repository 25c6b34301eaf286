// Chats with all that their messages may hold: how they are read, and in which form a template gets them.
#include "quern/models/chat.hpp"

#include "budget.hpp"

#include "quern/graph/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quern {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& json) {
  try {
    parse_chat(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_INVALID_ARGUMENT) << error.what();
    return error.what();
  }
  return "accepted";
}

/// A refused prompt is thrown, as the library does when ids are made of it.
std::string render(const std::string& source, const std::string& json, const TemplateOptions& options = {}) {
  RenderedChat prompt = render_chat(ChatTemplate::parse(source, "model.gguf"), parse_chat(json), options);
  if (!prompt.refusal.empty()) throw Error(QUERN_UNSUPPORTED, prompt.refusal);
  return std::move(prompt.text);
}

std::string error_of(const std::string& source, const std::string& json, quern_status code, const TemplateOptions& options = {}) {
  try {
    return "rendered " + render(source, json, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
}

const std::string chatml = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}";
const std::string parts_alone =
    "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endfor %}";
const std::string either =
    "{% for m in messages %}{% if m.content is string %}s:{{ m.content }}{% else %}{% for p in m.content %}p:{{ p.text }};{% endfor %}{% endif %}{% endfor %}";

TEST(ChatJson, AnotherShapeIsRefusedByTheMessageAndTheMember) {
  EXPECT_EQ(refusal("{\"messages\": }"), "not JSON at byte 13");
  EXPECT_THAT(refusal(""), HasSubstr("not JSON at byte 0"));
  EXPECT_EQ(refusal("[{\"role\": \"user\", \"content\": \"\xff\"}]"), "not UTF-8 at byte 30");
  EXPECT_EQ(refusal(std::string(100000, '[')), "nested deeper than 64 levels");
  EXPECT_THAT(refusal("[]"), HasSubstr("found an empty list"));
  EXPECT_THAT(refusal("\"hi\""), HasSubstr("found a string"));
  EXPECT_EQ(refusal("{}"), "the object has no member 'messages'");
  EXPECT_THAT(refusal(R"({"messages": {}})"), HasSubstr("found an object"));
  EXPECT_EQ(refusal(R"({"messages": [], "model": "x"})"), "member 'model' is not known; beside 'messages' there may be 'tools'");
  EXPECT_EQ(refusal(R"({"messages": [], "tools": 1})"), "'tools' is a number, and has to be a list");
  EXPECT_EQ(refusal("[1]"), "message 1 is a number, not an object");
  EXPECT_EQ(refusal(R"([{"content": ""}])"), "message 1: 'role' is missing, and has to be a string");
  EXPECT_EQ(refusal(R"([{"role": "user", "content": "a"}, {"role": 1, "content": ""}])"),
            "message 2: 'role' is a number, and has to be a string");
  EXPECT_THAT(refusal(R"([{"role": "user"}])"), HasSubstr("message 1: 'content' is missing"));
  EXPECT_THAT(refusal(R"([{"role": "assistant", "content": null, "tool_calls": []}])"), HasSubstr("'content' is null"));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": true}])"), HasSubstr("'content' is a boolean"));
  EXPECT_EQ(refusal(R"([{"role": "user", "content": "", "name": 1}])"), "message 1: 'name' is a number, and has to be a string");
  EXPECT_EQ(refusal(R"([{"role": "user", "content": "", "tool_calls": "x"}])"),
            "message 1: 'tool_calls' is a string, and has to be a list");
  EXPECT_THAT(refusal(std::string(largest_chat + 1, ' ')), HasSubstr("at most 16777216 are read"));
}

TEST(ChatJson, APartThatIsNoTextIsRefusedByItsType) {
  EXPECT_EQ(refusal(R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}])"),
            "message 1: part 2 of 'content' is of type 'image_url'; only parts of type 'text' are offered");
  EXPECT_EQ(refusal(R"([{"role": "user", "content": ["a"]}])"), "message 1: part 1 of 'content' is a string, not an object");
  EXPECT_THAT(refusal(R"([{"role": "user", "content": [{"text": "a"}]}])"), HasSubstr("'type' is missing"));
  EXPECT_THAT(refusal(R"([{"role": "user", "content": [{"type": "text"}]}])"), HasSubstr("'text' is missing"));
}

TEST(RenderChat, TextPartsAreJoinedForATemplateThatPrintsContent) {
  EXPECT_EQ(render(chatml, R"([{"role": "user", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "abc"}]}])"),
            "<user>hi abc\n");
}

TEST(RenderChat, PartsStayPartsForATemplateThatReadsThem) {
  const std::string json = R"([{"role": "user", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "abc"}]}])";
  EXPECT_EQ(render(parts_alone, json), "<user>hi abc");
  EXPECT_EQ(render(either, json), "p:hi ;p:abc;");
  EXPECT_EQ(render(either, R"([{"role": "user", "content": "hi"}])"), "s:hi");
}

TEST(RenderChat, ATextBecomesAPartForATemplateThatReadsNothingElse) {
  EXPECT_EQ(render(parts_alone, R"([{"role": "user", "content": "hi"}])"), "<user>hi");
  EXPECT_EQ(render(parts_alone, R"([{"role": "user", "content": "a text of more than a few characters"}])"),
            "<user>a text of more than a few characters");
}

TEST(RenderChat, OtherMembersAndToolsReachTheTemplate) {
  const std::string source =
      "{{ tools | map(attribute='name') | join }}|{% for m in messages %}{{ m.role }} {{ m.name }} {{ m.tool_call_id }} "
      "{% for c in m.tool_calls %}{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}{{ m.content }};{% endfor %}";
  EXPECT_EQ(render(source, R"({"messages": [{"role": "user", "name": "ann", "content": "weather?"},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
        "function": {"name": "look", "arguments": {"n": 1, "x": 0.5, "y": [true, null]}}}]},
      {"role": "tool", "tool_call_id": "1", "content": "21"}], "tools": [{"name": "look"}]})"),
            "look|user ann  weather?;assistant   look({\"n\": 1, \"x\": 0.5, \"y\": [true, null]});tool  1 21;");
}

// What of a prompt is not the template's own, each piece between { and }.
std::string marked(const std::string& source, const std::string& json) {
  const RenderedChat chat = render_chat(ChatTemplate::parse(source, "model.gguf"), parse_chat(json), {});
  std::string out;
  std::size_t at = 0;
  for (const ForeignRange& range : chat.foreign) {
    out += chat.text.substr(at, range.begin - at) + "{" + chat.text.substr(range.begin, range.end - range.begin) + "}";
    at = range.end;
  }
  return out + chat.text.substr(at);
}

TEST(RenderChat, AllThatAChatBringsIsForeignButRolesThatChatsKnow) {
  const std::string json =
      R"({"messages": [{"role": "user", "name": "ann", "content": [{"type": "text", "text": "hi "}, {"type": "text", "text": "abc"}]},
      {"role": "<x>", "content": null, "tool_calls": [{"function": {"name": "look", "arguments": {"k": "v"}}}], "more": {"key": ["a"]}}],
      "tools": [{"name": "tool"}]})";
  EXPECT_EQ(marked("{% for m in messages %}<{{ m.role }}|{{ m.name }}>{{ m.content }}|{% endfor %}", json),
            "<user|{ann}>{hi abc}|<{<x>}|>|");
  EXPECT_EQ(marked(parts_alone, R"([{"role": "user", "content": "hi"}])"), "<user>{hi}");
  EXPECT_EQ(marked(either, R"([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])"), "p:{hi};");
  EXPECT_EQ(
      marked(
          "{% for m in messages %}{{ m.content }};{% for c in m.tool_calls %}{{ c.function.name }}|{% for k in c.function.arguments %}{{ k }}|"
          "{{ c.function.arguments[k] }}{% endfor %}{% endfor %}{% for k in m.more %}|{{ k }}{{ m.more[k][0] }}{% endfor %}{% endfor %}|{{ tools[0].name }}",
          json),
      "{hi abc};;{look}|{k}|{v}|{keya}|{tool}");
}

TEST(RenderChat, TheRendersOfAChatShareOneLimitOfTime) {
  const std::string source = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  TemplateOptions options;
  options.limits.steps = UINT64_MAX;
  options.limits.cpu_seconds = 0.2;
  const double began = jinja::cpu_seconds();
  EXPECT_THAT(error_of(source, R"([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])", QUERN_BAD_MODEL, options),
              HasSubstr("more than 0.2 seconds of CPU time"));
  EXPECT_LT(jinja::cpu_seconds() - began, 0.4);  // in parts, and then as text: 0.2 s each if they did not share
  options.limits.cpu_seconds = 10;
  options.limits.cpu_seconds_used = 10;
  EXPECT_THROW(ChatTemplate::parse(source, "t").render({{"user", "hi"}}, options), Error);
}

TEST(RenderChat, TheLastOfMembersWithOneNameCounts) {
  EXPECT_EQ(render("{{ messages[0] }}", R"([{"role": "a", "content": "first", "role": "user", "content": "second"}])"),
            "{'role': 'user', 'content': 'second'}");
}

TEST(RenderChat, ATemplateThatReadsNoMessageIsRefused) {
  for (const char* source : {"<|im_start|>assistant\n", "{{ messages | length }}", "{% for m in messages %}{{ m.role }}{% endfor %}"}) {
    EXPECT_THAT(error_of(source, R"([{"role": "user", "content": "hi"}])", QUERN_UNSUPPORTED),
                HasSubstr("model.gguf: the chat template puts the text of no message into the prompt"))
        << source;
    EXPECT_THAT(error_of(source, R"([{"role": "user", "content": "a question that is long enough"}])", QUERN_UNSUPPORTED),
                HasSubstr("puts the text of no message"));
  }
}

TEST(RenderChat, ATemplateThatReadsSomeMessageOrChangesItsTextIsNotRefused) {
  const std::string json = R"([{"role": "system", "content": "You are a careful person."}, {"role": "user", "content": "  Hi  "}])";
  EXPECT_EQ(render("{{ messages[-1].content | trim }}", json), "Hi");
  EXPECT_EQ(render("{{ messages[0].content | upper }}", json), "YOU ARE A CAREFUL PERSON.");
  EXPECT_EQ(render("{{ messages[0].content | reverse }}", R"([{"role": "user", "content": "hi you"}])"), "uoy ih");
  EXPECT_EQ(render("{% for m in messages[1:] %}{{ m.content }}{% endfor %}", json), "  Hi  ");
  EXPECT_EQ(render("{{ messages | tojson }}", R"([{"role": "user", "content": "hi"}])"), R"([{"role": "user", "content": "hi"}])");
  EXPECT_EQ(render("silent", R"([{"role": "user", "content": ""}])"), "silent");  // nothing was said
}

TEST(RenderChat, ATemplateThatLooksAtWhatATextSaysIsNotRefused) {
  const std::string source = "{% if messages[0].content != 'ping' %}{{ raise_exception('only ping') }}{% endif %}pong";
  EXPECT_EQ(render(source, R"([{"role": "user", "content": "ping"}])"), "pong");
}

TEST(RenderChat, ALongPromptIsRenderedOnce) {
  TemplateOptions options;
  const std::string text(200000, 'x');
  const std::string source = "{% for m in messages %}{{ m.content }}{% endfor %}{% for i in range(1000) %}{% endfor %}";
  options.limits.steps = 12000;  // twice the loop would not fit
  EXPECT_EQ(render(source, "[{\"role\": \"user\", \"content\": \"" + text + "\"}]", options), text);
}

TEST(RenderChat, WhatIsTooLargeForARenderIsRefusedAndNotTried) {
  std::string json = "[{\"role\": \"user\", \"content\": \"hi\", \"more\": [0";
  for (int i = 0; i < 200000; ++i) json += ",0";
  TemplateOptions options;
  options.limits.memory_bytes = 1 << 20;
  EXPECT_THROW(render(chatml, json + "]}]", options), Error);
  EXPECT_THAT(error_of(chatml, R"([{"role": "user", "content": "hi", "n": 18446744073709551615}])", QUERN_INVALID_ARGUMENT),
              HasSubstr("message 0 has the integer 18446744073709551615"));
}

}  // namespace
}  // namespace quern
