#include "special_tokens.hpp"

#include "quern/base/files.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace quern::directory {
namespace {

constexpr std::string_view tokenizer_config_name = "tokenizer_config.json";
constexpr std::uint64_t most_template_bytes = 1 << 20;

/// One id or a list of them, each a token.
std::vector<std::uint64_t> ids_of(const JsonFile& file, std::string_view name, const Json* value, const TokenList& list) {
  std::vector<std::uint64_t> ids;
  if (value == nullptr || value->is_null()) return ids;
  constexpr std::size_t most = 4096;
  const std::uint64_t last = list.tokens.size() - 1;
  if (value->list() == nullptr) return {*count_of(file, name, value, 0, last)};
  if (value->list()->size() > most) throw file.bad(name, concat("has ", value->list()->size(), " entries; at most ", most, " are read"));
  for (const Json& one : *value->list()) {
    const auto id = count_of(file, name, &one, 0, last);
    if (!id) throw file.bad(name, "has a null in its list");
    ids.push_back(*id);
  }
  return ids;
}

void add_first(std::optional<std::uint64_t>& id, const std::vector<std::uint64_t>& ids) {
  if (!id && !ids.empty()) id = ids.front();
}

void write_template(gguf::Writer& keys, std::string_view name, std::string_view text) {
  keys.string(name == "default" ? std::string("tokenizer.chat_template") : concat("tokenizer.chat_template.", name), text);
}

void write_named_templates(const JsonFile& file, const Json::List& list, gguf::Writer& keys) {
  constexpr std::string_view field = "chat_template";
  constexpr std::size_t most = 64;
  if (list.size() > most) throw file.bad(field, concat("has ", list.size(), " entries; at most ", most, " are read"));
  for (const Json& one : list) {
    const auto name = text_of(file, concat(field, ".name"), one.find("name"));
    const auto text = text_of(file, concat(field, ".template"), one.find("template"));
    if (!name || name->empty() || name->size() > 128 || !text) throw file.bad(field, "has an entry without a 'name' and a 'template'");
    write_template(keys, *name, *text);
  }
}

}  // namespace

std::optional<std::uint64_t> named_token(const JsonFile& file, std::string_view name, const TokenList& list) {
  const Json* value = file.json().find(name);
  if (value != nullptr && value->is_object()) value = value->find("content");
  const auto text = text_of(file, name, value);
  if (!text) return std::nullopt;
  const auto id = list.find(*text);
  if (!id) throw file.bad(name, concat("is ", in_quotes(*text, 48), ", which is no token of the tokenizer"));
  return id;
}

void write_special_tokens(const std::string& folder, const Config& config, const TokenList& list, gguf::Writer& keys) {
  const auto tokenizer = JsonFile::find(path_in(folder, tokenizer_config_name));
  const auto generation = JsonFile::find(path_in(folder, "generation_config.json"));
  const auto ids_in = [&](const std::optional<JsonFile>& file, std::string_view name) {
    return file ? ids_of(*file, name, file->json().find(name), list) : std::vector<std::uint64_t>();
  };
  const auto configured = [&](std::string_view name) { return ids_of(config.file(), name, config.find(name), list); };

  std::optional<std::uint64_t> bos = list.begin, eos = list.end, unknown, padding;
  bool add_bos = list.begin.has_value(), add_eos = list.end.has_value();
  if (tokenizer) {
    if (!bos) bos = named_token(*tokenizer, "bos_token", list);
    if (!eos) eos = named_token(*tokenizer, "eos_token", list);
    unknown = named_token(*tokenizer, "unk_token", list);
    padding = named_token(*tokenizer, "pad_token", list);
    if (!list.has_template) {
      add_bos = bos && bool_of(*tokenizer, "add_bos_token", tokenizer->json().find("add_bos_token")).value_or(false);
      add_eos = eos && bool_of(*tokenizer, "add_eos_token", tokenizer->json().find("add_eos_token")).value_or(false);
    }
  }
  std::vector<std::uint64_t> ends = ids_in(generation, "eos_token_id");
  const std::vector<std::uint64_t> of_config = configured("eos_token_id");
  ends.insert(ends.end(), of_config.begin(), of_config.end());
  add_first(bos, ids_in(generation, "bos_token_id"));
  add_first(bos, configured("bos_token_id"));
  add_first(eos, ends);

  const auto id = [&](std::string_view name, const std::optional<std::uint64_t>& value) {
    if (value) keys.u32(concat("tokenizer.ggml.", name, "_token_id"), static_cast<std::uint32_t>(*value));
  };
  id("bos", bos);
  id("eos", eos);
  id("unknown", unknown);
  id("padding", padding);
  keys.boolean("tokenizer.ggml.add_bos_token", add_bos);
  keys.boolean("tokenizer.ggml.add_eos_token", add_eos);
  if (!ends.empty()) keys.numbers<std::uint64_t>("quern.end_token_ids", ends);
}

void write_templates(const std::string& folder, gguf::Writer& keys) {
  const auto config = JsonFile::find(path_in(folder, tokenizer_config_name));
  const Json* const inside = config ? config->json().find("chat_template") : nullptr;
  if (inside != nullptr && !inside->is_null()) {
    if (inside->list() != nullptr) write_named_templates(*config, *inside->list(), keys);
    else if (inside->text() != nullptr) write_template(keys, "default", *inside->text());
    else throw config->bad("chat_template", "is neither text nor a list of named templates");
  }
  std::string text;
  const base::FileProblem problem = base::read_file(path_in(folder, "chat_template.jinja"), text, {.most = most_template_bytes});
  if (!problem) return write_template(keys, "default", text);
  if (problem.fault != base::FileFault::not_found) check_read(problem);
}

}  // namespace quern::directory
