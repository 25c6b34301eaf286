// What is refused, with which code, and what the text of the error says.
#include "quern/models/chat_template.hpp"

#include "quern/graph/error.hpp"

#include <gtest/gtest.h>

namespace quern {
namespace {

struct Refusal {
  quern_status code = QUERN_OK;
  std::string text;
  bool at_parse = false;
};

Refusal refusal(const std::string& source, const std::vector<Message>& messages = {{"user", "hi"}}, const TemplateOptions& options = {}) {
  std::optional<ChatTemplate> parsed;
  try {
    parsed = ChatTemplate::parse(source, "model.gguf");
  } catch (const Error& error) { return {error.code(), error.what(), true}; }
  try {
    parsed->render(messages, options);
  } catch (const Error& error) { return {error.code(), error.what(), false}; }
  return {};
}

bool mentions(const Refusal& refused, const std::string& text) { return refused.text.find(text) != std::string::npos; }

TEST(ChatTemplateErrors, ASyntaxErrorNamesTheTemplateAndTheLine) {
  const Refusal refused = refusal("one\ntwo {{ 1 + }}\nthree");
  EXPECT_TRUE(refused.at_parse);
  EXPECT_EQ(refused.code, QUERN_BAD_MODEL);
  EXPECT_EQ(refused.text, "model.gguf: chat template, line 2: expected an expression, found '}}'");
}

TEST(ChatTemplateErrors, AnUnclosedTagNamesWhereItWasOpened) {
  const Refusal refused = refusal("a\n{% if true %}\nb\nc");
  EXPECT_EQ(refused.code, QUERN_BAD_MODEL);
  EXPECT_TRUE(mentions(refused, "line 4: the template ends inside 'if' of line 2; expected '{% endif %}'")) << refused.text;
}

TEST(ChatTemplateErrors, EverySyntaxErrorIsABadModelFoundWhileParsing) {
  const char* sources[] = {"{{ 'abc }}",
                           "{{ (1 }}",
                           "{{ 1) }}",
                           "{{ [1} }}",
                           "{{ a.+ }}",
                           "{{ 1 2 }}",
                           "{% set %}",
                           "{% set none = 2 %}",
                           "{% macro m(a, a) %}{% endmacro %}",
                           "{% macro m(a=1, b) %}{% endmacro %}",
                           "{% break %}",
                           "{% continue %}",
                           "{% for i in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
                           "{{ 1 | }}",
                           "{{ ! }}",
                           "{# open",
                           "{% raw %} open",
                           "{{ open",
                           "{% if open",
                           "{{ f(a=1, 2) }}",
                           "{{ dict(a=1, a=2) }}",
                           "{{ '\\xzz' }}",
                           "{{ '\\ud800' }}",
                           "{{ '\\U00110000' }}",
                           "{% else %}",
                           "{% endif %}",
                           "{% 5 %}",
                           "{{ 1 is odd is even }}",
                           "{{ 0x }}",
                           "{% for 1 in x %}{% endfor %}",
                           "{{ \xc3\xa9\xe2\x82\xac }}",
                           "{% set a.b %}",
                           "{{ {1} }}",
                           "{{ {1: 2, }; }}"};
  for (const char* source : sources) {
    const Refusal refused = refusal(source);
    EXPECT_TRUE(refused.at_parse) << source;
    EXPECT_EQ(refused.code, QUERN_BAD_MODEL) << source << ": " << refused.text;
    EXPECT_TRUE(mentions(refused, "model.gguf: chat template, line 1: ")) << refused.text;
  }
}

TEST(ChatTemplateErrors, WhatIsNotOfferedIsRefusedWhileParsingAndNamed) {
  const std::pair<const char*, const char*> cases[] = {{"\n{% include 'x' %}", "line 2: tag 'include' is not offered"},
                                                       {"{% extends 'x' %}", "tag 'extends'"},
                                                       {"{% import 'x' as y %}", "tag 'import'"},
                                                       {"{% call f() %}{% endcall %}", "tag 'call'"},
                                                       {"{% block b %}{% endblock %}", "tag 'block'"},
                                                       {"{% autoescape true %}{% endautoescape %}", "tag 'autoescape'"},
                                                       {"{% do x.append(1) %}", "tag 'do'"},
                                                       {"{{ 99999999999999999999 }}", "beyond 64 bits"},
                                                       {"{{ '\\N{BULLET}' }}", "character name"},
                                                       {"{% set ns = namespace() %}{% set ns._x = 1 %}", "may begin with '_'"},
                                                       {"{{ 'a'[1:2, 3] }}", "slices and commas"}};
  for (const auto& [source, text] : cases) {
    const Refusal refused = refusal(source);
    EXPECT_TRUE(refused.at_parse) << source;
    EXPECT_EQ(refused.code, QUERN_UNSUPPORTED) << source << ": " << refused.text;
    EXPECT_TRUE(mentions(refused, text)) << source << ": " << refused.text;
  }
}

TEST(ChatTemplateErrors, AFilterTestOrFunctionThatIsNotOfferedIsRefusedWhereItIsReached) {
  const std::pair<const char*, const char*> cases[] = {{"{{ 1\n|urlize }}", "line 2: filter 'urlize' is not offered"},
                                                       {"{{ 1|a.b }}", "filter 'a.b'"},
                                                       {"{% set x | xmlattr %}{% endset %}", "filter 'xmlattr'"},
                                                       {"{% filter wordcount %}{% endfilter %}", "filter 'wordcount'"},
                                                       {"{{ [1]|map('urlize')|list }}", "filter 'urlize'"},
                                                       {"{{ [1]|select('prime')|list }}", "test 'prime'"},
                                                       {"{{ [1]|rejectattr('a', 'prime')|list }}", "test 'prime'"},
                                                       {"{{ 1 is prime }}", "test 'prime'"},
                                                       {"{{ 'x' is filter }}", "test 'filter'"},
                                                       {"\n\n{{ open('/etc/passwd') }}", "line 3: function 'open' is not offered"},
                                                       {"{{ lipsum() }}", "function 'lipsum'"},
                                                       {"{{ cycler(1, 2) }}", "function 'cycler'"},
                                                       {"\n{{ self.name }}", "line 2: 'self', the template as an object, is not offered"}};
  for (const auto& [source, text] : cases) {
    const Refusal refused = refusal(source);
    EXPECT_FALSE(refused.at_parse) << source;
    EXPECT_EQ(refused.code, QUERN_UNSUPPORTED) << source << ": " << refused.text;
    EXPECT_TRUE(mentions(refused, text)) << source << ": " << refused.text;
    const Refusal unreached =
        refusal(std::string("{% if false %}") + source + "{% endif %}{% macro never() %}" + source + "{% endmacro %}ok");
    EXPECT_EQ(unreached.code, QUERN_OK) << source << ": " << unreached.text;
  }
  EXPECT_EQ(ChatTemplate::parse("{{ false and (1 | urlify) }}{{ 'a' if true else open('f') }}", "t").render({}, {}), "Falsea");
}

TEST(ChatTemplateErrors, AFunctionThatTheTemplateChecksForIsNotRefused) {
  const ChatTemplate parsed = ChatTemplate::parse("{% if helper is defined %}{{ helper() }}{% else %}no{% endif %}", "t");
  EXPECT_EQ(parsed.render({}, {}), "no");
}

TEST(ChatTemplateErrors, WhatOnlyShowsWhileRenderingIsRefusedThenAndNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ '{:2000000}'.format(1) }}", "a width above 1000000"},
      {"{{ '{:.2000000f}'.format(1) }}", "a precision above 1000000"},
      {"{{ '{:.2000f}'.format(1) }}", "1000 decimals"},
      {"{{ '{:#f}'.format(1) }}", "'#' is not offered"},
      {"{{ '{!a}'.format(1) }}", "'!a' is not offered"},
      {"{{ '{:c}'.format(55296) }}", "a surrogate"},
      {"{{ '{0.__class__}'.format(1) }}", "'__class__' is not data"},
      {"{{ '{m[__class__]}'.format(m=[1]) }}", "'__class__' is not data"},
      {"{{ '{0.encode}'.format('a') }}", "method 'encode'"},
      {"{{ ('{}'|safe).format(1) }}", "marked safe"},
      {"{{ ('{a}'|safe).format(a=1) }}", "marked safe"},
      {"{{ 'a'.encode() }}", "method 'encode'"},
      {"{{ {}.fromkeys([]) }}", "method 'fromkeys'"},
      {"{{ [1].copy() }}", "method 'copy'"},
      {"{% for x in [1] %}{{ loop.changed(x) }}{% endfor %}", "method 'changed'"},
      {"{% set n = namespace() %}{% for x in [1] recursive %}{% set n.f = loop %}{% endfor %}{{ n.f([1]) }}", "that has ended"},
      {"{{ 9223372036854775807 + 1 }}", "beyond 64 bits"},
      {"{{ -9223372036854775807 - 2 }}", "beyond 64 bits"},
      {"{{ 9223372036854775807 * 2 }}", "beyond 64 bits"},
      {"{{ 2 ** 64 }}", "beyond 64 bits"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "beyond 64 bits"},
      {"{{ -(-9223372036854775807 - 1) }}", "beyond 64 bits"},
      {"{{ (-9223372036854775807 - 1)|abs }}", "beyond 64 bits"},
      {"{{ '99999999999999999999'|int }}", "beyond 64 bits"},
      {"{{ 1e30|int }}", "beyond a 64-bit integer"},
      {"{{ '%d' % 1e30 }}", "beyond a 64-bit integer"},
      {"{{ (-8) ** 0.5 }}", "complex"},
      {"{{ [1]|map('upper') }}", "a generator has no text"},
      {"{{ range }}", "has no text"},
      {"{{ namespace() }}", "has no text"},
      {"{{ [namespace()] }}", "has no text"},
      {"{{ '%a' % 1 }}", "'%a' is not offered"},
      {"{{ '%2000000d' % 1 }}", "above 1000000"},
      {"{{ '%.2000f' % 1 }}", "1000 decimals"},
      {"{{ '%#f' % 1 }}", "'#' is not offered"},
      {"{{ [('a'|safe)] }}", "marked safe"},
      {"{{ ('a%s'|safe) % 1 }}", "marked safe"},
      {"{{ ('a'|safe).replace('a', 'b') }}", "marked safe"},
      {"{% set f = 'urlize' %}{{ [1]|map(f)|list }}", "filter 'urlize'"},
      {"{% set f = 'prime' %}{{ [1]|select(f)|list }}", "test 'prime'"},
      {"{{ [1]|map(attribute='99999999999999999999')|list }}", "beyond 64 bits"},
      {"{{ namespace(_x=1) }}", "may begin with '_'"}};
  for (const auto& [source, text] : cases) {
    const Refusal refused = refusal(source);
    EXPECT_FALSE(refused.at_parse) << source;
    EXPECT_EQ(refused.code, QUERN_UNSUPPORTED) << source << ": " << refused.text;
    EXPECT_TRUE(mentions(refused, text)) << source << ": " << refused.text;
    EXPECT_TRUE(mentions(refused, "model.gguf: chat template, line 1: ")) << refused.text;
  }
}

