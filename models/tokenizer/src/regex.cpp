// Regular expressions as programs, and the matcher that runs them.
#include "regex.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <utility>

namespace quern::tokenizer {

class RegexCompiler {
 public:
  explicit RegexCompiler(Regex& regex) : regex_(regex) {}

  void compile(const RegexNode& root) {
    add(root);
    emit({Regex::Op::match});
  }

 private:
  using Op = Regex::Op;
  using Kind = RegexNode::Kind;
  using Mode = RegexNode::Mode;
  static constexpr std::size_t most_steps = 1 << 15;

  std::uint32_t here() const noexcept { return static_cast<std::uint32_t>(regex_.program_.size()); }
  std::uint32_t emit(const Regex::Step& step) {
    if (regex_.program_.size() == most_steps)
      throw Error(QUERN_UNSUPPORTED, concat("the expression ", in_quotes(regex_.pattern_, 120),
                                            " repeats parts so often that it has more than ", most_steps, " steps"));
    regex_.program_.push_back(step);
    return here() - 1;
  }

  void add(const RegexNode& node) {
    switch (node.kind) {
      case Kind::set: emit({Op::set, static_cast<std::uint32_t>(node.set)}); break;
      case Kind::concat:
        for (const RegexNode& child : node.children) add(child);
        break;
      case Kind::alternation: add_alternation(node.children); break;
      case Kind::repeat: add_repeat(node); break;
      case Kind::atomic:
        emit({Op::bar});
        add(node.children[0]);
        emit({Op::cut});
        break;
      case Kind::look: add_look(node); break;
      case Kind::anchor: emit({Op::anchor, static_cast<std::uint32_t>(node.anchor)}); break;
    }
  }

  void add_alternation(const std::vector<RegexNode>& children) {
    std::vector<std::uint32_t> ends;
    for (std::size_t i = 0; i + 1 < children.size(); ++i) {
      const std::uint32_t choice = emit({Op::either, here() + 1});
      add(children[i]);
      ends.push_back(emit({Op::jump}));
      regex_.program_[choice].b = here();
    }
    add(children.back());
    for (const std::uint32_t end : ends) regex_.program_[end].a = here();
  }

  void add_repeat(const RegexNode& node) {
    const RegexNode& body = node.children[0];
    if (node.mode == Mode::possessive || node.mode == Mode::greedy) {
      if (body.kind == Kind::set) {
        const Op op = node.mode == Mode::greedy ? Op::repeat : Op::repeat_whole;
        emit({op, static_cast<std::uint32_t>(body.set), node.least, node.most});
        return;
      }
    }
    if (node.mode == Mode::possessive) emit({Op::bar});
    for (std::uint32_t i = 0; i < node.least; ++i) add(body);
    const bool lazy = node.mode == Mode::lazy;
    const auto choose = [&](std::uint32_t choice, std::uint32_t in, std::uint32_t out) {
      regex_.program_[choice].a = lazy ? out : in;
      regex_.program_[choice].b = lazy ? in : out;
    };
    if (node.most == RegexNode::no_most) {
      const std::uint32_t loop = regex_.loops_++;
      const std::uint32_t choice = emit({Op::either});
      emit({Op::enter_loop, loop});
      add(body);
      const std::uint32_t leave = emit({Op::leave_empty, loop});
      emit({Op::jump, choice});
      regex_.program_[leave].b = here();
      choose(choice, choice + 1, here());
    } else {
      std::vector<std::uint32_t> choices;
      for (std::uint32_t i = node.least; i < node.most; ++i) {
        choices.push_back(emit({Op::either}));
        add(body);
      }
      for (const std::uint32_t choice : choices) choose(choice, choice + 1, here());
    }
    if (node.mode == Mode::possessive) emit({Op::cut});
  }

  void add_look(const RegexNode& node) {
    const std::uint32_t bar = emit({node.negative ? Op::bar_negative : Op::bar});
    if (node.ahead) add(node.children[0]);
    else add_behind(node.children[0]);
    emit({node.negative ? Op::cut_fail : Op::cut_back});
    regex_.program_[bar].a = here();
  }

  void add_behind(const RegexNode& body) {
    std::vector<RegexNode> parts = body.kind == Kind::alternation ? body.children : std::vector{body};
    std::vector<std::uint32_t> ends;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::optional<std::uint32_t> length = length_of(parts[i]);
      if (!length)
        throw Error(QUERN_UNSUPPORTED, concat("the expression ", in_quotes(regex_.pattern_, 120),
                                              " looks behind for a text of varying length, which is not computed here"));
      const std::uint32_t choice = i + 1 < parts.size() ? emit({Op::either, here() + 1}) : 0;
      emit({Op::back, *length});
      add(parts[i]);
      if (i + 1 == parts.size()) break;
      ends.push_back(emit({Op::jump}));
      regex_.program_[choice].b = here();
    }
    for (const std::uint32_t end : ends) regex_.program_[end].a = here();
  }

