// Puts the parts together: markers are cut out of a text first, what lies between goes to the model's own
// rule.
#include "quern/base/terminal_text.hpp"
#include "quern/models/tokenizer.hpp"

#include "end_tokens.hpp"
#include "marker_matcher.hpp"
#include "pipeline.hpp"
#include "sentencepiece.hpp"
#include "unicode.hpp"
#include "vocabulary.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <variant>

namespace quern {
namespace {

using tokenizer::AddedRules;
using tokenizer::is_sentencepiece;
using tokenizer::Marker;
using tokenizer::MarkerMatcher;
using tokenizer::Pipeline;
using tokenizer::SentencePiece;
using tokenizer::TokenSink;
using tokenizer::Vocabulary;

// Positions in a normalised text, which may be three times as long, are 32 bits.
constexpr std::size_t max_text_bytes = (std::size_t{1} << 30) - 1;

using Rules = std::variant<Pipeline, SentencePiece>;

bool is_special(TokenType type) noexcept { return type == TokenType::control || type == TokenType::unknown; }

// Before anything else, so that another model is refused by name and not for what it lacks.
const VocabularyView& require_known_model(const VocabularyView& view) {
  if (view.model != "gpt2" && !is_sentencepiece(view.model) && view.model != "huggingface")
    throw Error(QUERN_UNSUPPORTED, concat("tokenizer.ggml.model is ", in_quotes(view.model, 48),
                                          "; offered are 'gpt2' (byte-level BPE), 'llama' and 't5' (SentencePiece's BPE and Unigram) "
                                          "and 'huggingface' (the steps of a tokenizer.json)"));
  return view;
}

Rules make_rules(const Vocabulary& vocabulary, const AddedRules& added, const VocabularyView& view) {
  if (is_sentencepiece(view.model)) return Rules(std::in_place_type<SentencePiece>, vocabulary, view);
  if (view.add_space_prefix.value_or(false))
    throw Error(QUERN_UNSUPPORTED,
                "tokenizer.ggml.add_space_prefix is true, which is offered for the models 'llama' and 't5', not "
                "for 'gpt2'");
  return Rules(std::in_place_type<Pipeline>, vocabulary, added, view);
}

// SentencePiece matches its user-defined tokens itself, in the normalised text.
std::vector<Marker> markers_in_raw_text(const Vocabulary& vocabulary, const AddedRules& added, bool with_user_defined) {
  std::vector<Marker> markers;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.type(id);
    const bool user_defined = type == TokenType::user_defined;
    if (const AddedToken* const token = added.find(id); token != nullptr && token->normalized) continue;
    if (!vocabulary.text(id).empty() && (is_special(type) || (user_defined && with_user_defined)))
      markers.push_back({std::string(vocabulary.text(id)), id, user_defined, !vocabulary.is_marker(id)});
  }
  return markers;
}

// Phi-3's tokenizer strips after its chat markers and </s>, not after these.
bool takes_following_space(std::string_view marker) noexcept { return marker != "<unk>" && marker != "<s>" && marker != "<|endoftext|>"; }

void check_ranges(std::span<const TextRange> ranges, std::size_t size) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const TextRange& range = ranges[i];
    if (range.begin > range.end || range.end > size || (i > 0 && range.begin <= ranges[i - 1].end))
      throw Error(QUERN_INVALID_ARGUMENT, concat("range ", i, " of a text of ", size, " bytes is ", range.begin, " to ", range.end,
                                                 "; ranges lie in the text, in order, and do not touch"));
  }
}

