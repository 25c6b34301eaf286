// Estimates of quern.h.
#include "boundary.hpp"
#include "handles.hpp"

#include "../estimate.hpp"

using namespace quern;
using namespace quern::c_api;

struct quern_estimate {
  runtime::Estimate estimate;
};

namespace {

runtime::ModelOptions model_options(const quern_estimate_options& o, bool compiles) {
  if (o.activations > QUERN_ACTIVATIONS_F32) throw Error(QUERN_INVALID_ARGUMENT, concat("activations is ", o.activations));
  if (o.kv > QUERN_KV_F32) throw Error(QUERN_INVALID_ARGUMENT, concat("kv is ", o.kv));
  runtime::ModelOptions options;
  options.context = o.context;
  options.sequences = o.sequences == 0 ? 1 : o.sequences;
  options.exact = o.activations == QUERN_ACTIVATIONS_F32;
  options.kv_dtype = o.kv == QUERN_KV_F32 ? QUERN_F32 : QUERN_F16;
  options.adapters = adapter_paths(o.adapters, o.adapter_count);
  if (!options.adapters.empty() && !compiles)
    throw Error(QUERN_INVALID_ARGUMENT, "an estimate with adapters needs a runtime and a model file; give both, or leave the adapters out");
  return options;
}

}  // namespace

extern "C" {

quern_status quern_estimate_file(quern_runtime* runtime, const char* path, const quern_estimate_options* options, quern_estimate** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(path, "path");
    if (runtime != nullptr) runtime->require_same_process("runtime");
    const runtime::ModelOptions wanted = model_options(whole(options, "quern_estimate_options"), runtime != nullptr);
    *out = new quern_estimate{runtime::estimate_file(runtime == nullptr ? nullptr : runtime->runtime.get(), path, wanted)};
  });
}

quern_status quern_estimate_shape(const quern_shape* shape, const quern_estimate_options* options, quern_estimate** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    require(shape, "shape");
    const auto s = whole(shape, "quern_shape");
    const runtime::ModelOptions wanted = model_options(whole(options, "quern_estimate_options"), false);
    const runtime::ShapeNumbers numbers{s.hidden, s.feed_forward, s.layers, s.vocabulary, s.heads, s.kv_heads, s.head_size, s.tied != 0};
    *out = new quern_estimate{runtime::estimate_shape(numbers, wanted.context, wanted.sequences, wanted.kv_dtype)};
  });
}

quern_status quern_estimate_get_info(const quern_estimate* estimate, quern_estimate_info* out) {
  return guarded<Needs::little>([&] {
    require(estimate, "estimate");
    const runtime::Estimate& e = estimate->estimate;
    quern_estimate_info info{};
    info.parameters = e.parameters;
    info.context = e.context;
    info.weights_bytes = e.weights_bytes;
    info.kv_bytes = e.kv_bytes;
    info.kv_bytes_f16 = e.kv_bytes_f16;
    info.kv_bytes_f32 = e.kv_bytes_f32;
    info.scratch_bytes = e.scratch_bytes;
    info.overhead_bytes = e.overhead_bytes;
    info.total_bytes = e.total();
    info.available_bytes = e.available_bytes;
    info.scratch_known = e.scratch_known ? 1 : 0;
    info.fits = e.fits() ? 1 : 0;
    info.dtypes = static_cast<std::uint32_t>(e.formats.size());
    info.adapter_bytes = e.adapter_bytes;
    give(out, info, "quern_estimate_info");
  });
}

quern_status quern_estimate_dtype(const quern_estimate* estimate, uint32_t index, const char** name, uint64_t* bytes, int* available) {
  return guarded<Needs::little>([&] {
    require(estimate, "estimate");
    require(name, "name");
    require(bytes, "bytes");
    const auto& formats = estimate->estimate.formats;
    if (index >= formats.size()) throw Error(QUERN_NOT_FOUND, concat("format ", index, " was asked for, but there are ", formats.size()));
    *name = formats[index].name.c_str();
    *bytes = formats[index].bytes;
    if (available != nullptr) *available = formats[index].available ? 1 : 0;
  });
}

void quern_estimate_release(quern_estimate* estimate) { delete estimate; }

}  // extern "C"
