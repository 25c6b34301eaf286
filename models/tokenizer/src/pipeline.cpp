// A tokenizer as data.
#include "pipeline.hpp"

#include "byte_alphabet.hpp"
#include "char_set.hpp"
#include "unicode.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <utility>

namespace quern::tokenizer {
namespace {

PreTokenizer require_pre_tokenizer(std::string_view name) {
  if (const auto known = find_pre_tokenizer(name)) return *known;
  const std::string found = name.empty() ? "is missing or empty" : concat("is ", in_quotes(name, 48), ", which is not known here");
  throw Error(QUERN_UNSUPPORTED, concat("tokenizer.ggml.pre ", found, "; known are ", known_pre_tokenizers(),
                                        "; another rule would give other tokens than the model was trained with"));
}

std::int32_t require_token(const Vocabulary& vocabulary, std::string_view name, std::string_view text) {
  const std::int32_t id = vocabulary.find(text);
  if (id < 0) throw Error(QUERN_BAD_MODEL, concat("'model.", name, "' is ", in_quotes(text, 48), ", which is no token"));
  return id;
}

bool is_valid_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const Char c = decode_char(text, at);
    if (!c.valid) return false;
    at += c.length;
  }
  return true;
}

/// A byte that is no UTF-8 becomes U+FFFD where the model reads characters.
NormalText with_characters(std::string_view text, std::size_t begin) {
  NormalText made;
  made.tracked = true;
  for (std::size_t at = 0; at < text.size();) {
    const Char c = decode_char(text, at);
    const std::string_view bytes = c.valid ? text.substr(at, c.length) : replacement_character;
    made.bytes += bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) made.origins.push_back(begin + at + (c.valid ? i : 0));
    at += c.length;
  }
  return made;
}

bool is_space_at(std::string_view text, std::size_t at) noexcept {
  const ClassifiedChar c = classify(text, at);
  return c.character.length > 0 && c.kind == CharClass::space;
}

}  // namespace

AddedRules::AddedRules(std::span<const AddedToken> added) : tokens_(added.begin(), added.end()) {
  std::ranges::sort(tokens_, {}, &AddedToken::id);
}

void AddedRules::set(const AddedToken& token) { tokens_.insert(std::ranges::lower_bound(tokens_, token.id, {}, &AddedToken::id), token); }

const AddedToken* AddedRules::find(std::int32_t id) const noexcept {
  const auto found = std::ranges::lower_bound(tokens_, id, {}, &AddedToken::id);
  return found == tokens_.end() || found->id != id ? nullptr : &*found;
}

void AddedRules::apply(std::string_view text, std::vector<MarkerMatcher::Match>& matches) const {
  if (tokens_.empty() || matches.empty()) return;
  static const CharTest words(word_set() | CharSet({{0x200C, 0x200D}}));
  const auto is_word = [&](std::size_t at) { return words(decode_char(text, at).code); };
  std::size_t free_from = 0;
  std::erase_if(matches, [&](MarkerMatcher::Match& match) {
    if (match.begin < free_from) return true;  // it starts in white space that the one before took
    if (const AddedToken* const token = find(match.id)) {
      const bool in_word = (match.begin > 0 && is_word(previous_char(text, match.begin))) ||
                           (match.end < text.size() && is_word(match.end));
      if (token->single_word && in_word) return true;
      while (token->takes_left && match.begin > free_from && is_space_at(text, previous_char(text, match.begin)))
        match.begin = previous_char(text, match.begin);
      while (token->takes_right && is_space_at(text, match.end)) match.end += decode_char(text, match.end).length;
    }
    free_from = match.end;
    return false;
  });
}

struct Pipeline::Scratch {
  Bpe::Scratch bpe;
  std::vector<Found> found;
};

Pipeline::Pipeline(const Vocabulary& vocabulary, const AddedRules& rules, const VocabularyView& view)
    : Pipeline(vocabulary, rules, parts_of(vocabulary, view)) {}

Pipeline::Pipeline(const Vocabulary& vocabulary, const AddedRules& rules, Parts parts)
    : vocabulary_(vocabulary),
      rules_(rules),
      normalizer_(std::move(parts.normalizer)),
      splitter_(std::move(parts.splitter)),
      decoder_(std::move(parts.decoder)),
      model_(std::move(parts.model)),
      normalized_(normalized_markers()) {}

std::string Pipeline::spelling(std::int32_t id) const {
  NormalText text(vocabulary_.text(id), false);
  const AddedToken* const token = rules_.find(id);
  if (token != nullptr && token->normalized) normalizer_.apply(text);
  return text.bytes;
}

std::vector<Marker> Pipeline::normalized_markers() const {
  std::vector<Marker> markers;
  for (std::int32_t id = 0; id < vocabulary_.size(); ++id) {
    const AddedToken* const token = rules_.find(id);
    if (token == nullptr || !token->normalized) continue;
    std::string text = spelling(id);
    if (!text.empty())
      markers.push_back({std::move(text), id, vocabulary_.type(id) == TokenType::user_defined, !vocabulary_.is_marker(id)});
  }
  std::ranges::stable_sort(markers, {}, &Marker::text);
  const auto rest = std::ranges::unique(markers, {}, &Marker::text);
  markers.erase(rest.begin(), rest.end());
  return markers;
}

