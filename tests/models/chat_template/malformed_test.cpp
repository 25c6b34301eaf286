// Class 14 of the malformed-file corpus: model files whose chat template attacks whoever renders it. Each
// differs from a file that renders in its template alone, and is refused by the name of the file and of the
// field, with a code that ends the program with exit 4.
#include "quern/models/chat_template.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/gguf.hpp"
#include "support/gguf_writer.hpp"
#include "quern/quern_sanitizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <ostream>
#include <string>
#include <vector>

namespace quern::test {
namespace {

constexpr auto key = "tokenizer.chat_template";
#if QUERN_SANITIZER != 0 || !defined(__OPTIMIZE__)
constexpr double most_seconds = 60;
#else
constexpr double most_seconds = 2;
#endif

struct Hostile {
  std::string name, source, twin;
  quern_status code;
  std::string said;
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

std::string repeat(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

const std::string plain = "{% for m in messages %}{{ m.content }}{% endfor %}";

const Hostile cases[] = {
    {"AttributesThatLeadOutOfTheData", "{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ ''.upper() }}", QUERN_UNSUPPORTED,
     "__class__"},
    {"AttributesReachedThroughAFilter", "{{ messages|attr('__class__') }}", "{{ messages[0]['role'] }}", QUERN_UNSUPPORTED, "attr"},
    {"GlobalsOfAFunction", "{{ range.__globals__ }}", "{{ range(2)|list }}", QUERN_UNSUPPORTED, "__globals__"},
    {"AFileThatIsIncluded", "{% include '/etc/passwd' %}", plain, QUERN_UNSUPPORTED, "include"},
    {"AModuleThatIsImported", "{% import 'os' as os %}", plain, QUERN_UNSUPPORTED, "import"},
    {"NestingOfParentheses", "{{ " + repeat("(", 100'000) + "1" + repeat(")", 100'000) + " }}",
     "{{ " + repeat("(", 20) + "1" + repeat(")", 20) + " }}", QUERN_BAD_MODEL, "deeper than 200"},
    {"NestingOfBlocks", repeat("{% if 1 %}", 20'000) + repeat("{% endif %}", 20'000),
     repeat("{% if 1 %}", 150) + repeat("{% endif %}", 150), QUERN_BAD_MODEL, "deeper than 200"},
    {"AMacroThatCallsItself", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{{ m() }}", QUERN_BAD_MODEL,
     "deep"},
    {"OutputOfManyGibibytes", "{% for a in range(99999) %}{% for b in range(99999) %}{{ 'x' * 65536 }}{% endfor %}{% endfor %}",
     "{% for a in range(9) %}{{ 'x' * 65536 }}{% endfor %}", QUERN_BAD_MODEL, "limit"},
    {"ATextAboveTwoGibibytes", "{{ ('x' * 3000000000)|length }}", "{{ ('x' * 3000000)|length }}", QUERN_BAD_MODEL, "limit"},
    {"LoopsWithoutEnd",
     "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor "
     "%}"
     "{% endfor %}",
     "{% for a in range(99999) %}{% endfor %}", QUERN_BAD_MODEL, "10000000 steps"},
    {"BytesThatAreNotUtf8", "{{ 'a' }}\xFF", "{{ 'a' }}\xC3\xBF", QUERN_BAD_MODEL, "not UTF-8 at byte 9"},
    {"ATagThatIsNotClosed", "{% for m in messages %}{{ m.content }}", plain, QUERN_BAD_MODEL, "endfor"},
    {"MoreSourceThanIsRead", repeat("{# #}", 220'000), repeat("{# #}", 200'000), QUERN_BAD_MODEL, "1100000 bytes"},
};

/// What a runtime does with the template of a model file.
std::string render(const std::string& source) {
  GgufWriter writer;
  writer.string("general.architecture", "llama").string(key, source);
  const GgufWriter::Bytes bytes = writer.bytes();
  const gguf::File file = gguf::File::from_memory(bytes, "model.gguf");
  const auto parsed = ChatTemplate::parse(file.require_string(key), std::string(file.name()));
  TemplateOptions options;
  options.limits.cpu_seconds = most_seconds;  // longer under a sanitizer, where the other limits are met later
  return parsed.render({{"user", "hi"}}, options);
}

class HostileTemplate : public testing::TestWithParam<Hostile> {};

TEST_P(HostileTemplate, IsRefusedNamingFileAndFieldWithinTwoSeconds) {
  const std::clock_t start = std::clock();  // processor time: the machine may be busy with other tests
  try {
    FAIL() << "rendered " << render(GetParam().source).substr(0, 100);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), GetParam().code) << error.what();
    EXPECT_THAT(error.what(), testing::StartsWith("model.gguf: "));
    EXPECT_THAT(error.what(), testing::HasSubstr("chat template"));
    EXPECT_THAT(error.what(), testing::HasSubstr(GetParam().said));
  }
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, most_seconds);
}

TEST_P(HostileTemplate, HasATwinThatRenders) { EXPECT_NO_THROW(render(GetParam().twin)); }

INSTANTIATE_TEST_SUITE_P(Class14, HostileTemplate, testing::ValuesIn(cases), [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace quern::test
