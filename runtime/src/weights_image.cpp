// See weights_image.hpp.
#include "weights_image.hpp"

#include "checksum.hpp"
#include "parallel.hpp"
#include "resident.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/error.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are written as they lie");

constexpr char magic[8] = {'Q', 'U', 'E', 'R', 'N', 'W', 'I', '1'};
constexpr std::uint64_t page = 4096;
constexpr std::uint64_t piece_bytes = 4 << 20;  // some 600 us of one thread

struct Head {
  char magic[8];
  std::uint64_t head_bytes, image_bytes, piece_bytes, key_bytes, content, zero, checksum;
};
static_assert(sizeof(Head) == 64);

std::uint64_t pieces_of(std::uint64_t image_bytes) noexcept { return (image_bytes + piece_bytes - 1) / piece_bytes; }
std::uint64_t head_bytes(const ImageKey& key) noexcept {
  return (sizeof(Head) + key.text.size() + 8 * pieces_of(key.bytes) + page - 1) / page * page;
}
std::span<const std::byte> piece(std::span<const std::byte> image, std::uint64_t i) noexcept {
  return image.subspan(i * piece_bytes, std::min<std::uint64_t>(piece_bytes, image.size() - i * piece_bytes));
}

bool read_all(int fd, std::uint64_t at, std::span<std::byte> to) { return !base::read_at(fd, {}, at, to); }

/// What the first line that differs is about, in words.
std::string difference(std::string_view have, std::string_view want) {
  const auto next_line = [](std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  while (!have.empty() || !want.empty()) {
    const std::string_view found = next_line(have), wanted = next_line(want);
    if (found == wanted) continue;
    const std::string_view what = wanted.substr(0, wanted.find(' '));
    if (what == "plugin") return "another build of the plugin wrote it";
    if (what == "device") return "it was made for another processor";
    if (what == "shard" || what == "tensors") return "the model's file has changed since";
    return "the plugin lays the weights out in another way now";
  }
  return "its key differs";
}

/// Why the open file is not the wanted one, before its image is looked at; fills `head` (head_bytes long).
std::optional<std::string> refuse_head(int fd, const ImageKey& key, std::vector<std::byte>& head) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return "it is not a regular file";
  if ((info.st_uid != ::geteuid() && info.st_uid != 0) || (info.st_mode & S_IWOTH) != 0) return "another user may have written it";
  const auto size = static_cast<std::uint64_t>(info.st_size);
  Head found{};
  if (size < sizeof(found) || !read_all(fd, 0, std::as_writable_bytes(std::span(&found, 1))))
    return concat("it ends after ", size, " bytes");
  if (std::memcmp(found.magic, magic, sizeof(magic)) != 0) return "it is not a file of weights of this version";
  // The key first: it gives the better reason. Its length is only believed as far as the file reaches.
  constexpr std::uint64_t longest_key = 64 << 20;
  std::string text(std::min({found.key_bytes, size - sizeof(found), longest_key}), '\0');
  if (!read_all(fd, sizeof(found), std::as_writable_bytes(std::span(text)))) return "it cannot be read";
  if (text != key.text) return difference(text, key.text);
  if (size != image_file_bytes(key)) return concat("it has ", size, " bytes instead of ", image_file_bytes(key));
  head.resize(head_bytes(key));
  if (!read_all(fd, 0, head)) return "it cannot be read";
  found = {};
  std::memcpy(&found, head.data(), sizeof(found));
  const std::uint64_t sum = std::exchange(found.checksum, 0);
  std::memcpy(head.data(), &found, sizeof(found));
  if (checksum(head) != sum || found.head_bytes != head_bytes(key) || found.image_bytes != key.bytes || found.piece_bytes != piece_bytes) {
    return "its head is damaged";
  }
  return std::nullopt;
}

}  // namespace

WeightsImage::WeightsImage(WeightsImage&& other) noexcept { *this = std::move(other); }
WeightsImage& WeightsImage::operator=(WeightsImage&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(offset_, other.offset_);
  std::swap(content_, other.content_);
  return *this;
}
WeightsImage::~WeightsImage() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

std::uint64_t image_file_bytes(const ImageKey& key) noexcept { return head_bytes(key) + key.bytes; }

WeightsImage open_image(const std::string& path, const ImageKey& key, std::uint32_t threads, std::string& reason) {
  base::OpenedFile opened_file;
  if (const base::FileProblem problem = base::open_file(path, opened_file, base::AtLink::refuse)) {
    if (problem.fault != base::FileFault::not_found) reason = concat("it cannot be used: ", problem.text);
    return {};
  }
  const base::Descriptor& file = opened_file.descriptor;
  std::vector<std::byte> head;
  if (const auto refused = refuse_head(file.get(), key, head)) {
    reason = *refused;
    return {};
  }
  WeightsImage opened;
  void* const base = ::mmap(nullptr, image_file_bytes(key), PROT_READ, MAP_SHARED, file.get(), 0);
  if (base == MAP_FAILED) {
    reason = concat("it cannot be mapped: ", std::strerror(errno));
    return {};
  }
  opened.mapping_ = static_cast<std::byte*>(base);
  opened.mapped_ = image_file_bytes(key);
  opened.offset_ = head_bytes(key);
  Head fields{};
  std::memcpy(&fields, head.data(), sizeof(fields));
  opened.content_ = fields.content;
  std::vector<std::uint64_t> sums(pieces_of(key.bytes));
  std::memcpy(sums.data(), head.data() + sizeof(Head) + key.text.size(), 8 * sums.size());
  std::atomic<std::uint64_t> damaged{UINT64_MAX};
  in_parallel(threads, sums.size(), [&](std::uint64_t i) {
    const std::span<const std::byte> bytes = piece(opened.image(), i);
    make_resident(bytes);
    if (checksum(bytes) != sums[i]) damaged = i;
  });
  if (damaged != UINT64_MAX) {
    reason = concat("its bytes from ", opened.offset_ + damaged * piece_bytes, " on are damaged");
    return {};
  }
  (void)::futimens(file.get(), nullptr);  // used now: the order in which files are removed
  return opened;
}

std::string write_image(const std::string& path, const ImageKey& key, std::uint64_t content, std::span<const std::byte> image,
                        const std::function<bool()>& still_true) {
  base::NewFile file;
  base::FileProblem problem = base::make_folders(std::filesystem::path(path).parent_path());
  if (!problem) problem = base::NewFile::create(path, file, base::AtTargetLink::replace, base::Writers::one);
  if (!problem) problem = file.reserve(image_file_bytes(key));
  std::vector<std::byte> head(head_bytes(key));
  std::vector<std::uint64_t> sums(pieces_of(image.size()));
  for (std::uint64_t i = 0; i < sums.size() && !problem; ++i) {
    sums[i] = checksum(piece(image, i));
    problem = file.write_at(head.size() + i * piece_bytes, piece(image, i));
  }
  if (problem) return problem.text;
  Head fields{{}, head.size(), image.size(), piece_bytes, key.text.size(), content, 0, 0};
  std::memcpy(fields.magic, magic, sizeof(magic));
  std::memcpy(head.data(), &fields, sizeof(fields));
  std::memcpy(head.data() + sizeof(fields), key.text.data(), key.text.size());
  std::memcpy(head.data() + sizeof(fields) + key.text.size(), sums.data(), 8 * sums.size());
  fields.checksum = checksum(head);
  std::memcpy(head.data(), &fields, sizeof(fields));
  problem = file.write_at(0, head);
  if (!problem && !still_true()) return "the model's file changed meanwhile";
  if (!problem) problem = file.commit();
  return problem.text;
}

}  // namespace quern::runtime
