// See pipelines.hpp. File of the cache: "QVP2", 8 bytes of checksum over key and data, the driver's data.
#include "pipelines.hpp"

#include "spirv.hpp"

#include "quern/base/files.hpp"
#include "quern/sdk/thread.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>

#include <sys/file.h>

namespace quern::vulkan {
namespace {

constexpr char magic[] = "QVP2";
constexpr std::size_t head_bytes = sizeof(magic) - 1 + sizeof(std::uint64_t);
constexpr std::uint32_t push_bytes = 128;

std::uint64_t mix(std::uint64_t hash, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint64_t word = 0;
  for (; bytes >= sizeof word; at += sizeof word, bytes -= sizeof word) {  // the driver's data are tens of MB
    std::memcpy(&word, at, sizeof word);
    hash = (hash ^ word) * 0x100000001b3ull;
    hash ^= hash >> 32;
  }
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 0x100000001b3ull;
  return hash;
}

std::uint64_t cache_key(const CardFacts& card) {
  std::uint64_t key = kernels_hash();
  key = mix(key, card.uuid, sizeof card.uuid);
  key = mix(key, card.driver_uuid, sizeof card.driver_uuid);
  return mix(key, &card.driver_version, sizeof card.driver_version);
}

/// A file that one process at a time has locked, where files can be.
class Locked {
 public:
  Locked(const std::string& path, std::chrono::milliseconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    if (base::GrowingFile::open(path, base::GrowingFile::Begin::keep, file_)) return;
    while (flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      others_ = std::chrono::steady_clock::now() >= until;
      if (others_) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  /// Whether another process has it still.
  bool others() const noexcept { return others_; }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  base::GrowingFile file_;
  bool others_ = false;
};

}  // namespace

bool PipelineKey::operator<(const PipelineKey& other) const noexcept {
  if (kernel != other.kernel) return kernel < other.kernel;
  if (threads != other.threads) return threads < other.threads;
  return std::memcmp(constants, other.constants, sizeof constants) < 0;
}

Pipelines::Pipelines(const Calls& calls, VkDevice device, const CardFacts& card, std::string directory,
                     std::function<void(const std::string&)> warn)
    : calls_(calls),
      device_(device),
      card_(card),
      directory_(directory.empty() ? "" : directory + "/vulkan-pipelines"),
      warn_(std::move(warn)) {
  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  check(calls_.CreatePipelineLayout(device_, &layout, nullptr, &layout_), "making a pipeline layout");
  cache_ = make_cache(directory_.empty() ? std::string() : read_file());
}

Pipelines::~Pipelines() {
  save();
  for (const auto& [key, pipeline] : pipelines_) calls_.DestroyPipeline(device_, pipeline, nullptr);
  calls_.DestroyPipelineCache(device_, cache_, nullptr);
  calls_.DestroyPipelineLayout(device_, layout_, nullptr);
}

std::string Pipelines::file() const {
  char name[32];
  std::snprintf(name, sizeof name, "/%016llx.bin", static_cast<unsigned long long>(cache_key(card_)));
  return directory_ + name;
}

std::string Pipelines::read_file() const {
  std::string bytes;
  if (base::read_file(file(), bytes, {.most = 256 << 20, .links = base::AtLink::refuse})) return {};
  std::uint64_t sum = 0;
  if (bytes.size() <= head_bytes || bytes.compare(0, sizeof(magic) - 1, magic) != 0) return {};
  std::memcpy(&sum, bytes.data() + sizeof(magic) - 1, sizeof sum);
  bytes.erase(0, head_bytes);
  return mix(cache_key(card_), bytes.data(), bytes.size()) == sum ? bytes : std::string();
}

VkPipelineCache Pipelines::make_cache(const std::string& data) const {
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = data.size();
  info.pInitialData = data.empty() ? nullptr : data.data();
  VkPipelineCache cache = VK_NULL_HANDLE;
  check(calls_.CreatePipelineCache(device_, &info, nullptr, &cache), "making a pipeline cache");
  return cache;
}

void Pipelines::save_many() noexcept {
  if (made_ - saved_ >= std::max<std::uint64_t>(16, made_ / 2)) save(std::chrono::milliseconds(0));
}

void Pipelines::save(std::chrono::milliseconds patience) noexcept {
  if (directory_.empty() || made_ == saved_) return;
  try {
    if (base::make_folders(directory_)) return;
    const Locked locked(file() + ".lock", patience);  // else of two processes that end together one would undo what the other wrote
    if (locked.others()) {
      if (patience.count() > 0)
        warn_(concat(made_ - saved_, " pipelines are not kept for the next start: another process has had ", file(), ".lock for ",
                     patience.count(), " ms"));
      return;
    }
    saved_ = made_;
    if (const std::string others = read_file(); !others.empty()) {
      const VkPipelineCache cache = make_cache(others);
      const VkResult merged = calls_.MergePipelineCaches(device_, cache_, 1, &cache);
      calls_.DestroyPipelineCache(device_, cache, nullptr);
      if (merged != VK_SUCCESS) return;
    }
    std::size_t size = 0;
    if (calls_.GetPipelineCacheData(device_, cache_, &size, nullptr) != VK_SUCCESS || size <= 32) return;
    std::string data(size, '\0');
    if (calls_.GetPipelineCacheData(device_, cache_, &size, data.data()) != VK_SUCCESS) return;
    const std::uint64_t sum = mix(cache_key(card_), data.data(), size);
    std::string bytes(magic);
    bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum).append(data, 0, size);
    (void)base::write_file(file(), bytes, base::AtTargetLink::replace);  // else the next start compiles again
  } catch (...) {  // a cache that cannot be kept is no failure: the next start compiles again
  }
}

VkPipeline Pipelines::find(const PipelineKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto at = pipelines_.find(key);
  return at == pipelines_.end() ? VK_NULL_HANDLE : at->second;
}

void Pipelines::make(const std::vector<PipelineKey>& keys, std::uint32_t threads) {
  std::set<PipelineKey> unique;
  for (const PipelineKey& key : keys)
    if (find(key) == VK_NULL_HANDLE) unique.insert(key);
  const std::vector<PipelineKey> missing(unique.begin(), unique.end());
  std::atomic<std::size_t> next{0};
  std::mutex failing;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < missing.size(); i = next++) {
        const VkPipeline pipeline = create(missing[i]);
        const std::lock_guard lock(mutex_);
        if (pipelines_.emplace(missing[i], pipeline).second) ++made_;
        else calls_.DestroyPipeline(device_, pipeline, nullptr);  // another instance was faster
      }
    } catch (...) {
      const std::lock_guard lock(failing);
      failure = std::current_exception();
      next = missing.size();
    }
  };
  std::vector<sdk::Thread> helpers;
  try {
    for (std::size_t t = 1; t < std::min<std::size_t>(threads, missing.size()); ++t) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: those that there are
  } catch (const std::bad_alloc&) {}
  work();
  helpers.clear();
  if (failure) std::rethrow_exception(failure);
}

VkPipeline Pipelines::create(const PipelineKey& key) const {
  const std::vector<std::uint32_t> words =
      with_float_controls(key.kernel->data, key.kernel->bytes, card_.keeps_denormals, card_.keeps_specials);
  VkShaderModuleCreateInfo module_info{};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = words.size() * 4;
  module_info.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  const std::string what = concat("kernel ", std::string(key.kernel->name));
  check(calls_.CreateShaderModule(device_, &module_info, nullptr, &module), what.c_str());
  VkSpecializationMapEntry entries[most_constants + 1];
  std::int32_t values[most_constants + 1] = {static_cast<std::int32_t>(key.threads)};
  for (std::uint32_t i = 0; i <= most_constants; ++i) {
    entries[i] = {i, i * 4, 4};
    if (i > 0) values[i] = key.constants[i - 1];
  }
  VkSpecializationInfo constants{key.count + 1, entries, sizeof values, values};
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &constants;
  info.layout = layout_;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result = calls_.CreateComputePipelines(device_, cache_, 1, &info, nullptr, &pipeline);
  calls_.DestroyShaderModule(device_, module, nullptr);
  check(result, what.c_str());
  return pipeline;
}

}  // namespace quern::vulkan
