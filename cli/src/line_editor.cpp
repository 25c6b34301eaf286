#include "line_editor.hpp"

#include "output.hpp"
#include "screen_layout.hpp"
#include "terminal_window.hpp"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

namespace quern::cli {
namespace {

/// Puts the terminal into input key by key, without echo, with pastes marked; back again at the end of the scope.
class RawTerminal {
 public:
  RawTerminal() { enter(); }
  ~RawTerminal() { leave(); }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  /// Stops the program as Ctrl-Z does elsewhere; returns when it goes on.
  void suspend() {
    leave();
    std::raise(SIGTSTP);
    enter();
  }
  /// After a stop that came from outside, the shell may have set the terminal in its own way.
  void enter_again() { enter(); }

 private:
  void enter() {
    termios found{};
    if (tcgetattr(STDIN_FILENO, &found) != 0) return;
    if (!active_) before_ = found;
    termios raw = before_;
    raw.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // Ctrl-Z comes as a key, so that the terminal is put back first
    raw.c_cc[VINTR] = _POSIX_VDISABLE;  // Ctrl-C as well: as a signal it would throw away what was typed behind it
    active_ = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
    draw_out(Drawing().mark_pastes(true));
  }
  void leave() noexcept {
    if (!active_) return;
    active_ = false;
    try {
      draw_out(Drawing().mark_pastes(false));
    } catch (...) {  // standard output is gone, and with it whoever would see a mark
    }
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }

