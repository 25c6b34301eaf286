// Fuzzes the tokenizer: a vocabulary and a text out of the same bytes.
//
//   byte 0   flags, see below
//   byte 1   pre-tokenizer in the lower three bits, more flags above
//   byte 2   count of tokens: each a type, a score (255: not a number), a length and its bytes
//   byte     count of merges: each two indices of tokens (the joined token is added if it is new), or 0xFF, a
//            length and the text of the merge
//   2 bytes  bos, eos (0: none)
//   rest     the text
//
// A refusal of the vocabulary is an Error with QUERN_BAD_MODEL or QUERN_UNSUPPORTED. Of an accepted one every
// id is in range, a byte-level one that spells all bytes gives back any text, printing token by token gives
// what decode() gives, and the same vocabulary out of a GGUF file gives the same ids.
#include "../gguf_vocabulary.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/gguf.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace {

using namespace quern;

enum Flag : std::uint8_t {
  sentencepiece_model = 1,
  with_bytes = 2,
  space_prefix = 4,
  remove_spaces = 8,
  markers_take_space = 16,
  add_bos = 32,
  parse_special = 64,
  short_types = 128,
};

// Beside the pre-tokenizer.
enum MoreFlag : std::uint8_t {
  no_space_prefix = 8,   // wins over space_prefix
  add_eos = 16,          // the vocabulary's own setting
  ask_for_both = 32,     // encode() is asked for bos and eos, whatever the vocabulary has
  with_unknown = 64,     // the unknown token is stated: the last one
  through_a_file = 128,  // the vocabulary is written as GGUF and read again
};

constexpr const char* pre_tokenizers[] = {"gpt-2", "smollm", "llama-bpe", "qwen2", "deepseek-llm", "deepseek-coder", "tekken", ""};

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(reinterpret_cast<const char*>(data), size) {}
  std::uint8_t byte() {
    const std::string_view taken = take(1);
    return taken.empty() ? 0 : static_cast<std::uint8_t>(taken[0]);
  }
  std::string_view take(std::size_t size) {
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return take(left_.size()); }

 private:
  std::string_view left_;
};

test::VocabularyBuilder read_vocabulary(Input& input, std::uint8_t flags, std::uint8_t more) {
  const char* pre_tokenizer = pre_tokenizers[more % std::size(pre_tokenizers)];
  test::VocabularyBuilder vocabulary;
  if (flags & with_bytes) vocabulary = flags & sentencepiece_model ? test::sentencepiece() : test::byte_level();
  vocabulary.model = flags & sentencepiece_model ? "llama" : "gpt2";
  vocabulary.pre_tokenizer = pre_tokenizer;
  for (int left = input.byte(); left > 0; --left) {
    const std::int32_t type = input.byte() % 8;
    const std::uint8_t stated = input.byte();
    const float score = stated == 255 ? std::numeric_limits<float>::quiet_NaN() : stated;
    vocabulary.add(input.take(input.byte()), TokenType{type}, score);
  }
  for (int left = input.byte(); left > 0; --left) {
    const std::uint8_t first = input.byte();
    if (first == 0xFF || vocabulary.tokens.empty()) {
      vocabulary.merges.emplace_back(input.take(input.byte()));
      continue;
    }
    // From the end of the list, where the tokens of the input are.
    const std::size_t count = vocabulary.tokens.size();
    const std::string one = vocabulary.tokens[count - 1 - first % count], two = vocabulary.tokens[count - 1 - input.byte() % count];
    if (one.size() + two.size() > 500) continue;  // lengths double from merge to merge
    if (std::ranges::find(vocabulary.tokens, one + two) == vocabulary.tokens.end()) vocabulary.add(one + two);
    vocabulary.merges.push_back(one + " " + two);
  }
  if (const std::uint8_t id = input.byte()) vocabulary.settings.bos = id;
  if (const std::uint8_t id = input.byte()) vocabulary.settings.eos = id;
  vocabulary.settings.add_bos = flags & add_bos;
  vocabulary.settings.add_eos = more & add_eos;
  if ((more & with_unknown) && !vocabulary.tokens.empty()) vocabulary.settings.unknown = vocabulary.tokens.size() - 1;
  vocabulary.settings.remove_extra_whitespaces = flags & remove_spaces;
  vocabulary.settings.markers_take_following_space = flags & markers_take_space;
  if (flags & space_prefix) vocabulary.settings.add_space_prefix = true;
  if (more & no_space_prefix) vocabulary.settings.add_space_prefix = false;
  if ((flags & short_types) && !vocabulary.types.empty()) vocabulary.types.pop_back();
  return vocabulary;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void check_stream(std::string_view text) {
  Utf8Stream whole, single;
  std::string once = whole.push(text);
  once += whole.flush();
  std::string bytewise;
  for (const char byte : text) bytewise += single.push({&byte, 1});
  bytewise += single.flush();
  require(once == bytewise && !whole.pending() && !single.pending());
}

// What a caller does that prints while it generates.
std::string print_one_by_one(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  Utf8Stream stream;
  std::string text;
  bool at_start = tokenizer.drops_first_space();
  for (const std::int32_t id : ids) {
    std::string bytes = tokenizer.token_bytes(id).bytes;
    if (at_start && bytes.starts_with(' ')) bytes.erase(0, 1);
    at_start = at_start && bytes.empty() && tokenizer.token_bytes(id).bytes.empty();
    text += stream.push(bytes);
  }
  return text += stream.flush();
}

void check_tokens(const Tokenizer& tokenizer) {
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    const TokenType type = tokenizer.token_type(id);
    const bool special = type == TokenType::control || type == TokenType::unknown;
    require(tokenizer.token_bytes(id).special == special);
    const std::string_view spelled = tokenizer.token_text(id);
    require(spelled.empty() || tokenizer.find(spelled) == id);
  }
  for (const std::int32_t id : tokenizer.end_tokens()) require(tokenizer.is_end(id));
  for (const auto& id : {tokenizer.bos(), tokenizer.eos(), tokenizer.unknown()}) require(!id || (*id >= 0 && *id < tokenizer.size()));
  require(!tokenizer.adds_bos() || tokenizer.bos());
  require(!tokenizer.adds_eos() || tokenizer.eos());
}

