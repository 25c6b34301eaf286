// Sessions and sequences of quern.h, and their saved states.
#include "boundary.hpp"
#include "handles.hpp"

#include "../saved_state.hpp"

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace quern;
using namespace quern::c_api;

namespace {

void check_sequence(const quern_session* session, std::uint32_t sequence, const char* what) {
  if (sequence >= session->sequences) {
    throw Error(QUERN_INVALID_ARGUMENT, concat(what, " is ", sequence, " but the session has ", session->sequences,
                                               " (0 to ", session->sequences - 1, ")"));
  }
}

std::string system_reason() { return std::generic_category().message(errno); }

/// Writes to a file beside `path` and renames it, so that a reader sees the old state or the new one.
void write_whole(const std::string& path, std::span<const std::byte> bytes) {
  const std::string temporary = path + ".part";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) throw Error(QUERN_IO, concat(temporary, ": cannot be written: ", system_reason()));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string reason = system_reason();
    std::remove(temporary.c_str());
    throw Error(QUERN_IO, concat(path, ": the session could not be saved: ", reason));
  }
}

std::vector<std::byte> read_whole(const std::string& path) {
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status)) throw Error(QUERN_NOT_FOUND, concat(path, ": no such file"));
  if (!std::filesystem::is_regular_file(status)) throw Error(QUERN_BAD_MODEL, concat(path, ": not a regular file"));
  std::ifstream file(path, std::ios::binary);
  const std::uint64_t size = std::filesystem::file_size(path, failed);
  std::vector<std::byte> bytes(failed ? 0 : static_cast<std::size_t>(size));
  if (!file || failed || !file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) {
    throw Error(QUERN_IO, concat(path, ": cannot be read: ", failed ? failed.message() : system_reason()));
  }
  return bytes;
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
    const std::uint64_t context = o.context == 0 ? loaded.context() : o.context;
    const std::uint32_t sequences = o.sequences == 0 ? 1 : o.sequences;
    if (context > loaded.context()) {
      throw Error(QUERN_INVALID_ARGUMENT, concat("a session context of ", context, " was asked for, but the model was loaded for ", loaded.context()));
    }
    if (sequences > loaded.sequences()) {
      throw Error(QUERN_INVALID_ARGUMENT, concat(sequences, " sequences were asked for, but the model was loaded for ", loaded.sequences()));
    }
    auto handle = std::make_unique<quern_session>();
    handle->model = model->model;
    handle->engine = std::make_unique<runtime::Engine>(model->model, sequences, static_cast<std::uint32_t>(context));
    handle->context = context;
    handle->sequences = sequences;
    *out = handle.release();
  });
}

void quern_session_release(quern_session* session) { delete session; }

void quern_cancel(quern_session* session) {
  if (session != nullptr) session->engine->cancel();
}

quern_status quern_sequence_length(const quern_session* session, uint32_t sequence, uint64_t* length) {
  return guarded([&] {
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
    write_whole(path, runtime::save(*session->engine));
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
    const std::vector<std::byte> bytes = read_whole(path);
    runtime::restore(*session->engine, bytes, path);
  });
}

}  // extern "C"