AddedRules added_rules(const Vocabulary& vocabulary, const VocabularyView& view) {
  AddedRules rules(view.added);
  for (std::int32_t id = 0; view.markers_take_following_space && id < vocabulary.size(); ++id)
    if (is_special(vocabulary.type(id)) && takes_following_space(vocabulary.text(id))) rules.set({.id = id, .takes_right = true});
  return rules;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(const VocabularyView& view)
      : source(view.source),
        vocabulary(require_known_model(view)),
        added(added_rules(vocabulary, view)),
        rules(make_rules(vocabulary, added, view)),
        markers(markers_in_raw_text(vocabulary, added, std::holds_alternative<Pipeline>(rules))),
        ends(tokenizer::find_end_tokens(vocabulary)),
        add_bos(view.add_bos),
        add_eos(view.add_eos),
        drops_first_space(std::visit([](const auto& rule) { return rule.drops_first_space(); }, rules)) {}

  void check(std::int32_t id) const {
    if (!vocabulary.contains(id))
      throw Error(QUERN_INVALID_ARGUMENT, concat("token id ", id, " is not in the vocabulary, which has ", vocabulary.size(), " tokens"));
  }

  void append_bytes(std::int32_t id, std::string& out) const {
    std::visit([&](const auto& rule) { rule.append_bytes(id, out); }, rules);
  }

  [[noreturn]] static void fail_full(std::uint64_t at_least, std::uint64_t most) {
    throw Error(QUERN_CONTEXT_FULL, concat("the text has ", at_least, " tokens or more but ", most, " fit the context"));
  }

  // The fewest ids that a text of this size can have. A token stands for at most as many bytes as it is spelled with,
  // before NFC for three times as many (three jamo of three bytes are one syllable of three).
  std::uint64_t fewest_ids(std::uint64_t bytes) const {
    const bool keeps_every_byte = std::visit([](const auto& rule) { return rule.keeps_every_byte(); }, rules);
    if (!keeps_every_byte || !added.empty()) return 0;
    const std::uint64_t bytes_of_id = 3 * std::max<std::uint64_t>(vocabulary.longest(), 1);
    return bytes / bytes_of_id;
  }

  void encode(std::string_view text, bool parse_special, std::span<const TextRange> foreign, std::uint64_t most,
              const TokenSink& found) const {
    const std::vector<std::int32_t>& ids = found.ids;
    std::size_t next = 0;  // the first range that does not end before the part at hand
    std::vector<TextRange> within;
    const auto encode_plain = [&](std::size_t begin, std::size_t end) {
      if (begin >= end) return;
      within.clear();
      while (next < foreign.size() && foreign[next].end < begin) ++next;
      for (std::size_t i = next; i < foreign.size() && foreign[i].begin <= end; ++i)
        within.push_back({std::max(foreign[i].begin, begin) - begin, std::min(foreign[i].end, end) - begin});
      const std::string_view part = text.substr(begin, end - begin);
      std::visit([&](const auto& rule) { rule.encode(part, within, parse_special, most, found.from(begin)); }, rules);
      if (ids.size() > most) fail_full(ids.size(), most);
    };
    std::size_t at = 0;
    std::vector<MarkerMatcher::Match> matches = foreign.empty() ? markers.find(text, parse_special) : markers.find(text, foreign);
    added.apply(text, matches);
    for (const MarkerMatcher::Match& match : matches) {
      encode_plain(at, match.begin);
      found.add(match.id, match.begin);
      if (ids.size() > most) fail_full(ids.size(), most);
      at = match.end;
    }
    encode_plain(at, text.size());
  }

  void encode(std::string_view text, std::span<const TextRange> foreign, const EncodeOptions& options, const TokenSink& found) const {
    if (text.size() > max_text_bytes)
      throw Error(QUERN_INVALID_ARGUMENT,
                  concat("the text has ", text.size(), " bytes; at most ", max_text_bytes, " can be encoded at once"));
    const std::uint64_t most = options.most_ids.value_or(UINT64_MAX);
    if (const std::uint64_t fewest = fewest_ids(text.size()); fewest > most) fail_full(fewest, most);
    std::vector<std::int32_t>& ids = found.ids;
    ids.reserve(std::min<std::uint64_t>(text.size() / 4 + 2, most));
    if (options.add_bos.value_or(add_bos)) {
      if (!vocabulary.bos)
        throw Error(QUERN_INVALID_ARGUMENT, "add_bos was asked for, but the vocabulary has no token for the beginning of a text");
      found.add(*vocabulary.bos, 0);
    }
    check_ranges(foreign, text.size());
    try {
      encode(text, options.parse_special, foreign, most, found);
    } catch (const Error& error) {  // an expression of the file that takes too many steps
      if (error.code() != QUERN_UNSUPPORTED || source.empty()) throw;
      throw Error(error.code(), concat(source, ": ", error.what()));
    }
    if (options.add_eos.value_or(add_eos)) {
      if (!vocabulary.eos)
        throw Error(QUERN_INVALID_ARGUMENT, "add_eos was asked for, but the vocabulary has no token for the end of a text");
      found.add(*vocabulary.eos, text.size());
    }
    if (ids.size() > most) fail_full(ids.size(), most);
  }

  std::string source;
  Vocabulary vocabulary;
  AddedRules added;
  Rules rules;  // refers to vocabulary and added
  MarkerMatcher markers;
  std::vector<std::int32_t> ends;
  bool add_bos, add_eos, drops_first_space;
};