Pipeline::Parts Pipeline::parts_of(const Vocabulary& vocabulary, const VocabularyView& view) {
  return view.model == "huggingface" ? parts_of_json(vocabulary, view) : named_parts(vocabulary, view);
}

Pipeline::Parts Pipeline::named_parts(const Vocabulary& vocabulary, const VocabularyView& view) {
  const PreTokenizer rule = require_pre_tokenizer(view.pre_tokenizer);
  if (!view.scores.empty() && view.scores.size() != view.tokens.size())
    throw Error(QUERN_BAD_MODEL, concat(field::scores, " has ", view.scores.size(), " entries for ", view.tokens.size(), " tokens"));
  BpeOptions options;
  options.ignore_merges = rule.ignore_merges;
  return {Normalizer(rule.nfc), Splitter(rule), std::nullopt, Model(std::in_place_type<Bpe>, vocabulary, std::move(options), view.merges)};
}

Pipeline::Parts Pipeline::parts_of_json(const Vocabulary& vocabulary, const VocabularyView& view) {
  std::string why;
  const std::optional<Json> json = Json::parse(view.steps, 100'000, &why);
  if (!json) throw Error(QUERN_BAD_MODEL, concat("quern.tokenizer_steps is ", why));
  const Json* const model = json->find("model");
  if (model == nullptr) throw Error(QUERN_BAD_MODEL, "quern.tokenizer_steps has no 'model'");
  const StepJson fields("model", *model);
  const bool spells_bytes = fields.type() == "BPE" && fields.text("unk_token", "").empty() && !fields.flag("byte_fallback", false) &&
                            fields.text("continuing_subword_prefix", "").empty() && fields.text("end_of_word_suffix", "").empty();
  Splitter splitter(json->find("pre_tokenizer"), spells_bytes);
  Model made = model_of_json(vocabulary, view, *model, splitter);
  return {Normalizer(json->find("normalizer")), std::move(splitter), Decoder(json->find("decoder")), std::move(made)};
}

Pipeline::Model Pipeline::model_of_json(const Vocabulary& vocabulary, const VocabularyView& view, const Json& json,
                                        const Splitter& splitter) {
  const StepJson model("model", json);
  const std::string unknown_text = model.text("unk_token", "");
  if (model.type() == "BPE") {
    BpeOptions options;
    options.bytes = splitter.leaves_bytes();
    options.ignore_merges = model.flag("ignore_merges", false);
    options.byte_fallback = model.flag("byte_fallback", false);
    options.fuse_unknown = model.flag("fuse_unk", false);
    if (!unknown_text.empty()) options.unknown = require_token(vocabulary, "unk_token", unknown_text);
    options.prefix = model.text("continuing_subword_prefix", "");
    options.suffix = model.text("end_of_word_suffix", "");
    return Model(std::in_place_type<Bpe>, vocabulary, std::move(options), view.merges);
  }
  if (model.type() == "Unigram") {
    const std::uint64_t unknown = model.number("unk_id", UINT64_MAX);
    if (unknown == UINT64_MAX) model.unsupported("without 'unk_id', so that some texts have no tokens");
    if (unknown >= static_cast<std::uint64_t>(vocabulary.size()))
      model.bad(concat("whose 'unk_id' is ", unknown, " but the vocabulary has ", vocabulary.size(), " tokens"));
    return Model(std::in_place_type<Unigram>, vocabulary, view.scores, static_cast<std::int32_t>(unknown),
                 model.flag("byte_fallback", false));
  }
  if (model.type() == "WordPiece") {
    constexpr std::uint64_t most = 1000;
    const std::uint64_t characters = model.number("max_input_chars_per_word", 100);
    if (characters > most)
      model.unsupported(concat("whose 'max_input_chars_per_word' is ", characters, "; at most ", most, " are computed"));
    return Model(std::in_place_type<WordPiece>, vocabulary, model.text("continuing_subword_prefix", "##"),
                 require_token(vocabulary, "unk_token", model.text("unk_token", "[UNK]")), characters);
  }
  if (model.type() == "WordLevel")
    return Model(std::in_place_type<WordLevel>, vocabulary, require_token(vocabulary, "unk_token", model.text("unk_token", "<unk>")));
  model.unsupported("that is not computed; BPE, Unigram, WordPiece and WordLevel are");
}

bool Pipeline::keeps_every_byte() const noexcept {
  const Bpe* const bpe = std::get_if<Bpe>(&model_);
  return bpe != nullptr && !decoder_ && bpe->keeps_every_byte();
}

template <typename Add>
void Pipeline::encode_piece(std::string_view piece, Scratch& scratch, const Add& add) const {
  if (const Bpe* const bpe = std::get_if<Bpe>(&model_)) {
    bpe->encode(piece, scratch.bpe);
    return scratch.bpe.each(add);
  }
  if (const Unigram* const unigram = std::get_if<Unigram>(&model_)) unigram->encode(piece, scratch.found);
  else if (const WordPiece* const word_piece = std::get_if<WordPiece>(&model_)) word_piece->encode(piece, scratch.found);
  else std::get<WordLevel>(model_).encode(piece, scratch.found);
  for (const Found& one : scratch.found) add(one.id, one.byte);
}

void Pipeline::encode_rule(std::string_view text, std::span<const std::size_t> origins, std::uint64_t most, const TokenSink& found) const {
  Scratch scratch;
  PieceReader pieces(*splitter_.rule(), text);
  for (std::string_view piece = pieces.next(); !piece.empty() && found.ids.size() <= most; piece = pieces.next()) {
    const auto start = static_cast<std::size_t>(piece.data() - text.data());
    encode_piece(piece, scratch,
                 [&](std::int32_t id, std::uint32_t byte) { found.add(id, origins.empty() ? start + byte : origins[start + byte]); });
  }
}

/// `found` counts places from the start of the whole text, as the origins do.
void Pipeline::encode_steps(NormalText text, std::uint64_t most, const TokenSink& found) const {
  if (text.bytes.empty()) return;
  Pieces pieces;
  pieces.ranges = {{0, text.bytes.size()}};
  pieces.text = std::move(text);
  splitter_.apply(pieces);
  Scratch scratch;
  for (const TextRange& range : pieces.ranges) {
    if (found.ids.size() > most) return;
    encode_piece(std::string_view(pieces.text.bytes).substr(range.begin, range.end - range.begin), scratch,
                 [&](std::int32_t id, std::uint32_t byte) { found.add(id, pieces.text.origin(range.begin + byte)); });
  }
}

void Pipeline::encode(std::string_view text, std::span<const TextRange> foreign, bool parse_special, std::uint64_t most,
                      const TokenSink& found) const {
  const bool streams = splitter_.rule().has_value() && normalized_.empty();
  if (streams && normalizer_.leaves(text)) return encode_rule(text, {}, most, found);
  const TokenSink whole{found.ids, found.places, 0};
  const Bpe* const bpe = std::get_if<Bpe>(&model_);
  const bool reads_bytes = bpe != nullptr && splitter_.leaves_bytes();
  if (streams && found.places == nullptr) {
    NormalText normal(text, false);
    normalizer_.apply(normal);
    return encode_rule(normal.bytes, {}, most, found);
  }
  NormalText normal;
  if (reads_bytes || splitter_.rule() || is_valid_utf8(text)) {
    normal = NormalText(text, true);
    for (std::size_t& origin : normal.origins) origin += found.begin;
  } else {
    normal = with_characters(text, found.begin);
  }
  normalizer_.apply(normal);
  if (streams) return encode_rule(normal.bytes, normal.origins, most, whole);

  std::vector<MarkerMatcher::Match> matches;
  if (foreign.empty()) {
    matches = normalized_.find(normal.bytes, parse_special);
  } else {
    std::vector<TextRange> moved;
    const auto place_of = [&](std::size_t place) {
      const auto at = std::ranges::lower_bound(normal.origins, found.begin + place);
      return static_cast<std::size_t>(at - normal.origins.begin());
    };
    for (const TextRange& range : foreign) {
      const TextRange next{place_of(range.begin), place_of(range.end)};
      if (!moved.empty() && next.begin <= moved.back().end) moved.back().end = std::max(moved.back().end, next.end);
      else moved.push_back(next);
    }
    matches = normalized_.find(normal.bytes, moved);
  }
  rules_.apply(normal.bytes, matches);
  std::size_t at = 0;
  const auto encode_part = [&](std::size_t end) {
    NormalText part = normal.empty_copy();
    part.copy(normal, at, end);
    encode_steps(std::move(part), most, whole);
  };
  if (matches.empty()) return encode_steps(std::move(normal), most, whole);
  for (const MarkerMatcher::Match& match : matches) {
    encode_part(match.begin);
    whole.add(match.id, normal.origin(match.begin));
    at = match.end;
  }
  encode_part(normal.bytes.size());
}

void Pipeline::append_bytes(std::int32_t id, std::string& out) const {
  const std::string_view text = vocabulary_.text(id);
  const TokenType type = vocabulary_.type(id);
  if (decoder_) {
    out += decoder_->decode_one(spelling(id));
  } else if (type == TokenType::byte) {
    out += static_cast<char>(vocabulary_.byte_of(id));
  } else if (type != TokenType::normal || !append_spelled_bytes(text, out)) {
    out += text;  // markers are spelled plainly
  }
}

std::string Pipeline::decode(std::span<const std::int32_t> ids) const {
  std::string out;
  if (!decoder_) {
    for (const std::int32_t id : ids) append_bytes(id, out);
    return out;
  }
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) tokens.push_back(spelling(id));
  return decoder_->decode(std::move(tokens));
}

}  // namespace quern::tokenizer
