#include "sentencepiece_json.hpp"

#include "config.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/models/string_hash.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace quern::directory {
namespace {

constexpr std::string_view space_mark = "\xE2\x96\x81";        // U+2581
constexpr std::uint64_t most_splits = std::uint64_t{8} << 20;  // of all tokens together; 262,144 real tokens have 2 million

/// What stands in front of a text: nothing, a space in front of each part between control tokens, or one at the start alone.
enum class Prefix : std::uint8_t { never, always, at_start };

std::optional<Prefix> prefix_of_metaspace(const JsonFile& file, const Json& part) {
  constexpr std::string_view field = "pre_tokenizer";
  if (text_of(file, field, part.find("type")) != "Metaspace" || text_of(file, field, part.find("replacement")) != space_mark)
    return std::nullopt;
  if (bool_of(file, concat(field, ".split"), part.find("split")).value_or(true)) return std::nullopt;  // no token may cross a space
  const std::string scheme = text_of(file, concat(field, ".prepend_scheme"), part.find("prepend_scheme")).value_or("always");
  if (scheme == "never") return Prefix::never;
  if (scheme == "always") return Prefix::always;
  if (scheme == "first") return Prefix::at_start;
  throw file.bad(concat(field, ".prepend_scheme"), concat("is ", in_quotes(scheme, 32)));
}

bool replaces_spaces(const Json& part) {
  const Json* const pattern = part.find("pattern");
  const Json* const text = pattern == nullptr ? nullptr : pattern->find("String");
  const Json* const content = part.find("content");
  return text != nullptr && text->text() != nullptr && *text->text() == " " && content != nullptr && content->text() != nullptr &&
         *content->text() == space_mark;
}

/// A normalizer that does what Metaspace does: Prepend, which may be absent, and Replace.
std::optional<Prefix> prefix_of_normalizer(const JsonFile& file, const Json& normalizer) {
  constexpr std::string_view field = "normalizer";
  std::vector<const Json*> parts = {&normalizer};
  if (const Json* const list = normalizer.find("normalizers"); list != nullptr && list->list() != nullptr) {
    parts.clear();
    for (const Json& part : *list->list()) parts.push_back(&part);
  }
  Prefix prefix = Prefix::never;
  bool replaced = false;
  for (const Json* part : parts) {
    const std::string type = text_of(file, concat(field, ".type"), part->find("type")).value_or("");
    if (type == "Prepend" && !replaced && text_of(file, concat(field, ".prepend"), part->find("prepend")) == space_mark)
      prefix = Prefix::always;
    else if (type == "Replace" && !replaced && replaces_spaces(*part)) replaced = true;
    else return std::nullopt;
  }
  return replaced ? std::optional(prefix) : std::nullopt;
}

std::optional<Prefix> prefix_of(const JsonFile& file) {
  const auto there = [&](std::string_view name) {
    const Json* const value = file.json().find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  };
  const Json* const normalizer = there("normalizer");
  const Json* const pre_tokenizer = there("pre_tokenizer");
  if (normalizer != nullptr && pre_tokenizer == nullptr) return prefix_of_normalizer(file, *normalizer);
  if (normalizer == nullptr && pre_tokenizer != nullptr) return prefix_of_metaspace(file, *pre_tokenizer);
  return std::nullopt;
}

bool is_byte(std::string_view text) {
  int value = 0;
  return text.size() == 6 && text.starts_with("<0x") && text.back() == '>' &&
         std::from_chars(text.data() + 3, text.data() + 5, value, 16).ptr == text.data() + 5;
}

struct Hash {
  std::size_t operator()(std::string_view text) const noexcept { return tokenizer::hash_bytes(text, seed); }
  std::uint64_t seed = tokenizer::process_seed();
};

/// Places of the merges that make a token.
struct Made {
  std::size_t count = 0, first = 0, last = 0;
};

class ScoredTokens {
 public:
  ScoredTokens(const JsonFile& file, const TokenList& list, const std::vector<std::string>& merges) : file_(file), list_(list) {
    tokens_.reserve(list.tokens.size());
    for (std::size_t id = 0; id < list.tokens.size(); ++id)
      if (list.types[id] == token_type::normal) tokens_.try_emplace(list.tokens[id]);
    std::string whole;
    for (std::size_t place = 0; place < merges.size(); ++place) {
      const std::string& merge = merges[place];
      const std::size_t space = merge.find(' ');
      if (space == merge.npos || space == 0 || space + 1 == merge.size())
        throw file.bad("model.merges", concat("has entry ", place, ", which is not two tokens with a space between them"));
      whole.assign(merge, 0, space).append(merge, space + 1);
      if (const auto token = tokens_.find(whole); token != tokens_.end()) add(token->second, place);
    }
  }

  /// Nothing where the merges are not those that SentencePiece's scores give.
  std::optional<std::vector<float>> scores() {
    std::vector<float> scores(list_.tokens.size());
    for (std::size_t id = 0; id < scores.size(); ++id) {
      if (list_.types[id] != token_type::normal) continue;
      const auto score = score_of(list_.tokens[id]);
      if (!score) return std::nullopt;
      scores[id] = *score;
    }
    return scores;
  }

 private:
  static void add(Made& made, std::size_t place) noexcept {
    if (made.count++ == 0) made.first = place;
    made.last = place;
  }

  /// SentencePiece merges whatever two tokens make a token, by its score alone. So all splits are merges, and neighbours in the list.
  std::optional<float> score_of(std::string_view token) {
    splits_ += token.size();
    if (splits_ > most_splits) throw file_.unsupported("model.vocab", concat("has tokens of more than ", most_splits, " bytes together"));
    std::size_t splits = 0;
    for (std::size_t at = 1; at < token.size(); ++at)
      splits += tokens_.contains(token.substr(0, at)) && tokens_.contains(token.substr(at)) ? 1 : 0;
    const Made& made = tokens_.find(token)->second;
    if (splits != made.count || (made.count > 0 && made.last - made.first + 1 != made.count)) return std::nullopt;
    return made.count == 0 ? 0.0f : -1.0f - static_cast<float>(made.first);
  }

  const JsonFile& file_;
  const TokenList& list_;
  std::unordered_map<std::string_view, Made, Hash> tokens_;  // those of type normal
  std::uint64_t splits_ = 0;
};

}  // namespace

bool write_sentencepiece_keys(const JsonFile& file, const std::vector<std::string>& merges, TokenList& list, gguf::Writer& keys) {
  const Json& model = *file.json().find("model");
  const auto prefix = prefix_of(file);
  if (!prefix || bool_of(file, "model.ignore_merges", model.find("ignore_merges")).value_or(false)) return false;
  const auto unknown_text = text_of(file, "model.unk_token", model.find("unk_token"));
  std::vector<std::int32_t> types = list.types;
  for (std::size_t id = 0; id < list.tokens.size(); ++id) {
    if (unknown_text && list.tokens[id] == *unknown_text) types[id] = token_type::unknown;
    else if (types[id] == token_type::normal && is_byte(list.tokens[id])) types[id] = token_type::byte;
  }
  std::swap(types, list.types);
  const auto scores = ScoredTokens(file, list, merges).scores();
  if (!scores) {
    std::swap(types, list.types);
    return false;
  }
  keys.string("tokenizer.ggml.model", "llama");
  keys.numbers<float>("tokenizer.ggml.scores", *scores);
  keys.boolean("tokenizer.ggml.add_space_prefix", *prefix != Prefix::never);
  if (*prefix == Prefix::at_start) keys.boolean("quern.space_prefix_at_start_only", true);
  return true;
}

}  // namespace quern::directory