  /// In characters, where all matches have the same.
  static std::optional<std::uint32_t> length_of(const RegexNode& node) {
    switch (node.kind) {
      case Kind::set: return 1;
      case Kind::anchor:
      case Kind::look: return 0;
      case Kind::concat: {
        std::uint32_t sum = 0;
        for (const RegexNode& child : node.children) {
          const auto length = length_of(child);
          if (!length) return std::nullopt;
          sum += *length;
        }
        return sum;
      }
      case Kind::alternation: {
        const auto first = length_of(node.children[0]);
        const bool same = std::ranges::all_of(node.children, [&](const RegexNode& child) { return length_of(child) == first; });
        return same ? first : std::nullopt;
      }
      case Kind::repeat: {
        const auto one = length_of(node.children[0]);
        return one && node.least == node.most ? std::optional(*one * node.least) : std::nullopt;
      }
      case Kind::atomic: return length_of(node.children[0]);
    }
    return std::nullopt;
  }

  Regex& regex_;
};

namespace {

/// Adds the characters that a match may start with; true if it may also be empty or start with what this does not look at.
bool add_starts(const RegexNode& node, const std::vector<CharSet>& sets, CharSet& starts) {
  using Kind = RegexNode::Kind;
  switch (node.kind) {
    case Kind::set: starts = starts | sets[node.set]; return false;
    case Kind::concat: return std::ranges::all_of(node.children, [&](const RegexNode& child) { return add_starts(child, sets, starts); });
    case Kind::alternation: {
      bool empty = false;
      for (const RegexNode& child : node.children) empty = add_starts(child, sets, starts) || empty;
      return empty;
    }
    case Kind::repeat: return add_starts(node.children[0], sets, starts) || node.least == 0;
    case Kind::atomic: return add_starts(node.children[0], sets, starts);
    case Kind::look:
    case Kind::anchor: return true;
  }
  return true;
}

}  // namespace

Regex::Regex(std::string_view pattern) : pattern_(pattern), words_(lone_word_set()) {
  const RegexTree tree = parse_regex(pattern);
  RegexCompiler(*this).compile(tree.root);
  CharSet starts;
  if (add_starts(tree.root, tree.sets, starts)) starts = ~CharSet();
  const CharTest start(starts);
  const bool beyond_ascii = !starts.ranges().empty() && starts.ranges().back().last >= 0x80;
  for (std::size_t byte = 0; byte < may_start_.size(); ++byte)
    may_start_[byte] = byte < 0x80 ? start(static_cast<char32_t>(byte)) : beyond_ascii;
  for (const CharSet& set : tree.sets) sets_.emplace_back(set);
}

RegexMatches::RegexMatches(const Regex& regex, std::string_view text, RegexBudget& budget)
    : regex_(regex), text_(text), budget_(budget), loop_starts_(regex.loops_) {}

void RegexMatches::give_up() const {
  throw Error(QUERN_UNSUPPORTED, concat("the expression ", in_quotes(regex_.pattern(), 120), " takes more steps than a text of ",
                                        text_.size(), " bytes may take; it backtracks too much"));
}

void RegexMatches::push(const Frame& frame) {
  if (frames_.size() > 2 * text_.size() + (1 << 14)) give_up();
  frames_.push_back(frame);
}

bool RegexMatches::is_word(std::size_t at) const noexcept {
  const Char c = decode_char(text_, at);
  return c.length > 0 && regex_.words_(c.code);
}

bool RegexMatches::holds_anchor(RegexNode::Anchor anchor, std::size_t at) const noexcept {
  using enum RegexNode::Anchor;
  const auto word_before = [&] { return at > 0 && is_word(previous_char(text_, at)); };
  switch (anchor) {
    case text_start: return at == 0;
    case text_end: return at == text_.size();
    case text_end_or_newline: return at == text_.size() || (at + 1 == text_.size() && text_[at] == '\n');
    case line_start: return at == 0 || (text_[at - 1] == '\n' && at < text_.size());
    case line_end: return at == text_.size() || text_[at] == '\n';
    case word_bound: return word_before() != is_word(at);
    case no_word_bound: return word_before() == is_word(at);
  }
  return false;
}

