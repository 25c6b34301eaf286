// quern list: the models in the caches, one a line.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"

#include <algorithm>

namespace quern::cli {

int list_verb(const CommandLine& line, const Settings& settings) {
  const quern_hub_options options = settings.hub_options();
  const Json json = Json::parse(view(make<Text>(quern_cached_models_json, &options)));
  if (line.json) {
    write_json(json);
    return exit_ok;
  }
  std::size_t width = 0;
  for (const Json& model : json.at("models")) width = std::max(width, printable(model.at("name").get<std::string>()).size());
  std::string out;
  for (const Json& model : json.at("models")) {
    std::string name = printable(model.at("name").get<std::string>());
    name.resize(width + 2, ' ');
    out += name + in_mib(model.at("bytes").get<std::uint64_t>()) + "\n";
  }
  write_out(out);
  if (out.empty() && !line.quiet) write_error_line("no model in " + json.at("hub_cache").get<std::string>() + "; quern pull gets one");
  return exit_ok;
}

}  // namespace quern::cli
