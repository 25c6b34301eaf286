// Adapters of quern.h: as files, and of sequences.
#include "boundary.hpp"
#include "handles.hpp"

#include "../merge.hpp"

#include <algorithm>
#include <cmath>

using namespace quern;
using namespace quern::c_api;

std::vector<std::string> quern::c_api::adapter_paths(const char* const* paths, std::uint64_t count) {
  constexpr std::uint64_t most_adapters = 4096;
  if (count > most_adapters) throw Error(QUERN_INVALID_ARGUMENT, concat(count, " adapters were given; at most ", most_adapters));
  if (count > 0) require(paths, "adapters");
  std::vector<std::string> list;
  for (std::uint64_t i = 0; i < count; ++i) {
    require(paths[i], "the path of an adapter");
    list.emplace_back(paths[i]);
  }
  return list;
}

extern "C" {

quern_status quern_merge(quern_runtime* runtime, const char* base, const quern_merge_adapter* adapters, uint64_t count,
                         const quern_merge_options* options, const char* out) {
  return guarded([&] {
    require(runtime, "runtime");
    require(base, "base");
    require(out, "out");
    if (count > 0) require(adapters, "adapters");
    const auto o = whole(options, "quern_merge_options");
    if (o.keep > 1) throw Error(QUERN_INVALID_ARGUMENT, concat("keep is ", o.keep, "; it is 0 or 1"));
    if (o.keep == 1 && o.type != QUERN_DTYPE_NONE) throw Error(QUERN_INVALID_ARGUMENT, "keep and a type contradict each other");
    std::vector<std::pair<std::string, double>> read;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto adapter = whole_at(adapters, i, "quern_merge_adapter");
      require(adapter.path, "an adapter's path");
      read.emplace_back(adapter.path, adapter.scale == 0 ? 1 : adapter.scale);
    }
    runtime->runtime->require_ready();
    require_driver_stack(runtime->runtime->devices());
    runtime::merge(*runtime->runtime, base, read, {.type = o.type, .keep = o.keep == 1}, out);
  });
}

quern_status quern_export_adapter(const char* adapter, const char* base, uint32_t format, quern_dtype dtype, const char* out) {
  return guarded<Needs::text>([&] {
    require(adapter, "adapter");
    require(base, "base");
    require(out, "out");
    if (format > QUERN_ADAPTER_GGUF)
      throw Error(QUERN_INVALID_ARGUMENT, concat("format is ", format, "; it is QUERN_ADAPTER_PEFT or QUERN_ADAPTER_GGUF"));
    runtime::export_adapter(adapter, base, format == QUERN_ADAPTER_PEFT ? runtime::AdapterFormat::peft : runtime::AdapterFormat::gguf,
                            dtype == QUERN_DTYPE_NONE ? quern_dtype{QUERN_F32} : dtype, out);
  });
}

quern_status quern_adapter_load(quern_model* model, const char* path, quern_adapter** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(model, "model");
    require(path, "path");
    auto handle = std::make_unique<quern_adapter>();
    handle->adapter = std::make_shared<const runtime::LoadedAdapter>(model->model, path);
    *out = handle.release();
  });
}

void quern_adapter_release(quern_adapter* adapter) { Owner::release(adapter); }

quern_status quern_adapter_get_info(const quern_adapter* adapter, quern_adapter_info* out) {
  return guarded<Needs::little>([&] {
    require(static_cast<const void*>(adapter), "adapter");
    const peft::Adapter& read = adapter->adapter->adapter();
    quern_adapter_info info{};
    info.path = adapter->adapter->path().c_str();
    info.base_model = read.base_model.c_str();
    for (const peft::AdapterMatrix& matrix : read.matrices) {
      info.parameters += matrix.a.size() + matrix.b.size();
      info.rank = std::max(info.rank, static_cast<std::uint64_t>(matrix.rank));
    }
    info.matrices = read.matrices.size();
    info.alpha = read.alpha;
    info.rslora = read.rslora ? 1 : 0;
    give(out, info, "quern_adapter_info");
  });
}

quern_status quern_session_use_adapter(quern_session* session, uint32_t sequence, quern_adapter* adapter, double scale) {
  return guarded([&] {
    require(session, "session");
    if (adapter != nullptr) require(adapter, "adapter");
    if (!std::isfinite(scale))
      throw Error(QUERN_INVALID_ARGUMENT, concat("the scale of an adapter is ", scale, "; it takes a finite number"));
    const Turn turn(session);
    check_sequence(session, sequence, "sequence");
    session->engine->use_adapter(sequence, adapter == nullptr ? nullptr : adapter->adapter, scale == 0 ? 1 : scale);
  });
}

}  // extern "C"
