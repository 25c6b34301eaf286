#include "ranked_files.hpp"

#include "config.hpp"
#include "legacy_tokenizer.hpp"
#include "made_json.hpp"
#include "pre_tokenizer_steps.hpp"
#include "tokenizer_json.hpp"

#include "quern/base/files.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"
#include "quern/graph/folder.hpp"
#include "quern/models/base64.hpp"
#include "quern/models/ranked_tokens.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <utility>
#include <vector>

namespace quern::directory {
namespace {

/// What both kinds of file say.
struct Ranked {
  std::vector<std::string> tokens;  // bytes by rank
  std::uint64_t first_id = 0;       // of rank 0
  std::string expression;
  Json::List special;  // as added_tokens
  bool form_c = false;
  std::optional<std::string> begin;  // the special token in front of a text
};

Json added_token(std::uint64_t id, std::string_view text, bool special) {
  return json_object({{"id", Json(id)}, {"content", json_text(text)}, {"special", Json(special)}, {"normalized", Json(false)}});
}

/// Adds the file's name to what an error says.
template <typename Call>
auto naming(const std::string& path, const Call& call) {
  try {
    return call();
  } catch (const Error& error) { throw Error(error.code(), concat(path, ": ", error.what())); }
}

Json template_with(const std::string& begin, const Json::List& special) {
  const auto at = std::ranges::find_if(special, [&](const Json& token) { return *token.find("content")->text() == begin; });
  if (at == special.end()) return {};
  const Json entry =
      json_object({{"id", json_text(begin)}, {"ids", Json(Json::List{*at->find("id")})}, {"tokens", Json(Json::List{json_text(begin)})}});
  const Json first = json_object({{"SpecialToken", json_object({{"id", json_text(begin)}, {"type_id", Json(std::uint64_t{0})}})}});
  const Json text = json_object({{"Sequence", json_object({{"id", json_text("A")}, {"type_id", Json(std::uint64_t{0})}})}});
  return json_object({{"type", json_text("TemplateProcessing")},
                      {"single", Json(Json::List{first, text})},
                      {"special_tokens", json_object({{begin, entry}})}});
}

JsonFile as_tokenizer_json(const std::string& path, Ranked ranked) {
  RankedBpe bpe = naming(path, [&] { return bpe_of_ranks(ranked.tokens); });
  Json::Members vocabulary;
  vocabulary.reserve(bpe.texts.size());
  for (std::size_t rank = 0; rank < bpe.texts.size(); ++rank)
    if (!bpe.texts[rank].empty()) vocabulary.push_back({std::move(bpe.texts[rank]), Json(ranked.first_id + rank)});
  Json::List merges;
  merges.reserve(bpe.merges.size());
  for (std::string& merge : bpe.merges) merges.emplace_back(std::move(merge));
  Json post_processor = ranked.begin ? template_with(*ranked.begin, ranked.special) : Json();
  // Moved one by one: json_object() copies what it is given.
  Json::Members model;
  model.push_back({"type", json_text("BPE")});
  model.push_back({"ignore_merges", Json(true)});
  model.push_back({"vocab", Json(std::move(vocabulary))});
  model.push_back({"merges", Json(std::move(merges))});
  Json::Members whole;
  whole.push_back({"added_tokens", Json(std::move(ranked.special))});
  whole.push_back({"normalizer", ranked.form_c ? json_object({{"type", json_text("NFC")}}) : Json()});
  whole.push_back({"pre_tokenizer", byte_level_matches(ranked.expression)});
  whole.push_back({"post_processor", std::move(post_processor)});
  whole.push_back({"decoder", byte_level(true)});
  whole.push_back({"model", Json(std::move(model))});
  return JsonFile::made_of(path, Json(std::move(whole)));
}

// tekken.json

// Of files of version 3 and 7 without a list of their own.
constexpr std::string_view older_special[] = {"<unk>",
                                              "<s>",
                                              "</s>",
                                              "[INST]",
                                              "[/INST]",
                                              "[AVAILABLE_TOOLS]",
                                              "[/AVAILABLE_TOOLS]",
                                              "[TOOL_RESULTS]",
                                              "[/TOOL_RESULTS]",
                                              "[TOOL_CALLS]",
                                              "[IMG]",
                                              "<pad>",
                                              "[IMG_BREAK]",
                                              "[IMG_END]",
                                              "[PREFIX]",
                                              "[MIDDLE]",
                                              "[SUFFIX]",
                                              "[SYSTEM_PROMPT]",
                                              "[/SYSTEM_PROMPT]",
                                              "[TOOL_CONTENT]"};

Json::List tekken_special(const JsonFile& file, std::uint64_t count) {
  constexpr std::string_view field = "special_tokens";
  Json::List special;
  const Json* const stated = file.json().find(field);
  if (stated == nullptr || stated->is_null()) {
    for (const std::string_view text : older_special) special.push_back(added_token(special.size(), text, true));
  } else {
    if (stated->list() == nullptr) throw file.bad(field, "is not a list");
    for (const Json& token : *stated->list()) {
      const auto text = text_of(file, concat(field, ".token_str"), token.find("token_str"));
      const auto rank = count_of(file, concat(field, ".rank"), token.find("rank"), 0, most_tokens);
      if (!text || text->empty() || rank != special.size())
        throw file.bad(field, concat("has entry ", special.size(), " without 'token_str', or with another 'rank' than ", special.size()));
      const bool control = bool_of(file, concat(field, ".is_control"), token.find("is_control")).value_or(true);
      special.push_back(added_token(*rank, *text, control));
    }
  }
  if (special.size() > count)
    throw file.bad(field, concat("has ", special.size(), " entries, and 'config.default_num_special_tokens' is ", count));
  while (special.size() < count) special.push_back(added_token(special.size(), concat("<SPECIAL_", special.size(), ">"), true));
  return special;
}

/// The tokens of a tekken.json, taken while it is read. `config`, which may stand behind them, says how many count.
class TekkenTokens {
 public:
  explicit TekkenTokens(const std::string& path) : errors_(JsonFile::made_of(path, Json())) {}

