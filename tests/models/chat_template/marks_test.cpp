// Which bytes of a rendering are foreign: each filter, method and operator keeps the marks of what it reads.
#include "library.hpp"

#include "quern/models/chat_template.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace quern {
namespace {

/// The rendering with its foreign bytes between { and }; {} is a seam. In the template, m is "aB c", n is "<i>"
/// and w is "w", of messages; of roles, the first is known and the others are not.
std::string marked(const std::string& source, const TemplateOptions& options = {}) {
  const std::string head =
      "{%- set m = messages[0].content -%}{%- set n = messages[1].content -%}"
      "{%- set w = messages[2].content -%}{%- set nothing = messages[3].content -%}";
  const RenderedChat chat =
      ChatTemplate::parse(head + source, "t").render_marked({{"user", "aB c"}, {"<i>", "<i>"}, {"User", "w"}, {"tool", ""}}, options);
  std::string out;
  std::size_t at = 0;
  for (const ForeignRange& range : chat.foreign) {
    EXPECT_TRUE(range.begin <= range.end && range.end <= chat.text.size() && (at == 0 || range.begin > at)) << source;
    out += chat.text.substr(at, range.begin - at) + "{" + chat.text.substr(range.begin, range.end - range.begin) + "}";
    at = range.end;
  }
  return out + chat.text.substr(at);
}

struct Row {
  std::string_view name;  ///< of the filter or method; a name may have several rows
  const char* source;
  const char* expected;
};

constexpr Row filter_rows[] = {
    {"abs", "{{ m|length|abs }}", "{4}"},
    {"attr", "{{ m|attr('upper')() }}", "{AB C}"},
    {"capitalize", "{{ m|capitalize }}{{ 'xY'|capitalize }}{{ (m ~ 'o')|capitalize }}", "{Ab c}Xy{Ab co}"},
    {"center", "{{ m|center(6) }}", " {aB c} "},
    {"count", "{{ m|count }}", "{4}"},
    {"d", "{{ m|d('x') }}{{ u|d('y') }}{{ u|d(m) }}{{ u|d }}", "{aB c}y{aB c}"},
    {"default", "{{ m|default('x') }}{{ u|default('y') }}", "{aB c}y"},
    {"dictsort", "{% for k, v in {'k': m, n: 'o'}|dictsort %}{{ k }}{{ v }};{% endfor %}", "{<i>}o;k{aB c};"},
    {"e", "{{ ('o' ~ n)|e }}", "o{&lt;i&gt;}"},
    {"escape", "{{ ('o' ~ n)|escape }}{{ n|escape + '<o>' }}", "o{&lt;i&gt;&lt;i&gt;&lt;}o{&gt;}"},
    {"first", "{{ m|first }}{{ 'own'|first }}", "{a}o"},
    {"float", "{{ '2'|float }}", "{2.0}"},
    {"format", "{{ 'v%s%%'|format(m) }}{{ m|format }}{{ '%(k)5s'|format(k='o') }}", "v{aB c}%{aB c    }o"},
    {"format", "{{ '%r'|format('o') }}{{ '%.2s'|format(m) }}{{ '%c%c'|format(60, 'o') }}", "{'o'aB<}o"},
    {"indent", "{{ (m ~ '\\nz')|indent(1) }};{{ 'o\\nz'|indent(m) }};{{ 'o\\nz'|indent(1, true) }}", "{aB c\n} z;o\n{aB c}z; o\n z"},
    {"int", "{{ '7'|int }}", "{7}"},
    {"items", "{% for k, v in {'k': m, n: 'o'}|items %}{{ k }}{{ v }};{% endfor %}", "k{aB c};{<i>}o;"},
    {"join", "{{ [m, 'o']|join('-') }};{{ ['o', 'p']|join }};{{ ['o', 'p']|join(w) }}", "{aB c}-o;op;o{w}p"},
    {"last", "{{ m|last }}", "{c}"},
    {"length", "{{ m|length }}", "{4}"},
    {"list", "{{ (m|list)[0] }}{{ m|list }}", "{a['a', 'B', ' ', 'c']}"},
    {"lower", "{{ m|lower }}{{ 'O'|lower }}", "{ab c}o"},
    {"map", "{{ [m, 'O']|map('lower')|join('-') }}{{ messages|map(attribute='content')|first }}", "{ab c}-o{aB c}"},
    {"max", "{{ [m]|max }}", "{aB c}"},
    {"min", "{{ [m]|min }}", "{aB c}"},
    {"reject", "{{ [m]|reject('none')|first }}", "{aB c}"},
    {"rejectattr", "{{ (messages|rejectattr('role', 'equalto', 'x')|first).content }}", "{aB c}"},
    {"replace", "{{ m|replace('B', 'o') }};{{ 'own'|replace('w', m) }};{{ 'own'|replace(w, '') }}", "{a}o{ c};o{aB c}n;{on}"},
    {"replace", "{{ ('o' ~ w ~ 'n')|replace('w', '') }};{{ ('o' ~ w ~ 'n')|replace('own', '') }};{{ m|replace('', '-') }}",
     "o{}n;{};-{a}-{B}-{ }-{c}-{}"},
    {"reverse", "{{ ('o' ~ m)|reverse }}", "{c Ba}o{}"},
    {"round", "{{ 2.0|round }}", "{2.0}"},
    {"safe", "{{ (m ~ 'o')|safe }}", "{aB c}o"},
    {"select", "{{ [m]|select|first }}", "{aB c}"},
    {"selectattr", "{{ (messages|selectattr('content')|first).content }}", "{aB c}"},
    {"sort", "{{ [m, 'o']|sort|join }}", "{aB c}o"},
    {"string", "{{ m|string }}{{ 4|string }}{{ 'o'|string }}", "{aB c4}o"},
    {"sum", "{{ [[m], ['o']]|sum(start=[])|join }}", "{aB c}o"},
    {"title", "{{ m|title }}{{ 'o'|title }}", "{Ab C}O"},
    {"tojson", "{{ m|tojson }}{{ {'k': 'o'}|tojson(indent=1) }}", "{\"aB c\"{\n \"k\": \"o\"\n}}"},
    {"trim", "{{ (' ' ~ m ~ 'o ')|trim }};{{ 'own'|trim(w) }};{{ (w ~ 'o')|trim('w') }}", "{aB c}o;{own};{}o"},
    {"unique", "{{ [m, m]|unique|join }}", "{aB c}"},
    {"upper", "{{ m|upper }}{{ 'o'|upper }}", "{AB C}O"},
};

constexpr Row method_rows[] = {
    {"capitalize", "{{ m.capitalize() }}", "{Ab c}"},
    {"center", "{{ m.center(6, '-') }}{{ 'o'.center(3, w) }}", "-{aB c}-{w}o{w}"},
    {"count", "{{ m.count('B') }}", "{1}"},
    {"endswith", "{{ m.endswith('c') }}", "{True}"},
    {"find", "{{ m.find('B') }}", "{1}"},
    {"format", "{{ 'v{}w{k}{{}}'.format(m, k='o') }};{{ '{:>3}{:d}{!r}'.format('o', 7, 'p') }}", "v{aB c}wo{};{  }o{7'p'}"},
    {"format", "{{ '{:.2}{}'.format('o' ~ w ~ m, nothing) }};{{ '{0[k]}{0.k}'.format({'k': 'o' ~ w}) }}", "o{w};o{w}o{w}"},
    {"format", "{{ ('o' ~ w ~ '{}').format('p') }};{{ '{:{}}'.format('o', '2') }};{{ '{:{}}'.format('o', w|length) }}", "o{wp};o{ };{o}"},
    {"format_map", "{{ 'v{k}{o}'.format_map({'k': m, 'o': 'p'}) }}", "v{aB c}p"},
    {"index", "{{ m.index('B') }}", "{1}"},
    {"isalnum", "{{ m.isalnum() }}", "{False}"},
    {"isalpha", "{{ m.isalpha() }}", "{False}"},
    {"isdigit", "{{ m.isdigit() }}", "{False}"},
    {"islower", "{{ m.islower() }}", "{False}"},
    {"isnumeric", "{{ m.isnumeric() }}", "{False}"},
    {"isspace", "{{ m.isspace() }}", "{False}"},
    {"isupper", "{{ m.isupper() }}", "{False}"},
    {"join", "{{ '-'.join([m, 'o']) }}{{ w.join(['o', 'p']) }}", "{aB c}-oo{w}p"},
    {"ljust", "{{ m.ljust(5, '-') }}", "{aB c}-"},
    {"lower", "{{ m.lower() }}", "{ab c}"},
    {"lstrip", "{{ m.lstrip('a') }}{{ (w ~ 'o').lstrip('w') }}{{ 'own'.lstrip(w) }}", "{B c}o{own}"},
    {"partition", "{{ (m ~ 'o').partition('B')|join('-') }}", "{a}-{B}-{ c}o"},
    {"removeprefix", "{{ (m ~ 'o').removeprefix('a') }};{{ 'wo'.removeprefix(w) }}", "{B c}o;{o}"},
    {"removesuffix", "{{ ('o' ~ m).removesuffix('c') }};{{ 'ow'.removesuffix(w) }}", "o{aB };{o}"},
    {"replace", "{{ m.replace('B', 'o') }};{{ 'own'.replace(w, '') }}", "{a}o{ c};{on}"},
    {"rfind", "{{ m.rfind('B') }}", "{1}"},
    {"rjust", "{{ m.rjust(5, '-') }}", "-{aB c}"},
    {"rpartition", "{{ ('o' ~ m).rpartition('B')|join('-') }}", "o{a}-{B}-{ c}"},
    {"rsplit", "{{ ('o' ~ m).rsplit(' ')|join('-') }};{{ 'own'.rsplit(w)|join('-') }};{{ m.rsplit()|join('-') }}",
     "o{aB}-{c};{o}-{n};{aB}-{c}"},
    {"rstrip", "{{ m.rstrip('c') }}{{ (m ~ ' ').rstrip() }}", "{aB aB c}"},
    {"split", "{{ ('o' ~ m).split(' ')|join('-') }};{{ 'own'.split(w)|join('-') }};{{ m.split()|join('-') }}",
     "o{aB}-{c};{o}-{n};{aB}-{c}"},
    {"splitlines", "{{ (m ~ '\\no').splitlines()|join('-') }}", "{aB c}-o"},
    {"startswith", "{{ m.startswith('a') }}", "{True}"},
    {"strip", "{{ (' ' ~ m).strip() }}{{ 'own'.strip(w) }}", "{aB cown}"},
    {"swapcase", "{{ m.swapcase() }}", "{Ab C}"},
    {"title", "{{ m.title() }}", "{Ab C}"},
    {"upper", "{{ m.upper() }}", "{AB C}"},
    {"zfill", "{{ m.zfill(5) }}{{ '-1'.zfill(4) }}", "{0aB c}-{00}1"},
};

void expect_rows(std::span<const Row> rows) {
  for (const Row& row : rows) EXPECT_EQ(marked(row.source), row.expected) << row.source;
}

template <typename Table>
void expect_rows_for_all(const Table& table, std::span<const Row> rows, std::size_t& found) {
  for (const auto& entry : table) {
    ++found;
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const Row& row) { return row.name == entry.name; }))
        << entry.name << " has no row here that shows which of its result is foreign";
  }
}

