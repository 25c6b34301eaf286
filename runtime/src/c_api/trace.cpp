// A trace of a session or of a training run in the Chrome trace event format.
#include "trace_json.hpp"

#include "boundary.hpp"
#include "handles.hpp"
#include "quern/graph/json_writer.hpp"

using namespace quern;
using namespace quern::c_api;

namespace {

void write_process(JsonWriter& json, std::uint32_t track, const std::string& name) {
  json.begin_object();
  json.member("ph", "M");
  json.member("name", "process_name");
  json.member("pid", track);
  json.key("args");
  json.begin_object();
  json.member("name", name);
  json.end_object();
  json.end_object();
}

void write_span(JsonWriter& json, const runtime::TraceSpan& span) {
  json.begin_object();
  json.member("ph", "X");
  json.member("name", span.name);
  json.member("pid", span.track);
  json.member("tid", 0);
  json.member("ts", span.start);
  json.member("dur", span.length);
  json.key("args");
  json.begin_object();
  for (const runtime::TraceCount& count : span.counts) json.member(count.name, count.value);
  json.end_object();
  json.end_object();
}

std::string label(const runtime::Program& program, std::uint32_t device) { return program.devices()[device]->device()->label(); }

void write_nodes(JsonWriter& json, const runtime::Program& program) {
  for (const runtime::NodePlace& place : program.node_places()) {
    json.begin_object();
    json.member("graph", program.graph().name());
    json.member("node", place.name);
    json.member("op", place.op);
    json.member("device", label(program, place.device));
    json.end_object();
  }
}

void write_kernels(JsonWriter& json, const runtime::Program& program) {
  for (const runtime::KernelPlace& place : program.kernel_places()) {
    json.begin_object();
    json.member("graph", program.graph().name());
    json.member("kernel", place.kernel);
    json.member("device", label(program, place.device));
    json.member("node", place.node);
    json.member("nodes", place.nodes);
    json.end_object();
  }
}

}  // namespace

namespace quern::c_api {

std::string trace_json(const runtime::Trace& trace, std::span<const runtime::Program* const> programs) {
  JsonWriter json;
  json.begin_object();
  json.member("displayTimeUnit", "ms");
  json.key("traceEvents");
  json.begin_array();
  write_process(json, 0, "host");
  const runtime::Program& first = *programs.front();  // all have the same devices
  for (std::uint32_t d = 0; d < first.devices().size(); ++d) write_process(json, d + 1, label(first, d));
  for (const runtime::TraceSpan& span : trace.spans()) write_span(json, span);
  json.end_array();
  json.key("nodes");
  json.begin_array();
  for (const runtime::Program* program : programs) write_nodes(json, *program);
  json.end_array();
  json.key("kernels");
  json.begin_array();
  for (const runtime::Program* program : programs) write_kernels(json, *program);
  json.end_array();
  json.end_object();
  return json.take();
}

}  // namespace quern::c_api

extern "C" {

quern_status quern_session_trace_start(quern_session* session) {
  return guarded<Needs::text>([&] {
    require(session, "session");
    const Turn turn(session);
    session->engine->start_trace();
  });
}

quern_status quern_session_trace_json(quern_session* session, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(session, "session");
    const Turn turn(session);
    const std::unique_ptr<runtime::Trace> trace = session->engine->take_trace();
    if (trace == nullptr) throw Error(QUERN_INVALID_ARGUMENT, "the session records no trace; quern_session_trace_start begins one");
    const runtime::Program* const program = &session->engine->program();
    *out = make_text(trace_json(*trace, std::span(&program, 1)));
  });
}

}  // extern "C"