  Json::Taken taken() {
    return {"", field, [this](const std::string*, const Json& entry) { take(entry); }};
  }
  std::vector<std::string> first(const JsonFile& file, std::uint64_t count) {
    const Json* const list = file.json().find(field);
    if (list == nullptr || list->list() == nullptr) throw file.bad(field, "is missing or is not a list");
    if (tokens_.size() < count) throw file.bad(field, concat("has ", tokens_.size(), " entries, and 'config' asks for ", count));
    tokens_.resize(count);
    return std::move(tokens_);
  }

 private:
  static constexpr std::string_view field = "vocab";

  void take(const Json& token) {
    const std::uint64_t at = tokens_.size();
    if (at == most_tokens) throw errors_.bad(field, concat("has more entries than are read; at most ", most_tokens, " are read"));
    const auto rank = count_of(errors_, "vocab.rank", token.find("rank"), 0, most_tokens);
    const Json* const bytes = token.find("token_bytes");
    if (rank != at || bytes == nullptr || bytes->text() == nullptr || bytes->text()->empty())
      throw errors_.bad(field, concat("has entry ", at, " without 'token_bytes', or with another 'rank' than ", at));
    try {
      tokens_.push_back(decode_base64("vocab.token_bytes", *bytes->text()));
    } catch (const Error& error) { throw Error(error.code(), concat(errors_.path(), ": rank ", at, ": ", error.what())); }
  }

  JsonFile errors_;
  std::vector<std::string> tokens_;
};

// tiktoken

struct KnownClass {
  std::string_view name, expression;
  bool form_c;
  std::uint64_t first_special;
};
/// Classes whose code has the expression and the special tokens.
constexpr KnownClass known_classes[] = {{"QWenTokenizer", qwen2_expression, true, 151643}};

Json::List special_of(const KnownClass& known) {
  Json::List special;
  const auto add = [&](std::string_view text) { special.push_back(added_token(known.first_special + special.size(), text, true)); };
  for (const std::string_view text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) add(text);
  for (int extra = 0; extra < 205; ++extra) add(concat("<|extra_", extra, "|>"));
  return special;
}

std::vector<std::string> tiktoken_tokens(const std::string& path, std::string_view text) {
  std::vector<std::string> tokens;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    const auto bad = [&](std::string_view what) { return Error(QUERN_BAD_MODEL, concat(path, ": line ", line, " ", what)); };
    const std::size_t space = row.find(' ');
    std::uint64_t rank = 0;
    const char* const last = row.data() + row.size();
    if (space == row.npos || space == 0 || std::from_chars(row.data() + space + 1, last, rank).ptr != last)
      throw bad(concat("is ", in_quotes(row, 48), "; a line has base64, a space and a rank"));
    if (rank >= most_tokens) throw bad(concat("has the rank ", rank, "; ranks below ", most_tokens, " are read"));
    if (rank >= tokens.size()) tokens.resize(rank + 1);
    if (!tokens[rank].empty()) throw bad(concat("has the rank ", rank, " again"));
    tokens[rank] = naming(path, [&] { return decode_base64(concat("line ", line), row.substr(0, space)); });
    if (tokens[rank].empty()) throw bad("has an empty token");
  }
  return tokens;
}

/// The one file of the kind; empty without one.
std::string tiktoken_path(const std::string& folder) {
  constexpr std::size_t most_names = 4096;
  std::string found;
  for (const std::string& name : names_in(folder, most_names)) {
    if (!name.ends_with(".tiktoken") && name != "tiktoken.model") continue;
    if (!found.empty())
      throw Error(QUERN_UNSUPPORTED, concat(folder, ": has ", in_quotes(found), " and ", in_quotes(name), "; leave the one of the model"));
    found = name;
  }
  return path_in(folder, found.empty() ? "tokenizer.model" : found);
}

}  // namespace