  termios before_{};
  bool active_ = false;
};

volatile std::sig_atomic_t resized = 0, continued = 0, interrupted = 0;

/// Signals are taken while the editor waits for a key and at no other time, so that none is missed between a look and a wait.
class Signals {
 public:
  Signals() {
    sigemptyset(&ours_);
    for (const int signal : {SIGINT, SIGWINCH, SIGCONT}) sigaddset(&ours_, signal);
    pthread_sigmask(SIG_BLOCK, &ours_, &before_);
    resized = 0;
    continued = 0;
    interrupted = 0;
    act(
        SIGWINCH, [](int) { resized = 1; }, window_);
    act(
        SIGCONT, [](int) { continued = 1; }, go_on_);
    act(
        SIGINT, [](int) { interrupted = 1; }, interrupt_);
  }
  ~Signals() {
    sigaction(SIGWINCH, &window_, nullptr);
    sigaction(SIGCONT, &go_on_, nullptr);
    sigaction(SIGINT, &interrupt_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  enum class Waited { key, signal, nothing };
  /// `milliseconds` below 0: for ever.
  Waited wait(int milliseconds) const {
    sigset_t open = before_;
    for (const int signal : {SIGINT, SIGWINCH, SIGCONT}) sigdelset(&open, signal);
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const timespec time{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
    const int ready = ppoll(&input, 1, milliseconds < 0 ? nullptr : &time, &open);
    if (ready < 0) return Waited::signal;
    return ready == 0 ? Waited::nothing : Waited::key;
  }

 private:
  static void act(int signal, void (*handler)(int), struct sigaction& previous) {
    struct sigaction action {};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, &previous);
  }

  sigset_t ours_{}, before_{};
  struct sigaction window_ {
  }, go_on_{}, interrupt_{};
};

bool can_edit() { return isatty(STDIN_FILENO) == 1 && window_can_draw(); }

constexpr std::string_view quotes = "\"\"\"";

}  // namespace

std::string without_quotes(const std::string& text, bool& closed) {
  closed = true;
  if (!text.starts_with(quotes)) return text;
  const std::size_t end = text.find(quotes, quotes.size());
  closed = end != std::string::npos;
  if (!closed) return text;
  std::string inside = text.substr(quotes.size(), end - quotes.size()) + text.substr(end + quotes.size());
  if (inside.starts_with('\n')) inside.erase(0, 1);
  if (inside.ends_with('\n')) inside.pop_back();
  return inside;
}

void LineEditor::draw() {
  const WindowSize size = window_size();
  const std::string prompt = search_ ? "search '" + search_->pattern + "': " : prompt_;
  const ScreenLayout layout = lay_out(prompt, line_.text(), line_.cursor(), size.columns, size.rows);
  Drawing drawing;
  drawing.up(drawn_row_).clear_below();
  if (window_has_styles()) drawing.style(Style::green).rows(layout.shown).no_style();
  else drawing.rows(layout.shown);
  draw_out(drawing.up(layout.rows - 1 - layout.row).column(layout.column));
  drawn_row_ = layout.row;
}

/// Most terminals lay long lines out anew, as lay_out() does for the new width; the cursor's row is the one there.
void LineEditor::redraw_after_resize() {
  const WindowSize size = window_size();
  drawn_row_ = lay_out(prompt_, line_.text(), line_.cursor(), size.columns, size.rows).row;
  draw();
}

/// The cursor goes behind the text and to a new row; what is drawn stays.
void LineEditor::leave_drawing() {
  search_.reset();
  line_.set(line_.text());
  draw();
  write_out("\n");
  drawn_row_ = 0;
}

/// False at the end of input.
bool LineEditor::read_keys() {
  std::array<char, 4096> bytes;
  const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got > 0) keys_.feed({bytes.data(), static_cast<std::size_t>(got)});
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

template <class Terminal>
void LineEditor::take_signals(Terminal& terminal) {
  if (continued != 0) terminal.enter_again();
  if (interrupted != 0) drop();
  if (left_) return;
  if (resized != 0 && interrupted == 0) redraw_after_resize();
  else draw();
  resized = 0;
  continued = 0;
  interrupted = 0;
}

void LineEditor::drop() {
  const bool empty = line_.text().empty();
  leave_drawing();
  line_.set("");
  at_ = typed_.size();
  dropped_ = true;
  if (!empty) return;
  left_ = second_interrupt();
  if (!left_) write_out("Ctrl-C again leaves\n");
}

/// Whether Ctrl-C came a short time before, too.
bool LineEditor::second_interrupt() {
  constexpr std::chrono::seconds quick{1};
  const auto now = std::chrono::steady_clock::now();
  return now - std::exchange(interrupted_at_, now) < quick;
}

void LineEditor::complete() {
  const Completion found = complete_ ? complete_(line_.text(), line_.cursor()) : Completion();
  if (!found.possible) line_.insert("\t");
  if (found.words.empty()) return;
  std::string_view common = found.words.front();
  for (const std::string& word : found.words) {
    const auto [end, ignored] = std::ranges::mismatch(common, word);
    common = common.substr(0, static_cast<std::size_t>(end - common.begin()));
  }
  common = whole_characters(common);
  if (found.words.size() == 1 || common.size() > line_.cursor() - found.from) line_.replace(found.from, common);
  else list_words(found.words);
}

/// Below what is typed, which is drawn anew behind them.
void LineEditor::list_words(const std::vector<std::string>& words) {
  constexpr std::size_t most = 50;
  std::string page;
  for (std::size_t i = 0; i < std::min(words.size(), most); ++i) page += words[i].substr(0, words[i].find_last_not_of(' ') + 1) + "  ";
  if (words.size() > most) page += "and " + std::to_string(words.size() - most) + " more";
  const std::size_t cursor = line_.cursor();
  leave_drawing();
  write_out(page + "\n");
  line_.set(line_.text(), cursor);
}

void LineEditor::recall(bool older) {
  if (older ? at_ == 0 : at_ == typed_.size()) return;
  if (at_ == typed_.size()) draft_ = line_.text();
  at_ = older ? at_ - 1 : at_ + 1;
  line_.set(at_ == typed_.size() ? draft_ : typed_[at_]);
}

/// Shows the newest line before index `before` that has the pattern; without one what is shown stays.
void LineEditor::search_back(std::size_t before) {
  for (std::size_t i = before; i > 0; --i) {
    if (typed_[i - 1].find(search_->pattern) == std::string::npos) continue;
    search_->at = i - 1;
    line_.set(typed_[i - 1]);
    return;
  }
}

/// False where the key ends the search and is still to be taken: what was found is then the line.
bool LineEditor::take_in_search(const Key& key) {
  Search& search = *search_;
  if (key.kind == KeyKind::text) {
    search.pattern += key.text;
    search_back(std::min(search.at + 1, typed_.size()));
  } else if (key.kind == KeyKind::backspace) {
    LineBuffer pattern;
    pattern.set(search.pattern);
    pattern.erase_before();
    search.pattern = pattern.text();
    search.at = typed_.size();
    search_back(search.at);
  } else if (key.kind == KeyKind::control && key.text == "R") {
    search_back(search.at);
  } else if (key.kind == KeyKind::escape || (key.kind == KeyKind::control && key.text == "G")) {
    line_.set(search.draft);
    search_.reset();
  } else {
    if (search.at < typed_.size()) {
      draft_ = search.draft;
      at_ = search.at;
    }
    search_.reset();
    return false;
  }
  return true;
}

LineEditor::Outcome LineEditor::take_control(char letter) {
  switch (letter) {
    case 'A': line_.to_start(); break;
    case 'B': line_.left(); break;
    case 'D':
      if (line_.text().empty()) return Outcome::ended;
      line_.erase_after();
      break;
    case 'E': line_.to_end(); break;
    case 'F': line_.right(); break;
    case 'K': line_.erase_to_end(); break;
    case 'L':
      draw_out(Drawing().clear_screen());
      drawn_row_ = 0;
      break;
    case 'N': recall(false); break;
    case 'P': recall(true); break;
    case 'R': search_ = Search{"", typed_.size(), line_.text()}; break;
    case 'U': line_.erase_to_start(); break;
    case 'W': line_.erase_word_before(); break;
    default: break;
  }
  return Outcome::more;
}

LineEditor::Outcome LineEditor::take(const Key& key) {
  if (search_ && take_in_search(key)) return Outcome::more;
  switch (key.kind) {
    case KeyKind::text:
    case KeyKind::paste: line_.insert(key.text); break;
    case KeyKind::tab: complete(); break;
    case KeyKind::alt_enter: line_.insert("\n"); break;
    case KeyKind::enter: {
      bool closed = true;
      without_quotes(line_.text(), closed);
      if (closed) return Outcome::accepted;
      line_.set(line_.text());
      line_.insert("\n");
      break;
    }
    case KeyKind::control: return take_control(key.text.front());
    case KeyKind::alt:
      if (key.text == "b") line_.word_left();
      if (key.text == "f") line_.word_right();
      if (key.text == "d") line_.erase_word_after();
      break;
    case KeyKind::backspace: line_.erase_before(); break;
    case KeyKind::erase: line_.erase_after(); break;
    case KeyKind::up: recall(true); break;
    case KeyKind::down: recall(false); break;
    case KeyKind::left: line_.left(); break;
    case KeyKind::right: line_.right(); break;
    case KeyKind::word_left: line_.word_left(); break;
    case KeyKind::word_right: line_.word_right(); break;
    case KeyKind::home: line_.to_start(); break;
    case KeyKind::end: line_.to_end(); break;
    case KeyKind::escape:
    case KeyKind::unknown: break;
  }
  return Outcome::more;
}

std::optional<std::string> LineEditor::edit(const std::string& text, AtInterrupt at_interrupt) {
  constexpr int escape_milliseconds = 25;  // the rest of a key's sequence comes at once; a lone Esc has nothing behind it
  RawTerminal raw;
  const Signals signals;
  line_.set(text);
  search_.reset();
  at_ = typed_.size();
  drawn_row_ = 0;
  draw();
  if (take_interrupt_ && take_interrupt_()) {  // behind `signals`: from there on none is missed
    line_.set("");
    drop();
    if (left_ || at_interrupt == AtInterrupt::give_up) return {};
    draw();
  }
  bool no_more = false;
  while (true) {
    bool changed = false;
    while (const std::optional<Key> key = keys_.next(no_more)) {
      changed = true;
      if (key->kind == KeyKind::control && key->text == "Z") {
        leave_drawing();
        raw.suspend();
        continue;
      }
      if (key->kind == KeyKind::control && key->text == "C") {
        drop();
        if (left_ || at_interrupt == AtInterrupt::give_up) return {};
        continue;
      }
      const Outcome outcome = take(*key);
      if (outcome == Outcome::more) continue;
      leave_drawing();
      if (outcome == Outcome::ended) return {};
      return line_.text();
    }
    if (changed) draw();
    const Signals::Waited waited = signals.wait(keys_.waiting() ? escape_milliseconds : -1);
    no_more = waited == Signals::Waited::nothing;
    if (waited == Signals::Waited::signal) {
      take_signals(raw);
      if (left_ || (dropped_ && at_interrupt == AtInterrupt::give_up)) return {};
    } else if (waited == Signals::Waited::key && !read_keys()) {
      leave_drawing();
      return {};
    }
  }
}

std::optional<std::string> LineEditor::read_plain(AtInterrupt at_interrupt) {
  write_out(prompt_);
  std::string line;
  for (char byte = 0;;) {
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) {
      const bool empty = line.empty();
      line.clear();
      dropped_ = true;
      write_out("\n");
      if ((empty && second_interrupt()) || at_interrupt == AtInterrupt::give_up) return {};
      write_out(prompt_);
    } else if (got != 1) {
      if (line.empty()) return {};
      return line;
    } else if (byte == '\n') {
      bool closed = true;
      without_quotes(line, closed);
      if (closed) return line;
      line += '\n';
    } else {
      line += byte;
    }
  }
}

std::optional<std::string> LineEditor::read(const std::string& text, AtInterrupt at_interrupt) {
  dropped_ = left_ = false;
  return can_edit() ? edit(text, at_interrupt) : read_plain(at_interrupt);
}

std::optional<std::string> LineEditor::accepted(const std::optional<std::string>& text) {
  if (!text) return {};
  if (!text->empty() && (typed_.empty() || typed_.back() != *text)) {
    typed_.push_back(*text);
    if (keep_) keep_(*text);
  }
  bool closed = true;
  return without_quotes(*text, closed);
}

std::optional<std::string> LineEditor::read_line() { return accepted(read("", AtInterrupt::begin_anew)); }

std::optional<std::string> LineEditor::change_line(const std::string& text) {
  const std::optional<std::string> changed = read(text, AtInterrupt::give_up);
  if (!changed && dropped_ && !left_) return "";
  return accepted(changed);
}

std::optional<std::string> LineEditor::ask(const std::string& question) {
  const std::string before = std::exchange(prompt_, question);
  const auto complete = std::exchange(complete_, nullptr);
  std::optional<std::string> answer = read("", AtInterrupt::give_up);
  prompt_ = before;
  complete_ = complete;
  return answer;
}

}  // namespace quern::cli
