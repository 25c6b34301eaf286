// Hostile templates: every way found to ask for much time, memory, output or stack ends in a typed error.
#include "quern/models/chat_template.hpp"

#include "quern/graph/error.hpp"
#include "quern/quern_sanitizer.h"

#include <gtest/gtest.h>

#include <pthread.h>

#include <functional>

namespace quern {
namespace {

std::string repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

/// Limits without a deadline that a sanitized build would meet first; the deadline has tests of its own.
TemplateOptions without_deadline() {
  TemplateOptions options;
  options.limits.cpu_seconds = 100;
  return options;
}

// The text of the QUERN_BAD_MODEL error, or what happened instead.
std::string bad_model(const std::string& source, const TemplateOptions& options = {}) {
  try {
    ChatTemplate::parse(source, "t").render({{"user", "hi"}}, options);
  } catch (const Error& error) { return error.code() == QUERN_BAD_MODEL ? error.what() : "another code: " + std::string(error.what()); }
  return "no error";
}

void expect_limit(const std::string& source, const std::string& text, const TemplateOptions& options = {}) {
  const std::string got = bad_model(source, options);
  EXPECT_NE(got.find(text), std::string::npos) << source.substr(0, 100) << ": " << got.substr(0, 300);
}

// Runs on a thread with a stack of this size, so that recursion which is bounded only by luck crashes the
// test.
void on_small_stack(std::size_t bytes, const std::function<void()>& body) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  std::function<void()> copy = body;
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &copy), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

#if QUERN_SANITIZER != 0
constexpr std::size_t small_stack = 6 * 1024 * 1024;  // sanitizers multiply the frames
#else
constexpr std::size_t small_stack = 768 * 1024;
#endif

TEST(ChatTemplateLimits, NestingInTheSourceIsBounded) {
  on_small_stack(small_stack, [] {
    constexpr int deep = 100'000;
    const std::string nested[] = {"{{ " + repeat("(", deep) + "1" + repeat(")", deep) + " }}",
                                  "{{ " + repeat("[", deep) + repeat("]", deep) + " }}",
                                  "{{ " + repeat("{1:", deep) + "1" + repeat("}", deep) + " }}",
                                  "{{ " + repeat("not ", deep) + "1 }}",
                                  "{{ " + repeat("-", deep) + "1 }}",
                                  "{{ " + repeat("1 if 1 else ", deep) + "1 }}",
                                  "{{ " + repeat("f(", deep) + repeat(")", deep) + " }}",
                                  "{{ 1" + repeat(" is odd(1", deep) + repeat(")", deep) + " }}",
                                  "{{ 1" + repeat(" + 1", deep) + " }}",
                                  "{{ 1" + repeat(" ** 1", deep) + " }}",
                                  "{{ 1" + repeat(" and 1", deep) + " }}",
                                  "{{ a" + repeat(".b", deep) + " }}",
                                  "{{ a" + repeat("[0]", deep) + " }}",
                                  "{{ a" + repeat("[0:1]", deep) + " }}",
                                  "{{ a" + repeat("|upper", deep) + " }}",
                                  "{{ a" + repeat("()", deep) + " }}",
                                  repeat("{% if 1 %}", deep) + repeat("{% endif %}", deep),
                                  repeat("{% for i in [1] %}", deep),
                                  repeat("{% macro m() %}", deep),
                                  repeat("{% set x %}", deep),
                                  repeat("{% filter upper %}", deep),
                                  repeat("{% generation %}", deep / 2),
                                  repeat("{% with %}", deep),
                                  "{% set " + repeat("(", deep) + "x" + repeat(")", deep) + " = 1 %}"};
    for (const std::string& source : nested) {
      const std::string got = bad_model(source.size() <= 1024 * 1024 ? source : source.substr(0, 1024 * 1024));
      EXPECT_NE(got.find("nests deeper than 200 levels"), std::string::npos) << source.substr(0, 40) << ": " << got;
    }
  });
}

TEST(ChatTemplateLimits, FlatSourcesOfAnyLengthAreNotDeep) {
  const std::string chain = "{% if 0 %}" + repeat("{% elif 0 %}", 10'000) + "{% else %}x{% endif %}";
  EXPECT_EQ(ChatTemplate::parse(chain, "t").render({}, {}), "x");
  EXPECT_EQ(ChatTemplate::parse("{{ 1" + repeat(" ~ 1", 10'000) + " }}", "t").render({}, {}).size(), 10'001u);
  EXPECT_EQ(ChatTemplate::parse("{{ 1" + repeat(" < 2 > 1", 10'000) + " }}", "t").render({}, {}), "True");
}

TEST(ChatTemplateLimits, NestingThatIsAllowedFitsASmallStack) {
  on_small_stack(small_stack, [] {
    const std::string blocks =
        repeat("{% if 1 %}", 90) + "{{ " + repeat("(", 30) + "1" + repeat(")", 30) + " }}" + repeat("{% endif %}", 90);
    EXPECT_EQ(ChatTemplate::parse(blocks, "t").render({}, {}), "1");
    const std::string sum = "{{ 1" + repeat(" + 1", 190) + " }}";
    EXPECT_EQ(ChatTemplate::parse(sum, "t").render({}, {}), "191");
  });
}

TEST(ChatTemplateLimits, RecursionOfMacrosIsBounded) {
  on_small_stack(small_stack, [] {
    EXPECT_NE(bad_model("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("evaluation nests deeper"), std::string::npos);
    EXPECT_NE(bad_model("{% macro f(g) %}{{ [g(g)] ~ 1 }}{% endmacro %}{{ f(f) }}").find("evaluation nests deeper"), std::string::npos);
    EXPECT_NE(bad_model("{% macro f(a=f()) %}{% endmacro %}{{ f() }}").find("evaluation nests deeper"), std::string::npos);
    EXPECT_NE(bad_model("{% macro f() %}{% for i in [1] if f() %}{% endfor %}{% endmacro %}{{ f() }}").find("evaluation nests deeper"),
              std::string::npos);
    EXPECT_NE(bad_model("{% macro f() %}{% filter upper %}{% set x %}{{ f() }}{% endset %}{% endfilter %}{% "
                        "endmacro %}{{ f() }}")
                  .find("evaluation nests deeper"),
              std::string::npos);
  });
}

TEST(ChatTemplateLimits, NestingOfValuesIsBounded) {
  on_small_stack(small_stack, [] {
    EXPECT_NE(bad_model("{% set n = namespace(x=[]) %}{% for i in range(1000) %}{% set n.x = [n.x] %}{% endfor %}")
                  .find("a value nests deeper than 200"),
              std::string::npos);
    EXPECT_NE(bad_model("{% set n = namespace(x={}) %}{% for i in range(1000) %}{% set n.x = {1: n.x} %}{% endfor %}")
                  .find("a value nests deeper than 200"),
              std::string::npos);
    EXPECT_NE(bad_model("{% set n = namespace(l=1) %}{% for i in range(1000) %}{% for x in [n.l] %}{% set "
                        "n.l = loop %}{% endfor %}{% endfor %}")
                  .find("a value nests deeper than 200"),
              std::string::npos);
    EXPECT_NE(bad_model("{% set n = namespace(g=[]) %}{% for i in range(1000) %}{% set n.g = "
                        "[n.g|map('list')] %}{% endfor %}")
                  .find("a value nests deeper than 200"),
              std::string::npos);
    const std::string deepest =
        "{% set n = namespace(x=1) %}{% for i in range(199) %}{% set n.x = [n.x] %}{% endfor %}{{ "
        "n.x|tojson|length }} {{ n.x == n.x }} {{ (n.x|string)|length }}";
    EXPECT_EQ(ChatTemplate::parse(deepest, "t").render({}, {}), "399 True 399");
  });
}

TEST(ChatTemplateLimits, StepsAreBounded) {
  const std::string loops = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  TemplateOptions options = without_deadline();
  expect_limit(loops, "more than 10000000 steps", options);
  options.limits.steps = 1000;
  EXPECT_NE(bad_model("{% for a in range(2000) %}{% endfor %}", options).find("more than 1000 steps"), std::string::npos);
  EXPECT_EQ(bad_model("{% for a in range(10) %}{% endfor %}", options), "no error");
}

TEST(ChatTemplateLimits, WorkInsideOneOperationCountsAsSteps) {
  TemplateOptions options = without_deadline();
  options.limits.steps = 500'000;
  const std::string big = "{% set s = 'ab' * 1000000 %}";
  const std::string many = "{% for i in range(100000) %}";
  const char* operations[] = {"{% set x = s|upper|length %}",
                              "{% set x = s.find('b' * 100) %}",
                              "{% set x = ('a' * 3000) in s %}",
                              "{% set x = s == s ~ '' %}",
                              "{% set x = s|length %}",
                              "{% set x = s.strip('ab')|length %}",
                              "{% set x = s.count('a') %}",
                              "{% set x = s[5] %}",
                              "{% set x = s.rfind('c' * 1000) %}",
                              "{% set x = s.rsplit('c' * 1000) %}",
                              "{% set x = s.split('c') %}",
                              "{% set x = s.isalpha() %}",
                              "{% set x = s.islower() %}",
                              "{% set x = s.startswith('q') %}",
                              "{% set x = s|replace('q', '') %}",
                              "{% set x = s.splitlines() %}",
                              "{% set x = s.rpartition('c' * 1000) %}",
                              "{% set x = s|int %}",
                              "{% set x = s|float %}",
                              "{% set x = s|title|first %}",
                              "{% set x = s < s ~ 'x' %}"};
  for (const char* operation : operations) { expect_limit(big + many + operation + "{% endfor %}", "more than 500000 steps", options); }
  const std::string list = "{% set l = range(10000)|list %}";
  expect_limit(list + many + "{% set x = -1 in l %}{% endfor %}", "steps", options);
  expect_limit(list + many + "{% set x = l|sort %}{% endfor %}", "steps", options);
  expect_limit(list + "{{ l|unique|list }}", "steps", options);
  expect_limit(list + many + "{% set x = l|sum %}{% endfor %}", "steps", options);
}

TEST(ChatTemplateLimits, ValuesThatShareTheirPartsDoNotMultiplyTheWork) {
  const std::string doubling = "{% set n = namespace(x=[1]) %}{% for i in range(100) %}{% set n.x = [n.x, n.x] %}{% endfor %}";
  expect_limit(doubling + "{{ n.x }}", "");
  EXPECT_NE(bad_model(doubling + "{{ n.x }}").find("t: chat template, line"), std::string::npos);
  EXPECT_NE(bad_model(doubling + "{{ n.x|tojson }}").find("t: chat template, line"), std::string::npos);
}

TEST(ChatTemplateLimits, MemoryIsBounded) {
  const char* sources[] = {"{{ 'a' * 9223372036854775807 }}",
                           "{{ 'aaaa' * 4611686018427387905 }}",
                           "{{ [1] * 9223372036854775807 }}",
                           "{% set n = namespace(s='ab') %}{% for i in range(64) %}{% set n.s = n.s + n.s %}{% endfor %}",
                           "{% set n = namespace(s='ab') %}{% for i in range(64) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
                           "{% set n = namespace(s=[1]) %}{% for i in range(64) %}{% set n.s = n.s + n.s %}{% endfor %}",
                           "{% set s = 'ab' * 10000000 %}{{ s|replace('a', s) }}",
                           "{% set s = 'ab' * 1000000 %}{{ s|join(s) }}",
                           "{% set s = 'ab' * 1000000 %}{{ s.split('a') }}",
                           "{% set s = 'ab' * 10000000 %}{% set l = s|list %}",
                           "{% set s = '\\x01' * 40000000 %}{{ [s] }}",
                           "{% set s = '\"' * 40000000 %}{% set t = s|tojson %}",
                           "{{ 'a'|indent(9223372036854775807, true) }}",
                           "{{ [1]|tojson(indent=9223372036854775807) }}",
                           "{{ [[1]]|tojson(indent='x' * 60000000) }}",
                           "{{ 'a'.center(9223372036854775807) }}",
                           "{{ 'a'.zfill(9223372036854775807) }}",
                           "{% set s = 'ab' * 10000000 %}{% set n = namespace(l=[]) %}{% for i in range(10) %}{% set n.l = n.l + "
                           "[s ~ i] %}{% endfor %}",
                           "{% for i in range(10000) %}{% set x %}{{ 'a' * 60000000 }}{{ 'a' * 60000000 }}{% endset %}{% endfor "
                           "%}"};
  for (const char* source : sources) expect_limit(source, "t: chat template, line 1: ");
}

TEST(ChatTemplateLimits, MemoryThatIsGivenBackCanBeUsedAgain) {
  const std::string source = "{% for i in range(200) %}{% set s = 'a' * 1000000 %}{% endfor %}ok";
  EXPECT_EQ(ChatTemplate::parse(source, "t").render({}, without_deadline()), "ok");  // 200 MB in turn, 1 MB at a time
}

TEST(ChatTemplateLimits, OutputIsBounded) {
  expect_limit("{% set s = 'a' * 10000000 %}{% for i in range(100) %}{{ s }}{% endfor %}", "longer than the limit of 16777216 bytes");
  TemplateOptions options;
  options.limits.output_bytes = 10;
  EXPECT_EQ(bad_model("0123456789", options), "no error");
  EXPECT_NE(bad_model("0123456789{{ 1 }}", options).find("longer than the limit of 10 bytes"), std::string::npos);
}

TEST(ChatTemplateLimits, MessagesCountAgainstTheMemory) {
  TemplateOptions options;
  options.limits.memory_bytes = 10'000;
  const ChatTemplate parsed = ChatTemplate::parse("{{ messages|length }}", "t");
  EXPECT_EQ(parsed.render({{"user", std::string(1000, 'x')}}, options), "1");
  EXPECT_THROW(parsed.render({{"user", std::string(20'000, 'x')}}, options), Error);
}

TEST(ChatTemplateLimits, RangesAreBoundedAsInTheSandbox) {
  EXPECT_EQ(ChatTemplate::parse("{{ range(100000)|length }}", "t").render({}, {}), "100000");
  expect_limit("{{ range(100001) }}", "range has 100001 items");
  expect_limit("{{ range(-9223372036854775807, 9223372036854775807) }}", "range has 18446744073709551614 items");
  EXPECT_EQ(ChatTemplate::parse("{{ range(0, 9223372036854775807, 9223372036854775807)|list }}", "t").render({}, {}), "[0]");
  EXPECT_EQ(ChatTemplate::parse("{{ range(1, -9223372036854775807, -9223372036854775807)|list }}", "t").render({}, {}),
            "[1, -9223372036854775806]");
}

TEST(ChatTemplateLimits, SlicesOfARangeAtTheEndOfTheIntegersDoNotOverflow) {
  const std::string range = "range(9223372036854775000, 9223372036854775807, 500)";
  EXPECT_EQ(ChatTemplate::parse("{{ " + range + "[::-1]|list }}", "t").render({}, {}), "[9223372036854775500, 9223372036854775000]");
  EXPECT_NE(bad_model("{{ " + range + "[::2]|list }}").find("ends beyond 64 bits"), std::string::npos);
  EXPECT_NE(bad_model("{{ range(-9223372036854775807, 0, 9223372036854775807)[::-2] }}").find("the step of a range is too large"),
            std::string::npos);
}

TEST(ChatTemplateLimits, TheClockEndsWhatStepsWouldAllow) {
  TemplateOptions options;
  options.limits.steps = UINT64_MAX;
  options.limits.cpu_seconds = 0.01;
  for (const char* body : {"", "{% set x = 's' ~ i %}", "{% set x = [i, i]|sort %}", "{% if 'a' * 1000000 %}{% endif %}"}) {
    const std::string source = std::string("{% for i in range(100000) %}{% for j in range(100000) %}") + body + "{% endfor %}{% endfor %}";
    EXPECT_NE(bad_model(source, options).find("more than 0.01 seconds of CPU time"), std::string::npos) << body;
  }
}

TEST(ChatTemplateLimits, TheClockHoldsWhileTheSourceIsRead) {
  TemplateLimits limits;
  limits.cpu_seconds = 1e-9;
  try {
    ChatTemplate::parse("{{ [" + repeat("1, ", 10'000) + "] }}", "t", limits);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), QUERN_BAD_MODEL);
    EXPECT_NE(std::string(error.what()).find("seconds of CPU time"), std::string::npos) << error.what();
  }
}

TEST(ChatTemplateLimits, TheTreeOfASourceCountsAgainstTheMemory) {
  TemplateOptions options;
  options.limits.memory_bytes = 1'000'000;
  const std::string source = "{{ [" + repeat("a, ", 2000) + "]|length }}{% set s = 'x' * 300000 %}";
  EXPECT_NE(bad_model(source, options).find("beyond the limit of 1000000"), std::string::npos);
  options.limits.memory_bytes = 2'000'000;
  EXPECT_EQ(bad_model(source, options), "no error");
}

TEST(ChatTemplateLimits, AKeyOfSharedTuplesIsCheckedOnce) {
  // Sixty doublings: a walk over the parts would take 2^60 steps.
  const std::string tuples = "{% set n = namespace(t=(1,)) %}{% for i in range(60) %}{% set n.t = (n.t, n.t) %}{% endfor %}";
  TemplateOptions options;
  options.limits.steps = 5000;
  EXPECT_EQ(bad_model(tuples + "{% set d = {n.t: 1} %}", options), "no error");
  EXPECT_NE(
      bad_model("{% set n = namespace(t=([],)) %}{% for i in range(60) %}{% set n.t = (n.t, n.t) %}{% endfor %}{% set d = {n.t: 1} %}",
                options)
          .find("a list cannot be a key"),
      std::string::npos);
}

TEST(ChatTemplateLimits, ALongSourceIsRefused) {
  EXPECT_EQ(ChatTemplate::parse(std::string(1024 * 1024, 'x'), "t").render({}, {}).size(), 1024u * 1024u);
  EXPECT_NE(bad_model(std::string(1024 * 1024 + 1, 'x')).find("has 1048577 bytes"), std::string::npos);
}

TEST(ChatTemplateLimits, ScopesThatMacrosKeepAreFreed) {
  // Leaks show under AddressSanitizer. A macro keeps its scope, the scope keeps the namespace, which keeps
  // the macro.
  const std::string source =
      "{% set n = namespace() %}{% for i in range(3) %}{% set own = namespace() %}{% macro m() %}{{ i }}{{ "
      "own.f is defined }}{% endmacro %}"
      "{% set own.f = m %}{% set n.f = m %}{% set own.self = own %}{% set n.l = loop %}{% endfor %}{{ n.f() "
      "}}";
  EXPECT_EQ(ChatTemplate::parse(source, "t").render({}, {}), "2True");
}

}  // namespace
}  // namespace quern