template <typename Call>
void require_invalid_argument(Call call) {
  try {
    call();
  } catch (const Error& error) { return require(error.code() == QUERN_INVALID_ARGUMENT); }
  std::abort();
}

void check_ids_outside(const Tokenizer& tokenizer) {
  for (const std::int32_t id : {-1, tokenizer.size()}) {
    require(!tokenizer.is_end(id));
    require_invalid_argument([&] { tokenizer.decode(std::vector{id}); });
    require_invalid_argument([&] { tokenizer.token_bytes(id); });
    require_invalid_argument([&] { tokenizer.token_type(id); });
  }
}

void check_asking_for_both(const Tokenizer& tokenizer, std::string_view text) {
  const auto encode = [&] { return tokenizer.encode(text, {.add_bos = true, .add_eos = true}); };
  if (!tokenizer.bos() || !tokenizer.eos()) return require_invalid_argument(encode);
  const auto ids = encode();
  require(ids.size() >= 2 && ids.front() == *tokenizer.bos() && ids.back() == *tokenizer.eos());
}

void check(const Tokenizer& tokenizer, std::string_view text, std::uint8_t flags, bool comes_back) {
  const auto ids = tokenizer.encode(text, {.add_bos = {}, .add_eos = {}, .parse_special = (flags & parse_special) != 0});
  for (const std::int32_t id : ids) require(id >= 0 && id < tokenizer.size());
  tokenizer.decode(ids, true);
  require(print_one_by_one(tokenizer, ids) == tokenizer.decode(ids));
  if (comes_back) require(tokenizer.decode_bytes(ids) == text);
}

// A builder without types or scores for every token writes a file that is refused; one with a setting that
// gguf_of() does not write is another vocabulary.
void check_file(const test::VocabularyBuilder& vocabulary, const Tokenizer& direct, std::string_view text) {
  test::GgufWriter writer = test::gguf_of(vocabulary);
  const VocabularyView& settings = vocabulary.settings;
  writer.boolean("tokenizer.ggml.add_bos_token", settings.add_bos)
      .boolean("tokenizer.ggml.add_eos_token", settings.add_eos)
      .boolean("tokenizer.ggml.remove_extra_whitespaces", settings.remove_extra_whitespaces);
  if (settings.add_space_prefix) writer.boolean("tokenizer.ggml.add_space_prefix", *settings.add_space_prefix);
  if (settings.unknown) writer.u32("tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(*settings.unknown));
  const auto read = test::load(writer);
  if (!settings.markers_take_following_space) require(read->encode(text) == direct.encode(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t flags = input.byte(), more = input.byte();
  test::VocabularyBuilder vocabulary = read_vocabulary(input, flags, more);
  const std::string_view text = input.rest();
  check_stream(text);
  try {
    Tokenizer built(vocabulary.view());
    const Tokenizer tokenizer = std::move(built);
    const bool composes = vocabulary.pre_tokenizer == "qwen2";
    const bool changes = composes || (flags & (sentencepiece_model | add_bos | markers_take_space)) || (more & add_eos);
    check_tokens(tokenizer);
    check_ids_outside(tokenizer);
    check(tokenizer, text, flags, (flags & with_bytes) && !changes);
    if (more & ask_for_both) check_asking_for_both(tokenizer, text);
    if (more & through_a_file) check_file(vocabulary, tokenizer, text);
  } catch (const Error& error) { require(error.code() == QUERN_BAD_MODEL || error.code() == QUERN_UNSUPPORTED); }
  return 0;
}
