#include "download.hpp"

#include "api.hpp"
#include "interrupt.hpp"
#include "output.hpp"
#include "progress.hpp"

#include "quern/base/byte_sizes.hpp"

#include <csignal>

namespace quern::cli {
namespace {

struct Watched {
  const InterruptGuard& guard;
  bool quiet;
  Progress progress;
  const std::string& name;
  bool sized = false;        // how much it is has been said
  std::string waiting = {};  // the last reason that was written
};

int on_pull_event(void* user, const quern_pull_event* event) {
  Watched& watched = *static_cast<Watched*>(user);
  if (watched.guard.interrupted()) return 1;
  if (watched.quiet) return 0;
  if (*event->waiting != '\0' && watched.waiting != event->waiting) write_error_line(std::string("quern: ") + event->waiting);
  watched.waiting = event->waiting;
  if (!watched.sized && event->total_bytes > 0)
    write_error_line("quern: " + printable(watched.name) + " has " + byte_words(event->total_bytes));
  watched.sized = watched.sized || event->total_bytes > 0;
  watched.progress.relabel(event->file);
  watched.progress.show(event->done_bytes, event->total_bytes);
  return 0;
}

}  // namespace

std::string download_model(const std::string& name, const Demands& demands, const Settings& settings, bool quiet) {
  quern_hub_options options = settings.hub_options();
  options.sha256 = demands.sha256.empty() ? nullptr : demands.sha256.c_str();
  options.memory_bytes = demands.memory_bytes;
  options.progress = on_pull_event;
  quern_status status = QUERN_OK;
  quern_text* text = nullptr;
  {
    const InterruptGuard guard(nullptr);
    Watched watched{guard, quiet, Progress("downloading", name, nullptr, quiet), name};
    options.progress_user = &watched;
    status = quern_pull(name.c_str(), &options, &text);
    watched.progress.end();
  }
  const Text owner(text);
  if (status == QUERN_CANCELLED) {
    write_error_line("quern: stopped; what came is kept: quern pull " + printable(name) + " goes on from there");
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  check(status);
  return std::string(view(owner));
}

}  // namespace quern::cli
