// quern doctor: the load report in words. A demand that cannot be met is said after it (exit 3).
#include "verbs.hpp"

#include "engine.hpp"
#include "output.hpp"

namespace quern::cli {

int doctor_verb(const CommandLine& line, const Settings& settings) {
  const Runtime runtime = open_runtime(settings);
  const auto report = make<LoadReport>(quern_runtime_load_report, runtime.get());
  const quern_load_report* snapshot = report.get();
  const quern_status ready = quern_runtime_ready(runtime.get());
  const std::string trouble = ready == QUERN_OK ? "" : quern_last_error();
  if (line.json) {
    Json json = Json::parse(view(make<Text>(quern_load_report_json, snapshot)));
    json["ready"] = ready == QUERN_OK;
    json["trouble"] = ready == QUERN_OK ? Json(nullptr) : Json(trouble);
    write_json(json);
  } else {
    write_out(view(make<Text>(quern_load_report_words, snapshot)));
  }
  if (ready != QUERN_OK) throw Failure(exit_code_of(ready), trouble);
  return exit_ok;
}

}  // namespace quern::cli
