// quern pull NAME: a model into the cache; its path is the result.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "progress.hpp"

#include <chrono>

namespace quern::cli {
namespace {

struct Watched {
  bool quiet;
  std::string waiting;                // the last reason that was written
  std::uint64_t first = 0, last = 0;  // bytes
  bool any = false;
};

int on_event(void* user, const quern_pull_event* event) {
  Watched& watched = *static_cast<Watched*>(user);
  if (!watched.any) watched.first = event->done_bytes;
  watched.any = true;
  watched.last = event->done_bytes;
  if (watched.quiet) return 0;
  if (*event->waiting != '\0' && watched.waiting != event->waiting) write_error_line(std::string("quern: ") + event->waiting);
  watched.waiting = event->waiting;
  if (event->total_bytes > 0) draw_progress("downloading", event->file, event->done_bytes, event->total_bytes);
  return 0;
}

/// The entry of the list that has this path; null if there is none.
Json entry_of(const std::string& path, const quern_hub_options& options) {
  const auto text = make<Text>(quern_cached_models_json, &options);
  const Json json = Json::parse(view(text));
  for (const Json& model : json.at("models"))
    if (model.at("path") == path) return model;
  return {};
}

}  // namespace

int pull_verb(const CommandLine& line, const Settings& settings) {
  Watched watched{line.quiet, {}};
  quern_hub_options options = settings.hub_options();
  options.sha256 = line.hub.sha256.empty() ? nullptr : line.hub.sha256.c_str();
  options.progress = on_event;
  options.progress_user = &watched;
  const auto started = std::chrono::steady_clock::now();
  quern_text* text = nullptr;
  const quern_status status = quern_pull(line.hub.name.c_str(), &options, &text);
  erase_progress();
  check(status);
  const Text owner(text);
  const std::string path(view(owner));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  const Json entry = entry_of(path, options);
  const std::string name = entry.is_object() ? entry.value("name", line.hub.name) : line.hub.name;
  if (line.json)
    write_json({{"name", name}, {"path", path}, {"model", entry}, {"seconds", took.count()}});
  else
    write_out(path + "\n");
  if (!line.quiet)
    write_error_line(printable(name) + ": " + in_mib(entry.is_object() ? entry.value("bytes", std::uint64_t{0}) : 0) +
                     "; run it: quern run " + printable(name));
  return exit_ok;
}

}  // namespace quern::cli
