// quern rm NAME: a model out of the cache.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"

namespace quern::cli {

int rm_verb(const CommandLine& line, const Settings& settings) {
  const quern_hub_options options = settings.hub_options();
  std::uint64_t freed = 0;
  check(quern_remove_model(line.hub.name.c_str(), &options, &freed));
  if (line.json) write_json({{"name", line.hub.name}, {"freed_bytes", freed}});
  if (!line.quiet) write_error_line(printable(line.hub.name) + " is removed: " + byte_words(freed) + " are free again");
  return exit_ok;
}

}  // namespace quern::cli