bool is_tiktoken(std::string_view bytes) noexcept {
  return !bytes.empty() && (std::isalnum(static_cast<unsigned char>(bytes.front())) != 0 || bytes.front() == '+' || bytes.front() == '/');
}

std::optional<JsonFile> read_tekken(const std::string& folder) {
  const std::string path = path_in(folder, "tekken.json");
  TekkenTokens tokens(path);
  const Json::Taken taken[] = {tokens.taken()};
  const auto file = JsonFile::find(path, most_tokenizer_bytes, taken);
  if (!file) return std::nullopt;
  const Json* const config = file->json().find("config");
  if (config == nullptr || !config->is_object()) throw file->bad("config", "is missing or is not an object");
  const auto number = [&](std::string_view name) {
    const auto found = count_of(*file, concat("config.", name), config->find(name), 0, most_tokens);
    if (!found) throw file->bad(concat("config.", name), "is missing");
    return *found;
  };
  const std::uint64_t size = number("default_vocab_size"), special = number("default_num_special_tokens");
  if (special > size) throw file->bad("config.default_num_special_tokens", concat("is ", special, " of ", size, " tokens"));
  Ranked ranked;
  ranked.expression = text_of(*file, "config.pattern", config->find("pattern")).value_or("");
  if (ranked.expression.empty()) throw file->bad("config.pattern", "is missing");
  ranked.first_id = special;
  ranked.special = tekken_special(*file, special);
  ranked.tokens = tokens.first(*file, size - special);
  ranked.begin = "<s>";
  return as_tokenizer_json(file->path(), std::move(ranked));
}

std::optional<JsonFile> read_tiktoken(const std::string& folder) {
  const std::string path = tiktoken_path(folder);
  std::string text;
  const base::FileProblem problem = base::read_file(path, text, {.most = most_tokenizer_bytes});
  if (problem.fault == base::FileFault::not_found) return std::nullopt;
  if (problem.fault == base::FileFault::too_large) throw Error(QUERN_BAD_MODEL, problem.text);
  check_read(problem);
  if (!is_tiktoken(text) && path.ends_with("/tokenizer.model")) return std::nullopt;
  Ranked ranked;
  const auto config = JsonFile::find(path_in(folder, "tokenizer_config.json"));
  const auto model_config = JsonFile::find(path_in(folder, "config.json"));
  const auto stated = [](const std::optional<JsonFile>& file, std::string_view name) {
    return file ? text_of(*file, name, file->json().find(name)).value_or("") : std::string();
  };
  ranked.expression = stated(config, "pat_str");
  if (ranked.expression.empty()) ranked.expression = stated(model_config, "pat_str");
  const std::string name = stated(config, "tokenizer_class");
  const auto known = std::ranges::find(known_classes, std::string_view(name), &KnownClass::name);
  if (known == std::end(known_classes) && ranked.expression.empty())
    throw Error(QUERN_UNSUPPORTED, concat(path,
                                          ": is a tiktoken vocabulary, which does not say how texts are cut; neither does 'pat_str' of "
                                          "tokenizer_config.json; save the tokenizer as tokenizer.json with transformers"));
  if (known != std::end(known_classes)) {
    if (ranked.expression.empty()) ranked.expression = known->expression;
    ranked.form_c = known->form_c;
  }
  if (config && config->json().find("added_tokens_decoder") != nullptr) ranked.special = *added_tokens_of(*config).list();
  else if (known != std::end(known_classes)) ranked.special = special_of(*known);
  ranked.tokens = tiktoken_tokens(path, text);
  return as_tokenizer_json(path, std::move(ranked));
}

}  // namespace quern::directory
