#include "tokenizer_json.hpp"

#include "config.hpp"
#include "pre_tokenizer_steps.hpp"
#include "sentencepiece_json.hpp"

#include "quern/base/terminal_text.hpp"

#include <algorithm>
#include <utility>

namespace quern::directory {
namespace {

constexpr std::uint64_t most_file_bytes = 64 << 20;
constexpr std::size_t most_values = 2'500'000;                         // 262,144 tokens and 514,906 merges as pairs are 1.8 million
constexpr std::uint64_t most_tokens = 1 << 20, most_merges = 1 << 20;  // as models/tokenizer has them

/// Tokens by id while they are collected.
class Tokens {
 public:
  Tokens(const JsonFile& file, TokenList& list) : file_(file), list_(list) {}

  void add(std::string_view field, const std::string& text, const Json* id, std::int32_t type) {
    if (id == nullptr || id->count() == nullptr) throw file_.bad(field, concat("has no whole number as the id of ", in_quotes(text, 48)));
    if (*id->count() >= most_tokens)
      throw file_.bad(field, concat("has the id ", *id->count(), " for ", in_quotes(text, 48), "; ids below ", most_tokens, " are read"));
    const auto at = static_cast<std::size_t>(*id->count());
    if (at >= list_.tokens.size()) {
      list_.tokens.resize(at + 1);
      list_.types.resize(at + 1);
    }
    const bool again = type != token_type::normal && list_.types[at] == token_type::normal &&
                       list_.tokens[at] == text;  // added tokens may stand in the vocabulary
    if (list_.types[at] != 0 && !again)
      throw file_.bad(field, concat("has the id ", at, " twice, for ", in_quotes(list_.tokens[at], 48), " and for ", in_quotes(text, 48)));
    list_.tokens[at] = text;
    list_.types[at] = type;
  }