TEST(Marks, OfEachFilterAreThoseOfItsInput) { expect_rows(filter_rows); }
TEST(Marks, OfEachMethodAreThoseOfItsInput) { expect_rows(method_rows); }

TEST(Marks, AreHeldForEveryFilterAndMethod) {
  std::size_t filters = 0, methods = 0;
  for (const auto table : {jinja::text_filters(), jinja::number_filters(), jinja::sequence_filters(), jinja::selection_filters()})
    expect_rows_for_all(table, filter_rows, filters);
  for (const auto table : {jinja::text_methods(), jinja::text_search_methods()}) expect_rows_for_all(table, method_rows, methods);
  EXPECT_GE(filters, 40u);
  EXPECT_GE(methods, 33u);
}

TEST(Marks, OfEachOperatorAndTagAreThoseOfWhatTheyRead) {
  const Row rows[] = {
      {"~", "{{ 'o' ~ m ~ 'p' ~ 1 ~ nothing ~ 'q' }}", "o{aB c}p{1}q"},
      {"empty", "o{{ nothing }}p{{ u }}q", "o{}pq"},
      {"+", "{{ 'o' + m }}{{ m + w }}{{ 'o' + 'p' }}", "o{aB caB cw}op"},
      {"*", "{{ m * 2 }}{{ 'o' * 2 }}{{ ('o' ~ w) * 2 }}", "{aB caB c}oo{owow}"},
      {"%", "{{ 'o%s' % m }}{{ m % () }}{{ '%d%%' % 5 }}", "o{aB caB c5}%"},
      {"[]", "{{ m[1] }}{{ ('o' ~ m)[0] }}{{ ('o' ~ m)[1] }}", "{B}o{a}"},
      {"[:]", "{{ ('o' ~ m ~ 'p')[1:] }};{{ ('o' ~ m)[:1] }};{{ ('o' ~ m)[::2] }};{{ ('ow' ~ m)[0:1] }}", "{aB c}p;o{};o{Bc};o"},
      {"for", "{% for c in 'o' ~ w %}{{ c }},{% endfor %}", "o{},{w},"},
      {"set", "{% set x %}o{{ m }}p{% endset %}{{ x }}{% set y = x %}{{ y }}", "o{aB c}po{aB c}p"},
      {"set filter", "{% set x | upper %}o{% endset %}{{ x }}{% set y | upper %}o{{ m }}{% endset %}{{ y }}", "O{OAB C}"},
      {"filter", "{% filter trim %} o{{ m }} {% endfilter %}", "o{aB c}"},
      {"macro", "{% macro f(x, y='p') %}o{{ x }}{{ y }}{{ kwargs }}{{ varargs }}{% endmacro %}{{ f(m) }}", "o{aB c}p{{}()}"},
      {"with", "{% with x = m %}{{ x }}{% endwith %}", "{aB c}"},
      {"namespace", "{% set s = namespace(x='o') %}{% set s.x = s.x ~ m %}{{ s.x }}", "o{aB c}"},
      {"if", "{{ m if m else 'o' }}{{ 'o' if m else m }}{{ nothing or 'p' }}", "{aB c}op"},
      {"list", "{{ [m, 'o'][1] }}{{ [m, 'o'] }}{{ ('o',) }}", "o{['aB c', 'o']('o',)}"},
      {"dict", "{{ {'aB c': 'o'}[m] }}{{ {'k': m}.get('k') }}{{ {'k': m} }}{{ dict(k='o').k }}", "o{aB c{'k': 'aB c'}}o"},
      {"dict", "{% for k in {m: 1} %}{{ k }}{% endfor %}{% for k, v in {'o': m}.items() %}{{ k }}{{ v }}{% endfor %}", "{aB c}o{aB c}"},
      {"dict", "{{ {'o': m}.keys()|first }}{{ {'o': m}.values()|first }}{{ {'o': m}.copy().o }}", "o{aB caB c}"},
      {"**", "{% macro f() %}{{ kwargs }}{% endmacro %}{{ f(**{'k': 'o'}) }}", "{{'k': 'o'}}"},
      {"loop", "{% for x in [m, 'o'] %}{{ loop.index }}{{ loop.cycle('p', w) }}{{ loop.previtem }};{% endfor %}", "{1}p;{2waB c};"},
      {"numbers", "{{ 1 }}{{ true }}{{ nothing is none }}{{ 1.5 }}{{ m|length + 1 }}", "{1TrueFalse1.55}"},
      {"strftime", "{{ strftime_now('%Y') }}{{ strftime_now(m) }}", "2000{aB c}"}};
  TemplateOptions options;
  options.now = std::tm{};
  options.now->tm_year = 100;
  options.now->tm_mday = 1;
  for (const Row& row : rows) EXPECT_EQ(marked(row.source, options), row.expected) << row.source;
}

