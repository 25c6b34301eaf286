// Adapters as files, of quern.h.
#include "boundary.hpp"
#include "handles.hpp"

#include "../merge.hpp"

using namespace quern;
using namespace quern::c_api;

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

}  // extern "C"