TEST(ChatTemplateErrors, NothingButDataCanBeReached) {
  const char* sources[] = {"{{ ''.__class__.__mro__ }}",
                           "{{ ''['__class__'] }}",
                           "{{ messages[0]['__class__']['__init__'] }}",
                           "{{ ''|attr('__class__') }}",
                           "{{ [''|string]|map(attribute='__class__')|list }}",
                           "{{ [messages]|selectattr('__len__')|list }}",
                           "{{ range.__globals__ }}",
                           "{{ raise_exception.__globals__['os'].popen('id') }}",
                           "{% set x = namespace.__init__ %}",
                           "{{ cycler.__init__.__globals__.os.popen('id').read() }}"};
  for (const char* source : sources) {
    const Refusal refused = refusal(source);
    EXPECT_EQ(refused.code, QUERN_UNSUPPORTED) << source << ": " << refused.text;
  }
}

TEST(ChatTemplateErrors, AKeyThatLooksPrivateIsStillData) {
  EXPECT_EQ(ChatTemplate::parse("{{ {'__x__': 1}['__x__'] }}", "t").render({}, {}), "1");
}

TEST(ChatTemplateErrors, RaiseExceptionIsTheCallersMistakeAndKeepsItsMessage) {
  const Refusal refused = refusal("\n{% if messages[0].role == 'user' %}\n{{ raise_exception('no ' ~ messages[0].role) }}{% endif %}");
  EXPECT_EQ(refused.code, QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(refused.text, "model.gguf: chat template, line 3: the template refuses these messages: no user");
}

TEST(ChatTemplateErrors, ALongMessageOfRaiseExceptionIsCut) {
  const Refusal refused = refusal("{{ raise_exception('é' * 5000) }}");
  EXPECT_EQ(refused.code, QUERN_INVALID_ARGUMENT);
  EXPECT_LT(refused.text.size(), 2200u);
}

// Whether the text is whole characters and none stands for a broken one.
bool is_whole(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (size == 0 || i + size > text.size()) return false;
    for (std::size_t k = 1; k < size; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += size;
  }
  return text.find("\xef\xbf\xbd") == std::string::npos && text.find("\\x00") == std::string::npos;
}

TEST(ChatTemplateErrors, WhatAMessageQuotesIsCutBetweenCharacters) {
  const std::pair<const char*, const char*> around[] = {{"{{ '%(", ")s' % {} }}"},
                                                        {"{% set f = '", "' %}{{ [1]|map(f)|list }}"},
                                                        {"{% set f = '", "' %}{{ [1]|select(f)|list }}"},
                                                        {"{{ ''['__", "'] }}"},
                                                        {"{{ {}['", "'].x }}"},
                                                        {"{{ ''|join(**{'", "': 1}) }}"},
                                                        {"{% macro f() %}{% endmacro %}{{ f(**{'", "': 1}) }}"}};
  for (const char* character : {"\u00e9", "\u20ac", "\U0001F600"}) {
    for (const auto& [before, after] : around) {
      for (int letters = 70; letters <= 84; ++letters) {  // the cut falls before, into and behind the character
        const std::string source = before + std::string(static_cast<std::size_t>(letters), 'a') + character + "b" + after;
        const Refusal refused = refusal(source);
        EXPECT_NE(refused.text, "") << source;
        EXPECT_TRUE(is_whole(refused.text)) << source << ": " << refused.text;
      }
    }
    for (int letters = 1990; letters <= 2004; ++letters) {
      const Refusal refused = refusal("{{ raise_exception('a' * " + std::to_string(letters) + " ~ '" + character + "b') }}");
      EXPECT_EQ(refused.code, QUERN_INVALID_ARGUMENT);
      EXPECT_TRUE(is_whole(refused.text)) << refused.text;
    }
    for (int letters = 2900; letters <= 3010; ++letters) {  // a name in the source
      const Refusal refused = refusal("{{ 1|" + std::string(static_cast<std::size_t>(letters), 'a') + "\u00e9\u00e9 }}");
      EXPECT_TRUE(is_whole(refused.text)) << refused.text;
      EXPECT_LT(refused.text.size(), 3200u);
    }
  }
}

TEST(ChatTemplateErrors, ADirectiveThatIsNoAsciiIsQuotedWhole) {
  TemplateOptions options;
  options.now = std::tm{};
  options.now->tm_year = 100;
  options.now->tm_mday = 1;
  for (const char* source :
       {"{{ '%\u00e9' % 1 }}", "{{ '%\U0001F600' % 1 }}", "{{ '%5.3l\u20ac' % 1 }}", "{{ strftime_now('%\u00e9') }}"}) {
    const Refusal refused = refusal(source, {{"user", "hi"}}, options);
    EXPECT_TRUE(is_whole(refused.text)) << source << ": " << refused.text;
    EXPECT_TRUE(mentions(refused, "directive")) << refused.text;
  }
}

TEST(ChatTemplateErrors, AnErrorOfTheTemplateIsABadModelWithItsLine) {
  const std::pair<const char*, const char*> cases[] = {{"\n{{ messages[0].content + 1 }}", "line 2: '+' cannot join a str and a int"},
                                                       {"{{ nothing.x }}", "'nothing' is undefined"},
                                                       {"{{ messages[0].nothing.x }}", "'dict object' has no attribute 'nothing'"},
                                                       {"{{ messages[7].x }}", "'list object' has no element 7"},
                                                       {"{{ messages[none].x }}", "no such element"},
                                                       {"{{ messages.append(1) }}", "'list.append' would change the list"},
                                                       {"{{ messages[0].pop('role') }}", "'dict.pop' would change the dict"},
                                                       {"{{ nothing() }}{% set nothing = 1 %}", "'nothing' is undefined"},
                                                       {"{{ 1 // 0 }}", "divides by zero"},
                                                       {"{{ (1 if false).x }}", "no else section"},
                                                       {"{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}",
                                                        "parameter 'a' was not provided"},
                                                       {"{% for x in [1] %}{{ loop.previtem.x }}{% endfor %}", "there is no previous item"},
                                                       {"{% for x in [1] %}{{ loop.nextitem.x }}{% endfor %}", "there is no next item"},
                                                       {"{% for a, b in [[1, 2, 3]] %}{% endfor %}", "2 names are set from 3 values"},
                                                       {"{{ ([]|first).x }}", "sequence was empty"},
                                                       {"{{ 'a'|join(',', 1, 2) }}", "filter 'join' takes at most 2 arguments and got 3"},
                                                       {"{{ 'a'|join(zzz=1) }}", "filter 'join' has no argument 'zzz'"},
                                                       {"{{ 'a'|join(',', d=1) }}", "filter 'join' gets argument 'd' twice"},
                                                       {"{{ 'a'|replace('b') }}", "filter 'replace' needs the argument 'new'"},
                                                       {"{{ 'a'|center('x') }}", "filter 'center' needs an int and got a str"},
                                                       {"{{ 'a'|center(nothing) }}", "'nothing' is undefined"},
                                                       {"{{ 'a'.find(1) }}", "str.find needs a str and got a int"},
                                                       {"{{ [1]|selectattr|list }}", "need the name of an attribute"},
                                                       {"{{ [1]|map(1)|list }}", "a filter is named by a str, not by a int"},
                                                       {"{{ strftime_now('%') }}", "ends in '%'"},
                                                       {"{{ dict(*5) }}", "a int cannot be iterated"},
                                                       {"{{ dict(**5) }}", "not a dict"},
                                                       {"{{ dict(**{1: 2}) }}", "not a str"},
                                                       {"{{ namespace({1: 2}) }}", "a name is a str, not a int"},
                                                       {"{% set x = 5 %}{{ x() }}", "a int is called, but it is not a function"},
                                                       {"{{ [1]|tojson(separators=1) }}", "separators are two str"},
                                                       {"{{ '{'.format(1) }}", "'{' has no '}'"},
                                                       {"{{ '}'.format(1) }}", "a single '}'"},
                                                       {"{{ '{}{}'.format(1) }}", "field 1 was asked for, but 1 values"},
                                                       {"{{ '{}{0}'.format(1) }}", "fields with numbers and fields without"},
                                                       {"{{ '{a}'.format(b=1) }}", "there is no value named 'a'"},
                                                       {"{{ '{0[}'.format(1) }}", "'{' has no '}'"},
                                                       {"{{ '{0.}'.format(1) }}", "an attribute or item without a name"},
                                                       {"{{ '{!x}'.format(1) }}", "the conversions !s, !r and !a"},
                                                       {"{{ '{:{:{}}}'.format(1, 2, 3) }}", "holds another"},
                                                       {"{{ '{:5}'.format(none) }}", "takes no specification"},
                                                       {"{{ '{:5}'.format(nothing) }}", "takes no specification"},
                                                       {"{{ '{:d}'.format('a') }}", "no type 'd' for a str"},
                                                       {"{{ '{:d}'.format(1.5) }}", "no type 'd' for a float"},
                                                       {"{{ '{:.2}'.format(1) }}", "a precision is not for an int"},
                                                       {"{{ '{:=5}'.format('a') }}", "'=' is not for a str"},
                                                       {"{{ '{:5dd}'.format(1) }}", "more than its type"},
                                                       {"{{ '{}'.format_map({}) }}", "the fields of the format have no names"},
                                                       {"{{ '{a}'.format_map(1) }}", "needs a dict"},
                                                       {"{{ 10.0 ** 400 }}", "too large for a float"}};
  TemplateOptions options;
  options.now = std::tm{};
  options.now->tm_year = 100;
  options.now->tm_mday = 1;
  for (const auto& [source, text] : cases) {
    const Refusal refused = refusal(source, {{"user", "hi"}}, options);
    EXPECT_EQ(refused.code, QUERN_BAD_MODEL) << source << ": " << refused.text;
    EXPECT_TRUE(mentions(refused, text)) << source << ": " << refused.text;
  }
}

TEST(ChatTemplateErrors, TextThatIsNotUtf8IsRefusedWithItsPlace) {
  const Refusal source = refusal("ab\xff");
  EXPECT_TRUE(source.at_parse);
  EXPECT_EQ(source.code, QUERN_BAD_MODEL);
  EXPECT_EQ(source.text, "model.gguf: the chat template is not UTF-8 at byte 2");
  for (const char* bad :
       {"\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xc3(", "\x80"}) {
    const Refusal content = refusal("x", {{"user", "ok"}, {"user", std::string("abc") + bad}});
    EXPECT_EQ(content.code, QUERN_INVALID_ARGUMENT);
    EXPECT_EQ(content.text, "model.gguf: the content of message 1 is not UTF-8 at byte 3");
  }
  const Refusal role = refusal("x", {{"\xff", ""}});
  EXPECT_EQ(role.text, "model.gguf: the role of message 0 is not UTF-8 at byte 0");
  TemplateOptions options;
  options.bos_token = "\xff";
  EXPECT_EQ(refusal("x", {}, options).text, "model.gguf: variable 'bos_token' is not UTF-8 at byte 0");
  EXPECT_EQ(refusal("x", {}, options).code, QUERN_BAD_MODEL);  // it came from the file
}

TEST(ChatTemplateErrors, ATemplateThatAsksForTheTimeIsRefusedWithoutOne) {
  const Refusal refused = refusal("{{ strftime_now('%Y') }}");
  EXPECT_EQ(refused.code, QUERN_INVALID_ARGUMENT);
  EXPECT_TRUE(mentions(refused, "no time was given")) << refused.text;
}

TEST(ChatTemplateErrors, ATimeOutOfItsRangeIsRefusedWithTheField) {
  std::tm good{};
  good.tm_year = 124;
  good.tm_mday = 1;
  const std::pair<int std::tm::*, int> fields[] = {{&std::tm::tm_mon, 12},  {&std::tm::tm_mon, -1},   {&std::tm::tm_mday, 0},
                                                   {&std::tm::tm_mday, 32}, {&std::tm::tm_hour, 24},  {&std::tm::tm_min, 60},
                                                   {&std::tm::tm_sec, 61},  {&std::tm::tm_year, 9000}};
  for (const auto& [field, value] : fields) {
    TemplateOptions options;
    options.now = good;
    (*options.now).*field = value;
    const Refusal refused = refusal("{{ strftime_now('%Y') }}", {}, options);
    EXPECT_EQ(refused.code, QUERN_INVALID_ARGUMENT);
    EXPECT_TRUE(mentions(refused, "outside of")) << refused.text;
  }
  TemplateOptions options;
  options.now = good;
  EXPECT_EQ(refusal("{{ strftime_now('%U') }}", {}, options).code, QUERN_UNSUPPORTED);
}

}  // namespace
}  // namespace quern
