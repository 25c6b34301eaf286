#include "sentencepiece_file.hpp"

#include "config.hpp"
#include "legacy_tokenizer.hpp"
#include "protobuf.hpp"
#include "ranked_files.hpp"
#include "special_tokens.hpp"

#include "quern/base/files.hpp"
#include "quern/base/terminal_text.hpp"
#include "quern/graph/file_error.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace quern::directory {
namespace {

constexpr std::string_view added_field = "added_tokens_decoder";

enum class ModelType : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };

/// What is read of ModelProto, with the defaults of SentencePiece's sentencepiece_model.proto.
struct Model {
  TokenList list;
  std::vector<float> scores;
  ModelType type = ModelType::unigram;
  bool byte_fallback = false;
  std::string bos_piece = "<s>", eos_piece = "</s>";
  std::string_view charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true;
};

class ModelReader {
 public:
  ModelReader(const std::string& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  Model read() {
    ProtoReader file(path_, bytes_, "ModelProto", bytes_);
    while (file.next()) {
      if (file.number() == 1) read_piece(file.bytes("pieces"));
      else if (file.number() == 2) read_trainer(file.bytes("trainer_spec"));
      else if (file.number() == 3) read_normalizer(file.bytes("normalizer_spec"));
      else if (file.number() == 5) read_denormalizer(file.bytes("denormalizer_spec"));
    }
    check();
    return std::move(model_);
  }

 private:
  void read_piece(std::string_view message) {
    const std::size_t at = model_.list.tokens.size();
    if (at == most_tokens) bad("pieces", concat("has more than ", most_tokens, " entries"));
    std::string_view text;
    float score = 0;
    std::uint64_t type = token_type::normal;
    for (ProtoReader piece(path_, bytes_, "pieces", message); piece.next();) {
      if (piece.number() == 1) text = piece.bytes("piece");
      else if (piece.number() == 2) score = piece.f32("score");
      else if (piece.number() == 3) type = piece.count("type");
    }
    if (text.empty()) bad("pieces", concat("has entry ", at, " without a text"));
    if (type < token_type::normal || type > token_type::byte)
      bad("pieces", concat("has the type ", type, " for ", in_quotes(text, 48), "; types are 1 to 6"));
    model_.list.tokens.emplace_back(text);
    model_.list.types.push_back(static_cast<std::int32_t>(type));
    model_.scores.push_back(score);
  }

  void read_trainer(std::string_view message) {
    for (ProtoReader spec(path_, bytes_, "trainer_spec", message); spec.next();) {
      if (spec.number() == 3) model_.type = static_cast<ModelType>(std::min<std::uint64_t>(spec.count("model_type"), UINT8_MAX));
      else if (spec.number() == 24 && spec.boolean("treat_whitespace_as_suffix"))
        unsupported("trainer_spec.treat_whitespace_as_suffix", "is true; texts with the space behind a word are not computed");
      else if (spec.number() == 35) model_.byte_fallback = spec.boolean("byte_fallback");
      else if (spec.number() == 46) model_.bos_piece = spec.bytes("bos_piece");
      else if (spec.number() == 47) model_.eos_piece = spec.bytes("eos_piece");
    }
  }

  void read_normalizer(std::string_view message) {
    for (ProtoReader spec(path_, bytes_, "normalizer_spec", message); spec.next();) {
      if (spec.number() == 2) model_.charsmap = spec.bytes("precompiled_charsmap");
      else if (spec.number() == 3) model_.add_dummy_prefix = spec.boolean("add_dummy_prefix");
      else if (spec.number() == 4) model_.remove_extra_whitespaces = spec.boolean("remove_extra_whitespaces");
      else if (spec.number() == 5 && !spec.boolean("escape_whitespaces"))
        unsupported("normalizer_spec.escape_whitespaces", "is false; spaces that stay as they are are not computed");
    }
  }

  void read_denormalizer(std::string_view message) {
    for (ProtoReader spec(path_, bytes_, "denormalizer_spec", message); spec.next();)
      if (spec.number() == 2 && !spec.bytes("precompiled_charsmap").empty())
        unsupported("denormalizer_spec.precompiled_charsmap", "is there; texts that are changed when they are decoded are not computed");
  }

  void check() const {
    if (model_.list.tokens.empty()) bad("pieces", "is empty; is this a SentencePiece model?");
    if (model_.type != ModelType::unigram && model_.type != ModelType::bpe)
      unsupported("trainer_spec.model_type", concat("is ", static_cast<int>(model_.type),
                                                    "; Unigram (1) and BPE (2) are computed, words (3) and characters (4) are not"));
    std::size_t bytes = 0, unknown = 0;
    for (const std::int32_t type : model_.list.types) {
      bytes += type == token_type::byte ? 1 : 0;
      unknown += type == token_type::unknown ? 1 : 0;
    }
    if (unknown != 1) bad("pieces", concat("has ", unknown, " unknown tokens; a model has one"));
    if (bytes != (model_.byte_fallback ? 256 : 0))
      bad("pieces", concat("has ", bytes, " byte tokens, and 'trainer_spec.byte_fallback' is ", model_.byte_fallback ? "true" : "false"));
  }

  [[noreturn]] void bad(std::string_view field, std::string_view text) const {
    throw Error(QUERN_BAD_MODEL, concat(path_, ": ", in_quotes(field), " ", text));
  }
  [[noreturn]] void unsupported(std::string_view field, std::string_view text) const {
    throw Error(QUERN_UNSUPPORTED, concat(path_, ": ", in_quotes(field), " ", text));
  }

  const std::string& path_;
  std::string_view bytes_;
  Model model_;
};

/// added_tokens.json of older directories: ids by the texts of tokens.
Json older_added_tokens(const JsonFile& file) {
  Json::List list;
  for (const Json::Member& token : *file.json().members())
    list.push_back(Json(Json::Members{{"content", Json(token.name)}, {"id", token.value}}));
  return Json(std::move(list));
}

/// Tokens that a file beside the model's adds to it, or whose types it changes.
void add_tokens(const JsonFile& config, std::string_view field, const Json& added_tokens, Model& model, gguf::Writer& keys) {
  TokenList& list = model.list;
  std::vector<std::int32_t> flags;
  for (const Json& added : *added_tokens.list()) {
    const std::string text = text_of(config, concat(field, ".content"), added.find("content")).value_or("");
    const std::uint64_t id = count_of(config, field, added.find("id"), 0, most_tokens - 1).value_or(most_tokens);
    const auto flag = [&](std::string_view name) { return bool_of(config, concat(field, ".", name), added.find(name)).value_or(false); };
    const std::int32_t type = flag("special") ? token_type::control : token_type::user_defined;
    if (text.empty() || id == most_tokens) throw config.bad(field, concat("has no id and 'content' for ", in_quotes(text, 48)));
    if (id >= list.tokens.size()) {
      list.tokens.resize(id + 1);
      list.types.resize(id + 1);
    }
    if (list.types[id] != 0 && list.tokens[id] != text)
      throw config.bad(field,
                       concat("has the id ", id, " for ", in_quotes(text, 48), ", which is that of ", in_quotes(list.tokens[id], 48)));
    if (list.types[id] == 0 || list.types[id] == token_type::normal) list.types[id] = type;
    list.tokens[id] = text;
    const std::int32_t spaces = (flag("single_word") ? 1 : 0) | (flag("lstrip") ? 2 : 0) | (flag("rstrip") ? 4 : 0);
    if (spaces == 0) continue;
    if (list.types[id] == token_type::user_defined)
      throw config.unsupported(field,
                               concat("asks for neighbours of ", in_quotes(text, 48), ", which is not special; this is not computed"));
    flags.insert(flags.end(), {static_cast<std::int32_t>(id), spaces});
  }
  if (!flags.empty()) keys.numbers<std::int32_t>("quern.added_token_flags", flags);
}

/// What T5's class puts around a text, or that of Llama and the others; tokenizer_config.json may say otherwise.
void choose_ends(const std::optional<JsonFile>& config, Model& model) {
  const auto setting = [&](std::string_view name) { return config ? bool_of(*config, name, config->json().find(name)) : std::nullopt; };
  const std::string name = config ? text_of(*config, "tokenizer_class", config->json().find("tokenizer_class")).value_or("") : "";
  const bool is_t5 = name.starts_with("T5Tokenizer");
  const auto find = [&](std::string_view named, const std::string& piece) {
    const auto at = config ? named_token(*config, named, model.list) : std::nullopt;
    return at ? at : model.list.find(piece);
  };
  model.list.has_template = true;
  if (setting("add_bos_token").value_or(!is_t5)) model.list.begin = find("bos_token", model.bos_piece);
  if (setting("add_eos_token").value_or(is_t5)) model.list.end = find("eos_token", model.eos_piece);
}

}  // namespace

