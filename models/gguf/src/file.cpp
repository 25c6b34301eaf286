// The open model: keys, tensors and their bytes.
#include "contents.hpp"
#include "split.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/models/gguf.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace quern::gguf {

void index_tensors(const std::vector<Shard>& shards, const std::vector<TensorInfo>& tensors, std::vector<std::uint32_t>& by_name) {
  by_name.resize(tensors.size());
  std::iota(by_name.begin(), by_name.end(), 0u);
  std::ranges::sort(by_name, [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(std::string_view(tensors[a].name), a) < std::pair(std::string_view(tensors[b].name), b);
  });
  for (std::size_t i = 1; i < by_name.size(); ++i) {
    const TensorInfo& first = tensors[by_name[i - 1]];
    const TensorInfo& second = tensors[by_name[i]];
    if (first.name != second.name) continue;
    const std::string where = first.shard == second.shard ? "" : concat("; the other one is in ", shards[first.shard].name);
    throw Error(QUERN_BAD_MODEL, concat(shards[second.shard].name, ": tensor ", in_quotes(second.name), ": name (data at byte ",
                                        second.offset, ") is there twice", where));
  }
}

File::File(std::unique_ptr<Contents> contents) noexcept : contents_(std::move(contents)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

File File::open(const std::filesystem::path& path) {
  auto contents = std::make_unique<Contents>();
  const std::string name = path.string();
  SplitParts parts = open_parts(name);
  contents->name = name;
  contents->shards = std::move(parts.shards);
  contents->version = parts.version;
  contents->entries = std::move(parts.entries);
  contents->tensors = std::move(parts.tensors);
  contents->file_bytes = parts.file_bytes;
  index_tensors(contents->shards, contents->tensors, contents->tensors_by_name);
  return File(std::move(contents));
}

File File::from_memory(std::span<const std::byte> bytes, std::string name) {
  auto contents = std::make_unique<Contents>();
  Parsed parsed = parse(bytes, name);
  refuse_split(parsed.entries, bytes, name);
  contents->shards.push_back({name, Mapping::borrow(bytes)});
  contents->name = std::move(name);
  contents->version = parsed.version;
  contents->entries = std::move(parsed.entries);
  contents->tensors = std::move(parsed.tensors);
  contents->file_bytes = bytes.size();
  index_tensors(contents->shards, contents->tensors, contents->tensors_by_name);
  return File(std::move(contents));
}

const std::string& File::name() const noexcept { return contents_->name; }
std::uint32_t File::version() const noexcept { return contents_->version; }
std::uint64_t File::file_bytes() const noexcept { return contents_->file_bytes; }
std::uint32_t File::shard_count() const noexcept { return static_cast<std::uint32_t>(contents_->shards.size()); }
const std::string& File::shard_name(std::uint32_t shard) const {
  if (shard >= contents_->shards.size())
    throw Error(QUERN_INVALID_ARGUMENT, concat(name(), ": shard ", shard, " was asked for; there are ", shard_count()));
  return contents_->shards[shard].name;
}

FileStamp File::shard_stamp(std::uint32_t shard) const {
  (void)shard_name(shard);  // checks the number
  return contents_->shards[shard].mapping.stamp();
}

std::vector<std::string_view> File::keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(contents_->entries.in_file_order().size());
  for (const Entry& entry : contents_->entries.in_file_order()) keys.push_back(entry.key);
  return keys;
}

bool File::has(std::string_view key) const noexcept { return contents_->entries.find(key) != nullptr; }

std::optional<ValueType> File::type_of(std::string_view key) const noexcept {
  const Entry* entry = contents_->entries.find(key);
  return entry == nullptr ? std::nullopt : std::optional(entry->type);
}

std::optional<File::ArrayShape> File::array_shape(std::string_view key) const noexcept {
  const Entry* entry = contents_->entries.find(key);
  if (entry == nullptr || entry->type != ValueType::array) return std::nullopt;
  return ArrayShape{entry->element, entry->count};
}

Error File::bad_key(std::string_view key, std::string_view text) const {
  const Entry* entry = contents_->entries.find(key);
  const bool lies_there = entry != nullptr && contents_->made_keys.empty();
  const std::string where = lies_there ? concat(" (byte ", entry->at, ")") : std::string();
  return Error(QUERN_BAD_MODEL, concat(shard_name(0), ": key ", in_quotes(key), where, ": ", text));
}

Error File::bad_tensor(std::string_view tensor, std::string_view text) const {
  const TensorInfo* info = find_tensor(tensor);
  return Error(QUERN_BAD_MODEL, concat(shard_name(info == nullptr ? 0 : info->shard), ": tensor ", in_quotes(tensor), ": ", text));
}

const std::vector<TensorInfo>& File::tensors() const noexcept { return contents_->tensors; }

const TensorInfo* File::find_tensor(std::string_view tensor) const noexcept {
  const auto name_at = [&](std::uint32_t i) { return std::string_view(contents_->tensors[i].name); };
  const auto at = std::ranges::lower_bound(contents_->tensors_by_name, tensor, {}, name_at);
  return at != contents_->tensors_by_name.end() && name_at(*at) == tensor ? &contents_->tensors[*at] : nullptr;
}

const TensorInfo& File::require_tensor(std::string_view tensor) const {
  const TensorInfo* info = find_tensor(tensor);
  if (info == nullptr) throw Error(QUERN_BAD_MODEL, concat(name(), ": tensor ", in_quotes(tensor), " is missing"));
  return *info;
}

void File::drop_pages(const TensorInfo& tensor) const noexcept {
  contents_->shards[tensor.shard].mapping.drop_pages(tensor.offset, contents_->first_piece(tensor).size());
  if (const Contents::Origin* const origin = contents_->origin_of(tensor))
    for (const LyingPiece& piece : origin->further) contents_->shards[piece.shard].mapping.drop_pages(piece.offset, piece.bytes);
}

}  // namespace quern::gguf
