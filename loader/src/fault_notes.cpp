// See fault_notes.hpp.
#include "fault_notes.hpp"

#include "probe_cache.hpp"
#include "quern/base/file_in_handler.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

namespace quern::loader {
namespace {

constexpr const char* fault_head = "quern-fault 1";
constexpr const char* fault_end = "end";

/// Lines in an array, for a handler.
class Lines {
 public:
  void add(std::string_view text) noexcept {
    if (text.size() + 1 > sizeof bytes_ - size_) {
      whole_ = false;
      return;
    }
    std::memcpy(bytes_ + size_, text.data(), text.size());
    size_ += text.size();
    bytes_[size_++] = '\n';
  }
  void add(std::uint32_t number) noexcept {
    char digits[16];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    add(std::string_view(digits, static_cast<std::size_t>(end - digits)));
  }
  bool write_to(const char* file) const noexcept { return whole_ && base::write_file_in_handler(file, {bytes_, size_}); }

 private:
  char bytes_[1024];
  std::size_t size_ = 0;
  bool whole_ = true;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size() && lines.size() < 16;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::optional<std::uint32_t> number_of(const std::string& text, std::uint32_t most) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > most) return std::nullopt;
  return number;
}

}  // namespace

bool write_fault(const char* file, const Fault& fault) noexcept {
  if (file == nullptr || *file == '\0') return false;
  Lines lines;
  lines.add(fault_head);
  for (const char* text : {fault.identity, fault.device, fault.call}) lines.add(text);
  lines.add(static_cast<std::uint32_t>(fault.kind));
  lines.add(static_cast<std::uint32_t>(fault.signal));
  lines.add(fault_end);
  return lines.write_to(file);
}

std::string KeptFault::words(const std::string& backend) const {
  const std::string who = device.empty() ? backend : device;
  switch (kind) {
    case FaultKind::crashed: {
      const char* words = ::sigdescr_np(signal);
      return concat(who, " crashed in ", call, " with signal ", signal, words == nullptr ? "" : concat(" (", words, ")"));
    }
    case FaultKind::exited: return concat(who, " ended the program in ", call);
    case FaultKind::hung: return concat(who, " did not return from ", call);
    case FaultKind::threw: return concat(who, " let an exception out of ", call);
  }
  return {};
}

std::optional<KeptFault> find_fault(const std::string& file, const std::string& identity, std::string& problem) {
  if (file.empty()) return std::nullopt;
  const std::optional<std::string> text = read_kept(file, problem);
  if (!text) return std::nullopt;
  const std::vector<std::string> lines = lines_of(*text);
  const auto plain = [](const std::string& word) { return std::ranges::all_of(word, [](char c) { return c > ' ' && c < 0x7f; }); };
  if (lines.size() != 7 || lines[0] != fault_head || lines[6] != fault_end || !plain(lines[2]) || !plain(lines[3])) {
    problem = concat(file, ": damaged: not a kept fault");
    return std::nullopt;
  }
  if (lines[1] != identity) return std::nullopt;
  const auto kind = number_of(lines[4], static_cast<std::uint32_t>(FaultKind::threw)), signal = number_of(lines[5], NSIG);
  if (!kind || *kind == 0 || !signal) {
    problem = concat(file, ": damaged: not a kept fault");
    return std::nullopt;
  }
  return KeptFault{lines[2], lines[3], static_cast<FaultKind>(*kind), static_cast<int>(*signal)};
}

CallTexts texts_of_plugin(const std::string& id, const std::string& path) { return {.backend = id, .path = printable(path)}; }

std::string file_identity(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return "-";
  return concat(s.st_dev, ":", s.st_ino, ":", s.st_size, ":", s.st_mtim.tv_sec, ".", s.st_mtim.tv_nsec);
}

}  // namespace quern::loader
