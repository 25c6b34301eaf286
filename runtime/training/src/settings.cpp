#include "quern/training/settings.hpp"

#include "settings_reader.hpp"

namespace quern::training {
namespace {

constexpr std::size_t most_bytes = 1 << 20;
constexpr std::size_t most_values = 50'000;

Json tree_of(std::string_view json, std::string_view what) {
  if (json.size() > most_bytes) throw SettingsError("", concat(what, " are ", json.size(), " bytes long; at most ", most_bytes));
  std::string why;
  auto tree = Json::parse(json, most_values, &why);
  if (!tree) throw SettingsError("", concat(what, " cannot be read: ", why));
  if (!tree->is_object()) throw SettingsError("", concat(what, " are ", described(*tree), "; they have to be keys with values"));
  return std::move(*tree);
}

template <typename Target>
std::vector<SettingKey> keys_of(std::span<const Row<Target>> rows, std::span<const Synonym> synonyms) {
  std::vector<SettingKey> keys;
  for (const Row<Target>& row : rows) {
    SettingKey key{row.name, {}, takes_text(row.takes, row.bounds, row.choices), row.standard, row.meaning};
    for (const Synonym& one : synonyms)
      if (one.key == row.name) key.synonyms.push_back(one.name);
    keys.push_back(std::move(key));
  }
  return keys;
}

SettingKey list_key(std::string_view name, std::string_view meaning) {
  SettingKey key{name, {}, "a list of {path, type, ..}", "none", meaning};
  for (const Synonym& one : setting_synonyms())
    if (one.key == name) key.synonyms.push_back(one.name);
  return key;
}

}  // namespace

Schedule Settings::schedule(std::uint64_t steps) const {
  return {lr_scheduler, learning_rate, warmup_ratio > 0 ? warmup_of_ratio(warmup_ratio, steps) : warmup_steps, steps, lr_scheduler_kwargs};
}

ParsedSettings parse_settings(std::string_view json, std::span<const std::string> overrides, const Places& places) {
  SettingsReader reader(places);
  reader.read_file(tree_of(json, "the settings"));
  for (const std::string& one : overrides) {
    if (one.size() > most_bytes) throw SettingsError("", concat("an override is ", one.size(), " bytes long; at most ", most_bytes));
    reader.apply(one);
  }
  return reader.finish();
}

Places parse_places(std::string_view json) {
  const Json tree = tree_of(json, "the places of keys");
  Places places;
  for (const Json::Member& member : *tree.members()) {
    if (member.value.text() == nullptr)
      throw SettingsError(member.name, concat("the place of a key is ", described(member.value), ", not a text"));
    places[member.name] = *member.value.text();
  }
  return places;
}

std::vector<SettingKey> setting_keys() {
  std::vector<SettingKey> keys = keys_of(setting_rows(), setting_synonyms());
  keys.push_back(list_key("datasets", "what is trained on"));
  keys.push_back(list_key("test_datasets", "the validation set"));
  return keys;
}

std::vector<SettingKey> dataset_keys() { return keys_of(dataset_rows(), dataset_synonyms()); }

}  // namespace quern::training
