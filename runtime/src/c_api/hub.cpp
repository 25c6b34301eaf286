// quern_pull and its siblings: options and environment into settings, paths and lists out.
#include "boundary.hpp"
#include "handles.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/json_writer.hpp"

#include "quern/models/hub.hpp"

#include <cstdlib>

using namespace quern;
using namespace quern::c_api;

namespace {

hub::Settings settings_of(const quern_hub_options* options) {
  const auto o = whole(options, "quern_hub_options");
  const auto get = [&](const char* name) -> const char* { return o.ignore_environment != 0 ? nullptr : ::secure_getenv(name); };
  hub::Settings settings = hub::settings_from_environment(get);
  if (o.endpoint != nullptr) settings.endpoint = hub::without_slash(o.endpoint);
  if (o.hub_cache != nullptr) settings.cache = o.hub_cache;
  if (o.cache_dir != nullptr) settings.url_cache = std::string(o.cache_dir) + "/models";
  if (o.token != nullptr) settings.token = o.token;
  if (o.offline > QUERN_OFFLINE_OFF) {
    throw Error(QUERN_INVALID_ARGUMENT, concat("offline is ", o.offline, "; it takes QUERN_OFFLINE_DEFAULT, _ON or _OFF"));
  }
  if (o.offline != QUERN_OFFLINE_DEFAULT) settings.offline = o.offline == QUERN_OFFLINE_ON;
  if (o.tries != 0) settings.tries = o.tries;
  if (o.timeout != 0) settings.timeout = std::chrono::seconds(o.timeout);
  if (o.most_bytes != 0) settings.most_bytes = o.most_bytes;
  if (o.least_rate > UINT32_MAX)
    throw Error(QUERN_INVALID_ARGUMENT, concat("least_rate is ", o.least_rate, "; it takes bytes a second up to 4294967295"));
  if (o.least_rate != 0) settings.least_rate = o.least_rate;
  settings.memory_bytes = o.memory_bytes;
  if (settings.cache.empty() || settings.url_cache.empty()) {
    throw Error(QUERN_INVALID_ARGUMENT,
                "there is no folder for models: neither HOME nor XDG_CACHE_HOME is set; give HF_HUB_CACHE and QUERN_CACHE_DIR");
  }
  settings.waits = !in_callback();  // it may be what the callback was called from
  if (o.progress != nullptr) {
    settings.progress = [call = o.progress, user = o.progress_user](const hub::Progress& p) {
      const std::string waiting = printable(p.waiting);  // it quotes the server
      const quern_pull_event event{sizeof(event), p.file.c_str(), p.done, p.total, waiting.c_str()};
      return call_back(call, user, &event) == 0;
    };
  }
  return settings;
}

void write_model(JsonWriter& json, const hub::CachedModel& model) {
  json.begin_object();
  json.member("name", model.name);
  json.member("path", model.path);
  json.member("bytes", model.bytes);
  json.member("files", model.files);
  json.member("repository", model.repository);
  json.member("revision", model.revision);
  json.member("quantisation", model.quantisation);
  json.member("source", model.source);
  json.member("modified", model.modified);
  json.end_object();
}

}  // namespace

extern "C" {

quern_status quern_pull(const char* name, const quern_hub_options* options, quern_text** path) {
  return guarded([&] {
    require(path, "path");
    *path = nullptr;
    require(name, "name");
    const char* sha256 = whole(options, "quern_hub_options").sha256;
    *path = make_text(hub::pull(name, text_or_empty(sha256), settings_of(options)));
  });
}

quern_status quern_find_model(const char* name, const quern_hub_options* options, quern_text** path) {
  return guarded<Needs::text>([&] {
    require(path, "path");
    *path = nullptr;
    require(name, "name");
    *path = make_text(hub::find(name, settings_of(options)));
  });
}

quern_status quern_cached_models_json(const quern_hub_options* options, quern_text** out) {
  return guarded<Needs::text>([&] {
    require(out, "out");
    *out = nullptr;
    const hub::Settings settings = settings_of(options);
    JsonWriter json;
    json.begin_object();
    json.member("hub_cache", settings.cache);
    json.member("url_cache", settings.url_cache);
    json.key("models");
    json.begin_array();
    for (const hub::CachedModel& model : hub::list(settings)) write_model(json, model);
    json.end_array();
    json.end_object();
    *out = make_text(json.take());
  });
}

quern_status quern_remove_model(const char* name, const quern_hub_options* options, uint64_t* freed_bytes) {
  return guarded<Needs::text>([&] {
    require(name, "name");
    const std::uint64_t freed = hub::remove(name, settings_of(options));
    if (freed_bytes != nullptr) *freed_bytes = freed;
  });
}

}  // extern "C"
