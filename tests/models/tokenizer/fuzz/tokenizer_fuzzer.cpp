// Fuzzes the tokenizer: a vocabulary and a text out of the same bytes.
//
//   byte 0   flags, see below         byte 1   pre-tokenizer
//   byte 2   count of tokens: each a type, a score, a length and its bytes
//   byte     count of merges: each two indices of tokens (the joined token is added if it is new), or 0xFF, a
//   length and
//            the text of the merge
//   2 bytes  bos, eos (0: none)       rest     the text
//
// A refusal is an Error with QUERN_BAD_MODEL or QUERN_UNSUPPORTED. Of an accepted vocabulary every id is in
// range, and a byte-level one that spells all bytes gives back any text.
#include "../vocabulary_builder.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

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

constexpr const char* pre_tokenizers[] = {"gpt-2",   "smollm",    "llama-bpe", "qwen2",
                                          "default", "starcoder", "tekken",    ""};

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

test::VocabularyBuilder read_vocabulary(Input& input, std::uint8_t flags) {
  const char* pre_tokenizer = pre_tokenizers[input.byte() % std::size(pre_tokenizers)];
  test::VocabularyBuilder vocabulary;
  if (flags & with_bytes)
    vocabulary = flags & sentencepiece_model ? test::sentencepiece() : test::byte_level();
  vocabulary.model = flags & sentencepiece_model ? "llama" : "gpt2";
  vocabulary.pre_tokenizer = pre_tokenizer;
  for (int left = input.byte(); left > 0; --left) {
    const std::int32_t type = input.byte() % 8;
    const auto score = static_cast<float>(input.byte());
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
    const std::string one = vocabulary.tokens[count - 1 - first % count],
                      two = vocabulary.tokens[count - 1 - input.byte() % count];
    if (one.size() + two.size() > 500) continue;  // lengths double from merge to merge
    if (std::ranges::find(vocabulary.tokens, one + two) == vocabulary.tokens.end()) vocabulary.add(one + two);
    vocabulary.merges.push_back(one + " " + two);
  }
  if (const std::uint8_t id = input.byte()) vocabulary.settings.bos = id;
  if (const std::uint8_t id = input.byte()) vocabulary.settings.eos = id;
  vocabulary.settings.add_bos = flags & add_bos;
  vocabulary.settings.remove_extra_whitespaces = flags & remove_spaces;
  vocabulary.settings.markers_take_following_space = flags & markers_take_space;
  if (flags & space_prefix) vocabulary.settings.add_space_prefix = true;
  if ((flags & short_types) && !vocabulary.types.empty()) vocabulary.types.pop_back();
  return vocabulary;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void check_stream(std::string_view text) {
  Utf8Stream whole, halves;
  std::string once = whole.push(text);
  once += whole.flush();
  std::string twice = halves.push(text.substr(0, text.size() / 2));
  twice += halves.push(text.substr(text.size() / 2));
  twice += halves.flush();
  require(once == twice);
}

void check(const Tokenizer& tokenizer, std::string_view text, std::uint8_t flags, bool comes_back) {
  const auto ids =
      tokenizer.encode(text, {.add_bos = {}, .add_eos = {}, .parse_special = (flags & parse_special) != 0});
  for (const std::int32_t id : ids) require(id >= 0 && id < tokenizer.size());
  tokenizer.decode(ids, true);
  const std::string bytes = tokenizer.decode_bytes(ids);
  if (comes_back) require(bytes == text);
  for (const std::int32_t id : tokenizer.end_tokens()) require(tokenizer.is_end(id));
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    tokenizer.token_bytes(id);
    const std::string_view spelled = tokenizer.token_text(id);
    require(spelled.empty() || tokenizer.find(spelled) == id);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t flags = input.byte();
  test::VocabularyBuilder vocabulary = read_vocabulary(input, flags);
  const std::string_view text = input.rest();
  check_stream(text);
  try {
    const Tokenizer tokenizer(vocabulary.view());
    const bool composes = vocabulary.pre_tokenizer == "qwen2";
    const bool changes = composes || (flags & (sentencepiece_model | add_bos | markers_take_space));
    check(tokenizer, text, flags, (flags & with_bytes) && !changes);
  } catch (const Error& error) {
    require(error.code() == QUERN_BAD_MODEL || error.code() == QUERN_UNSUPPORTED);
  }
  return 0;
}
