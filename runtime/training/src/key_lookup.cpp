#include "key_lookup.hpp"

#include "quern/base/nearest.hpp"
#include "quern/base/terminal_text.hpp"

#include <algorithm>

namespace quern::training {
namespace {

bool is_ours(Level level, std::string_view name) {
  if (level == Level::dataset) return std::ranges::find(dataset_rows(), name, &DatasetRow::name) != dataset_rows().end();
  return name == "datasets" || name == "test_datasets" ||
         std::ranges::find(setting_rows(), name, &SettingRow::name) != setting_rows().end();
}

std::span<const Synonym> synonyms_of(Level level) { return level == Level::top ? setting_synonyms() : dataset_synonyms(); }
std::span<const PeerKey> peers_of(Level level) { return level == Level::top ? peer_keys() : peer_dataset_keys(); }

/// Names with the group ("" or "lora.") in front, ours first.
std::vector<std::string> names_in(Level level, std::string_view group) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (name.starts_with(group) && name.substr(group.size()).find_first_of(".*") == std::string_view::npos) names.emplace_back(name);
  };
  if (level == Level::dataset) {
    for (const DatasetRow& row : dataset_rows()) add(row.name);
  } else {
    add("datasets");
    add("test_datasets");
    for (const SettingRow& row : setting_rows()) add(row.name);
  }
  for (const Synonym& one : synonyms_of(level)) add(one.name);
  for (const PeerKey& one : peers_of(level)) add(one.name);
  return names;
}

bool is_empty(const Json& value) {
  if (const std::string* text = value.text()) return text->empty();
  if (const Json::List* list = value.list()) return list->empty();
  if (const Json::Members* members = value.members()) return members->empty();
  return value.is_null();
}

/// The value as a word of a `harmless` list.
std::string word_of(const Json& value) {
  if (const std::string* text = value.text()) return *text;
  return described(value);
}

bool is_harmless(const PeerKey& key, const Json& value) {
  std::string_view list = key.harmless;
  if (list == "*" || is_empty(value)) return true;
  const bool only_these = list.starts_with('=');
  if (only_these) list.remove_prefix(1);
  const bool* truth = value.boolean();
  if (truth != nullptr && !*truth) return !only_these;
  return !list.empty() && word_of(value) == list;
}

}  // namespace

std::optional<KnownKey> find_key(Level level, std::string_view path) {
  if (is_ours(level, path)) return KnownKey{path};
  for (const Synonym& one : synonyms_of(level))
    if (one.name == path) return KnownKey{one.key, one.convert};
  return std::nullopt;
}

bool is_group(std::string_view path) {
  const auto begins = [path](std::string_view name) {
    return name.size() > path.size() && name.starts_with(path) && name[path.size()] == '.';
  };
  return path == "dataset" || std::ranges::any_of(setting_synonyms(), begins, &Synonym::name) ||
         std::ranges::any_of(peer_keys(), begins, &PeerKey::name);
}

const PeerKey* find_peer_key(Level level, std::string_view path) {
  for (const PeerKey& key : peers_of(level)) {
    const bool prefix = key.name.ends_with('*');
    if (prefix ? path.starts_with(key.name.substr(0, key.name.size() - 1)) : path == key.name) return &key;
  }
  return nullptr;
}

std::string peer_note(const PeerKey& key, const Entry& entry) {
  if (!is_harmless(key, entry.value)) {
    // A group of keys has no value to show.
    const std::string value = entry.value.is_object() ? "given" : described(entry.value);
    refuse(entry, concat(in_quotes(entry.path), " is ", value, ", which has no counterpart here: ", key.text));
  }
  if (is_empty(entry.value) || key.harmless != "*") return {};
  return concat(in_quotes(entry.path), " changes nothing: ", key.text);
}

void refuse_unknown(Level level, std::string_view path, const Entry& entry) {
  const std::size_t dot = path.find_last_of('.');
  const std::string_view group = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot + 1);
  const std::string_view leaf = path.substr(group.size());
  const std::string unknown = concat("unknown key ", in_quotes(entry.path));
  if (level == Level::dataset || !group.empty()) {
    if (is_ours(Level::top, leaf)) refuse(entry, concat(unknown, "; ", leaf, " belongs at the top level of the file"));
  }
  if (level == Level::top && is_ours(Level::dataset, leaf)) refuse(entry, concat(unknown, "; ", leaf, " belongs in an entry of datasets"));
  const std::string name = nearest(path, names_in(level, group));
  refuse(entry, name.empty() ? concat(unknown, "; `quern train --init lora` writes a file with the usual keys")
                             : concat(unknown, "; did you mean '", name, "'?"));
}

}  // namespace quern::training