 private:
  const JsonFile& file_;
  TokenList& list_;
};

const Json& require_object(const JsonFile& file, std::string_view field, const Json* value) {
  if (value == nullptr || !value->is_object()) throw file.bad(field, "is missing or is not an object");
  return *value;
}

const Json::List* list_of(const JsonFile& file, std::string_view field, const Json* value) {
  if (value == nullptr || value->is_null()) return nullptr;
  if (value->list() == nullptr) throw file.bad(field, "is not a list");
  return value->list();
}

/// Parts of BPE that this version does not compute. Their usual values are null, false and "".
void refuse_variants(const JsonFile& file, const Json& model) {
  if (const auto type = text_of(file, "model.type", model.find("type")); type.value_or("BPE") != "BPE")
    throw file.unsupported("model.type",
                           concat("is ", in_quotes(*type, 32), "; directories are read with BPE, use a GGUF file of the model"));
  if (number_of(file, "model.dropout", model.find("dropout")).value_or(0) != 0)
    throw file.unsupported("model.dropout", "is set; a text would have other tokens each time");
  for (const std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string field = concat("model.", name);
    if (!text_of(file, field, model.find(name)).value_or("").empty())
      throw file.unsupported(field, "is set; byte-level BPE is read without it");
  }
}

void check_byte_level(const JsonFile& file) {
  const Json* const decoder = file.json().find("decoder");
  const auto name = decoder == nullptr ? std::nullopt : text_of(file, "decoder.type", decoder->find("type"));
  if (name.value_or("") != "ByteLevel")
    throw file.unsupported("decoder", concat("is ", name ? in_quotes(*name, 32) : "missing", "; BPE is read with the decoder ByteLevel"));
}

void read_added(const JsonFile& file, Tokens& tokens) {
  constexpr std::string_view field = "added_tokens";
  const Json::List* const list = list_of(file, field, file.json().find(field));
  if (list == nullptr) return;
  for (const Json& added : *list) {
    const auto text = text_of(file, concat(field, ".content"), added.find("content"));
    if (!text || text->empty()) throw file.bad(field, "has an entry without 'content'");
    for (const std::string_view flag : {"single_word", "lstrip", "rstrip"})
      if (bool_of(file, concat(field, ".", flag), added.find(flag)).value_or(false))
        throw file.unsupported(field, concat("has ", in_quotes(*text, 48), " with '", flag, "'; such tokens are not matched so here"));
    const bool special = bool_of(file, concat(field, ".special"), added.find("special")).value_or(false);
    tokens.add(field, *text, added.find("id"), special ? token_type::control : token_type::user_defined);
  }
}

std::vector<std::string> read_merges(const JsonFile& file, const Json& model) {
  constexpr std::string_view field = "model.merges";
  const Json::List* const list = list_of(file, field, model.find("merges"));
  if (list == nullptr) throw file.bad(field, "is missing");
  if (list->size() > most_merges) throw file.bad(field, concat("has ", list->size(), " entries; at most ", most_merges, " are read"));
  std::vector<std::string> merges;
  merges.reserve(list->size());
  for (const Json& merge : *list) {
    if (merge.text() != nullptr) {
      merges.push_back(*merge.text());
      continue;
    }
    const Json::List* const pair = merge.list();
    if (pair == nullptr || pair->size() != 2 || (*pair)[0].text() == nullptr || (*pair)[1].text() == nullptr)
      throw file.bad(field, concat("has entry ", merges.size(), ", which is neither text nor a pair of texts"));
    merges.push_back(concat(*(*pair)[0].text(), " ", *(*pair)[1].text()));
  }
  return merges;
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
  } else if (type != "ByteLevel") {
    throw file.unsupported(field, concat("is ", in_quotes(type.value_or("of no type"), 48), "; ByteLevel and TemplateProcessing are read"));
  }
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

}  // namespace

std::optional<std::uint64_t> TokenList::find(std::string_view text) const noexcept {
  const auto at = std::ranges::find(tokens, text);
  return at == tokens.end() ? std::nullopt : std::optional(static_cast<std::uint64_t>(at - tokens.begin()));
}

TokenList write_tokenizer_keys(const std::string& folder, std::uint64_t rows, gguf::Writer& keys) {
  const auto file = JsonFile::find(path_in(folder, "tokenizer.json"), most_file_bytes, most_values);
  if (!file)
    throw Error(QUERN_UNSUPPORTED, concat(folder,
                                          ": has no tokenizer.json, the form of tokenizer that is read; save the tokenizer with "
                                          "transformers, or use a GGUF file of the model"));
  const Json& model = require_object(*file, "model", file->json().find("model"));
  refuse_variants(*file, model);
  if (rows > most_tokens)
    throw Error(QUERN_UNSUPPORTED,
                concat(folder, ": the table of embeddings has ", rows, " rows; at most ", most_tokens, " tokens are read"));
  TokenList list;
  Tokens tokens(*file, list);
  for (const Json::Member& token : *require_object(*file, "model.vocab", model.find("vocab")).members())
    tokens.add("model.vocab", token.name, &token.value, token_type::normal);
  read_added(*file, tokens);
  fill_up(list, rows);
  read_post_processor(*file, file->json().find("post_processor"), list);
  const std::vector<std::string> merges = read_merges(*file, model);
  if (bool_of(*file, "model.byte_fallback", model.find("byte_fallback")).value_or(false)) {
    write_sentencepiece_keys(*file, merges, list, keys);
  } else {
    check_byte_level(*file);
    keys.string("tokenizer.ggml.model", "gpt2");
    keys.string("tokenizer.ggml.pre", pre_tokenizer_of(*file));
    keys.strings("tokenizer.ggml.merges", merges);
  }
  keys.strings("tokenizer.ggml.tokens", list.tokens);
  keys.numbers<std::int32_t>("tokenizer.ggml.token_type", list.types);
  return list;
}

}  // namespace quern::directory
