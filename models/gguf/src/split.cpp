#include "split.hpp"

#include "value_types.hpp"

#include "quern/base/terminal_text.hpp"

#include <cstdio>
#include <utility>

namespace quern::gguf {
namespace {

/// The split keys of one file; count is 1 for a file that is not split.
struct SplitKeys {
  std::uint64_t no = 0;
  std::uint64_t count = 1;
  std::optional<std::uint64_t> tensors;
};

struct Part {
  Shard shard;
  Parsed parsed;
  SplitKeys keys;
};

Error key_error(const std::string& file, std::string_view key, std::uint64_t at, std::string_view text) {
  return Error(QUERN_BAD_MODEL, concat(file, ": key ", in_quotes(key), " (byte ", at, ") ", text));
}

std::optional<std::uint64_t> split_key(const EntryTable& entries, std::span<const std::byte> bytes, const std::string& file,
                                       std::string_view key) {
  const Entry* entry = entries.find(key);
  if (entry == nullptr) return std::nullopt;
  if (!is_integer(entry->type)) throw key_error(file, key, entry->at, concat("is of type ", name_of(entry->type), ", not an integer"));
  const std::int64_t value = IntArray(bytes.data() + entry->at, 1, entry->type)[0];
  if (value < 0 || value > UINT32_MAX) throw key_error(file, key, entry->at, concat("is ", value, ", which is out of range"));
  return static_cast<std::uint64_t>(value);
}

SplitKeys read_split_keys(const EntryTable& entries, std::span<const std::byte> bytes, const std::string& file) {
  SplitKeys keys;
  const auto count = split_key(entries, bytes, file, "split.count");
  const auto no = split_key(entries, bytes, file, "split.no");
  keys.tensors = split_key(entries, bytes, file, "split.tensors.count");
  if (!count || *count <= 1) {
    if (no && *no > 0)
      throw key_error(file, "split.no", entries.find("split.no")->at,
                      concat("is ", *no, " but split.count is ", count ? concat(*count) : "missing"));
    return keys;
  }
  const std::uint64_t count_at = entries.find("split.count")->at;
  if (*count > max_shards) throw key_error(file, "split.count", count_at, concat("is ", *count, "; at most ", max_shards, " are read"));
  if (!no) throw key_error(file, "split.count", count_at, concat("is ", *count, " but key 'split.no' is missing"));
  if (*no >= *count) throw key_error(file, "split.no", entries.find("split.no")->at, concat("is ", *no, " but split.count is ", *count));
  keys.no = *no;
  keys.count = *count;
  return keys;
}

Part open_part(const std::string& path) {
  Mapping mapping = Mapping::open(path);
  Parsed parsed = parse(mapping.bytes(), path);
  SplitKeys keys = read_split_keys(parsed.entries, mapping.bytes(), path);
  return {{path, std::move(mapping)}, std::move(parsed), keys};
}

Part open_sibling(const ShardName& name, std::uint64_t no, const std::string& given) {
  const std::string path = shard_path(name, no);
  try {
    return open_part(path);
  } catch (const Error& error) {
    if (error.code() != QUERN_NOT_FOUND) throw;
    throw Error(QUERN_NOT_FOUND,
                concat(error.what(), "; '", given, "' is split into ", name.count, " files and all must lie in one directory"));
  }
}

/// The name of a shard must agree with its keys: the others are found by it.
ShardName checked_name(const Part& part) {
  const std::string& path = part.shard.name;
  const auto name = parse_shard_name(path);
  const std::uint64_t at = part.parsed.entries.find("split.count")->at;
  if (!name)
    throw key_error(path, "split.count", at,
                    concat("is ", part.keys.count,
                           ", so this is one file of several, but it is not named like "
                           "'name-00001-of-00003.gguf'; give all of them their original names"));
  if (name->count != part.keys.count || name->no != part.keys.no + 1)
    throw key_error(path, "split.no", part.parsed.entries.find("split.no")->at,
                    concat("and split.count say part ", part.keys.no + 1, " of ", part.keys.count, " but the name is of part ", name->no,
                           " of ", name->count, "; give all parts their original names"));
  return *name;
}

void check_part(const Part& part, std::uint64_t no, const Part& given) {
  const std::string& path = part.shard.name;
  if (part.keys.count <= 1)
    throw Error(QUERN_BAD_MODEL, concat(path, ": key 'split.count' is missing or 1, but the model of ", given.shard.name, " is split into ",
                                        given.keys.count));
  if (part.keys.count != given.keys.count || part.keys.no != no)
    throw key_error(path, "split.no", part.parsed.entries.find("split.no")->at,
                    concat("and split.count say part ", part.keys.no + 1, " of ", part.keys.count, "; part ", no + 1, " of ",
                           given.keys.count, " belongs here; the files are of different models or were renamed"));
}

SplitParts merge(std::vector<Part> parts) {
  SplitParts merged;
  std::uint64_t n_tensors = 0;
  for (const Part& part : parts) n_tensors += part.parsed.tensors.size();
  const Part& first = parts.front();
  if (first.keys.count > 1) {
    if (!first.keys.tensors)
      throw Error(QUERN_BAD_MODEL, concat(first.shard.name, ": key 'split.tensors.count' is missing; a split model needs it"));
    if (*first.keys.tensors != n_tensors)
      throw key_error(first.shard.name, "split.tensors.count", first.parsed.entries.find("split.tensors.count")->at,
                      concat("is ", *first.keys.tensors, " but the ", parts.size(), " files hold ", n_tensors,
                             " tensors; the files are of different models"));
  }
  if (n_tensors > max_tensors)
    throw Error(QUERN_BAD_MODEL,
                concat(first.shard.name, ": all parts together have ", n_tensors, " tensors; at most ", max_tensors, " are read"));
  merged.tensors.reserve(n_tensors);
  merged.version = first.parsed.version;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Part& part = parts[i];
    const std::uint64_t bytes = part.shard.mapping.bytes().size();
    if (bytes > INT64_MAX - merged.file_bytes)
      throw Error(QUERN_BAD_MODEL, concat(part.shard.name, ": all parts together have more than 2^63 bytes"));
    merged.file_bytes += bytes;
    for (TensorInfo& tensor : part.parsed.tensors) {
      tensor.shard = static_cast<std::uint32_t>(i);
      merged.tensors.push_back(std::move(tensor));
    }
  }
  merged.entries = std::move(parts.front().parsed.entries);
  for (Part& part : parts) merged.shards.push_back(std::move(part.shard));
  return merged;
}

std::optional<std::uint64_t> five_digits(std::string_view text) {
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

}  // namespace

std::optional<ShardName> parse_shard_name(std::string_view path) {
  constexpr std::string_view form = "-00001-of-00003.gguf";
  if (path.size() <= form.size()) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - form.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") return std::nullopt;
  const auto no = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (!no || !count) return std::nullopt;
  return ShardName{std::string(path.substr(0, path.size() - form.size())), *no, *count};
}

std::string shard_path(const ShardName& name, std::uint64_t no) {
  char tail[64];
  std::snprintf(tail, sizeof tail, "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(no),
                static_cast<unsigned long long>(name.count));
  return name.stem + tail;
}

SplitParts open_parts(const std::string& path) {
  std::vector<Part> parts;
  Part given = open_part(path);
  if (given.keys.count <= 1) {
    parts.push_back(std::move(given));
    return merge(std::move(parts));
  }
  const ShardName name = checked_name(given);
  const std::uint64_t count = given.keys.count;
  const std::uint64_t given_no = given.keys.no;
  for (std::uint64_t no = 0; no < count; ++no) {
    if (no == given_no) continue;
    parts.push_back(open_sibling(name, no + 1, path));
    check_part(parts.back(), no, given);
  }
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(given_no), std::move(given));
  return merge(std::move(parts));
}

void refuse_split(const EntryTable& entries, std::span<const std::byte> bytes, const std::string& name) {
  const SplitKeys keys = read_split_keys(entries, bytes, name);
  if (keys.count > 1)
    throw key_error(name, "split.count", entries.find("split.count")->at,
                    concat("is ", keys.count, "; one part of a split model cannot be read from memory"));
}

}  // namespace quern::gguf
