// The helper process's side: examines one plugin and answers in lines of JSON.
#include "child.hpp"
#include "examine.hpp"
#include "inspect.hpp"
#include "quern/graph/error.hpp"

#include <unistd.h>

#include <cerrno>

namespace quern::loader {
namespace {

/// One line: an object with one member, which `value` writes.
template <typename Value>
bool answer(const char* name, const Value& value) {
  JsonWriter json(JsonWriter::Style::one_line);
  json.begin_object();
  json.key(name);
  value(json);
  json.end_object();
  const std::string text = json.take() + "\n";
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t put = ::write(helper_result_fd, text.data() + at, text.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += static_cast<std::size_t>(put);
  }
  return true;
}

}  // namespace

int serve_probe(const std::string& request_text) {
  const HelperRequest request = read_request(request_text);
  ExamineRequest wanted;
  wanted.path = request.path;
  wanted.facts = own_facts(request.allow_dev_plugins);
  wanted.options = request.options;
  wanted.measure = request.measure;
  wanted.thorough = true;
  wanted.entering = [](Stage stage) { answer("entering", [&](JsonWriter& json) { json.value(stage_number(stage)); }); };
  Inspection found;
  Examination result;
  // Again: the file may have changed since the parent looked.
  result.verdict = inspect_file(request.path, wanted.facts, found);
  result.stage = Stage::inspect;
  if (result.verdict.ok()) result = examine(wanted, found);
  return answer("result", [&](JsonWriter& json) { write_json(json, result); }) ? 0 : 70;
}

}  // namespace quern::loader