std::optional<TokenList> write_sentencepiece_file(const std::string& folder, std::uint64_t rows, gguf::Writer& keys) {
  const std::string path = path_in(folder, "tokenizer.model");
  std::string bytes;
  const base::FileProblem problem = base::read_file(path, bytes, {.most = most_tokenizer_bytes});
  if (problem.fault == base::FileFault::not_found) return std::nullopt;
  if (problem.fault == base::FileFault::too_large) throw Error(QUERN_BAD_MODEL, problem.text);
  check_read(problem);
  if (is_tiktoken(bytes)) return std::nullopt;
  Model model = ModelReader(path, bytes).read();
  const auto config = JsonFile::find(path_in(folder, "tokenizer_config.json"));
  const auto setting = [&](std::string_view name) { return config ? bool_of(*config, name, config->json().find(name)) : std::nullopt; };
  if (config && config->json().find(added_field) != nullptr) add_tokens(*config, added_field, added_tokens_of(*config), model, keys);
  else if (const auto older = JsonFile::find(path_in(folder, "added_tokens.json")))
    add_tokens(*older, "added tokens", older_added_tokens(*older), model, keys);
  fill_up(model.list, rows);
  choose_ends(config, model);
  model.scores.resize(model.list.tokens.size());
  keys.string("tokenizer.ggml.model", model.type == ModelType::bpe ? "llama" : "t5");
  keys.numbers<float>("tokenizer.ggml.scores", model.scores);
  keys.boolean("tokenizer.ggml.add_space_prefix", model.add_dummy_prefix && setting("add_prefix_space").value_or(true));
  keys.boolean("tokenizer.ggml.remove_extra_whitespaces", model.remove_extra_whitespaces);
  if (!setting("legacy").value_or(true)) keys.boolean("quern.space_prefix_at_start_only", true);
  if (!model.charsmap.empty())
    keys.numbers<std::uint8_t>("tokenizer.ggml.precompiled_charsmap",
                               {reinterpret_cast<const std::uint8_t*>(model.charsmap.data()), model.charsmap.size()});
  keys.strings("tokenizer.ggml.tokens", model.list.tokens);
  keys.numbers<std::int32_t>("tokenizer.ggml.token_type", model.list.types);
  return std::move(model.list);
}

}  // namespace quern::directory
