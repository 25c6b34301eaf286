// Conversions of quern.h.
#include "boundary.hpp"
#include "handles.hpp"

#include "../convert.hpp"

using namespace quern;
using namespace quern::c_api;

extern "C" quern_status quern_convert(quern_runtime* runtime, const char* from, const char* out, const quern_convert_options* options) {
  return guarded([&] {
    require(runtime, "runtime");
    require(from, "from");
    require(out, "out");
    const auto o = whole(options, "quern_convert_options");
    if (o.vocabulary_only > 1) throw Error(QUERN_INVALID_ARGUMENT, concat("vocabulary_only is ", o.vocabulary_only, "; it is 0 or 1"));
    runtime->runtime->require_ready();
    require_driver_stack(runtime->runtime->devices());
    runtime::convert(*runtime->runtime, from, out,
                     {.type = o.type, .vocabulary_only = o.vocabulary_only == 1, .shard_bytes = o.shard_bytes});
  });
}
