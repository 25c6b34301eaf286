// The tables behind the settings: keys, other names for them, and keys of peers that are none of ours.
#pragma once

#include "setting_values.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace quern::training {

template <typename Target>
struct Row {
  std::string_view name;
  Takes takes;
  Bounds bounds;
  std::string_view choices;  // Takes::choice: the names; Takes::anything: what it takes, in words
  std::string_view standard;
  std::string_view meaning;
  void (*read)(const Entry&, Target&);  // the value has passed check_value
  Json (*show)(const Target&);          // null: nothing is set
};
using SettingRow = Row<Settings>;
using DatasetRow = Row<DatasetSettings>;

std::span<const SettingRow> setting_rows();
std::span<const DatasetRow> dataset_rows();

/// Another name of a key. `convert` changes the entry into one that the key takes, or names another key; null where nothing is to change.
struct Synonym {
  std::string_view name;  // "lora.r" stands for `r` in the group `lora`
  std::string_view key;
  void (*convert)(Entry&, std::string_view& key);
};
std::span<const Synonym> setting_synonyms();
std::span<const Synonym> dataset_synonyms();

/// A key of other programs. `harmless` lists the values that change nothing here, "*" for any. Empty and false values are always so, but
/// false is not where the list begins with '='.
struct PeerKey {
  std::string_view name;  // "wandb_*": all that begin so
  std::string_view harmless;
  std::string_view text;  // harmless "*": why it changes nothing; otherwise what to do instead
};
std::span<const PeerKey> peer_keys();
std::span<const PeerKey> peer_dataset_keys();

/// What was given, by our names.
using Given = std::map<std::string, Entry, std::less<>>;

/// Throws SettingsError for settings that contradict each other, and for what is missing, which has `file` as its place.
void check_together(const Settings& settings, const Given& given, const std::string& file);

}  // namespace quern::training
