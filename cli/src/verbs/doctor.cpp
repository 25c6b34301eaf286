// quern doctor: the load report in words, its verdict first. With --try every device also computes. A demand that cannot be met, and a
// device that computes wrongly, are exit 3.
#include "verbs.hpp"

#include "engine.hpp"
#include "output.hpp"
#include "page_view.hpp"
#include "try_devices.hpp"

#include <algorithm>

namespace quern::cli {

int doctor_verb(const CommandLine& line, const Settings& settings) {
  const Runtime runtime = open_runtime(settings);
  const auto report = make<LoadReport>(quern_runtime_load_report, runtime.get());
  const quern_load_report* snapshot = report.get();
  const quern_status ready = quern_runtime_ready(runtime.get());
  const std::string trouble = ready == QUERN_OK ? "" : quern_last_error();
  std::vector<TriedDevice> tried;
  if (line.doctor.try_devices && ready == QUERN_OK)
    tried = try_devices(settings, make<DeviceList>(quern_runtime_devices, runtime.get()).get());
  if (line.json) {
    Json json = Json::parse(view(make<Text>(quern_load_report_json, snapshot)));
    json["ready"] = ready == QUERN_OK;
    json["trouble"] = ready == QUERN_OK ? Json(nullptr) : Json(trouble);
    if (line.doctor.try_devices) json["tried"] = tried_json(tried);
    write_json(json);
  } else {
    std::string page(view(make<Text>(quern_load_report_words, snapshot)));
    if (line.doctor.try_devices && ready == QUERN_OK) page = tried_words(tried) + "\n" + page;
    write_marked_page(page);
  }
  if (ready != QUERN_OK)
    throw Failure(exit_code_of(ready), line.json ? trouble : "doctor: no model would run; the first line of the report has the reason");
  const auto wrong = std::ranges::count_if(tried, [](const TriedDevice& one) { return !one.right(); });
  if (wrong != 0)
    throw Failure(exit_unavailable,
                  "doctor: " + std::to_string(wrong) + " of " + std::to_string(tried.size()) + " devices failed; the report names them");
  return exit_ok;
}

}  // namespace quern::cli
