// quern_pull and its siblings: options and environment into settings, paths and lists out.
#include "boundary.hpp"
#include "handles.hpp"

#include "quern/models/hub.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>

using namespace quern;
using namespace quern::c_api;
using Json = nlohmann::ordered_json;

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
  if (settings.cache.empty() || settings.url_cache.empty()) {
    throw Error(QUERN_INVALID_ARGUMENT,
                "there is no folder for models: neither HOME nor XDG_CACHE_HOME is set; give HF_HUB_CACHE and QUERN_CACHE_DIR");
  }
  if (o.progress != nullptr) {
    settings.progress = [call = o.progress, user = o.progress_user](const hub::Progress& p) {
      const quern_pull_event event{sizeof(event), p.file.c_str(), p.done, p.total, p.waiting.c_str()};
      return call(user, &event) == 0;
    };
  }
  return settings;
}

Json json_of(const hub::CachedModel& model) {
  return {{"name", model.name},
          {"path", model.path},
          {"bytes", model.bytes},
          {"files", model.files},
          {"repository", model.repository},
          {"revision", model.revision},
          {"quantisation", model.quantisation},
          {"source", model.source},
          {"modified", model.modified}};
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
  return guarded([&] {
    require(path, "path");
    *path = nullptr;
    require(name, "name");
    *path = make_text(hub::find(name, settings_of(options)));
  });
}

quern_status quern_cached_models_json(const quern_hub_options* options, quern_text** out) {
  return guarded([&] {
    require(out, "out");
    *out = nullptr;
    const hub::Settings settings = settings_of(options);
    Json json{{"hub_cache", settings.cache}, {"url_cache", settings.url_cache}, {"models", Json::array()}};
    for (const hub::CachedModel& model : hub::list(settings)) json["models"].push_back(json_of(model));
    *out = make_text(json.dump(2, ' ', false, Json::error_handler_t::replace));
  });
}

quern_status quern_remove_model(const char* name, const quern_hub_options* options, uint64_t* freed_bytes) {
  return guarded([&] {
    require(name, "name");
    const std::uint64_t freed = hub::remove(name, settings_of(options));
    if (freed_bytes != nullptr) *freed_bytes = freed;
  });
}

}  // extern "C"
