// Reads a tokenizer out of a GGUF file.
#include "quern/models/gguf.hpp"
#include "quern/models/tokenizer.hpp"

#include "pre_tokenizer.hpp"
#include "vocabulary.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <cstdint>

namespace quern {
namespace {

namespace field = tokenizer::field;

// Before a view of 16 bytes is made for each element.
void check_count(const gguf::File& file, std::string_view key, std::uint64_t count, std::size_t max) {
  if (count > max) throw file.bad_key(key, concat("has ", count, " entries; at most ", max, " are accepted"));
}

std::vector<std::string_view> read_strings(const gguf::File& file, std::string_view key, std::size_t max) {
  const gguf::StringArray strings = file.require_strings(key);
  check_count(file, key, strings.size(), max);
  return strings.to_vector();
}

std::vector<std::int32_t> read_types(const gguf::File& file) {
  const gguf::IntArray found = file.require_ints(field::types);
  check_count(file, field::types, found.size(), tokenizer::max_tokens);
  std::vector<std::int32_t> types(found.size());
  for (std::size_t i = 0; i < types.size(); ++i)  // what does not fit is no type, and stays so
    types[i] = static_cast<std::int32_t>(std::clamp<std::int64_t>(found[i], INT32_MIN, INT32_MAX));
  return types;
}

std::vector<double> read_scores(const gguf::File& file) {
  const auto found = file.find_floats(field::scores);
  if (!found) return {};
  check_count(file, field::scores, found->size(), tokenizer::max_tokens);
  std::vector<double> scores(found->size());
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = (*found)[i];
  return scores;
}

// Pairs of an id and its flags: 1 single word, 2 and 4 with the white space in front and behind, 8 in the normalised text, 16 not the model's.
std::vector<AddedToken> read_added(const gguf::File& file) {
  std::vector<AddedToken> added;
  const auto found = file.find_ints(field::added);
  if (!found) return added;
  check_count(file, field::added, found->size(), 2 * tokenizer::max_tokens);
  if (found->size() % 2 != 0) throw file.bad_key(field::added, "has an id without flags");
  for (std::size_t i = 0; i < found->size(); i += 2) {
    const auto id = static_cast<std::int32_t>(std::clamp<std::int64_t>((*found)[i], -1, INT32_MAX));
    const std::int64_t flags = (*found)[i + 1];
    added.push_back({id, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0, (flags & 16) != 0});
  }
  return added;
}

// Where a file says nothing, the model's family decides: SentencePiece models and Llama 3 start with bos.
bool starts_with_bos(const gguf::File& file, const VocabularyView& view) {
  if (const auto stated = file.find_bool("tokenizer.ggml.add_bos_token")) return *stated;
  const auto pre_tokenizer = tokenizer::find_pre_tokenizer(view.pre_tokenizer);
  return view.bos && (view.model == "llama" || (pre_tokenizer && pre_tokenizer->starts_with_bos));
}

constexpr std::string_view pre_key = "tokenizer.ggml.pre", assumed_pre = "default";

bool is_byte_level(const gguf::File& file) { return file.find_string("tokenizer.ggml.model").value_or("") == "gpt2"; }

/// The rule that was asked for, that of the file, or the one that is taken without either.
std::string_view choose_pre_tokenizer(const gguf::File& file, std::string_view wanted) {
  if (!wanted.empty()) {
    if (!is_byte_level(file))
      throw Error(QUERN_INVALID_ARGUMENT, concat(file.name(), ": tokenizer_pre is ", in_quotes(wanted, 48),
                                                 ", but only byte-level BPE (tokenizer.ggml.model 'gpt2') has such a rule; leave it out"));
    if (!tokenizer::find_pre_tokenizer(wanted))
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("tokenizer_pre is ", in_quotes(wanted, 48), ", which is not known; known are ", known_pre_tokenizers()));
    return wanted;
  }
  const std::string_view named = file.find_string(pre_key).value_or("");
  return named.empty() && is_byte_level(file) ? assumed_pre : named;
}

/// The table of normalisations; empty where there is none.
std::string read_charsmap(const gguf::File& file) {
  constexpr std::uint64_t most = 16 << 20;  // that of nmt_nfkc has a quarter of a million bytes
  const auto found = file.find_ints(field::charsmap);
  if (!found) return {};
  if (found->element_type() != gguf::ValueType::u8 && found->element_type() != gguf::ValueType::i8)
    throw file.bad_key(field::charsmap, "is no array of bytes");
  check_count(file, field::charsmap, found->size(), most);
  std::string bytes;
  bytes.reserve(found->size());
  for (std::uint64_t i = 0; i < found->size(); ++i) bytes += static_cast<char>((*found)[i]);
  return bytes;
}

}  // namespace

