#include "settings_reader.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <charconv>

namespace quern::training {
namespace {

constexpr std::size_t most_datasets = 1000;

/// A value of the command line: JSON where it is, a list of words in brackets, else text.
Json override_value(std::string_view text) {
  if (text.empty()) return Json();
  if (auto json = Json::parse(text, 10'000)) return std::move(*json);
  if (text.starts_with('[') && text.ends_with(']')) {
    Json::List list;
    for (std::string& word : words(Json(std::string(text.substr(1, text.size() - 2))))) list.emplace_back(std::move(word));
    return Json(std::move(list));
  }
  return Json(std::string(text));
}

template <typename Target>
void read_rows(std::span<const Row<Target>> rows, const Given& given, Target& to) {
  for (const Row<Target>& row : rows) {
    const auto found = given.find(row.name);
    if (found == given.end()) continue;
    check_value(found->second, row.takes, row.bounds, row.choices);
    row.read(found->second, to);
  }
}

}  // namespace

std::string SettingsReader::place_of(std::string_view path) const {
  const auto place = places_.find(path);
  return place == places_.end() ? std::string() : place->second;
}

Entry SettingsReader::at(std::string path, const Json& value) const {
  std::string place = override_place_.empty() ? place_of(path) : override_place_;
  return {std::move(path), std::move(place), value};
}

void SettingsReader::put(Given& into, std::string_view key, Entry entry) {
  // peers write -1 where there is no limit
  const bool unset = entry.value.is_null() || (key == "max_steps" && entry.value.integer() == -1);
  if (!override_place_.empty()) {
    if (const auto old = into.find(key); old != into.end()) into.erase(old);
  }
  if (unset) return;
  const auto [old, fresh] = into.emplace(key, entry);
  if (fresh) return;
  const Entry& first = old->second;
  const std::string where = first.place.empty() ? std::string() : concat(", at ", first.place);
  if (first.path == entry.path) refuse(entry, concat(in_quotes(entry.path), " is given twice", where));
  refuse(entry, concat("'", entry.path, "' and '", first.path, "' are one setting", where, "; keep one of the two"));
}

void SettingsReader::read_file(const Json& root) { read_members(*root.members(), ""); }

void SettingsReader::read_members(const Json::Members& members, const std::string& group) {
  for (const Json::Member& member : members) {
    Entry entry = at(group + member.name, member.value);
    // A dot in a key would make it look like a group's.
    if (member.name.find('.') != std::string::npos)
      refuse(entry, concat("unknown key ", in_quotes(member.name), "; write groups as nested keys"));
    read_member(std::move(entry));
  }
}

void SettingsReader::read_member(Entry entry) {
  const std::string path = entry.path;
  if (const Json::Members* members = entry.value.members()) {
    if (path == "dataset") return read_nested_dataset(*members, path);
    if (is_group(path)) {
      const Json::Members inner = *members;
      return read_members(inner, path + ".");
    }
  }
  if (const auto known = find_key(Level::top, path)) {
    std::string_view key = known->key;
    if (key == "datasets" || key == "test_datasets") return read_datasets(key, entry);
    if (entry.value.is_null()) return put(given_, key, std::move(entry));
    if (path.starts_with("lora.") || path.starts_with("lora_parameters.")) lora_group_ = true;
    if (known->convert != nullptr) known->convert(entry, key);
    return put(given_, key, std::move(entry));
  }
  if (const PeerKey* peer = find_peer_key(Level::top, path)) {
    if (std::string note = peer_note(*peer, entry); !note.empty()) notes_.push_back(std::move(note));
    return;
  }
  if (is_group(path) && entry.value.is_null()) return;  // a group that is left empty
  refuse_unknown(Level::top, path, entry);
}

/// `dataset: {path: .., format: .., max_length: ..}`: one entry of datasets, and settings of ours beside.
void SettingsReader::read_nested_dataset(const Json::Members& members, const std::string& path) {
  Json::Members own;
  for (const Json::Member& member : members) {
    const std::string inner = concat(path, ".", member.name);
    if (find_key(Level::top, inner)) read_member(at(inner, member.value));
    else own.push_back(member);
  }
  if (!own.empty()) read_datasets("datasets", at(path, Json(std::move(own))));
}

void SettingsReader::read_datasets(std::string_view key, const Entry& entry) {
  if (entry.value.is_null()) return;
  if (const auto [first, fresh] = dataset_keys_.emplace(key, entry); !fresh)
    refuse(entry, concat("'", entry.path, "' and '", first->second.path, "' are one setting; keep one of the two"));
  std::vector<Given>& all = datasets_[std::string(key)];
  if (const Json::List* list = entry.value.list()) {
    if (list->size() > most_datasets) refuse(entry, concat("'", entry.path, "' has ", list->size(), " entries; at most ", most_datasets));
    for (std::size_t i = 0; i < list->size(); ++i) read_dataset(all.emplace_back(), (*list)[i], concat(entry.path, "[", i, "]"));
  } else if (entry.value.text() != nullptr) {
    for (const std::string& word : words(entry.value)) {
      if (all.size() == most_datasets) refuse(entry, concat("'", entry.path, "' has more than ", most_datasets, " entries"));
      put(all.emplace_back(), "path", {entry.path, entry.place, Json(word)});
    }
  } else if (entry.value.is_object()) {
    read_dataset(all.emplace_back(), entry.value, entry.path);
  } else {
    refuse(entry, concat("'", entry.path, "' is ", described(entry.value), "; it takes a list of {path, type, ..}"));
  }
}

void SettingsReader::read_dataset(Given& dataset, const Json& value, const std::string& path) {
  if (value.text() != nullptr) return put(dataset, "path", at(path, value));
  const Json::Members* members = value.members();
  if (members == nullptr) {
    const Entry entry = at(path, value);
    refuse(entry, concat("'", path, "' is ", described(value), "; it takes {path, type, ..}"));
  }
  for (const Json::Member& member : *members) read_dataset_member(dataset, at(concat(path, ".", member.name), member.value), member.name);
  if (dataset.find("path") == dataset.end()) refuse(at(path, value), concat("'", path, "' has no path; give a file or a folder"));
}

void SettingsReader::read_dataset_member(Given& dataset, Entry entry, std::string_view name) {
  if (const auto known = find_key(Level::dataset, name)) return put(dataset, known->key, std::move(entry));
  if (const PeerKey* peer = find_peer_key(Level::dataset, name)) {
    if (std::string note = peer_note(*peer, entry); !note.empty()) notes_.push_back(std::move(note));
    return;
  }
  refuse_unknown(Level::dataset, name, entry);
}

void SettingsReader::apply(const std::string& override) {
  const std::size_t equals = override.find('=');
  const std::string place = in_quotes(override, 200);
  if (equals == std::string::npos || equals == 0)
    refuse({"", place, Json()}, "an override has the form key=value, as in lora_r=16 or datasets[0].path=train.jsonl");
  const std::string path = override.substr(0, equals);
  Entry entry{path, place, override_value(std::string_view(override).substr(equals + 1))};
  override_place_ = place;
  const std::size_t bracket = path.find('[');
  const auto known = find_key(Level::top, std::string_view(path).substr(0, bracket));
  const bool of_datasets = known && (known->key == "datasets" || known->key == "test_datasets");
  if (bracket != std::string::npos && of_datasets) {
    apply_to_dataset(known->key, std::string_view(path).substr(bracket), std::move(entry));
  } else if (of_datasets) {
    dataset_keys_.erase(std::string(known->key));
    datasets_.erase(std::string(known->key));
    read_datasets(known->key, entry);
  } else if (path.starts_with("dataset.") && !known) {
    apply_to_dataset("datasets", concat("[0]", path.substr(7)), std::move(entry));
  } else if (path.starts_with("lr_scheduler_kwargs.")) {
    Entry whole_map{"lr_scheduler_kwargs", place, Json(Json::Members())};
    Json::Members members;
    if (const auto old = given_.find("lr_scheduler_kwargs"); old != given_.end() && old->second.value.is_object())
      members = *old->second.value.members();
    const std::string name = path.substr(path.find('.') + 1);
    std::erase_if(members, [&](const Json::Member& member) { return member.name == name; });
    members.push_back({name, std::move(entry.value)});
    whole_map.value = Json(std::move(members));
    put(given_, "lr_scheduler_kwargs", std::move(whole_map));
  } else {
    read_member(std::move(entry));
  }
  override_place_.clear();
}

/// `rest` is "[0].path". The entry behind the last may be named, so that data can come from the command line alone.
void SettingsReader::apply_to_dataset(std::string_view key, std::string_view rest, Entry entry) {
  std::size_t index = 0;
  const auto [end, problem] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), index);
  const std::string_view behind(end, static_cast<std::size_t>(rest.data() + rest.size() - end));
  std::vector<Given>& all = datasets_[std::string(key)];
  if (problem != std::errc() || !behind.starts_with("].")) refuse(entry, concat("'", entry.path, "' is no path; write ", key, "[0].path"));
  if (index > all.size() || index >= most_datasets)
    refuse(entry, concat("'", entry.path, "' is beyond the ", all.size(), " entries that there are"));
  if (index == all.size()) all.emplace_back();
  read_dataset_member(all[index], std::move(entry), behind.substr(2));
}

std::vector<DatasetSettings> SettingsReader::datasets(std::string_view key) {
  std::vector<DatasetSettings> read;
  const auto all = datasets_.find(key);
  if (all == datasets_.end()) return read;
  for (const Given& given : all->second) {
    if (given.find("path") == given.end())
      refuse({std::string(key), place_of(""), Json()}, concat("'", key, "[", read.size(), "]' has no path; give a file or a folder"));
    read_rows(dataset_rows(), given, read.emplace_back());
  }
  return read;
}

ParsedSettings SettingsReader::finish() {
  if (lora_group_ && given_.find("adapter") == given_.end()) {
    given_.emplace("adapter", Entry{"adapter", "", Json(std::string("lora"))});
    notes_.emplace_back("adapter: lora is taken, because a group of its settings is given");
  }
  ParsedSettings parsed;
  parsed.notes = std::move(notes_);
  Settings& settings = parsed.settings;
  settings.datasets = datasets("datasets");
  settings.test_datasets = datasets("test_datasets");
  read_rows(setting_rows(), given_, settings);
  if (settings.adapter != Adapter::none && settings.lora_target_modules.empty()) {
    const Entry all{"lora_target_modules", "", Json(std::string("all-linear"))};
    std::ranges::find(setting_rows(), "lora_target_modules", &SettingRow::name)->read(all, settings);
  }
  check_together(settings, given_, place_of(""));
  return parsed;
}

}  // namespace quern::training
