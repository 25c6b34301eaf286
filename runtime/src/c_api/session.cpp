// Sessions and sequences of quern.h, and their saved states.
#include "boundary.hpp"
#include "handles.hpp"

#include "../saved_state.hpp"

#include "quern/graph/file_error.hpp"

using namespace quern;
using namespace quern::c_api;

namespace {

/// Four times the most bytes that a saved state of this session can have, and 256 MiB: restore() names what is wrong with one of a
/// longer session, and a file of any size takes no memory of its own.
std::uint64_t most_saved(const runtime::Engine& engine, std::uint64_t context) {
  const std::uint64_t pages = context / runtime::kv_page_size + 1;
  const std::uint64_t layers = engine.model().step().k_cache.size();
  return 4 * engine.sequences() * (layers * pages * (engine.page_bytes(true) + engine.page_bytes(false)) + 4 * context + 4096) +
         (256 << 20);
}

}  // namespace

extern "C" {

quern_status quern_session_create(quern_model* model, const quern_session_options* options, quern_session** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    require(model, "model");
    const auto o = whole(options, "quern_session_options");
    const runtime::Model& loaded = *model->model;
    require_driver_stack(loaded.devices());
    const std::uint64_t context = o.context == 0 ? loaded.context() : o.context;
    const std::uint32_t sequences = o.sequences == 0 ? 1 : o.sequences;
    if (context > loaded.context()) {
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("a session context of ", context, " was asked for, but the model was loaded for ", loaded.context()));
    }
    if (sequences > loaded.sequences()) {
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat(sequences, " sequences were asked for, but the model was loaded for ", loaded.sequences()));
    }
    auto handle = std::make_unique<quern_session>();
    handle->model = model->model;
    handle->engine = std::make_unique<runtime::Engine>(model->model, sequences, static_cast<std::uint32_t>(context));
    handle->context = context;
    handle->sequences = sequences;
    *out = handle.release();
  });
}

void quern_session_release(quern_session* session) { Owner::release(session); }

void quern_cancel(quern_session* session) {
  if (session != nullptr) session->engine->cancel();
}

quern_status quern_sequence_length(const quern_session* session, uint32_t sequence, uint64_t* length) {
  return guarded<Needs::little>([&] {
    require(session, "session");
    require(length, "length");
    check_sequence(session, sequence, "sequence");
    *length = session->engine->tokens(sequence).size();
  });
}

quern_status quern_sequence_truncate(quern_session* session, uint32_t sequence, uint64_t length) {
  return guarded([&] {
    require(session, "session");
    const Turn turn(session);
    check_sequence(session, sequence, "sequence");
    const std::size_t held = session->engine->tokens(sequence).size();
    if (length > held) throw Error(QUERN_INVALID_ARGUMENT, concat("length is ", length, " but the sequence holds ", held));
    session->engine->truncate(sequence, static_cast<std::uint32_t>(length));
  });
}

quern_status quern_sequence_copy(quern_session* session, uint32_t from, uint32_t to) {
  return guarded([&] {
    require(session, "session");
    const Turn turn(session);
    check_sequence(session, from, "from");
    check_sequence(session, to, "to");
    session->engine->copy(from, to);
  });
}

quern_status quern_session_save(quern_session* session, void* buffer, uint64_t capacity, uint64_t* needed) {
  return guarded([&] {
    require(session, "session");
    const Turn turn(session);
    if (buffer == nullptr && capacity == 0) {
      require(needed, "needed");
      *needed = runtime::saved_size(*session->engine);
      return;
    }
    const std::vector<std::byte> bytes = runtime::save(*session->engine);
    give_list(bytes.data(), bytes.size(), static_cast<std::byte*>(buffer), capacity, needed);
  });
}

quern_status quern_session_save_file(quern_session* session, const char* path) {
  return guarded([&] {
    require(session, "session");
    require(path, "path");
    const Turn turn(session);
    check_written(base::write_file(path, runtime::save(*session->engine)));
  });
}

quern_status quern_session_restore(quern_session* session, const void* data, uint64_t size) {
  return guarded([&] {
    require(session, "session");
    require(data, "data");
    const Turn turn(session);
    runtime::restore(*session->engine, {static_cast<const std::byte*>(data), static_cast<std::size_t>(size)}, "saved session");
  });
}

quern_status quern_session_restore_file(quern_session* session, const char* path) {
  return guarded([&] {
    require(session, "session");
    require(path, "path");
    const Turn turn(session);
    std::vector<std::byte> bytes;
    check_read(base::read_file(path, bytes, {.most = most_saved(*session->engine, session->context)}));
    runtime::restore(*session->engine, bytes, path);
  });
}

}  // extern "C"
