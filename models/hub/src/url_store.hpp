// Models that came from URLs other than the hub's: one folder a URL, with the files and a note of where they came from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace quern::hub {

struct UrlFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
};

struct UrlModel {
  std::filesystem::path folder;
  std::string url;
  std::vector<UrlFile> files;

  std::string path() const { return (folder / files.front().name).string(); }
};

std::filesystem::path url_folder(const std::filesystem::path& store, const std::string& url);

/// Nothing unless all of its files are here in their sizes.
std::optional<UrlModel> read_url_model(const std::filesystem::path& folder);
std::vector<UrlModel> read_url_models(const std::filesystem::path& store);
void write_url_model(const UrlModel& model);

}  // namespace quern::hub
