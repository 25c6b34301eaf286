// The tokens of a model, checked and indexed by text.
#include "vocabulary.hpp"

#include "message_markers.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"
#include "quern/models/string_hash.hpp"

#include <algorithm>
#include <bit>

namespace quern::tokenizer {
namespace {

constexpr std::int32_t texts_ahead = 64;  // look-ups whose memory is fetched together

template <typename... Parts>
[[noreturn]] void bad_model(const Parts&... parts) {
  throw Error(QUERN_BAD_MODEL, concat(parts...));
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::optional<std::int32_t> special_id(std::string_view name, std::optional<std::uint64_t> id, std::size_t tokens) {
  if (!id) return std::nullopt;
  if (*id >= tokens) bad_model("tokenizer.ggml.", name, "_token_id is ", *id, " but the vocabulary has ", tokens, " tokens");
  return static_cast<std::int32_t>(*id);
}

}  // namespace

int parse_byte_name(std::string_view text) noexcept {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string byte_name(unsigned char byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return {'<', '0', 'x', digits[byte / 16], digits[byte % 16], '>'};
}

Vocabulary::Vocabulary(const VocabularyView& view) : seed_(process_seed()) {
  if (view.tokens.empty()) bad_model(field::tokens, " is empty");
  if (view.tokens.size() > max_tokens)
    bad_model(field::tokens, " has ", view.tokens.size(), " entries; at most ", max_tokens, " are accepted");
  if (view.types.size() != view.tokens.size())
    bad_model(field::types, " has ", view.types.size(), " entries for ", view.tokens.size(), " tokens");
  const std::size_t tokens = view.tokens.size();
  bos = special_id("bos", view.bos, tokens);
  eos = special_id("eos", view.eos, tokens);
  eot = special_id("eot", view.eot, tokens);
  eom = special_id("eom", view.eom, tokens);
  unknown = special_id("unknown", view.unknown, tokens);
  for (const std::uint64_t id : view.ends) {
    if (id >= tokens) bad_model(field::ends, " has ", id, " but the vocabulary has ", tokens, " tokens");
    ends.push_back(static_cast<std::int32_t>(id));
  }
  if (view.add_bos && !bos) bad_model("tokenizer.ggml.add_bos_token is true but there is no tokenizer.ggml.bos_token_id");
  if (view.add_eos && !eos) bad_model("tokenizer.ggml.add_eos_token is true but there is no tokenizer.ggml.eos_token_id");
  copy_tokens(view);
  index_tokens();
  read_types(view);
  markers_ = find_message_markers(*this, view.chat_template);
  outside_.resize(tokens);
  for (const AddedToken& added : view.added) {
    if (!contains(added.id)) bad_model(field::added, " has the id ", added.id, " but the vocabulary has ", tokens, " tokens");
    outside_[static_cast<std::size_t>(added.id)] = added.outside_model;
  }
}

void Vocabulary::copy_tokens(const VocabularyView& view) {
  std::uint64_t total = 0;
  for (std::size_t id = 0; id < view.tokens.size(); ++id) {
    const std::size_t bytes = view.tokens[id].size();
    if (bytes > max_token_bytes)
      bad_model(field::tokens, ": entry ", id, " has ", bytes, " bytes; at most ", max_token_bytes, " are accepted");
    longest_ = std::max(longest_, bytes);
    total += bytes;
  }
  if (total > UINT32_MAX) bad_model(field::tokens, " holds ", total, " bytes of text; at most ", UINT32_MAX, " are accepted");
  text_.reserve(total);
  starts_.reserve(view.tokens.size() + 1);
  for (const std::string_view token : view.tokens) {
    starts_.push_back(static_cast<std::uint32_t>(text_.size()));
    text_ += token;
  }
  starts_.push_back(static_cast<std::uint32_t>(text_.size()));
}

void Vocabulary::index_tokens() {
  const auto count = static_cast<std::int32_t>(starts_.size() - 1);
  slots_.resize(std::bit_ceil(std::size_t(count) + std::size_t(count) / 2 + 1));
  const std::size_t mask = slots_.size() - 1;
  std::array<std::uint64_t, texts_ahead> hashes;
  for (std::int32_t id = 0; id < count; ++id) {
    if (id % texts_ahead == 0) {
      for (std::int32_t ahead = 0; ahead < texts_ahead && id + ahead < count; ++ahead) {
        hashes[ahead] = hash_bytes(text(id + ahead), seed_);
        __builtin_prefetch(&slots_[hashes[ahead] & mask], 1);
      }
    }
    const std::string_view token = text(id);
    if (token.empty()) continue;  // padding of some vocabularies; nothing in a text is empty
    const std::uint64_t hash = hashes[id % texts_ahead];
    const auto tag = static_cast<std::uint32_t>(hash >> 32);
    std::size_t at = hash & mask;
    for (; slots_[at].id >= 0; at = (at + 1) & mask) {
      if (slots_[at].tag == tag && text(slots_[at].id) == token)
        bad_model(field::tokens, ": entries ", slots_[at].id, " and ", id, " are both ", in_quotes(token, 48));
    }
    slots_[at] = {tag, id};
  }
}

void Vocabulary::read_types(const VocabularyView& view) {
  byte_tokens_.fill(-1);
  types_.reserve(view.types.size());
  std::int32_t id = 0;
  std::int32_t first_unknown = -1;
  for (const std::int32_t type : view.types) {
    if (type < 1 || type > 6) bad_model(field::types, ": entry ", id, " is ", type, "; types are 1 to 6");
    types_.push_back(TokenType{type});
    if (types_.back() == TokenType::byte) {
      const int byte = parse_byte_name(text(id));
      if (byte < 0)
        bad_model(field::tokens, ": entry ", id, " has the type of a byte but is ", in_quotes(text(id), 48), ", not <0x00> to <0xFF>");
      if (byte_tokens_[byte] >= 0)
        bad_model(field::tokens, ": entries ", byte_tokens_[byte], " and ", id, " are the same byte ", in_quotes(text(id), 48));
      byte_tokens_[byte] = id;
    }
    if (types_.back() == TokenType::unknown && first_unknown < 0) first_unknown = id;
    ++id;
  }
  if (!unknown && first_unknown >= 0) unknown = first_unknown;
}

std::int32_t Vocabulary::find_hashed(std::string_view token, std::uint64_t hash) const noexcept {
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask; slots_[at].id >= 0; at = (at + 1) & mask)
    if (slots_[at].tag == tag && text(slots_[at].id) == token) return slots_[at].id;
  return -1;
}

std::int32_t Vocabulary::find(std::string_view token) const noexcept {
  if (token.size() > longest_) return -1;
  return find_hashed(token, hash_bytes(token, seed_));
}

void Vocabulary::find_all(std::span<const std::string_view> texts, std::span<std::int32_t> ids) const noexcept {
  std::array<std::uint64_t, texts_ahead> hashes;
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t first = 0; first < texts.size(); first += texts_ahead) {
    const std::size_t count = std::min<std::size_t>(texts_ahead, texts.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      hashes[i] = hash_bytes(texts[first + i], seed_);
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t likely = std::max(slots_[hashes[i] & mask].id, 0);
      __builtin_prefetch(&starts_[likely]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t likely = std::max(slots_[hashes[i] & mask].id, 0);
      __builtin_prefetch(text_.data() + starts_[likely]);
    }
    for (std::size_t i = 0; i < count; ++i) ids[first + i] = find_hashed(texts[first + i], hashes[i]);
  }
}

unsigned char Vocabulary::byte_of(std::int32_t id) const noexcept { return static_cast<unsigned char>(parse_byte_name(text(id))); }

}  // namespace quern::tokenizer
