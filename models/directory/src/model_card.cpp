#include "model_card.hpp"

#include "json_file.hpp"

#include "quern/base/files.hpp"
#include "quern/graph/json_writer.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace quern::directory {
namespace {

constexpr std::uint64_t most_card_bytes = 1 << 20;
constexpr std::size_t most_entries = 64, most_entry_bytes = 256;
constexpr std::string_view hub = "https://huggingface.co/";

struct Field {
  std::string_view name, key;
};
constexpr Field texts[] = {{"name", "general.name"},
                           {"license", "general.license"},
                           {"license_name", "general.license.name"},
                           {"license_link", "general.license.link"}};
constexpr Field lists[] = {{"tags", "general.tags"}, {"language", "general.languages"}};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// A scalar without its quotes; nothing for what is none, such as a map or an escape.
std::optional<std::string> scalar(std::string_view text) {
  text = trimmed(text);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'')) {
    if (text.back() != text.front()) return std::nullopt;
    text = text.substr(1, text.size() - 2);
    if (text.find_first_of("\\\"'") != text.npos) return std::nullopt;
  } else if (text.starts_with('{') || text.starts_with('[') || text.starts_with('|') || text.starts_with('>') || text.starts_with('&') ||
             text.find(": ") != text.npos) {
    return std::nullopt;
  } else {
    text = trimmed(text.substr(0, text.find(" #")));
  }
  if (text.empty() || text.size() > most_entry_bytes) return std::nullopt;
  return std::string(text);
}

/// The top level of the front matter: scalars, and lists of them in either form.
class FrontMatter {
 public:
  explicit FrontMatter(std::string_view text) {
    if (next_line(text) != "---") return;
    std::vector<std::string>* list = nullptr;
    while (!text.empty()) {
      const std::string_view line = next_line(text);
      if (line == "---") return;
      const std::string_view inside = trimmed(line);
      if (inside.empty() || inside.starts_with('#')) continue;
      if (inside.starts_with("- ")) {
        if (list != nullptr) add(*list, inside.substr(2));
        continue;
      }
      list = nullptr;
      const std::size_t colon = line.find(':');
      if (line.starts_with(' ') || colon == line.npos) continue;  // part of something deeper
      const std::string_view value = trimmed(line.substr(colon + 1));
      list = &fields_[std::string(trimmed(line.substr(0, colon)))];
      if (value.starts_with('[') && value.ends_with(']')) add_flow(*list, value.substr(1, value.size() - 2));
      else if (!value.empty()) add(*list, value);
      if (fields_.size() > most_entries) return;
    }
    fields_.clear();  // it has no end
  }
  std::vector<std::string> find(std::string_view name) const {
    const auto at = fields_.find(name);
    return at == fields_.end() ? std::vector<std::string>() : at->second;
  }

 private:
  static std::string_view next_line(std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  static void add(std::vector<std::string>& list, std::string_view text) {
    if (auto value = scalar(text); value && list.size() < most_entries) list.push_back(std::move(*value));
  }
  static void add_flow(std::vector<std::string>& list, std::string_view text) {
    while (!text.empty()) {
      const std::size_t comma = std::min(text.find(','), text.size());
      add(list, text.substr(0, comma));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
  }

  std::map<std::string, std::vector<std::string>, std::less<>> fields_;
};

void write_base_models(const std::vector<std::string>& names, gguf::Writer& keys) {
  if (names.empty()) return;
  keys.u32("general.base_model.count", static_cast<std::uint32_t>(names.size()));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string front = concat("general.base_model.", i, ".");
    const std::size_t slash = names[i].find('/');
    keys.string(front + "name", names[i].substr(slash == std::string::npos ? 0 : slash + 1));
    if (slash == std::string::npos || slash == 0) continue;
    keys.string(front + "organization", names[i].substr(0, slash));
    keys.string(front + "repo_url", concat(hub, names[i]));
  }
}

std::vector<std::string> base_models_of(const gguf::File& model) {
  std::vector<std::string> names;
  const std::uint64_t count = std::min<std::uint64_t>(model.find_u64("general.base_model.count").value_or(0), most_entries);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string front = concat("general.base_model.", i, ".");
    const std::string_view url = model.find_string(front + "repo_url").value_or("");
    if (url.starts_with(hub)) names.emplace_back(url.substr(hub.size()));
    else if (const auto name = model.find_string(front + "name")) names.emplace_back(*name);
  }
  return names;
}

/// A scalar of YAML in double quotes, which is one of JSON.
std::string quoted(std::string_view text) {
  JsonWriter json(JsonWriter::Style::one_line);
  json.value(text);
  return json.take();
}

void append_list(std::string& card, std::string_view name, const std::vector<std::string>& values) {
  if (values.empty()) return;
  card += concat(name, ":\n");
  for (const std::string& value : values) card += concat("- ", quoted(value), "\n");
}

}  // namespace

void write_card_keys(const std::string& folder, gguf::Writer& keys) {
  std::string text;
  if (base::read_file(path_in(folder, "README.md"), text, {.most = most_card_bytes})) return;
  const FrontMatter card(text);
  for (const Field& field : texts)
    if (const auto values = card.find(field.name); values.size() == 1) keys.string(field.key, values.front());
  write_base_models(card.find("base_model"), keys);
  for (const Field& field : lists)
    if (const auto values = card.find(field.name); !values.empty()) keys.strings(field.key, values);
}

std::string model_card_text(const gguf::File& model) {
  std::string card;
  for (const Field& field : texts)
    if (const auto value = model.find_string(field.key)) card += concat(field.name, ": ", quoted(*value), "\n");
  append_list(card, "base_model", base_models_of(model));
  for (const Field& field : lists)
    if (const auto values = model.find_strings(field.key)) append_list(card, field.name, {values->begin(), values->end()});
  if (card.empty()) return {};
  const auto name = model.find_string("general.name");
  return concat("---\n", card, "---\n", name ? concat("\n# ", *name, "\n") : "");
}

}  // namespace quern::directory
