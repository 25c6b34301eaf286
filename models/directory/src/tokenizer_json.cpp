#include "tokenizer_json.hpp"

#include "config.hpp"
#include "legacy_tokenizer.hpp"
#include "model_entries.hpp"
#include "pre_tokenizer_steps.hpp"
#include "ranked_files.hpp"
#include "sentencepiece_file.hpp"
#include "sentencepiece_json.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/json_writer.hpp"

#include <algorithm>
#include <utility>

namespace quern::directory {
namespace {

const Json& require_object(const JsonFile& file, std::string_view field, const Json* value) {
  if (value == nullptr || !value->is_object()) throw file.bad(field, "is missing or is not an object");
  return *value;
}

const Json::List* list_of(const JsonFile& file, std::string_view field, const Json* value) {
  if (value == nullptr || value->is_null()) return nullptr;
  if (value->list() == nullptr) throw file.bad(field, "is not a list");
  return value->list();
}

/// Added tokens with what is special about how they are found.
struct AddedFlags {
  std::vector<std::int32_t> pairs;  // as quern.added_token_flags has them
  bool any_space_or_word = false, any_normalized = false;
};

AddedFlags read_added(const JsonFile& file, ModelEntries& entries) {
  constexpr std::string_view field = "added_tokens";
  AddedFlags flags;
  const Json::List* const added_tokens = list_of(file, field, file.json().find(field));
  if (added_tokens == nullptr) return flags;
  for (const Json& added : *added_tokens) {
    const auto text = text_of(file, concat(field, ".content"), added.find("content"));
    if (!text || text->empty()) throw file.bad(field, "has an entry without 'content'");
    const auto flag = [&](std::string_view name) { return bool_of(file, concat(field, ".", name), added.find(name)); };
    const bool special = flag("special").value_or(false), normalized = flag("normalized").value_or(!special);
    const bool single_word = flag("single_word").value_or(false), left = flag("lstrip").value_or(false),
               right = flag("rstrip").value_or(false);
    const Json* const id = added.find("id");
    const std::uint64_t at = id == nullptr || id->count() == nullptr ? most_tokens : *id->count();
    const TokenList& list = entries.list;
    const bool in_model = at < list.tokens.size() && list.types[at] == token_type::normal && list.tokens[at] == *text;
    entries.add(field, *text, id, special ? token_type::control : token_type::user_defined);
    flags.pairs.push_back(static_cast<std::int32_t>(at));
    flags.pairs.push_back((single_word ? 1 : 0) | (left ? 2 : 0) | (right ? 4 : 0) | (normalized ? 8 : 0) | (in_model ? 0 : 16));
    flags.any_space_or_word = flags.any_space_or_word || single_word || left || right;
    flags.any_normalized = flags.any_normalized || normalized;
  }
  return flags;
}

/// The id of a special token that a template names.
std::uint64_t template_id(const JsonFile& file, const Json& processor, const std::string& name, const TokenList& list) {
  const Json* const table = processor.find("special_tokens");
  const Json* const entry = table == nullptr ? nullptr : table->find(name);
  const Json::List* const ids = entry == nullptr ? nullptr : list_of(file, "post_processor.special_tokens", entry->find("ids"));
  if (ids == nullptr || ids->size() != 1 || (*ids)[0].count() == nullptr || *(*ids)[0].count() >= list.tokens.size())
    throw file.bad("post_processor", concat("has no single id of a token for ", in_quotes(name, 48)));
  return *(*ids)[0].count();
}

void read_template(const JsonFile& file, const Json& processor, TokenList& list) {
  constexpr std::string_view field = "post_processor.single";
  const Json::List* const parts = list_of(file, field, processor.find("single"));
  if (parts == nullptr) throw file.bad(field, "is missing");
  list.has_template = true;
  bool text_seen = false;
  for (const Json& part : *parts) {
    if (part.find("Sequence") != nullptr) {
      if (std::exchange(text_seen, true)) throw file.bad(field, "has the text twice");
      continue;
    }
    const Json* const special = part.find("SpecialToken");
    const auto name = special == nullptr ? std::nullopt : text_of(file, field, special->find("id"));
    if (!name) throw file.bad(field, "has a part that is neither the text nor a special token");
    std::optional<std::uint64_t>& place = text_seen ? list.end : list.begin;
    if (place) throw file.unsupported(field, "puts several tokens in front of a text or behind it; this version puts one");
    place = template_id(file, processor, *name, list);
  }
}

void read_post_processor(const JsonFile& file, const Json* processor, TokenList& list) {
  constexpr std::string_view field = "post_processor";
  if (processor == nullptr || processor->is_null()) return;
  const auto type = text_of(file, concat(field, ".type"), processor->find("type"));
  if (type == "Sequence") {
    const Json::List* const parts = list_of(file, concat(field, ".processors"), processor->find("processors"));
    if (parts == nullptr) throw file.bad(field, "is a Sequence without the list 'processors'");
    for (const Json& part : *parts) {
      if (text_of(file, concat(field, ".type"), part.find("type")) == "Sequence")
        throw file.unsupported(field, "nests one Sequence in another");
      read_post_processor(file, &part, list);
    }
  } else if (type == "TemplateProcessing") {
    read_template(file, *processor, list);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    const auto id_of = [&](std::string_view name) {
      const Json* const pair = processor->find(name);
      const Json::List* const parts = pair == nullptr ? nullptr : pair->list();
      if (parts == nullptr || parts->size() != 2 || (*parts)[1].count() == nullptr || *(*parts)[1].count() >= list.tokens.size())
        throw file.bad(concat(field, ".", name), "is no pair of a text and the id of a token");
      return *(*parts)[1].count();
    };
    list.has_template = true;
    list.begin = id_of("cls");
    list.end = id_of("sep");
  } else if (type != "ByteLevel") {
    throw file.unsupported(field, concat("is ", in_quotes(type.value_or("of no type"), 48),
                                         "; ByteLevel, TemplateProcessing, BertProcessing and RobertaProcessing are read"));
  }
}

/// Whether byte-level BPE of a GGUF file is all that the file asks for.
bool is_plain_byte_level(const JsonFile& file, const Json& model) {
  const Json* const decoder = file.json().find("decoder");
  const auto decoded_by = decoder == nullptr ? std::nullopt : text_of(file, "decoder.type", decoder->find("type"));
  const auto is_empty = [&](std::string_view name) { return text_of(file, concat("model.", name), model.find(name)).value_or("").empty(); };
  return decoded_by == "ByteLevel" && is_empty("unk_token") && is_empty("continuing_subword_prefix") && is_empty("end_of_word_suffix");
}

void write_json(const Json& json, JsonWriter& writer) {
  if (json.text() != nullptr) writer.value(*json.text());
  else if (json.boolean() != nullptr) writer.value(*json.boolean());
  else if (json.count() != nullptr) writer.value(*json.count());
  else if (json.integer()) writer.value(*json.integer());
  else if (json.number()) writer.value(*json.number());
  else if (json.list() != nullptr) {
    writer.begin_array();
    for (const Json& one : *json.list()) write_json(one, writer);
    writer.end_array();
  } else if (json.members() != nullptr) {
    writer.begin_object();
    for (const Json::Member& member : *json.members()) {
      writer.key(member.name);
      write_json(member.value, writer);
    }
    writer.end_object();
  } else {
    writer.value(nullptr);
  }
}

/// The steps of any other tokenizer as they are, without the vocabulary.
void write_steps(const JsonFile& file, const Json& model, AddedFlags added, const TokenList& list, gguf::Writer& keys) {
  for (std::size_t id = 0; id < list.tokens.size(); ++id)
    if (list.types[id] == token_type::unused) added.pairs.insert(added.pairs.end(), {static_cast<std::int32_t>(id), 16});
  JsonWriter steps(JsonWriter::Style::one_line);
  steps.begin_object();
  steps.key("model");
  steps.begin_object();
  for (const Json::Member& member : *model.members()) {
    if (member.name == "vocab" || member.name == "merges") continue;
    steps.key(member.name);
    write_json(member.value, steps);
  }
  steps.end_object();
  for (const std::string_view name : {"normalizer", "pre_tokenizer", "decoder"}) {
    const Json* const step = file.json().find(name);
    steps.key(name);
    write_json(step == nullptr ? Json() : *step, steps);
  }
  steps.end_object();
  keys.string("tokenizer.ggml.model", "huggingface");
  keys.string("quern.tokenizer_steps", steps.take());
  if (!added.pairs.empty()) keys.numbers<std::int32_t>("quern.added_token_flags", added.pairs);
}

struct Read {
  JsonFile file;
  ModelEntries entries;
};

/// tokenizer.json, or what the other forms stand for; nothing without any.
std::optional<Read> read_model(const std::string& folder) {
  const std::string path = path_in(folder, "tokenizer.json");
  ModelEntries entries(path);
  if (auto file = JsonFile::find(path, most_tokenizer_bytes, entries.taken())) return Read{std::move(*file), std::move(entries)};
  auto made = read_tekken(folder);
  if (!made) made = read_vocabulary_and_merges(folder, most_tokenizer_bytes);
  if (!made) made = read_tiktoken(folder);
  if (!made) return std::nullopt;
  entries = ModelEntries(made->path());
  entries.take_all(*made);
  return Read{std::move(*made), std::move(entries)};
}

/// The form of the vocabulary is that of the model's type, and merges are there where it has them.
void check_entries(const JsonFile& file, const Json& model, std::string_view type) {
  constexpr std::string_view vocabulary = "model.vocab", merges = "model.merges";
  if (type != "Unigram") require_object(file, vocabulary, model.find("vocab"));
  else if (list_of(file, vocabulary, model.find("vocab")) == nullptr) throw file.bad(vocabulary, "is missing");
  if (type == "BPE" && list_of(file, merges, model.find("merges")) == nullptr) throw file.bad(merges, "is missing");
}

}  // namespace

std::optional<std::uint64_t> TokenList::find(std::string_view text) const noexcept {
  const auto at = std::ranges::find(tokens, text);
  return at == tokens.end() ? std::nullopt : std::optional(static_cast<std::uint64_t>(at - tokens.begin()));
}

void fill_up(TokenList& list, std::uint64_t rows) {
  if (list.tokens.size() < rows) {
    list.tokens.resize(static_cast<std::size_t>(rows));
    list.types.resize(static_cast<std::size_t>(rows));
  }
  for (std::size_t id = 0; id < list.tokens.size(); ++id) {
    if (list.types[id] != 0) continue;
    list.tokens[id] = concat("[PAD", id, "]");
    list.types[id] = token_type::unused;
  }
}

TokenList write_tokenizer_keys(const std::string& folder, std::uint64_t rows, gguf::Writer& keys) {
  std::optional<Read> read = read_model(folder);
  if (rows > most_tokens)
    throw Error(QUERN_UNSUPPORTED,
                concat(folder, ": the table of embeddings has ", rows, " rows; at most ", most_tokens, " tokens are read"));
  if (!read) {
    if (auto list = write_sentencepiece_file(folder, rows, keys)) return std::move(*list);
    throw Error(
        QUERN_UNSUPPORTED,
        concat(
            folder,
            ": has no tokenizer.json, nor tekken.json, vocab.json with merges.txt, *.tiktoken or tokenizer.model, the forms of tokenizer that "
            "are read; save the tokenizer with transformers, or use a GGUF file of the model"));
  }
  const JsonFile& file = read->file;
  const Json& model = require_object(file, "model", file.json().find("model"));
  const std::string type = text_of(file, "model.type", model.find("type")).value_or("BPE");
  if (number_of(file, "model.dropout", model.find("dropout")).value_or(0) != 0)
    throw file.unsupported("model.dropout", "is set; a text would have other tokens each time");
  check_entries(file, model, type);
  const AddedFlags added = read_added(file, read->entries);
  TokenList& list = read->entries.list;
  fill_up(list, rows);
  read_post_processor(file, file.json().find("post_processor"), list);
  std::vector<std::string>& merges = read->entries.merges;
  if (type != "BPE") merges.clear();
  std::vector<double>& scores = read->entries.scores;
  const bool byte_fallback = bool_of(file, "model.byte_fallback", model.find("byte_fallback")).value_or(false);
  const Json* const normalizer = file.json().find("normalizer");
  const bool normalizes = normalizer != nullptr && !normalizer->is_null();
  const bool has_rule = type == "BPE" && !byte_fallback && !added.any_space_or_word && !(added.any_normalized && normalizes) &&
                        is_plain_byte_level(file, model);
  const auto rule = has_rule ? pre_tokenizer_of(file) : std::nullopt;
  if (rule) {
    keys.string("tokenizer.ggml.model", "gpt2");
    keys.string("tokenizer.ggml.pre", *rule);
  } else if (type != "BPE" || !byte_fallback || added.any_space_or_word || !write_sentencepiece_keys(file, merges, list, keys)) {
    write_steps(file, model, added, list, keys);
  }
  if (!scores.empty()) {
    scores.resize(list.tokens.size(), 0);
    keys.numbers<double>("tokenizer.ggml.scores", scores);
  }
  if (!merges.empty() || rule) keys.strings("tokenizer.ggml.merges", merges);
  keys.strings("tokenizer.ggml.tokens", list.tokens);
  keys.numbers<std::int32_t>("tokenizer.ggml.token_type", list.types);
  return std::move(list);
}

}  // namespace quern::directory