TEST(Marks, OfAVariableOfTheCallerAreForeignAndThoseOfTheFileAreNot) {
  TemplateOptions options;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.variables["v"] = "text";
  options.variables["i"] = std::int64_t{7};
  EXPECT_EQ(marked("{{ bos_token }}{{ v }}{{ eos_token }}{{ i }}", options), "<s>{text}</s>{7}");
}

TEST(Marks, OfARoleThatChatsKnowAreTheTemplatesOwn) {
  EXPECT_EQ(marked("{% for x in messages %}<|{{ x.role }}|>{% endfor %}"), "<|user|><|{<i>}|><|{User}|><|tool|>");
}

// 100,000 letters, each with one of the template's behind it: 200,000 bytes of text, of which a builder holds less than
// four times as much while it grows. Marks of the letters take 16 bytes each, which no longer fits.
TEST(Marks, AreChargedToTheMemoryOfARender) {
  TemplateOptions options;
  options.limits.memory_bytes = 1'000'000;
  const auto render = [&](const std::string& letter) {
    const std::string source = "{%- set x -%}{%- for i in range(1000) -%}{%- for j in range(100) -%}o{{ " + letter +
                               " }}{%- endfor -%}{%- endfor -%}{%- endset -%}{{ x|length }}";
    return ChatTemplate::parse(source, "t").render({{"user", "w"}}, options);
  };
  EXPECT_EQ(render("'w'"), "200000");
  EXPECT_ANY_THROW(render("messages[0].content"));
}

}  // namespace
}  // namespace quern
