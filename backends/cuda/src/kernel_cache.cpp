// See kernel_cache.hpp. File: "QKC1", 8 bytes of checksum over key and cubin, the cubin.
#include "kernel_cache.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace quern::cuda {
namespace {

constexpr char magic[] = "QKC1";

std::uint64_t mix(std::uint64_t hash, const std::string& text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace

KernelCache::KernelCache(const std::string& directory) : directory_(directory.empty() ? "" : directory + "/cuda-kernels") {}

std::string KernelCache::path(const std::string& unit, const std::string& key) const {
  char name[40];
  // Two independent 64-bit hashes name the file; a collision would still fail the checksum, which covers the key.
  std::snprintf(name, sizeof name, "-%016llx%08x", static_cast<unsigned long long>(mix(0xcbf29ce484222325ull, key)),
                static_cast<unsigned>(mix(0x9e3779b97f4a7c15ull, key)));
  return directory_ + "/" + unit + name + ".cubin";
}

std::string KernelCache::find(const std::string& unit, const std::string& key) const {
  if (directory_.empty()) return {};
  std::string bytes;
  if (base::read_file(path(unit, key), bytes, {.most = 256 << 20, .links = base::AtLink::refuse})) return {};
  constexpr std::size_t head = sizeof(magic) - 1 + sizeof(std::uint64_t);
  if (bytes.size() <= head || bytes.compare(0, sizeof(magic) - 1, magic) != 0) return {};
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + sizeof(magic) - 1, sizeof sum);
  bytes.erase(0, head);
  return mix(mix(0xcbf29ce484222325ull, key), bytes) == sum ? bytes : std::string();
}

std::optional<KernelCache::Place> KernelCache::take(const std::string& unit, const std::string& key) const {
  Place place;
  if (directory_.empty() || base::make_folders(directory_)) return place;
  const base::FileProblem problem = base::NewFile::create(path(unit, key), place.file_, base::AtTargetLink::replace, base::Writers::one);
  if (problem.fault == base::FileFault::busy) return std::nullopt;
  place.kept_ = !problem;
  return place;
}

void KernelCache::keep(Place place, const std::string& key, const std::string& cubin) {
  if (!place.kept_) return;
  const std::uint64_t sum = mix(mix(0xcbf29ce484222325ull, key), cubin);
  std::string bytes(magic);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum).append(cubin);
  // A kernel that cannot be kept is compiled again by the next process.
  if (!place.file_.append(bytes)) (void)place.file_.commit();
}

}  // namespace quern::cuda