std::string pre_tokenizer_warning(const gguf::File& file) {
  if (!is_byte_level(file) || !file.find_string(pre_key).value_or("").empty()) return {};
  return concat(pre_key, " is missing; the rule '", assumed_pre,
                "' (GPT-2's) is taken, and a model that was trained with another one gets wrong tokens; "
                "tokenizer_pre (--tokenizer-pre NAME) chooses among ",
                known_pre_tokenizers());
}

std::unique_ptr<Tokenizer> tokenizer_from_gguf(const gguf::File& file, std::string_view pre_tokenizer) {
  VocabularyView view;
  view.source = file.name();
  view.model = file.require_string("tokenizer.ggml.model");
  std::vector<std::string_view> tokens, merges;
  std::vector<std::int32_t> types;
  std::vector<double> scores;
  std::vector<AddedToken> added;
  std::string charsmap;
  const bool byte_level = view.model == "gpt2", has_steps = view.model == "huggingface";
  if (byte_level || has_steps || tokenizer::is_sentencepiece(view.model)) {  // another model is refused by name, not for what it lacks
    tokens = read_strings(file, field::tokens, tokenizer::max_tokens);
    types = read_types(file);
    scores = read_scores(file);
    added = read_added(file);
    view.added = added;
    if (has_steps) {
      view.steps = file.require_string("quern.tokenizer_steps");
      if (file.array_shape(field::merges)) merges = read_strings(file, field::merges, tokenizer::max_merges);
    } else if (byte_level) {
      merges = read_strings(file, field::merges, tokenizer::max_merges);
    } else {
      charsmap = read_charsmap(file);
      view.charsmap = charsmap;
    }
  }
  view.pre_tokenizer = choose_pre_tokenizer(file, pre_tokenizer);
  view.tokens = tokens;
  view.types = types;
  view.scores = scores;
  view.merges = merges;
  view.bos = file.find_u64("tokenizer.ggml.bos_token_id");
  view.eos = file.find_u64("tokenizer.ggml.eos_token_id");
  view.eot = file.find_u64("tokenizer.ggml.eot_token_id");
  view.eom = file.find_u64("tokenizer.ggml.eom_token_id");
  if (const auto ends = file.find_ints(field::ends)) {
    check_count(file, field::ends, ends->size(), tokenizer::max_tokens);
    for (const std::int64_t id : ends->to_vector()) view.ends.push_back(static_cast<std::uint64_t>(id));  // a negative one is none
  }
  view.unknown = file.find_u64("tokenizer.ggml.unknown_token_id");
  view.add_bos = starts_with_bos(file, view);
  view.add_eos = file.find_bool("tokenizer.ggml.add_eos_token").value_or(view.model == "t5" && view.eos);
  view.add_space_prefix = file.find_bool("tokenizer.ggml.add_space_prefix");
  view.space_prefix_at_start_only = file.find_bool("quern.space_prefix_at_start_only").value_or(false);
  view.remove_extra_whitespaces = file.find_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
  view.chat_template = file.find_string("tokenizer.chat_template").value_or("");
  view.markers_take_following_space = view.model == "llama" && file.find_string("general.architecture").value_or("") == "phi3";
  try {
    return std::make_unique<Tokenizer>(view);
  } catch (const Error& error) { throw Error(error.code(), concat(file.name(), ": ", error.what())); }
}

}  // namespace quern
