// quern_embed: the last hidden state of a text.
#include "boundary.hpp"
#include "handles.hpp"

#include "../embed.hpp"

#include "quern/base/byte_sizes.hpp"

using namespace quern;
using namespace quern::c_api;

extern "C" quern_status quern_embed(quern_session* session, uint32_t sequence, const int32_t* ids, uint64_t count, uint32_t pooling,
                                    uint32_t flags, float* buffer, uint64_t capacity, uint64_t* needed) {
  return guarded([&] {
    require(session, "session");
    if (count > 0) require(ids, "ids");
    check_flags(flags, QUERN_EMBED_NORMALISE, "quern_embed");
    if (pooling > QUERN_POOL_NONE)
      throw Error(QUERN_INVALID_ARGUMENT, concat("pooling is ", pooling, "; it takes QUERN_POOL_LAST, _MEAN or _NONE"));
    const Turn turn(session);
    const std::uint64_t hidden = session->model->shape().hidden;
    if (count > session->context) {
      throw Error(QUERN_CONTEXT_FULL, concat("the text has ", counted(count, "token"), " but the context is ", session->context,
                                             "; load with a larger context or give a shorter text"));
    }
    const std::uint64_t floats = pooling == QUERN_POOL_NONE ? hidden * count : hidden;
    if (needed != nullptr) *needed = floats;
    if (buffer == nullptr && capacity == 0) return require(needed, "needed");
    require(buffer, "buffer");
    if (capacity < floats)
      throw Error(QUERN_INVALID_ARGUMENT, concat("the buffer has room for ", capacity, " but ", floats, " are needed"));
    const auto how = pooling == QUERN_POOL_LAST   ? runtime::Pooling::last
                     : pooling == QUERN_POOL_MEAN ? runtime::Pooling::mean
                                                  : runtime::Pooling::none;
    const std::vector<float> made =
        runtime::embed(*session->engine, sequence, {ids, static_cast<std::size_t>(count)}, how, (flags & QUERN_EMBED_NORMALISE) != 0);
    std::ranges::copy(made, buffer);
  });
}
