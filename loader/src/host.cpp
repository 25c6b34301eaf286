// The host table: forwards logs, counts memory, answers options.
//
// Memory goes through posix_memalign and is remembered by address, so that a release with the wrong size, or
// of something that was not given out here, is logged and refused instead of corrupting the heap.
#include "host.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"
#include "quern/loader/host_limits.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace quern::loader {
namespace {

constexpr std::uint64_t max_log_bytes = 64 * 1024;

std::string_view view(quern_string text) {
  return text.data ? std::string_view(text.data, std::min(text.size, max_log_bytes)) : std::string_view();
}

/// Makes `directory` for us alone; empty if that fails.
std::string make_private(const std::string& directory) {
  if (base::make_folders(directory) || ::access(directory.c_str(), W_OK) != 0) return {};
  return directory;
}

}  // namespace

HostOptions host_options(const std::string& id, const Settings& settings) {
  HostOptions made;
  const std::string prefix = id + ".";
  for (const auto& [key, value] : settings.options)
    if (key.find('.') == std::string::npos) made.options[key] = value;
  for (const auto& [key, value] : settings.options)
    if (key.starts_with(prefix)) made.options[key.substr(prefix.size())] = value;
  if (const auto kernel = settings.force_kernel.value.find(id); kernel != settings.force_kernel.value.end())
    made.options["force_kernel"] = kernel->second;
  if (settings.deterministic.value) made.options.insert_or_assign("deterministic", std::string(1, '1'));
  made.threads = settings.threads.value ? settings.threads.value : usable_processors(root_of(settings));
  made.affinity = settings.affinity;
  if (!settings.cache_directory.value.empty()) made.cache_directory = settings.cache_directory.value + "/" + id;
  return made;
}

Host::Host(std::string id, HostOptions options, LogSink log) : id_(std::move(id)), options_(std::move(options)), log_(std::move(log)) {
  if (!options_.cache_directory.empty()) options_.cache_directory = make_private(options_.cache_directory);
  table_.header = {sizeof table_, QUERN_TYPE_HOST, nullptr};
  table_.abi_minor = QUERN_ABI_MINOR;
  table_.context = this;
  table_.log = [](void* context, std::uint32_t level, quern_string component, quern_string text) {
    static_cast<Host*>(context)->write_log(level, view(component), view(text));
  };
  table_.allocate = [](void* context, std::uint64_t bytes, std::uint64_t alignment, const char* tag) {
    return static_cast<Host*>(context)->allocate(bytes, alignment, tag);
  };
  table_.release = [](void* context, void* memory, std::uint64_t bytes, std::uint64_t) {
    static_cast<Host*>(context)->release(memory, bytes);
  };
  table_.option = [](void* context, const char* key, char* value, std::uint64_t capacity) {
    return static_cast<Host*>(context)->option(key, value, capacity);
  };
  table_.thread_count = std::max(1u, options_.threads);
  table_.affinity = {options_.affinity.data(), options_.affinity.size(), sizeof(std::uint32_t)};
  table_.cache_directory = {options_.cache_directory.data(), options_.cache_directory.size()};
}

void Host::write_log(std::uint32_t level, std::string_view part, std::string_view text) const noexcept {
  if (!log_) return;
  try {
    std::string component = id_;
    if (!part.empty() && part != id_) component.append(".").append(part);
    log_(std::min<std::uint32_t>(level, QUERN_LOG_ERROR), component, text);
  } catch (...) {  // a sink that throws loses its line; the plugin below us must not see it
  }
}

void* Host::allocate(std::uint64_t bytes, std::uint64_t alignment, const char* tag) noexcept {
  void* memory = nullptr;
  const bool sound = std::has_single_bit(alignment) && bytes <= PTRDIFF_MAX;
  if (sound && ::posix_memalign(&memory, std::max<std::uint64_t>(alignment, sizeof(void*)), std::max<std::uint64_t>(bytes, 1)) != 0)
    memory = nullptr;
  try {
    const std::lock_guard lock(mutex_);
    AllocationStatistics& counted = tags_[tag ? tag : ""];
    if (memory) blocks_.emplace(memory, Block{bytes, &counted});
    for (AllocationStatistics* s : {&counted, &total_}) {
      if (!memory) {
        ++s->failures;
        continue;
      }
      ++s->allocations;
      s->live_bytes += bytes;
      s->peak_bytes = std::max(s->peak_bytes, s->live_bytes);
    }
  } catch (...) {  // no memory to remember it
    std::free(memory);
    memory = nullptr;
  }
  return memory;
}

void Host::release(void* memory, std::uint64_t bytes) noexcept {
  if (!memory) return;
  const char* fault = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(memory);
    if (block == blocks_.end()) {
      fault = "released memory that the host did not give out; ignored";
    } else {
      if (block->second.bytes != bytes) fault = "released memory with another size than it asked for";
      for (AllocationStatistics* s : {block->second.tag, &total_}) s->live_bytes -= block->second.bytes;
      blocks_.erase(block);
      std::free(memory);
    }
  }
  if (fault) write_log(QUERN_LOG_ERROR, "host", fault);
}

std::uint64_t Host::option(const char* key, char* value, std::uint64_t capacity) const noexcept {
  if (!key) return UINT64_MAX;
  try {
    const auto found = options_.options.find(key);
    if (found == options_.options.end()) return UINT64_MAX;
    if (value) std::memcpy(value, found->second.data(), std::min<std::uint64_t>(capacity, found->second.size()));
    return found->second.size();
  } catch (...) { return UINT64_MAX; }
}

AllocationStatistics Host::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

std::map<std::string, AllocationStatistics> Host::by_tag() const {
  const std::lock_guard lock(mutex_);
  return tags_;
}

}  // namespace quern::loader
