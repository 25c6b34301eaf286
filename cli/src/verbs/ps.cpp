// quern ps: the user's quern processes that have a model loaded, as the files say that they keep for `quern monitor`.
#include "verbs.hpp"

#include "activity.hpp"
#include "exit_code.hpp"
#include "numbers.hpp"
#include "output.hpp"
#include "table.hpp"

namespace quern::cli {

int ps_verb(const CommandLine& line) {
  const std::vector<Activity> found = read_activities();
  if (line.json) {
    Json processes = Json::array();
    for (const Activity& one : found) processes.push_back({{"pid", one.pid}, {"model", one.model}, {"tokens", one.tokens}});
    write_json({{"processes", processes}});
    return exit_ok;
  }
  Table table({{"PID", Align::right}, {"TOKENS", Align::right}, {"MODEL"}});
  for (const Activity& one : found) table.add({std::to_string(one.pid), with_commas(one.tokens), printable(one.model)});
  if (!found.empty()) write_out(table.text());
  if (found.empty() && !line.quiet) write_error_line("no quern process of yours has a model loaded");
  return exit_ok;
}

}  // namespace quern::cli