/// The end of as many characters of the set as there are. `least` is where the fewest that are `enough` end.
std::size_t RegexMatches::repeat(const Regex::Step& step, std::size_t at, bool& enough, std::size_t& least) {
  const CharTest& set = regex_.sets_[step.a];
  std::uint32_t count = 0;
  least = at;
  for (; count < step.c && at < text_.size(); ++count) {
    const auto byte = static_cast<unsigned char>(text_[at]);
    const Char c = byte < 0x80 ? Char{byte, 1, true} : decode_char(text_, at);
    if (!set(c.code)) break;
    at += c.length;
    if (count < step.b) least = at;
  }
  if (count > steps_left_) give_up();
  steps_left_ -= count;
  enough = count >= step.b;
  return at;
}

/// To what was put aside last; false if there is nothing.
bool RegexMatches::fail(std::uint32_t& step, std::size_t& at) noexcept {
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    step = frame.step;
    at = frame.at;
    switch (frame.kind) {
      case Saved::fewer:
        at = previous_char(text_, at);
        if (at == frame.least) frames_.pop_back();
        else frame.at = static_cast<std::uint32_t>(at);
        return true;
      case Saved::loop: loop_starts_[frame.step] = frame.at; break;
      case Saved::bar: break;
      case Saved::other:
      case Saved::bar_negative: frames_.pop_back(); return true;
    }
    frames_.pop_back();
  }
  return false;
}

/// Forgets all up to the last bar, which it returns.
RegexMatches::Frame RegexMatches::cut() noexcept {
  for (;;) {
    const Frame frame = frames_.back();
    frames_.pop_back();
    if (frame.kind == Saved::bar || frame.kind == Saved::bar_negative) return frame;
  }
}

std::optional<std::size_t> RegexMatches::match_at(std::size_t start) {
  using Op = Regex::Op;
  frames_.clear();
  std::uint32_t next = 0;
  std::size_t at = start;
  const auto place = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
  for (;;) {
    if (steps_left_-- == 0) give_up();
    const Regex::Step& step = regex_.program_[next++];
    bool holds = true;
    switch (step.op) {
      case Op::set: {
        const Char c = decode_char(text_, at);
        holds = c.length > 0 && regex_.sets_[step.a](c.code);
        at += c.length;
        break;
      }
      case Op::repeat: {
        std::size_t least = 0;
        at = repeat(step, at, holds, least);
        if (holds && at > least) push({Saved::fewer, next, place(at), place(least)});
        break;
      }
      case Op::repeat_whole: {
        std::size_t least = 0;
        at = repeat(step, at, holds, least);
        break;
      }
      case Op::either:
        push({Saved::other, step.b, place(at), 0});
        next = step.a;
        break;
      case Op::jump: next = step.a; break;
      case Op::enter_loop:
        push({Saved::loop, step.a, loop_starts_[step.a], 0});
        loop_starts_[step.a] = place(at);
        break;
      case Op::leave_empty:
        if (loop_starts_[step.a] == at) next = step.b;
        break;
      case Op::bar: push({Saved::bar, 0, place(at), 0}); break;
      case Op::bar_negative: push({Saved::bar_negative, step.a, place(at), 0}); break;
      case Op::cut: cut(); break;
      case Op::cut_back: at = cut().at; break;
      case Op::cut_fail:
        cut();
        holds = false;
        break;
      case Op::back:
        for (std::uint32_t i = 0; i < step.a && holds; ++i) {
          holds = at > 0;
          if (holds) at = previous_char(text_, at);
        }
        break;
      case Op::anchor: holds = holds_anchor(RegexNode::Anchor{static_cast<std::uint8_t>(step.a)}, at); break;
      case Op::match: return at;
    }
    if (!holds && !fail(next, at)) return std::nullopt;
  }
}

std::optional<TextRange> RegexMatches::next() {
  std::optional<TextRange> found;
  const std::uint64_t before = steps_left_ = budget_.left();
  while (!found && from_ <= text_.size()) {
    const std::size_t start = from_;
    const bool may_start = start == text_.size() || regex_.may_start_[static_cast<unsigned char>(text_[start])];
    const std::optional<std::size_t> end = may_start ? match_at(start) : std::nullopt;
    // An empty match that touches the last one is none.
    const bool again = end && *end == start && last_end_ == end;
    if (end && !again) {
      found = TextRange{start, *end};
      from_ = *end;
      last_end_ = *end;
    } else {
      from_ += start == text_.size() ? 1 : decode_char(text_, start).length;
    }
  }
  budget_.spend(before - steps_left_);
  return found;
}

}  // namespace quern::tokenizer
