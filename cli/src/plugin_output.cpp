// See plugin_output.hpp.
#include "plugin_output.hpp"

#include "output.hpp"

#include "quern.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <string>

namespace quern::cli {
namespace {

/// Each call of a device once: a plugin that prints in each submit would fill the screen.
void name_printer(void*, const quern_open_call* call, const char* text, std::uint64_t size) {
  static std::mutex mutex;
  static std::set<std::string> named;
  try {
    const std::string who = *call->device != '\0' ? call->device : call->backend;
    {
      const std::lock_guard lock(mutex);
      if (!named.insert(who + " " + call->call).second) return;
    }
    constexpr std::size_t longest = 200;
    std::string_view words(text, static_cast<std::size_t>(size));
    while (words.ends_with('\n')) words.remove_suffix(1);
    write_error_line("quern: " + who + " printed to standard output in " + call->call + ", which is left out: '" +
                     printable_start(words, longest) + "': " + printable(call->path) +
                     "; update this plugin, or leave it out with --backend-disable " + call->backend);
  } catch (...) {}  // no memory for the message; what was printed is left out all the same
}

}  // namespace

void keep_results_apart() {
  const int moved = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int printed = ::memfd_create("output of plugins", MFD_CLOEXEC);
  if (moved >= 0 && printed >= 0 && ::dup2(printed, STDOUT_FILENO) >= 0) {
    set_results_file(moved);
    quern_watch_output(STDOUT_FILENO, name_printer, nullptr);
  } else if (moved >= 0) {
    ::close(moved);
  }
  if (printed >= 0) ::close(printed);
}

}  // namespace quern::cli
