// See url_store.hpp.
#include "url_store.hpp"

#include "files.hpp"
#include "model_name.hpp"

#include "quern/graph/folder.hpp"
#include "quern/graph/json.hpp"
#include "quern/graph/json_writer.hpp"
#include "quern/graph/sha256.hpp"

#include <algorithm>
#include <cstdint>

namespace quern::hub {
namespace fs = std::filesystem;

namespace {

constexpr const char* note = "source.json";

/// Nothing where the entry is none of ours.
std::optional<UrlFile> url_file_of(const Json& entry) {
  const Json *name = entry.find("name"), *bytes = entry.find("bytes"), *sha256 = entry.find("sha256");
  if (name == nullptr || bytes == nullptr || sha256 == nullptr) return std::nullopt;
  if (name->text() == nullptr || bytes->count() == nullptr || sha256->text() == nullptr) return std::nullopt;
  return UrlFile{*name->text(), *bytes->count(), *sha256->text()};
}

}  // namespace

fs::path url_folder(const fs::path& store, const std::string& url) { return store / sha256_of(url).substr(0, 16); }

std::optional<UrlModel> read_url_model(const fs::path& folder) {
  const auto text = read_small(folder / note);
  if (!text) return std::nullopt;
  const Json json = Json::parse(*text).value_or(Json());
  const Json *url = json.find("url"), *files = json.find("files");
  if (url == nullptr || url->text() == nullptr || files == nullptr || files->list() == nullptr) return std::nullopt;  // not a note of ours
  UrlModel model{folder, *url->text(), {}};
  for (const Json& entry : *files->list()) {
    const std::optional<UrlFile> file = url_file_of(entry);
    std::error_code missing;
    if (!file || !is_safe_path(file->name) || fs::file_size(folder / file->name, missing) != file->bytes || missing) return std::nullopt;
    model.files.push_back(*file);
  }
  return model.files.empty() ? std::nullopt : std::optional(model);
}

std::vector<UrlModel> read_url_models(const fs::path& store) {
  std::vector<UrlModel> models;
  for (const std::string& name : names_in(store.string(), SIZE_MAX)) {
    if (auto model = read_url_model(store / name)) models.push_back(std::move(*model));
  }
  std::ranges::sort(models, {}, &UrlModel::url);
  return models;
}

void write_url_model(const UrlModel& model) {
  JsonWriter json;
  json.begin_object();
  json.member("url", model.url);
  json.key("files");
  json.begin_array();
  for (const UrlFile& file : model.files) {
    json.begin_object();
    json.member("name", file.name);
    json.member("bytes", file.bytes);
    json.member("sha256", file.sha256);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  write_small(model.folder / note, json.take() + "\n");
}

}  // namespace quern::hub
