// See weights_cache.hpp.
#include "weights_cache.hpp"

#include "checksum.hpp"
#include "parallel.hpp"
#include "weights_image.hpp"

#include "quern/base/byte_sizes.hpp"
#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"
#include "quern/graph/folder.hpp"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <new>
#include <utility>

namespace quern::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view suffix = ".weights";
/// A file system may keep times as coarse as this: a file that was changed later may have been changed again unseen.
constexpr std::chrono::seconds coarsest_time{2};

std::string hexadecimal(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016lx", static_cast<unsigned long>(number));
  return text;
}

std::uint64_t text_sum(std::string_view text) { return checksum(std::as_bytes(std::span(text))); }

std::vector<gguf::FileStamp> stamps_of(const gguf::File& model) {
  std::vector<gguf::FileStamp> stamps;
  for (std::uint32_t s = 0; s < model.shard_count(); ++s) stamps.push_back(model.shard_stamp(s));
  return stamps;
}

/// Of the file that a path names now; all zeros if there is none.
gguf::FileStamp stamp_at(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  const auto nanoseconds = [](const timespec& t) { return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec; };
  return {static_cast<std::uint64_t>(info.st_size), info.st_ino, nanoseconds(info.st_mtim), nanoseconds(info.st_ctim)};
}

bool is_young(const gguf::FileStamp& stamp) {
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  return now - std::max(stamp.modified, stamp.changed) < std::chrono::nanoseconds(coarsest_time).count();
}

/// A sum of all bytes of all tensors. Their pages are let go again, one tensor after the other.
std::uint64_t sum_of_tensors(const gguf::File& model, std::uint32_t threads) {
  constexpr std::uint64_t piece = 4 << 20;
  std::vector<std::uint64_t> sums;
  for (const gguf::TensorInfo& tensor : model.tensors()) {
    for (const std::span<const std::byte> data : model.lying(tensor)) {
      const std::size_t first = sums.size();
      sums.resize(first + (data.size() + piece - 1) / piece);
      in_parallel(threads, sums.size() - first, [&](std::uint64_t i) {
        sums[first + i] = checksum(data.subspan(i * piece, std::min<std::uint64_t>(piece, data.size() - i * piece)));
      });
    }
    model.drop_pages(tensor);
  }
  return checksum(std::as_bytes(std::span(sums)));
}

