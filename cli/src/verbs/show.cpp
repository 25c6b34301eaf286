// quern show MODEL: what the file of a model or an adapter has. Loads no weights.
#include "verbs.hpp"

#include "engine.hpp"
#include "numbers.hpp"
#include "output.hpp"

#include <cstdio>

namespace quern::cli {
namespace {

std::string words(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_number_unsigned()) return with_commas(value.get<std::uint64_t>());
  std::string line = json_line(value);
  line.pop_back();
  return printable(line);
}

std::string shortened(std::string text) {
  constexpr std::size_t most = 100;
  if (text.size() <= most) return text;
  std::size_t cut = most - 3;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return text.substr(0, cut) + "...";
}

void put_row(std::string& out, std::string name, const std::string& value) {
  name.resize(std::max<std::size_t>(name.size() + 1, 20), ' ');
  out += name + value + "\n";
}

/// "0-29", "1, 3-5": numbers in ascending order.
std::string ranges(const Json& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    const auto first = numbers[i].get<std::uint64_t>();
    auto last = first;
    for (++i; i < numbers.size() && numbers[i].get<std::uint64_t>() == last + 1; ++i) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(first) + (last == first ? "" : "-" + std::to_string(last));
  }
  return text;
}

std::string adapter_words(const Json& value) {
  if (!value.is_number_float()) return words(value);
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value.get<double>());
  return text;
}

std::string list(const Json& values) {
  std::string text;
  for (const Json& value : values) text += (text.empty() ? "" : ", ") + adapter_words(value);
  return text;
}

void put_adapter(std::string& out, const Json& adapter) {
  out += "\nadapter\n";
  for (const auto& member : adapter.items()) {
    const Json& value = member.value();
    if (value.is_null()) continue;
    put_row(out, "  " + member.key(),
            shortened(member.key() == "layers" ? ranges(value)
                      : value.is_array()       ? list(value)
                                               : adapter_words(value)));
  }
}

void put_members(std::string& out, const Json& object, const char* title) {
  if (!object.is_object() || object.empty()) return;
  out += std::string("\n") + title + "\n";
  for (const auto& member : object.items()) put_row(out, "  " + printable(member.key()), shortened(words(member.value())));
}

void put_left_out(std::string& out, const Json& json, const char* field, const char* what) {
  if (const auto count = json.find(field); count != json.end()) out += "  and " + words(*count) + " " + what + " more\n";
}

std::string page(const Json& json, bool tensors) {
  std::string out;
  for (const auto& member : json.items()) {
    const Json& value = member.value();
    if (value.is_null() && member.key() != "chat_template") continue;
    if (member.key().ends_with("_left_out")) continue;  // behind what they are left out of
    if (member.key() == "chat_template")
      put_row(out, "chat template", value.is_null() ? "no (run it with --raw)" : value == "" ? "empty (run it with --raw)" : "yes");
    else if (member.key() == "refusal") put_row(out, "refusal", words(value));  // a sentence is not cut
    else if (member.key() == "warnings")
      for (const Json& warning : value) put_row(out, "warning", words(warning));
    else if (member.key() == "notes")
      for (const Json& note : value) put_row(out, "note", words(note));
    else if (member.key() == "file_bytes" && value.is_number_unsigned()) put_row(out, "file size", byte_words(value.get<std::uint64_t>()));
    else if (!value.is_structured()) put_row(out, member.key(), shortened(words(value)));
  }
  if (const auto adapter = json.find("adapter"); adapter != json.end() && adapter->is_object()) put_adapter(out, *adapter);
  put_members(out, json.value("shape", Json::object()), "shape");
  if (const auto weights = json.find("weights"); weights != json.end() && weights->is_object()) {
    out += "\nweights\n";
    for (const auto& dtype : weights->items())
      put_row(out, "  " + dtype.key(),
              dtype.value().is_number_unsigned() ? byte_words(dtype.value().get<std::uint64_t>()) : words(dtype.value()));
  }
  put_members(out, json.value("metadata", Json::object()), "metadata");
  put_left_out(out, json, "metadata_left_out", "keys");
  if (tensors) {
    out += "\ntensors\n";
    for (const Json& tensor : json.value("tensors", Json::array()))
      put_row(out, "  " + printable(tensor.value("name", "")),
              words(tensor.value("dtype", Json())) + " " + words(tensor.value("shape", Json())));
    put_left_out(out, json, "tensors_left_out", "tensors");
  }
  return out;
}

}  // namespace

int show_verb(const CommandLine& line) {
  const std::string& path = line.show.path;
  quern_text* raw = nullptr;
  check(quern_show_json(path.c_str(), &raw), path);
  const Text text(raw);
  const Json json = Json::parse(view(text));
  if (line.json) write_json(json);
  else write_out(page(json, line.show.tensors));
  return exit_ok;
}

}  // namespace quern::cli
