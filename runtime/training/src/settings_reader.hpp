// From a tree of JSON to what was given for each setting, whatever it was called; then overrides; then Settings.
#pragma once

#include "key_lookup.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern::training {

class SettingsReader {
 public:
  explicit SettingsReader(const Places& places) : places_(places) {}

  /// The tree of a file. Throws SettingsError for keys that are unknown or double.
  void read_file(const Json& root);
  /// "key=value". Stronger than the file and earlier overrides.
  void apply(const std::string& override);
  /// Throws SettingsError for values that a key does not take, what is missing, and what contradicts.
  ParsedSettings finish();

 private:
  void read_members(const Json::Members& members, const std::string& group);
  void read_member(Entry entry);
  void read_nested_dataset(const Json::Members& members, const std::string& path);
  void read_datasets(std::string_view key, const Entry& entry);
  void read_dataset(Given& dataset, const Json& value, const std::string& path);
  void read_dataset_member(Given& dataset, Entry entry, std::string_view name);
  void apply_to_dataset(std::string_view key, std::string_view rest, Entry entry);
  void put(Given& into, std::string_view key, Entry entry);
  std::vector<DatasetSettings> datasets(std::string_view key);
  Entry at(std::string path, const Json& value) const;
  std::string place_of(std::string_view path) const;

  const Places& places_;
  Given given_;
  std::map<std::string, std::vector<Given>, std::less<>> datasets_;  // "datasets", "test_datasets"
  std::map<std::string, Entry, std::less<>> dataset_keys_;           // what named them
  std::vector<std::string> notes_;
  bool lora_group_ = false;     // a key in a group of LoRA's settings was given
  std::string override_place_;  // while one is applied
};

}  // namespace quern::training
