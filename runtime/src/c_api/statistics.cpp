// What ran where: snapshots of a session's counters.
#include "boundary.hpp"
#include "handles.hpp"
#include "quern/graph/json_writer.hpp"

#include <algorithm>

using namespace quern;
using namespace quern::c_api;

struct quern_statistics {
  struct Device {
    std::string device, backend, kernels;
    std::uint64_t nodes = 0, runs = 0, weights = 0, kv = 0, scratch = 0, peak = 0;
  };
  std::string backend, device, kernels;
  runtime::GenerationTotals totals;
  std::uint64_t steps = 0, bytes_in = 0, bytes_out = 0;
  std::vector<Device> devices;
  std::vector<runtime::Cut> cuts;
};

namespace {

quern_statistics snapshot(const quern_session& session) {
  const runtime::Engine& engine = *session.engine;
  const runtime::Model& model = engine.model();
  quern_statistics s;
  s.totals = session.totals;
  s.steps = engine.steps();
  s.bytes_in = engine.bytes_in();
  s.bytes_out = engine.bytes_out();
  s.cuts = engine.program().cuts();
  const std::vector<runtime::DeviceShare> shares = engine.program().shares();
  std::size_t most = 0;
  for (std::size_t d = 0; d < shares.size(); ++d) {
    quern_statistics::Device device;
    device.device = shares[d].device;
    device.backend = backend_of(shares[d].device);
    for (const runtime::KernelUse& kernel : shares[d].kernels) device.kernels += concat(device.kernels.empty() ? "" : ", ", kernel.name);
    device.nodes = shares[d].nodes;
    device.runs = shares[d].nodes > 0 ? engine.steps() : 0;
    for (const runtime::WeightShare& share : model.weight_shares()) {
      if (share.device == d) device.weights = share.bytes;
    }
    const std::vector<std::uint32_t> kv_readers = engine.program().readers(model.step().k_cache.at(0));
    if (std::ranges::find(kv_readers, d) != kv_readers.end()) device.kv = engine.kv_bytes();
    if (shares[d].nodes > 0) device.scratch = engine.program().scratch_bytes();
    device.peak = model.devices()[d]->statistics().peak;
    if (shares[d].nodes > shares[most].nodes) most = d;
    s.devices.push_back(std::move(device));
  }
  if (engine.steps() > 0) {
    s.device = s.devices[most].device;
    s.backend = s.devices[most].backend;
    s.kernels = kernel_set(shares[most]);
  }
  return s;
}

template <typename List>
const auto& at(const List& list, std::uint64_t index, const char* what) {
  if (index >= list.size()) throw Error(QUERN_NOT_FOUND, concat(what, " ", index, " was asked for, but there are ", list.size()));
  return list[static_cast<std::size_t>(index)];
}

}  // namespace

extern "C" {

quern_status quern_session_statistics(quern_session* session, quern_statistics** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(session, "session");
    const Turn turn(session);
    *out = new quern_statistics(snapshot(*session));
  });
}

quern_status quern_statistics_get_info(const quern_statistics* statistics, quern_statistics_info* out) {
  return guarded<Needs::little>([&] {
    require(statistics, "statistics");
    quern_statistics_info info{};
    info.backend = statistics->backend.c_str();
    info.device = statistics->device.c_str();
    info.kernels = statistics->kernels.c_str();
    info.tokens_prefill = statistics->totals.tokens_prefill;
    info.tokens_decode = statistics->totals.tokens_decode;
    info.seconds_prefill = statistics->totals.seconds_prefill;
    info.seconds_decode = statistics->totals.seconds_decode;
    info.steps = statistics->steps;
    info.bytes_to_device = statistics->bytes_in;
    info.bytes_from_device = statistics->bytes_out;
    info.devices = statistics->devices.size();
    info.cuts = statistics->cuts.size();
    give(out, info, "quern_statistics_info");
  });
}

quern_status quern_statistics_get_device(const quern_statistics* statistics, uint64_t index, quern_statistics_device* out) {
  return guarded<Needs::little>([&] {
    require(statistics, "statistics");
    const quern_statistics::Device& device = at(statistics->devices, index, "device");
    quern_statistics_device info{};
    info.device = device.device.c_str();
    info.backend = device.backend.c_str();
    info.kernels = device.kernels.c_str();
    info.nodes = device.nodes;
    info.runs = device.runs;
    info.weights_bytes = device.weights;
    info.kv_bytes = device.kv;
    info.scratch_bytes = device.scratch;
    info.peak_bytes = device.peak;
    give(out, info, "quern_statistics_device");
  });
}

quern_status quern_statistics_get_cut(const quern_statistics* statistics, uint64_t index, quern_statistics_cut* out) {
  return guarded<Needs::little>([&] {
    require(statistics, "statistics");
    const runtime::Cut& cut = at(statistics->cuts, index, "cut");
    quern_statistics_cut info{};
    info.from = cut.from.c_str();
    info.to = cut.to.c_str();
    info.node = cut.value.c_str();
    info.reason = cut.reason.c_str();
    info.bytes_per_token = cut.bytes_per_row + cut.bytes;
    give(out, info, "quern_statistics_cut");
  });
}

quern_status quern_statistics_json(const quern_statistics* statistics, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(statistics, "statistics");
    const quern_statistics& s = *statistics;
    JsonWriter json;
    json.begin_object();
    json.member("backend", s.backend);
    json.member("device", s.device);
    json.member("kernels", s.kernels);
    json.member("tokens_prefill", s.totals.tokens_prefill);
    json.member("tokens_decode", s.totals.tokens_decode);
    json.member("seconds_prefill", s.totals.seconds_prefill);
    json.member("seconds_decode", s.totals.seconds_decode);
    json.member("steps", s.steps);
    json.member("bytes_to_device", s.bytes_in);
    json.member("bytes_from_device", s.bytes_out);
    json.key("devices");
    json.begin_array();
    for (const quern_statistics::Device& d : s.devices) {
      json.begin_object();
      json.member("device", d.device);
      json.member("backend", d.backend);
      json.member("kernels", d.kernels);
      json.member("nodes", d.nodes);
      json.member("runs", d.runs);
      json.member("weights_bytes", d.weights);
      json.member("kv_bytes", d.kv);
      json.member("scratch_bytes", d.scratch);
      json.member("peak_bytes", d.peak);
      json.end_object();
    }
    json.end_array();
    json.key("cuts");
    json.begin_array();
    for (const runtime::Cut& cut : s.cuts) {
      json.begin_object();
      json.member("from", cut.from);
      json.member("to", cut.to);
      json.member("node", cut.value);
      json.member("reason", cut.reason);
      json.member("bytes_per_token", cut.bytes_per_row + cut.bytes);
      json.end_object();
    }
    json.end_array();
    json.end_object();
    *out = make_text(json.take());
  });
}

void quern_statistics_release(quern_statistics* statistics) { delete statistics; }

}  // extern "C"
