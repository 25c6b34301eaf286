// The host table that one plugin handle is given: log, allocator, options, threads.
#pragma once

#include "quern/loader/loader.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace quern::loader {

/// The settings that a plugin sees; the helper process gets exactly these.
struct HostOptions {
  std::map<std::string, std::string> options;  // without a prefix
  std::uint32_t threads = 1;
  std::vector<std::uint32_t> affinity;
  std::string cache_directory;  // of this plugin, or empty
};

/// What the plugin `id` is to see of the settings.
HostOptions host_options(const std::string& id, const Settings& settings);

/// Owns the table and what it points to. Must outlive the plugin handle. The table's functions may be called
/// from any thread and let no exception out.
class Host {
 public:
  Host(std::string id, HostOptions options, LogSink log);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const quern_host* table() const noexcept { return &table_; }
  AllocationStatistics total() const;
  std::map<std::string, AllocationStatistics> by_tag() const;

 private:
  struct Block {
    std::uint64_t bytes;
    AllocationStatistics* tag;  // in tags_; map nodes do not move
  };

  void write_log(std::uint32_t level, std::string_view part, std::string_view text) const noexcept;
  void* allocate(std::uint64_t bytes, std::uint64_t alignment, const char* tag) noexcept;
  void release(void* memory, std::uint64_t bytes) noexcept;
  std::uint64_t option(const char* key, char* value, std::uint64_t capacity) const noexcept;

  std::string id_;
  HostOptions options_;
  LogSink log_;
  quern_host table_{};
  mutable std::mutex mutex_;
  AllocationStatistics total_;
  std::map<std::string, AllocationStatistics> tags_;
  std::unordered_map<void*, Block> blocks_;
};

}  // namespace quern::loader
