#include "line_editor.hpp"

#include "output.hpp"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace quern::cli {
namespace {

/// Puts the terminal into byte-by-byte input without echo; back again at the end of the scope.
class RawTerminal {
 public:
  RawTerminal() {
    if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    raw.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));  // ISIG stays: Ctrl-C is still a signal
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    active_ = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
  }
  ~RawTerminal() {
    if (active_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
  bool active_ = false;
};

bool can_edit() {
  const char* term = std::getenv("TERM");
  return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

enum class Read { byte, interrupted, ended };

Read read_byte(char& byte) {
  const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
  if (got == 1) return Read::byte;
  return got < 0 && errno == EINTR ? Read::interrupted : Read::ended;
}

/// The rest of an escape sequence comes at once; a lone Esc has nothing behind it.
bool more_at_once() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 25) == 1;
}

}  // namespace

void LineEditor::draw(const LineBuffer& line) const {
  std::string out = "\r\x1b[K" + prompt_ + line.text();
  if (const std::size_t back = line.columns_after_cursor(); back > 0) out += "\x1b[" + std::to_string(back) + "D";
  write_out(out);
}

void LineEditor::recall(LineBuffer& line, bool older) {
  if (older ? at_ == 0 : at_ == typed_.size()) return;
  if (at_ == typed_.size()) draft_ = line.text();
  at_ = older ? at_ - 1 : at_ + 1;
  line.set(at_ == typed_.size() ? draft_ : typed_[at_]);
}

void LineEditor::take_escape(LineBuffer& line) {
  char byte = 0;
  if (!more_at_once() || read_byte(byte) != Read::byte || (byte != '[' && byte != 'O')) return;
  std::string parameters;
  while (more_at_once() && read_byte(byte) == Read::byte && ((byte >= '0' && byte <= '9') || byte == ';'))
    parameters += byte;
  if (byte == 'A') recall(line, true);
  if (byte == 'B') recall(line, false);
  if (byte == 'C') line.right();
  if (byte == 'D') line.left();
  if (byte == 'H' || (byte == '~' && (parameters == "1" || parameters == "7"))) line.to_start();
  if (byte == 'F' || (byte == '~' && (parameters == "4" || parameters == "8"))) line.to_end();
  if (byte == '~' && parameters == "3") line.erase_after();
}

LineEditor::Outcome LineEditor::take_byte(LineBuffer& line, char byte) {
  constexpr auto control = [](char letter) { return static_cast<char>(letter - 'A' + 1); };
  if (byte == '\r' || byte == '\n') return Outcome::accepted;
  if (byte == control('D')) {
    if (line.text().empty()) return Outcome::ended;
    line.erase_after();
  } else if (byte == 127 || byte == control('H')) {
    line.erase_before();
  } else if (byte == control('A')) {
    line.to_start();
  } else if (byte == control('E')) {
    line.to_end();
  } else if (byte == control('B')) {
    line.left();
  } else if (byte == control('F')) {
    line.right();
  } else if (byte == control('U')) {
    line.erase_to_start();
  } else if (byte == control('K')) {
    line.erase_to_end();
  } else if (byte == control('W')) {
    line.erase_word();
  } else if (byte == control('P')) {
    recall(line, true);
  } else if (byte == control('N')) {
    recall(line, false);
  } else if (byte == 27) {
    take_escape(line);
  } else if (static_cast<unsigned char>(byte) >= 32) {
    line.insert(byte);
  }
  return Outcome::more;
}

std::optional<std::string> LineEditor::read_plain() const {
  write_out(prompt_);
  std::string line;
  for (char byte = 0;;) {
    switch (read_byte(byte)) {
      case Read::interrupted:
        line.clear();
        write_out("\n" + prompt_);
        break;
      case Read::ended:
        if (line.empty()) return {};
        return line;
      case Read::byte:
        if (byte == '\n') return line;
        line += byte;
        break;
    }
  }
}

std::optional<std::string> LineEditor::read_line() {
  if (!can_edit()) return read_plain();
  const RawTerminal raw;
  LineBuffer line;
  at_ = typed_.size();
  draft_.clear();
  draw(line);
  while (true) {
    char byte = 0;
    const Read got = read_byte(byte);
    if (got == Read::interrupted) {  // Ctrl-C: another line (and a resized window draws again)
      write_out("\n");
      line.set("");
      at_ = typed_.size();
    } else {
      const Outcome outcome = got == Read::ended ? Outcome::ended : take_byte(line, byte);
      if (outcome != Outcome::more) write_out("\n");
      if (outcome == Outcome::ended) return {};
      if (outcome == Outcome::accepted) {
        if (!line.text().empty() && (typed_.empty() || typed_.back() != line.text())) typed_.push_back(line.text());
        return line.text();
      }
    }
    draw(line);
  }
}

}  // namespace quern::cli
