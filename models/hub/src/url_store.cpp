// See url_store.hpp.
#include "url_store.hpp"

#include "files.hpp"
#include "model_name.hpp"

#include "quern/graph/sha256.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace quern::hub {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* note = "source.json";

}  // namespace

fs::path url_folder(const fs::path& store, const std::string& url) { return store / sha256_of(url).substr(0, 16); }

std::optional<UrlModel> read_url_model(const fs::path& folder) {
  const auto text = read_small(folder / note);
  if (!text) return std::nullopt;
  const Json json = Json::parse(*text, nullptr, false);
  try {
    UrlModel model{folder, json.at("url"), {}};
    for (const Json& entry : json.at("files")) {
      const UrlFile file{entry.at("name"), entry.at("bytes"), entry.at("sha256")};
      std::error_code missing;
      if (!is_safe_path(file.name) || fs::file_size(folder / file.name, missing) != file.bytes || missing) return std::nullopt;
      model.files.push_back(file);
    }
    return model.files.empty() ? std::nullopt : std::optional(model);
  } catch (const Json::exception&) {
    return std::nullopt;  // not a note of ours
  }
}

std::vector<UrlModel> read_url_models(const fs::path& store) {
  std::vector<UrlModel> models;
  std::error_code failed;
  for (fs::directory_iterator entry(store, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (auto model = read_url_model(entry->path())) models.push_back(std::move(*model));
  }
  std::ranges::sort(models, {}, &UrlModel::url);
  return models;
}

void write_url_model(const UrlModel& model) {
  Json files = Json::array();
  for (const UrlFile& file : model.files) files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  write_small(model.folder / note, Json{{"url", model.url}, {"files", files}}.dump(2) + "\n");
}

}  // namespace quern::hub