Tokenizer::Tokenizer(const VocabularyView& view) : impl_(std::make_unique<const Impl>(view)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const { return encode(text, {}, options); }

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, std::span<const TextRange> foreign, const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  impl_->encode(text, foreign, options, {ids, nullptr, 0});
  return ids;
}

PlacedIds Tokenizer::encode_placed(std::string_view text, std::span<const TextRange> foreign, const EncodeOptions& options) const {
  PlacedIds placed;
  impl_->encode(text, foreign, options, {placed.ids, &placed.places, 0});
  return placed;
}

std::string Tokenizer::decode_bytes(std::span<const std::int32_t> ids, bool skip_special) const {
  std::vector<std::int32_t> shown;
  shown.reserve(ids.size());
  for (const std::int32_t id : ids) {
    impl_->check(id);
    if (!skip_special || !is_special(impl_->vocabulary.type(id))) shown.push_back(id);
  }
  return std::visit([&](const auto& rule) { return rule.decode(shown); }, impl_->rules);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  Utf8Stream stream;
  std::string text = stream.push(decode_bytes(ids, skip_special));
  return text += stream.flush();
}

TokenBytes Tokenizer::token_bytes(std::int32_t id) const {
  impl_->check(id);
  TokenBytes result{{}, is_special(impl_->vocabulary.type(id))};
  impl_->append_bytes(id, result.bytes);
  return result;
}

bool Tokenizer::drops_first_space() const noexcept { return impl_->drops_first_space; }
std::int32_t Tokenizer::size() const noexcept { return impl_->vocabulary.size(); }
std::optional<std::int32_t> Tokenizer::bos() const noexcept { return impl_->vocabulary.bos; }
std::optional<std::int32_t> Tokenizer::eos() const noexcept { return impl_->vocabulary.eos; }
std::optional<std::int32_t> Tokenizer::unknown() const noexcept { return impl_->vocabulary.unknown; }
bool Tokenizer::adds_bos() const noexcept { return impl_->add_bos; }
bool Tokenizer::adds_eos() const noexcept { return impl_->add_eos; }
std::span<const std::int32_t> Tokenizer::end_tokens() const noexcept { return impl_->ends; }
bool Tokenizer::is_end(std::int32_t id) const noexcept { return std::ranges::binary_search(impl_->ends, id); }

std::string_view Tokenizer::token_text(std::int32_t id) const {
  impl_->check(id);
  return impl_->vocabulary.text(id);
}

TokenType Tokenizer::token_type(std::int32_t id) const {
  impl_->check(id);
  return impl_->vocabulary.type(id);
}

std::optional<std::int32_t> Tokenizer::find(std::string_view text) const noexcept {
  const std::int32_t id = impl_->vocabulary.find(text);
  return id < 0 ? std::nullopt : std::optional(id);
}

}  // namespace quern
