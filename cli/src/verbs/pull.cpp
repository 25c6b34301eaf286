// quern pull NAME: a model into the cache; its path is the result.
#include "verbs.hpp"

#include "download.hpp"
#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"

#include <chrono>

namespace quern::cli {
namespace {

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
  const auto started = std::chrono::steady_clock::now();
  const std::string path = download_model(line.hub.name, {line.hub.sha256, sum_of_limits(line.hub.memory)}, settings, line.quiet);
  const quern_hub_options options = settings.hub_options();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  const Json entry = entry_of(path, options);
  const std::string name = entry.is_object() ? entry.value("name", line.hub.name) : line.hub.name;
  if (line.json) write_json({{"name", name}, {"path", path}, {"model", entry}, {"seconds", took.count()}});
  else write_out(path + "\n");
  if (!line.quiet)
    write_error_line(printable(name) + ": " + byte_words(entry.is_object() ? entry.value("bytes", std::uint64_t{0}) : 0) +
                     "; run it: quern run " + printable(name));
  return exit_ok;
}

}  // namespace quern::cli
