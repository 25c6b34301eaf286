// Gets models: from a hub with Hugging Face's routes, into the cache that its other clients share, or from any URL.
//
// The cache's layout (blobs, snapshots, refs, locks) is the one that https://huggingface.co/docs/hub/local-cache describes, so
// that no model lies on a disk twice. What comes from other URLs lies in a folder of our own. Names: models/hub/README.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quern::hub {

struct Progress {
  std::string file;         // its name in the repository
  std::uint64_t done = 0;   // bytes of all files of the model
  std::uint64_t total = 0;  // 0 where the server does not say
  std::string waiting;      // why nothing moves just now; empty while bytes arrive
};

/// False cancels.
using ProgressSink = std::function<bool(const Progress&)>;

struct Settings {
  std::string endpoint = "https://huggingface.co";
  std::string cache;      // folder of the hub's repositories
  std::string url_cache;  // folder of what came from other URLs
  std::string token;      // sent to the endpoint alone; empty: none
  bool offline = false;
  std::uint32_t tries = 6;                              // in a row, without 64 KiB between them
  std::chrono::seconds timeout{30};                     // without a byte, or with less than least_rate a second, is a failure
  std::uint64_t least_rate = 1024;                      // bytes a second
  std::uint64_t most_bytes = std::uint64_t{512} << 30;  // of one file
  std::uint64_t memory_bytes = 0;                       // of all weights of a model; 0: no limit
  ProgressSink progress;                                // empty: nobody asks
  bool waits = true;                                    // for another download of the same file; otherwise QUERN_BUSY
};

/// HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT, QUERN_HUB_TRIES,
/// QUERN_HUB_RATE, QUERN_HUB_LIMIT, QUERN_CACHE_DIR. `get` answers null for a variable that is not set. Throws Error(QUERN_INVALID_ARGUMENT) naming the variable.
Settings settings_from_environment(const std::function<const char*(const char*)>& get);

/// An endpoint as Settings has it.
std::string without_slash(std::string url);

struct CachedModel {
  std::string name;  // what find() takes
  std::string path;  // of the file to load, the first part of a split one; of a directory with safetensors, the folder
  std::uint64_t bytes = 0;
  std::uint64_t files = 0;
  std::string repository;     // "owner/name"; empty for one from a URL
  std::string revision;       // commit; empty for one from a URL
  std::string quantisation;   // "Q4_K_M"; empty if its file name says none
  std::string source;         // "hub" or "url"
  std::int64_t modified = 0;  // seconds since 1970
};

/// The path of the model's file, downloaded if it is not in the cache. Of a repository without GGUF files, and with the selector
/// `safetensors`, it is the folder of the snapshot with safetensors and what they need. `sha256` (64 hex digits or empty) must be that of the one file
/// that is asked for. Throws Error: QUERN_INVALID_ARGUMENT (no name), QUERN_UNSUPPORTED (one that means
/// several models; the text lists them), QUERN_DOES_NOT_FIT (more weights than memory_bytes), QUERN_NOT_FOUND, QUERN_PERMISSION (401, 403), QUERN_IO (network, disk), QUERN_BAD_MODEL (another
/// sum or size than stated), QUERN_CANCELLED, QUERN_DEPENDENCY_MISSING (libcurl).
std::string pull(const std::string& name, const std::string& sha256, const Settings& settings);

/// The path of a model in the cache; asks no network. Of a repository without GGUF files it is the folder of a snapshot with safetensors. Throws Error: QUERN_INVALID_ARGUMENT, QUERN_UNSUPPORTED, QUERN_NOT_FOUND.
std::string find(const std::string& name, const Settings& settings);

/// All models in both folders that are whole, by name.
std::vector<CachedModel> list(const Settings& settings);

/// Removes what find() would find; without quantisation, all GGUF models of the repository, or else its directories. Other files stay. Returns
/// the bytes freed. Throws as find(), and Error(QUERN_BUSY) while another process downloads it.
std::uint64_t remove(const std::string& name, const Settings& settings);

}  // namespace quern::hub
