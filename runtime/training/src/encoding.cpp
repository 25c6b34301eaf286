// Ids and labels of one example.
#include "quern/training/examples.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/tokenizer.hpp"

#include <algorithm>

namespace quern::training {

namespace {

/// Adds tokens that count, joined to the span before where they follow it with the same weight. The first token never counts.
void add_label(std::vector<LabelSpan>& labels, std::size_t begin, std::size_t end, float weight) {
  begin = std::max<std::size_t>(begin, 1);
  if (begin >= end || !(weight > 0)) return;
  const auto first = static_cast<std::uint32_t>(begin), last = static_cast<std::uint32_t>(end);
  if (!labels.empty() && labels.back().end == first && labels.back().weight == weight) labels.back().end = last;
  else labels.push_back({first, last, weight});
}

void check_count(std::size_t tokens) {
  if (tokens >= UINT32_MAX) throw Error(QUERN_BAD_MODEL, concat("the example has ", tokens, " tokens, which is more than any model takes"));
}

/// Labels of spans of bytes: a token counts if its first byte does. True if a token in front of a span reaches into it.
bool label(const PlacedIds& placed, std::size_t text_size, const std::vector<ByteSpan>& spans, std::vector<LabelSpan>& labels) {
  bool melted = false;
  const std::vector<std::size_t>& places = placed.places;
  auto from = places.begin();
  for (const ByteSpan& span : spans) {
    from = std::lower_bound(from, places.end(), span.begin);
    const auto to = std::lower_bound(from, places.end(), span.end);
    const std::size_t covered = from == places.end() ? text_size : *from;
    melted = melted || (from != places.begin() && *(from - 1) < span.begin && covered > span.begin);
    add_label(labels, static_cast<std::size_t>(from - places.begin()), static_cast<std::size_t>(to - places.begin()), span.weight);
    from = to;
  }
  return melted;
}

}  // namespace

std::uint64_t Example::labelled() const noexcept {
  std::uint64_t count = 0;
  for (const LabelSpan& span : labels) count += span.end - span.begin;
  return count;
}

double Example::weight() const noexcept {
  double sum = 0;
  for (const LabelSpan& span : labels) sum += double{span.weight} * (span.end - span.begin);
  return sum;
}

void Example::fill_weights(std::span<float> weights) const {
  std::ranges::fill(weights, 0.0f);
  for (const LabelSpan& span : labels) std::ranges::fill(weights.subspan(span.begin, span.end - span.begin), span.weight);
}

ExampleEncoder::ExampleEncoder(const DataOptions& options, const TextModel& model) : options_(options), model_(model) {
  if (model.chat_template) renderer_.emplace(model, options.now);
}

ExampleEncoder::Encoded ExampleEncoder::encode(const Record& record, const DatasetOptions& dataset) const {
  Encoded encoded;
  if (const auto* chat = std::get_if<ChatRecord>(&record)) encoded = encode_chat(*chat, dataset);
  else if (const auto* text = std::get_if<TextRecord>(&record)) encoded = encode_text(*text, dataset);
  else encoded = encode_tokens(std::get<TokenRecord>(record), dataset);
  check_count(encoded.example.ids.size());
  return encoded;
}

// The ids are those that `quern run` makes of a chat: the template writes the bos itself or not, either way it stands once at the start.
ExampleEncoder::Encoded ExampleEncoder::encode_chat(const ChatRecord& record, const DatasetOptions& dataset) const {
  if (!renderer_) ChatRenderer(model_, options_.now);  // throws that there is no template
  const RenderedRecord rendered = renderer_->render(record, dataset);
  std::vector<TextRange> foreign;
  foreign.reserve(rendered.text.foreign.size());
  for (const ForeignRange& range : rendered.text.foreign) foreign.push_back({range.begin, range.end});
  const Tokenizer& tokenizer = model_.tokenizer;
  EncodeOptions plain;
  plain.add_bos = false;
  plain.add_eos = false;
  const bool all_special = dataset.special_tokens_in_content == SpecialTokensInContent::allow;
  PlacedIds placed = tokenizer.encode_placed(rendered.text.text, all_special ? std::span<const TextRange>() : foreign, plain);
  if (dataset.special_tokens_in_content == SpecialTokensInContent::refuse && tokenizer.encode(rendered.text.text, plain) != placed.ids)
    throw Error(QUERN_BAD_MODEL, "a message holds the text of a special token, which special_tokens_in_content: refuse does not take");
  if (const auto bos = tokenizer.bos(); bos && tokenizer.adds_bos() && (placed.ids.empty() || placed.ids.front() != *bos)) {
    placed.ids.insert(placed.ids.begin(), *bos);
    placed.places.insert(placed.places.begin(), 0);
  }
  check_count(placed.ids.size());
  Encoded encoded;
  encoded.melted = label(placed, rendered.text.text.size(), rendered.spans, encoded.example.labels);
  encoded.example.ids = std::move(placed.ids);
  encoded.open_answers = rendered.open_answers;
  return encoded;
}

ExampleEncoder::Encoded ExampleEncoder::encode_text(const TextRecord& record, const DatasetOptions& dataset) const {
  std::string text;
  std::vector<ByteSpan> spans;
  for (const TextRecord::Piece& piece : record.pieces) {
    const std::size_t begin = text.size();
    text += piece.text;
    if (!piece.counts || piece.text.empty() || dataset.train_on_inputs) continue;
    if (!spans.empty() && spans.back().end == begin) spans.back().end = text.size();
    else spans.push_back({begin, text.size(), 1});
  }
  const Tokenizer& tokenizer = model_.tokenizer;
  EncodeOptions plain;
  plain.add_bos = false;
  plain.add_eos = false;
  PlacedIds placed = tokenizer.encode_placed(text, {}, plain);
  check_count(placed.ids.size());
  Encoded encoded;
  std::size_t in_front = 0;
  const auto bos = record.whole && tokenizer.adds_bos() ? tokenizer.bos() : std::nullopt;
  if (bos && (placed.ids.empty() || placed.ids.front() != *bos)) {
    placed.ids.insert(placed.ids.begin(), *bos);
    placed.places.insert(placed.places.begin(), 0);
    in_front = 1;
  }
  if (dataset.train_on_inputs) add_label(encoded.example.labels, 0, placed.ids.size(), 1);
  else encoded.melted = label(placed, text.size(), spans, encoded.example.labels);
  const auto eos = record.whole ? tokenizer.eos() : std::nullopt;
  if (eos && placed.ids.size() > in_front && placed.ids.back() != *eos) {
    placed.ids.push_back(*eos);
    const bool last_counts = dataset.train_on_inputs || (!record.pieces.empty() && record.pieces.back().counts);
    if (last_counts && dataset.train_on_eos != TrainOnEos::none)
      add_label(encoded.example.labels, placed.ids.size() - 1, placed.ids.size(), 1);
  }
  encoded.example.ids = std::move(placed.ids);
  return encoded;
}

ExampleEncoder::Encoded ExampleEncoder::encode_tokens(const TokenRecord& record, const DatasetOptions& dataset) const {
  Encoded encoded;
  encoded.example.ids = record.ids;
  for (std::size_t i = 0; i < record.ids.size(); ++i) {
    if (record.ids[i] >= model_.tokenizer.size())
      throw Error(QUERN_BAD_MODEL, concat("entry ", i, " of 'input_ids' is ", record.ids[i], ", and the vocabulary of ", model_.name,
                                          " has ", model_.tokenizer.size(), " tokens"));
    add_label(encoded.example.labels, i, i + 1, dataset.train_on_inputs ? 1.0f : record.weights[i]);
  }
  return encoded;
}

}  // namespace quern::training
