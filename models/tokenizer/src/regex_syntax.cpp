// Regular expressions as trees.
#include "regex_syntax.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace quern::tokenizer {
namespace {

constexpr std::size_t most_pattern_bytes = 16 << 10, most_sets = 512;
constexpr std::uint32_t most_repeats = 1000;
constexpr int deepest_group = 64;

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : pattern_(pattern) {}

  RegexTree parse() {
    if (pattern_.size() > most_pattern_bytes)
      throw Error(QUERN_UNSUPPORTED, concat("an expression has ", pattern_.size(), " bytes; at most ", most_pattern_bytes, " are read"));
    tree_.root = alternation({}, 0);
    if (!at_end()) malformed("has a ')' too many");
    return std::move(tree_);
  }

 private:
  struct Options {
    bool ignore_case = false, dot_all = false;
  };

  [[noreturn]] void unsupported(std::string_view what) const {
    throw Error(QUERN_UNSUPPORTED, concat("the expression ", in_quotes(pattern_, 120), " has ", what, ", which is not computed here"));
  }
  [[noreturn]] void malformed(std::string_view what) const {
    throw Error(QUERN_BAD_MODEL, concat("the expression ", in_quotes(pattern_, 120), " ", what));
  }

  bool at_end() const noexcept { return at_ == pattern_.size(); }
  bool sees(std::string_view text) const noexcept { return pattern_.substr(at_).starts_with(text); }
  bool take(std::string_view text) noexcept {
    if (!sees(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_code() {
    const Char c = decode_char(pattern_, at_);
    if (c.length == 0) malformed("ends too early");
    if (!c.valid) malformed("is not UTF-8");
    at_ += c.length;
    return c.code;
  }

  RegexNode set_node(CharSet set) {
    RegexNode node{.kind = RegexNode::Kind::set};
    const auto known = std::ranges::find(tree_.sets, set);
    node.set = static_cast<std::size_t>(known - tree_.sets.begin());
    if (known == tree_.sets.end()) {
      if (tree_.sets.size() == most_sets) unsupported(concat("more than ", most_sets, " sets of characters"));
      tree_.sets.push_back(std::move(set));
    }
    return node;
  }

  RegexNode literal(char32_t code, Options options) {
    if (!options.ignore_case) return set_node(CharSet::one(code));
    recent_ += code;
    if (ends_like_one_character(recent_)) unsupported("letters without case that one character may stand for (such as 'ss')");
    return set_node(CharSet::one(code).without_case());
  }

  RegexNode alternation(Options options, int depth) {
    if (depth > deepest_group) unsupported(concat("groups nested deeper than ", deepest_group));
    RegexNode all{.kind = RegexNode::Kind::alternation};
    do {
      recent_.clear();
      all.children.push_back(sequence(options, depth));
    } while (take("|"));
    recent_.clear();
    return all.children.size() == 1 ? std::move(all.children[0]) : std::move(all);
  }

  RegexNode sequence(Options options, int depth) {
    RegexNode all;
    while (!at_end() && !sees("|") && !sees(")")) {
      if (const std::optional<Options> changed = option_switch(options)) {  // until the group ends, alternatives included
        all.children.push_back(alternation(*changed, depth + 1));
        break;
      }
      if (take("(?#")) {
        while (!take(")")) take_code();
        continue;
      }
      all.children.push_back(repeated(atom(options, depth)));
    }
    return all;
  }

  /// The letters of "(?i-m:" or "(?i)"; behind them is ':' or ')'.
  std::optional<Options> option_letters(Options options, char end) {
    const std::size_t start = at_;
    if (!take("(?")) return std::nullopt;
    bool on = true;
    for (; !at_end() && pattern_[at_] != end; ++at_) {
      const char c = pattern_[at_];
      if (c == '-') on = false;
      else if (c == 'i') options.ignore_case = on;
      else if (c == 'm') options.dot_all = on;
      else break;
    }
    if (!at_end() && pattern_[at_] == end) {
      ++at_;
      return options;
    }
    at_ = start;
    return std::nullopt;
  }
  std::optional<Options> option_switch(Options options) { return option_letters(options, ')'); }

  RegexNode group(Options options, int depth) {
    const auto inside = [&](Options with) {
      RegexNode node = alternation(with, depth + 1);
      if (!take(")")) malformed("has a group without its ')'");
      return node;
    };
    const auto look = [&](bool ahead, bool negative) {
      RegexNode node{.kind = RegexNode::Kind::look, .ahead = ahead, .negative = negative};
      node.children.push_back(inside(options));
      return node;
    };
    if (take("(?=")) return look(true, false);
    if (take("(?!")) return look(true, true);
    if (take("(?<=")) return look(false, false);
    if (take("(?<!")) return look(false, true);
    if (take("(?>")) {
      RegexNode node{.kind = RegexNode::Kind::atomic};
      node.children.push_back(inside(options));
      return node;
    }
    if (const std::optional<Options> changed = option_letters(options, ':')) return inside(*changed);
    if (sees("(?<") || sees("(?'")) unsupported("a named group");
    if (sees("(?")) unsupported(concat("the group ", in_quotes(pattern_.substr(at_, 3))));
    if (sees("(*")) unsupported("a callout '(*'");
    take("(");
    return inside(options);
  }

  RegexNode anchor(RegexNode::Anchor which) {
    recent_.clear();
    return {.kind = RegexNode::Kind::anchor, .anchor = which};
  }

  RegexNode atom(Options options, int depth) {
    using enum RegexNode::Anchor;
    if (sees("(")) return group(options, depth);
    if (sees("[")) {
      recent_.clear();
      ++at_;
      return set_node(class_set(options, depth));
    }
    if (take("^")) return anchor(line_start);
    if (take("$")) return anchor(line_end);
    if (take(".")) {
      recent_.clear();
      return set_node(options.dot_all ? ~CharSet() : ~CharSet::one('\n'));
    }
    if (sees("*") || sees("+") || sees("?")) malformed("repeats nothing");
    if (!take("\\")) return literal(take_code(), options);
    if (take("A")) return anchor(text_start);
    if (take("z")) return anchor(text_end);
    if (take("Z")) return anchor(text_end_or_newline);
    if (take("b")) return anchor(word_bound);
    if (take("B")) return anchor(no_word_bound);
    if (std::optional<CharSet> set = escaped_set(false)) {
      recent_.clear();
      return set_node(std::move(*set));
    }
    return literal(escaped_code(), options);
  }

  /// Behind a backslash: \s, \P{L} and the like.
  std::optional<CharSet> escaped_set(bool in_brackets) {
    const auto either = [](bool negative, CharSet set) { return negative ? ~set : std::move(set); };
    if (sees("p") || sees("P")) {
      const bool capital = pattern_[at_++] == 'P';
      if (!take("{")) malformed("has a '\\p' without '{'");
      const bool negative = take("^");
      const std::size_t end = pattern_.find('}', at_);
      if (end == pattern_.npos) malformed("has a '\\p{' without '}'");
      const std::string_view name = pattern_.substr(at_, end - at_);
      at_ = end + 1;
      const std::optional<CharSet> set = named_set(name);
      if (!set) unsupported(concat("the property ", in_quotes(name, 32), "; known are ", named_sets));
      return either(capital != negative, *set);
    }
    for (const auto& [letters, make] :
         {std::pair("sS", &space_set), {"dD", &digit_set}, {"wW", in_brackets ? &word_set : &lone_word_set}, {"hH", &hex_digit_set}}) {
      if (take({letters, 1})) return make();
      if (take({letters + 1, 1})) return ~make();
    }
    return std::nullopt;
  }

  char32_t hexadecimal(std::size_t least, std::size_t most) {
    char32_t code = 0;
    std::size_t digits = 0;
    for (; digits < most && !at_end(); ++digits, ++at_) {
      const char c = pattern_[at_];
      const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (value < 0) break;
      code = code * 16 + static_cast<char32_t>(value);
    }
    if (digits < least || code > CharSet::last_code) malformed("has a code of a character that is none");
    return code;
  }

  /// Behind a backslash: \n, \x{2581}, \. and the like.
  char32_t escaped_code() {
    constexpr std::pair<char, char32_t> controls[] = {{'t', 9}, {'n', 10}, {'v', 11}, {'f', 12}, {'r', 13}, {'a', 7}, {'e', 27}};
    for (const auto& [letter, code] : controls)
      if (take({&letter, 1})) return code;
    if (take("x{")) {
      const char32_t code = hexadecimal(1, 8);
      if (!take("}")) malformed("has a '\\x{' without '}'");
      return code;
    }
    if (take("x")) {
      const char32_t code = hexadecimal(1, 2);
      if (code >= 0x80) unsupported("a byte beyond ASCII as '\\x'");
      return code;
    }
    if (take("u")) return hexadecimal(4, 4);
    const char32_t code = take_code();
    const bool is_letter = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
    if (code >= '0' && code <= '9') unsupported(concat("the back-reference or octal code '\\", static_cast<char>(code), "'"));
    if (is_letter) unsupported(concat("the escape '\\", static_cast<char>(code), "'"));
    return code;
  }

  /// Behind the '[', up to behind the ']'.
  CharSet class_set(Options options, int depth) {
    if (depth > deepest_group) unsupported(concat("sets nested deeper than ", deepest_group));
    const bool negative = take("^");
    if (sees("]")) unsupported("a set that starts with ']'");
    std::optional<CharSet> all;  // what stood in front of the last '&&'
    CharSet part;
    const auto intersected = [&] { return all ? *all & part : part; };
    while (!take("]")) {
      if (take("&&")) {
        all = intersected();
        part = CharSet();
      } else {
        part = part | class_item(options, depth, negative);
      }
    }
    const CharSet set = intersected();
    return negative ? ~set : set;
  }

  CharSet class_item(Options options, int depth, bool negative) {
    if (sees("[:")) unsupported(concat("the POSIX set ", in_quotes(pattern_.substr(at_, 12))));
    if (take("[")) return class_set(options, depth + 1);
    const auto item = [&](CharSet set) {
      if (!options.ignore_case) return set;
      if (!negative && set.stands_for_several()) unsupported("a set without case with letters that stand for several (such as U+00DF)");
      return set.without_case();
    };
    const std::size_t start = at_;
    if (take("\\")) {
      if (std::optional<CharSet> set = escaped_set(true)) return item(std::move(*set));
      at_ = start;
    }
    const char32_t first = class_code();
    char32_t last = first;
    if (sees("-") && !pattern_.substr(at_).starts_with("-]")) {
      ++at_;
      const std::size_t behind = at_;
      if (sees("[") || sees("&&") || (take("\\") && escaped_set(true))) unsupported("a range that ends in a set");
      at_ = behind;
      last = class_code();
      if (last < first) malformed("has a range whose ends are exchanged");
    }
    return item(CharSet({{first, last}}));
  }

  char32_t class_code() {
    if (!take("\\")) return take_code();
    return take("b") ? 8 : escaped_code();
  }

  std::optional<std::pair<std::uint32_t, std::uint32_t>> interval() {
    const std::size_t start = at_;
    const auto number = [&]() -> std::optional<std::uint32_t> {
      std::uint32_t value = 0;
      const std::size_t first = at_;
      for (; !at_end() && pattern_[at_] >= '0' && pattern_[at_] <= '9'; ++at_)
        value = std::min<std::uint32_t>(value * 10 + static_cast<std::uint32_t>(pattern_[at_] - '0'), most_repeats + 1);
      return at_ == first ? std::nullopt : std::optional(value);
    };
    if (take("{")) {
      const auto least = number();
      const bool comma = take(",");
      const auto most = comma ? number() : least;
      if ((least || most) && take("}")) {
        if (least.value_or(0) > most_repeats || most.value_or(0) > most_repeats)
          unsupported(concat("more than ", most_repeats, " repetitions"));
        if (most && least.value_or(0) > *most) unsupported("an interval whose ends are exchanged");
        return std::pair(least.value_or(0), most.value_or(RegexNode::no_most));
      }
    }
    at_ = start;
    return std::nullopt;
  }

  RegexNode repeated(RegexNode node) {
    using Mode = RegexNode::Mode;
    const auto wrap = [&](std::uint32_t least, std::uint32_t most, Mode mode) {
      if (node.kind == RegexNode::Kind::anchor || node.kind == RegexNode::Kind::look)
        unsupported("a repetition of what takes no character");
      RegexNode outer{.kind = RegexNode::Kind::repeat, .least = least, .most = most, .mode = mode};
      outer.children.push_back(std::move(node));
      node = std::move(outer);
      recent_.clear();
    };
    for (int count = 0;; ++count) {
      if (count > 8) unsupported("more than eight repetitions of repetitions");
      if (sees("*") || sees("+") || sees("?")) {
        const char sign = pattern_[at_++];
        const Mode mode = take("?") ? Mode::lazy : take("+") ? Mode::possessive : Mode::greedy;
        wrap(sign == '+' ? 1 : 0, sign == '?' ? 1 : RegexNode::no_most, mode);
      } else if (const auto bounds = interval()) {
        // x{n}? is (?:x{n})? in this syntax, and x{n,m}+ is (?:x{n,m})+.
        const bool lazy = bounds->first != bounds->second && take("?");
        wrap(bounds->first, bounds->second, lazy ? Mode::lazy : Mode::greedy);
      } else {
        return node;
      }
    }
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  RegexTree tree_;
  std::u32string recent_;  // letters without case that follow one another
};

}  // namespace

RegexTree parse_regex(std::string_view pattern) { return RegexParser(pattern).parse(); }

}  // namespace quern::tokenizer
