#include "hostile_templates.hpp"

namespace quern {
namespace {

std::string repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// The statement as often as a loop of loops can run it.
std::string for_ever(const std::string& body) {
  return "{% for i in range(100000) %}{% for j in range(100000) %}" + body + "{% endfor %}{% endfor %}";
}

// `n.x` doubled this many times, so that its parts are shared and its walks are exponential.
std::string doubled(const std::string& start, const std::string& step, int times) {
  return "{% set n = namespace(x=" + start + ") %}{% for i in range(" + std::to_string(times) + ") %}{% set n.x = " + step +
         " %}{% endfor %}";
}

const std::string text = "{% set s = 'ab' * 10000000 %}";            // 20 MB
const std::string letters = "{% set s = 'aB' * 2000000 %}";          // 4 MB, which case changes at once
const std::string list = "{% set l = range(100000)|list %}";         // 100,000 numbers
const std::string texts = "{% set l = ('ab ' * 100000).split() %}";  // 100,000 texts
const std::string tuples = doubled("(1,)", "(n.x, n.x)", 60);
const std::string lists = doubled("[1]", "[n.x, n.x]", 60);
const std::string maps = doubled("{1: 2}", "{1: n.x, 2: n.x}", 60);
const std::string twice = doubled("(1,)", "(n.x, n.x)", 60) + "{% set a = n.x %}" + tuples;

}  // namespace

std::vector<HostileTemplate> hostile_templates() {
  return {
      // Walks over shared parts.
      {"a key of shared tuples", tuples + "{% set d = {n.x: 1} %}{{ d[n.x] }}"},
      {"a key of shared tuples with a list inside", doubled("([],)", "(n.x, n.x)", 60) + "{% set d = {n.x: 1} %}"},
      {"a key of shared tuples asked for", tuples + "{% set d = {1: 1} %}{{ d.get(n.x) }}{{ n.x in d }}"},
      {"equality of shared tuples", twice + "{{ a == n.x }}"},
      {"order of shared tuples", twice + "{{ a < n.x }}"},
      {"equality of shared lists", lists + "{% set a = n.x %}" + lists + "{{ a == n.x }}"},
      {"equality of shared mappings", maps + "{% set a = n.x %}" + maps + "{{ a == n.x }}"},
      {"views of shared mappings", maps + "{% set a = n.x %}" + maps + "{{ a.items() == n.x.items() }}"},
      {"membership of shared tuples", twice + "{{ a in [n.x] }}"},
      {"unique over shared tuples", twice + "{{ [a, n.x]|unique|list|length }}"},
      {"sort of shared tuples", twice + "{{ [a, n.x, a]|sort|length }}"},
      {"max of shared tuples", twice + "{{ [a, n.x, a]|max|length }}"},
      {"count of shared tuples", twice + "{{ [a, n.x].count(n.x) }}"},
      {"index of shared tuples", twice + "{{ [1, a].index(n.x) }}"},
      {"text of shared lists", lists + "{{ n.x }}"},
      {"JSON of shared lists", lists + "{{ n.x|tojson }}"},
      {"JSON of shared mappings, sorted and indented", maps + "{{ n.x|tojson(indent=8, sort_keys=true) }}"},
      {"text of shared mappings", maps + "{{ n.x|string|length }}"},
      {"format of shared lists", lists + "{{ '%r' % [n.x] }}"},
      {"join of shared lists", lists + "{{ n.x|join(',') }}"},
      {"deep values given back", for_ever("{% set n = namespace(x=[]) %}{% for k in range(190) %}{% set n.x = [n.x] %}{% endfor %}")},
      // Work on long texts in one step.
      {"truth of a long text", text + for_ever("{% if s %}{% endif %}")},
      {"length of a long text", text + for_ever("{% if s|length %}{% endif %}")},
      {"equality of long texts", text + "{% set t = s ~ '' %}" + for_ever("{% if s == t %}{% endif %}")},
      {"order of long texts", text + "{% set t = s ~ 'x' %}" + for_ever("{% if s < t %}{% endif %}")},
      {"a long text in a longer one", text + "{% set t = 'ab' * 1000000 ~ 'b' %}" + for_ever("{% if t in s %}{% endif %}")},
      {"a text of one letter in itself",
       "{% set s = 'a' * 20000000 %}{% set t = 'b' ~ 'a' * 254 %}" + for_ever("{% if t in s %}{% endif %}")},
      {"a long needle that nearly matches", "{% set s = 'a' * 20000000 %}{% set t = 'a' * 5000000 ~ 'b' %}{{ t in s }}{{ s.rfind(t) }}"},
      {"rfind that nearly matches", "{% set s = 'a' * 20000000 %}{% set t = 'a' * 100 ~ 'b' %}" + for_ever("{% set x = s.rfind(t) %}")},
      {"rsplit that nearly matches", "{% set s = 'ab' * 10000000 %}" + for_ever("{% set x = s.rsplit('abb') %}")},
      {"rpartition of a long text", text + for_ever("{% set x = s.rpartition('c') %}")},
      {"partition of a long text", text + for_ever("{% set x = s.partition('c') %}")},
      {"upper, lower, title", letters + for_ever("{% set x = s|upper|lower|title %}")},
      {"swapcase and capitalize", letters + for_ever("{% set x = s.swapcase().capitalize() %}")},
      {"capital sigmas between marks", "{% set s = (\"Σ\" ~ \"'\" * 5000) * 400 %}" + for_ever("{% set x = s|lower %}")},
      {"strip of a set", "{% set s = 'é' * 10000000 %}{% set t = 'èêëç' * 100000 ~ 'é' %}" + for_ever("{% set x = s.strip(t) %}")},
      {"trim of spaces", "{% set s = ' ' * 20000000 %}" + for_ever("{% set x = s|trim %}")},
      {"trim of wide spaces", "{% set s = '\\u2003' * 8000000 %}" + for_ever("{% set x = s.rstrip() %}")},
      {"isalpha and isupper", letters + for_ever("{% set x = s.isalpha() and s.isupper() %}")},
      {"escape", "{% set s = '<' * 4000000 %}" + for_ever("{% set x = s|escape %}")},
      {"markup that grows", "{% set n = namespace(s='<'|safe) %}{% for i in range(100000) %}{% set n.s = n.s + '<' * 10000 %}{% endfor %}"},
      {"repr of control characters", "{% set s = '\\x01' * 10000000 %}{{ [s] }}"},
      {"JSON of quotes", "{% set s = '\"' * 10000000 %}" + for_ever("{% set x = s|tojson %}")},
      {"JSON in ASCII", "{% set s = '😀' * 3000000 %}" + for_ever("{% set x = s|tojson(ensure_ascii=true) %}")},
      {"int of a long number", "{% set s = '1' * 10000000 %}" + for_ever("{% set x = s|float %}")},
      {"int of zeros", "{% set s = '0' * 10000000 %}" + for_ever("{% set x = s|int %}")},
      {"int of underscores", "{% set s = '1_' * 5000000 %}" + for_ever("{% set x = s|int(base=36) %}")},
      {"replace of nothing", text + "{{ s|replace('', '-')|length }}"},
      {"replace of each letter", text + for_ever("{% set x = s.replace('a', '') %}")},
      {"count of each letter", text + for_ever("{% set x = s.count('a') %}")},
      {"find far away", text + for_ever("{% set x = s.find('c', 1, 19999999) %}")},
      {"an index into a long text", text + for_ever("{% set x = s[15000000] %}")},
      {"the last of a long text", text + for_ever("{% set x = s|last %}")},
      {"slices of a long text", text + for_ever("{% set x = s[1:-1] %}")},
      {"slices with a step", text + for_ever("{% set x = s[::-3] %}")},
      {"a slice with a long step", text + for_ever("{% set x = s[::9223372036854775807] %}")},
      {"reverse of a long text", text + "{{ s|reverse|reverse|length }}"},
      {"startswith of a long tuple", letters + "{% set t = ('x',) * 100000 %}" + for_ever("{% set x = s.startswith(t) %}")},
      {"indent of newlines", "{% set s = '\\n' * 3000000 %}{{ s|indent(50, true, true)|length }}"},
      {"indent by a text", "{% set s = 'a\\n' * 1000 %}" + for_ever("{% set x = s|indent('ab' * 1000) %}")},
      {"lines of newlines", "{% set s = '\\n' * 31000000 %}{{ s.splitlines()|length }}"},
      {"lines kept with their ends", "{% set s = '\\r\\n' * 15000000 %}{{ s.splitlines(true)|length }}"},
      {"split at each letter", "{% set s = 'a' * 31000000 %}{{ s.split('a')|length }}"},
      {"split at spaces", "{% set s = 'a ' * 15000000 %}{{ s.split()|length }}"},
      {"rsplit at spaces", "{% set s = ' a' * 15000000 %}{{ s.rsplit()|length }}"},
      {"characters of a text", text + "{{ s|list|length }}"},
      {"a loop over a text", text + "{% for c in s %}{{ c }}{% endfor %}"},
      {"a loop over a text for ever", "{% set s = 'ab' * 50000 %}" + for_ever("{% for c in s %}{% endfor %}")},
      {"join of many", list + for_ever("{% set x = l|join(',') %}")},
      {"join with a long separator", "{% set s = 'ab' * 1000000 %}{{ range(100000)|join(s) }}"},
      {"concatenation that doubles", doubled("'ab'", "n.x ~ n.x", 64)},
      {"concatenation one by one", doubled("''", "n.x ~ 'abcdefgh' * 100", 100000)},
      {"addition that doubles", doubled("'ab'", "n.x + n.x", 64)},
      {"lists that double", doubled("[1]", "n.x + n.x", 64)},
      {"lists one by one", doubled("[1]", "n.x + [i]", 100000)},
      {"a text many times", "{{ 'a' * 9223372036854775807 }}"},
      {"nothing many times", "{{ '' * 9223372036854775807 }}{{ [] * 9223372036854775807 }}"},
      {"a list many times", "{% set l = [1, 2, 3] * 900000 %}{{ l|length }}{{ (l + l)|length }}"},
      {"center, ljust, rjust, zfill",
       for_ever(
           "{% set x = 'a'.center(9000000)|length + 'a'.ljust(9000000, 'é')|length %}{% set x = 'a'.rjust(9000000).zfill(9100000) %}")},
      {"widths of formats", for_ever("{% set x = '%1000000s%1000000d%.1000000d' % ('a', 1, 2) %}")},
      {"formats without end", "{% set s = '%s' * 10000000 %}{{ s % ((1,) * 2000000) }}"},
      {"flags of a format", "{% set s = '%' ~ ' ' * 20000000 ~ 'd' %}" + for_ever("{% set x = s % 1 %}")},
      {"keys of a format",
       "{% set k = 'k' * 10000000 %}{% set d = {k: 1} %}{% set s = '%(' ~ k ~ ')s' %}" + for_ever("{% set x = s % d %}")},
      {"decimals of a format", for_ever("{% set x = '%.1000f%.1000e' % (1e308, 1e-308) %}")},
      {"precision of a long text", text + for_ever("{% set x = '%.1s' % s %}")},
      {"the time of a long format", "{% set s = '%c' * 1000000 %}{{ strftime_now(s)|length }}"},
      // Work on long sequences and mappings.
      {"membership in a long list", list + for_ever("{% if -1 in l %}{% endif %}")},
      {"sort", texts + for_ever("{% set x = l|sort %}")},
      {"sort by attributes", "{% set l = [{'a': 1, 'b': 2}] * 100000 %}" + for_ever("{% set x = l|sort(attribute='a,b') %}")},
      {"sort by a long path",
       "{% set l = [[[]]] * 100000 %}{% set p = '0.' * 1000000 ~ '0' %}{{ l|map(attribute=p, default=l)|list|length }}"},
      {"a path of many parts", "{% set p = 'a.' * 10000000 ~ 'a' %}{{ [{}]|map(attribute=p)|list|length }}"},
      {"many paths", "{% set p = 'a,' * 10000000 ~ 'a' %}{{ [{}]|sort(attribute=p)|length }}"},
      {"an index of many digits", "{% set p = '1' * 10000000 %}{{ [[]]|map(attribute=p)|list|length }}"},
      {"unique", list + "{{ l|unique|list|length }}"},
      {"dictsort", "{% set d = dict([(1, 2), (2, 3), (3, 1)]) %}" + for_ever("{% set x = d|dictsort(by='value')|map('last')|list %}")},
      {"a mapping of many keys",
       list + "{% set d = dict(l|map('string')|map('list')) %}{% set e = dict([(1, 2)] * 100000) %}" + for_ever("{% set x = dict(e) %}")},
      {"a mapping of long keys",
       "{% set k = 'k' * 5000000 %}{% set d = {k ~ 1: 1, k ~ 2: 2, k ~ 3: 3} %}" + for_ever("{% set x = d[k ~ 3] %}")},
      {"items, keys and values",
       "{% set d = dict([(1, 2)] * 100000) %}" + for_ever("{% set x = d.items()|list + d.keys()|list + d.values()|list %}")},
      {"sum of lists", "{{ ([[1] * 1000] * 100000)|sum(start=[])|length }}"},
      {"sum of numbers", list + for_ever("{% set x = l|sum %}")},
      {"min, max", list + for_ever("{% set x = l|min + l|max %}")},
      {"map, select, reject", list + for_ever("{% set x = l|map('string')|select|reject('none')|map('length')|list %}")},
      {"map of maps", list + for_ever("{% set x = [l]|map('map', 'list')|list %}")},
      {"selectattr", "{% set l = [{'a': 1}] * 100000 %}" + for_ever("{% set x = l|selectattr('a', 'eq', 2)|list %}")},
      {"arguments of map", "{% set l = [1] * 100000 %}" + for_ever("{% set x = [1]|map('default', *l)|list %}")},
      {"ranges of ranges", for_ever("{% set x = range(100000) %}")},
      {"ranges at the ends of integers",
       "{% set r = range(9223372036854775000, 9223372036854775807, 500) %}" + for_ever("{% if r[::-1] == r[::-2] %}{% endif %}")},
      {"slices of a list", list + for_ever("{% set x = l[::-1][::2] %}")},
      {"reverse of a list", list + for_ever("{% set x = l|reverse|list %}")},
      {"powers", for_ever("{% set x = 3 ** 39 + 2 ** 62 + (7 ** 0.5) ** 9 %}")},
      {"lists of lists", for_ever("{% set x = [[[[]], [[]]], [[[]], [[]]]] %}")},
      {"JSON with a wide indent", "{% set x = [[[[[[1] * 100] * 10] * 10]]] %}{{ x|tojson(indent=100000)|length }}"},
      {"JSON with a long separator", "{% set s = 'ab' * 1000000 %}{{ ([1] * 100000)|tojson(separators=(s, s))|length }}"},
      // Calls, scopes and loops.
      {"loops of loops", for_ever("")},
      {"loops that pull", list + for_ever("{% for x in l if x < 0 %}{% endfor %}")},
      {"loops that ask for their length",
       list + for_ever("{% for x in l if true %}{% set y = loop.length + loop.revindex %}{% break %}{% endfor %}")},
      {"loops that are kept",
       "{% set n = namespace(l=[]) %}{% for i in range(100000) %}{% for j in [1] %}{% set n.l = [n.l, loop] if i % 100 else [loop] %}{% macro m() %}{{ loop.index }}{% endmacro %}{% endfor %}{% endfor %}"},
      {"a loop that neither ends nor begins",
       "{% set l = 'a' * 100000 %}" + for_ever("{% for a in l if a == 'b' %}{% else %}{% endfor %}")},
      {"macros that call themselves twice", "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"},
      {"a macro that grows its text",
       "{% macro f(n, s) %}{% if n %}{{ f(n - 1, s ~ s) }}{{ s }}{% endif %}{% endmacro %}{{ f(60, 'ab') }}"},
      {"a loop that calls itself twice", "{% for n in [[[60]]] recursive %}{{ loop([n]) }}{{ loop([n]) }}{% endfor %}"},
      {"a loop that calls itself over more",
       "{% for n in [40] recursive %}{% if n %}{{ loop([n - 1, n - 1]) }}{{ loop([n - 1]) }}{% endif %}{% endfor %}"},
      {"keywords of a recursive default",
       "{% set m = {'a' * 20000000: 1} %}{% macro f(x=f(**m)) %}{{ kwargs|length }}{% endmacro %}{{ f(**m) }}"},
      {"keywords without end",
       "{% set n = namespace(m={}) %}{% macro f() %}{{ kwargs|length }}{% endmacro %}{% for i in range(1000) %}{% set n.m = dict(n.m, **{'k' ~ i: i}) %}{% endfor %}" +
           for_ever("{{ f(**n.m) }}")},
      {"arguments without end", list + "{% macro f() %}{{ varargs|length }}{% endmacro %}" + for_ever("{{ f(*l) }}")},
      {"defaults that are long", "{% macro f(a='ab' * 100000, b=a ~ a, c=b ~ b) %}{{ c|length }}{% endmacro %}" + for_ever("{{ f() }}")},
      {"macros that keep their scopes", for_ever("{% set s = 'ab' * 1000 %}{% macro m() %}{{ s }}{% endmacro %}")},
      {"namespaces without end", for_ever("{% set n = namespace(a=1, b=2) %}")},
      {"names of a namespace", "{% set k = 'k' * 1000000 %}" + for_ever("{% set n = namespace({k ~ i: 1, k ~ j: 2}) %}")},
      {"blocks that are set", for_ever("{% set x %}{{ 'ab' * 1000 }}{% endset %}")},
      {"blocks that are filtered", for_ever("{% filter upper|lower|title %}{{ 'ab' * 1000 }}{% endfilter %}")},
      {"variables of 'with'", for_ever("{% with a = 'ab' * 1000, b = [1] * 1000 %}{% endwith %}")},
      {"generators in generators",
       "{% set n = namespace(g=[1]) %}{% for i in range(190) %}{% set n.g = [n.g]|map('list') %}{% endfor %}{{ n.g|list|length }}"},
      {"methods bound to long values", text + for_ever("{% set x = s.upper %}{% set y = s.nothing %}")},
      {"text that is output", "{% set s = 'ab' * 100000 %}" + for_ever("{{ s }}")},
      {"output one by one", for_ever("{{ i }}")},
      {"a message of raise_exception", "{% set s = 'é' * 20000000 %}{{ raise_exception(s) }}"},
      {"an undefined value of a long name", "{% set k = 'k' * 20000000 %}{% set d = {} %}" + for_ever("{% set x = d[k] %}")},
      {"a key in a message", "{{ '%(" + std::string(79, 'a') + "😀)s' % {} }}"},
      {"a directive in a message", "{% set s = 'é' * 10000000 %}{{ ('%' ~ s) % 1 }}"},
      // The source.
      {"a number of zeros and ones", "{{ " + std::string(300'000, '0') + std::string(300'000, '1') + " }}"},
      {"a number of digits and points", "{{ a" + repeat(".1", 100) + repeat(" ~ 1.5e1_0", 20'000) + " }}"},
      {"a name without end", "{{ " + std::string(1'000'000, 'n') + " }}"},
      {"names without end",
       [] {
         std::string source = "{{ [";
         for (int i = 0; i < 60'000; ++i) source += "n" + std::to_string(i) + ",";
         return source + "]|length }}";
       }()},
      {"braces that open nothing", repeat("{ {%  ", 100'000)},
      {"comments and raw sections", repeat("{# {% raw %}", 10'000) + "#}" + repeat("{% raw %}{% end {% endraw %}", 20'000)},
      {"raw sections that nearly end", "{% raw %}" + repeat("{% endraw", 100'000)},
      {"a string of escapes", "{{ '" + repeat("\\u00e9", 100'000) + "' }}"},
      {"strings that join", "{{ " + repeat("'a' ", 100'000) + " }}"},
      {"conditions without end", "{% if 0 %}" + repeat("{% elif 0 %}", 50'000) + "{% endif %}"},
      {"comparisons without end", "{{ 1" + repeat(" < 2 > 1", 50'000) + " }}"},
      {"parameters and keywords",
       [] {
         std::string source = "{% macro f(";
         for (int i = 0; i < 3000; ++i) source += (i ? ", p" : "p") + std::to_string(i);
         source += ") %}{% endmacro %}{{ f(";
         for (int i = 0; i < 3000; ++i) source += (i ? ", p" : "p") + std::to_string(2999 - i) + "=1";
         return source + ") }}";
       }()},
      {"a mapping display of many keys",
       [] {
         std::string source = "{% set d = {";
         for (int i = 0; i < 20'000; ++i) source += std::to_string(i) + ":1,";
         return source + "} %}{{ d|length }}";
       }()},
      {"calls without end", "{{ [" + repeat("a(),", 100'000) + "] }}"},
      {"brackets that stay open", "{{ " + std::string(100'000, '(') + " }}"},
  };
}

}  // namespace quern
