// quern trace FILE: where the time of a traced run went, and a page with its timeline.
#include "verbs.hpp"

#include "failure.hpp"
#include "output.hpp"
#include "trace_report.hpp"

#include "quern/base/files.hpp"

namespace quern::cli {
namespace {

void check_trace_file(const base::FileProblem& problem) {
  if (problem) throw Failure(exit_refused, problem.text);
}

/// "t.json" has its page in "t.html".
std::string page_beside(const std::string& trace) {
  return (trace.ends_with(".json") ? trace.substr(0, trace.size() - 5) : trace) + ".html";
}

/// A page that nobody named may replace an older page of a trace, and nothing else.
void require_ours(const std::string& path) {
  std::string head;
  const base::FileProblem problem = base::read_head(path, head, 8192);
  if (problem.fault == base::FileFault::not_found) return;
  check_trace_file(problem);
  if (head.find(std::string("<title>") + trace_page_title) == std::string::npos)
    throw Failure(exit_refused, path + ": is there already and is no page of a trace; name another file with --html");
}

}  // namespace

int trace_verb(const CommandLine& line) {
  const TraceFlags& flags = line.trace;
  std::string text;
  check_trace_file(base::read_file(flags.file, text, {.most = most_trace_bytes}));
  const RecordedTrace trace = parse_trace(flags.file, text);
  const std::string name = flags.file.substr(flags.file.find_last_of('/') + 1);
  if (flags.html || !line.json) {
    const std::string page = flags.html ? *flags.html : page_beside(flags.file);
    if (!flags.html) require_ours(page);
    if (const auto problem = base::write_file(page, trace_page(name, trace)))
      throw Failure(exit_refused, "the page cannot be written: " + problem.text);
    if (!line.json) {
      write_out(trace_words(flags.file, trace));
      write_out("\nTimeline: " + printable(page) + "\n");
      return exit_ok;
    }
  }
  write_json(trace_report_json(flags.file, trace));
  return exit_ok;
}

}  // namespace quern::cli