/// Removes what a killed writer of an earlier release left, unless a writer has it. Those of today remove each other's (base/README.md).
void remove_orphan(const fs::path& part) {
  base::OpenedFile file;
  if (base::open_file(part.string(), file, base::AtLink::refuse)) return;
  if (::flock(file.descriptor.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(part.c_str());
}

}  // namespace

struct WeightsCache::Slot {
  std::string path;
  ImageKey key;
};

WeightsCache::WeightsCache(const Runtime& runtime, const gguf::File& model, std::uint64_t fingerprint)
    : runtime_(runtime.shared_from_this()), model_(model), fingerprint_(fingerprint) {}

std::uint64_t WeightsCache::content() {
  if (!content_) content_ = sum_of_tensors(model_, runtime_->threads());
  return *content_;
}

std::optional<WeightsCache::Slot> WeightsCache::slot(MemoryBudget& device, const std::vector<WantedWeight>& weights,
                                                     WeightsOrigin& origin) const {
  const RuntimeSettings& settings = runtime_->settings();
  if (settings.weights_cache.mode == WeightsCacheMode::off) return std::nullopt;
  const std::string& folder = settings.loader.cache_directory.value;
  if (folder.empty()) {
    origin.note = "there is no cache folder";
  } else if (!device.host_memory()) {
    origin.note = "the device has memory of its own";
  } else if (std::ranges::all_of(weights, [](const WantedWeight& w) { return w.place.layout.empty(); })) {
    origin.note = "nothing is packed";
  }
  if (!origin.note.empty()) return std::nullopt;

  const loader::Device& opened = *device.device();
  std::string items;
  Slot made;
  for (const WantedWeight& weight : weights) {
    items += concat("item ", made.key.bytes, " ", weight.bytes, " '", weight.place.layout, "' ", weight.place.tensor, "\n");
    made.key.bytes += weight.arena_bytes();
  }
  made.key.text = concat("plugin ", opened.plugin()->id(), " ", opened.plugin()->version(), " ", opened.plugin()->build(), "\ndevice ",
                         opened.info().architecture, "\n");
  for (const gguf::FileStamp& stamp : stamps_of(model_)) {
    made.key.text += concat("shard ", stamp.bytes, " ", stamp.inode, " ", stamp.modified, " ", stamp.changed, "\n");
  }
  made.key.text += concat("tensors ", hexadecimal(fingerprint_), "\n", items);

  std::error_code failed;
  const fs::path real = fs::canonical(model_.name(), failed);
  const std::string name = concat(failed ? model_.name() : real.string(), "\n", opened.label(), "\n", items);
  made.path = concat(folder, "/weights/", hexadecimal(text_sum(name)), suffix);
  return made;
}

std::optional<Memory> WeightsCache::find(MemoryBudget& device, const std::vector<WantedWeight>& weights, WeightsOrigin& origin) {
  const std::optional<Slot> here = slot(device, weights, origin);
  if (!here) return std::nullopt;
  const auto started = std::chrono::steady_clock::now();
  std::string reason;
  WeightsImage image = open_image(here->path, here->key, runtime_->threads(), reason);
  if (image && runtime_->settings().weights_cache.mode == WeightsCacheMode::verify && image.content() != content()) {
    reason = "the model's content has changed since";
    image = {};
  }
  const std::string& label = device.device()->label();
  if (!image) {
    origin.note = reason;
    if (!reason.empty()) runtime_->log(QUERN_LOG_INFO, concat(label, ": ", here->path, " is not used: ", reason));
    return std::nullopt;
  }
  Memory arena = device.adopt(image.mapping().begin, image.mapping().bytes, image.mapping().offset, "weights");
  image.release();
  origin.cached = true;
  origin.file = here->path;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  runtime_->log(QUERN_LOG_INFO,
                concat(label, ": ", byte_words(arena.bytes()), " of weights mapped from ", here->path, " in ", took.count(), " s"));
  return arena;
}

std::optional<sdk::Thread> WeightsCache::keep(MemoryBudget& device, const std::vector<WantedWeight>& weights, const Memory& arena,
                                              WeightsOrigin& origin) {
  WeightsOrigin asked;
  const std::optional<Slot> here = slot(device, weights, asked);
  if (!here) return std::nullopt;
  const std::string label = device.device()->label();
  const std::vector<gguf::FileStamp> stamps = stamps_of(model_);
  const auto decline = [&](const std::string& why) {
    origin.note = concat(origin.note, origin.note.empty() ? "" : "; ", why);
    runtime_->log(QUERN_LOG_INFO, concat(label, ": the packed weights are not kept: ", why));
    return std::nullopt;
  };
  if (std::ranges::any_of(stamps, is_young)) return decline("the model's file changed a moment ago");
  const std::uint64_t limit = runtime_->settings().weights_cache.limit;
  if (limit != 0 && image_file_bytes(here->key) > limit) {
    const auto [take, most] = byte_words_apart(image_file_bytes(here->key), limit);
    return decline(concat("they take ", take, " and the limit is ", most));
  }
  origin.file = here->path;
  std::vector<std::string> paths;
  for (std::uint32_t s = 0; s < model_.shard_count(); ++s) paths.push_back(model_.shard_name(s));
  const auto write = [runtime = runtime_, label, here = *here, sum = content(), stamps, paths, limit,
                      bytes = std::span<const std::byte>(arena.host(), here->key.bytes)] {
    const auto unchanged = [&] {
      for (std::size_t s = 0; s < paths.size(); ++s) {
        if (stamp_at(paths[s]) != stamps[s]) return false;
      }
      return true;
    };
    std::string why;
    try {
      if (!make_room(fs::path(here.path).parent_path(), here.path, image_file_bytes(here.key), limit))
        why = "others that cannot be removed fill the limit";
      if (why.empty()) why = write_image(here.path, here.key, sum, bytes, unchanged);
      runtime->log(QUERN_LOG_INFO, why.empty() ? concat(label, ": packed weights kept in ", here.path)
                                               : concat(label, ": the packed weights are not kept: ", why));
    } catch (const std::bad_alloc&) {  // of a name or a line of the log: the run goes on
    } catch (const std::exception& failure) {
      try {
        runtime->log(QUERN_LOG_INFO, concat(label, ": the packed weights are not kept: ", failure.what()));
      } catch (const std::exception&) {  // a line less in the log
      }
    }
  };
  try {
    return sdk::Thread(write);
  } catch (const std::system_error& failure) { return decline(failure.what()); }
}

bool make_room(const std::string& folder, const std::string& replaced, std::uint64_t needed, std::uint64_t limit) {
  struct Found {
    fs::file_time_type used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<Found> found;
  std::uint64_t total = needed;
  std::error_code failed;
  for (const std::string& name : names_in(folder, SIZE_MAX)) {
    const fs::path path = fs::path(folder) / name;
    std::error_code gone;
    if (name.ends_with(concat(suffix, ".part"))) remove_orphan(path);
    if (path.extension() != suffix || path == replaced || !fs::is_regular_file(path, gone)) continue;
    Found one{fs::last_write_time(path, gone), 0, path};
    if (!gone) one.bytes = fs::file_size(path, gone);
    if (gone) continue;
    total += one.bytes;
    found.push_back(one);
  }
  if (limit == 0) return true;
  std::ranges::sort(found, {}, &Found::used);
  for (const Found& one : found) {
    if (total <= limit) break;
    if (fs::remove(one.path, failed)) total -= one.bytes;
  }
  return total <= limit;
}

}  // namespace quern::runtime
