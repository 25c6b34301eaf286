#include "quern/training/rendering.hpp"

#include "answer_places.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/tokenizer.hpp"

#include <algorithm>
#include <string_view>

namespace quern::training {

namespace {

bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

ChatTemplate parse_template(const TextModel& model) {
  if (!model.chat_template || std::ranges::all_of(*model.chat_template, is_space))
    throw Error(QUERN_UNSUPPORTED, concat(model.name,
                                          ": the file has no chat template, which examples in the form of a chat need; give one by "
                                          "chat_template_jinja, or use examples of type completion or input_output"));
  return ChatTemplate::parse(*model.chat_template, model.name);
}

/// The first range that ends behind `begin`.
auto range_behind(const std::vector<ForeignRange>& ranges, std::size_t begin) {
  return std::ranges::upper_bound(ranges, begin, {}, &ForeignRange::end);
}

/// Whether all of these bytes are the template's.
bool is_own(const RenderedChat& text, std::size_t begin, std::size_t end) {
  const auto range = range_behind(text.foreign, begin);
  return range == text.foreign.end() || range->begin >= end;
}

bool has_foreign_bytes(const RenderedChat& text, std::size_t begin, std::size_t end) {
  for (auto range = range_behind(text.foreign, begin); range != text.foreign.end() && range->begin < end; ++range)
    if (range->begin < range->end) return true;
  return false;
}

bool has_thought(const Json& message) {
  return std::ranges::any_of(*message.members(), [](const Json::Member& member) {
    const bool is_thought = member.name == "reasoning_content" || member.name == "reasoning" || member.name == "thinking";
    return is_thought && member.value.text() != nullptr && !member.value.text()->empty();
  });
}

/// Turns the places of messages into spans.
class Spans {
 public:
  Spans(const Tokenizer& tokenizer, const ChatRecord& record, const DatasetOptions& options, const RenderedChat& text,
        std::string_view header, const RenderChat& render)
      : tokenizer_(tokenizer), record_(record), options_(options), text_(text), header_(header), render_(render) {}

  void add(const AnswerPlace& place, bool is_last);
  void add_every_end();
  std::vector<ByteSpan> take();
  std::uint32_t open_answers = 0;

 private:
  const Json& message(std::size_t number) const { return (*record_.chat.messages.list())[number]; }
  std::size_t begin_of_answer(const AnswerPlace& place) const;
  std::size_t end_of_token(std::size_t at) const;
  std::size_t end_of_turn(std::size_t at) const;
  std::size_t end_of_calls(const AnswerPlace& place) const;
  void add_parts(const AnswerPlace& place, std::size_t begin, std::size_t end);

  const Tokenizer& tokenizer_;
  const ChatRecord& record_;
  const DatasetOptions& options_;
  const RenderedChat& text_;
  std::string_view header_;
  const RenderChat& render_;
  std::vector<ByteSpan> spans_;
  std::size_t behind_last_ = 0;  // of the answer before
};

// Text that the template writes between the prompt and the answer is the model's to write, unless the settings say otherwise.
std::size_t Spans::begin_of_answer(const AnswerPlace& place) const {
  const std::string& role = *message(place.message).find("role")->text();
  if (options_.mask_template_text || role == "user" || role == "system" || role == "tool") return place.begin;
  const std::string_view text = text_.text, before = text.substr(0, place.begin);
  if (!header_.empty() && before.ends_with(header_)) return place.begin;
  const Json::List& messages = *record_.chat.messages.list();
  if (place.message > 0 && text.size() <= most_rendered_bytes / messages.size()) {
    try {
      const Json::List earlier(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(place.message));
      const std::string prompt = render_({Json(earlier), record_.chat.tools}, true).text;
      if (before.starts_with(prompt) && prompt.size() >= behind_last_) return prompt.size();
    } catch (const Error&) {}  // the template writes no prompt there
  }
  const std::size_t found = header_.empty() ? std::string_view::npos : before.rfind(header_);
  if (found == std::string_view::npos || found < behind_last_) return place.begin;
  const std::size_t behind = found + header_.size();
  return has_thought(message(place.message)) || !has_foreign_bytes(text_, behind, place.begin) ? behind : place.begin;
}

/// Behind the token that ends a turn and stands here; `at` where there is none.
std::size_t Spans::end_of_token(std::size_t at) const {
  std::size_t end = at;
  for (const std::int32_t id : tokenizer_.end_tokens()) {
    const std::string_view token = tokenizer_.token_text(id);
    const bool is_here = !token.empty() && std::string_view(text_.text).substr(at, token.size()) == token;
    if (is_here && is_own(text_, at, at + token.size())) end = std::max(end, at + token.size());
  }
  return end;
}

/// The same behind white space of the template.
std::size_t Spans::end_of_turn(std::size_t at) const {
  std::size_t token = at;
  while (token < text_.text.size() && is_space(text_.text[token]) && is_own(text_, token, token + 1)) ++token;
  const std::size_t end = end_of_token(token);
  return end > token ? end : at;
}

std::size_t Spans::end_of_calls(const AnswerPlace& place) const {
  for (std::size_t at = place.end; at < text_.text.size(); ++at)
    if (end_of_token(at) > at) return at;
  throw Error(QUERN_BAD_MODEL,
              concat("message ", place.message + 1, ": it is not known where its tool calls end, since no token that ends a turn follows"));
}

void Spans::add_parts(const AnswerPlace& place, std::size_t begin, std::size_t end) {
  const MessageLabel& label = record_.labels[place.message];
  if (!place.is_verbatim)
    throw Error(QUERN_BAD_MODEL,
                concat("message ", place.message + 1, ": has parts that count and parts that do not, and the template changes the text"));
  // The place of the content's first byte, which the template may have left out.
  const std::string content = content_of(message(place.message));
  const auto leading = [](std::string_view text) {
    return static_cast<std::size_t>(std::ranges::find_if_not(text, is_space) - text.begin());
  };
  const std::size_t first = place.begin + leading(std::string_view(text_.text).substr(place.begin, place.end - place.begin));
  const std::size_t missing = leading(content);  // bytes of the content in front of `first`
  std::size_t offset = 0;
  for (const MessageLabel::Part& part : label.parts) {
    const auto place_of = [&](std::size_t byte) {
      return std::clamp(first + byte < missing ? 0 : first + byte - missing, place.begin, place.end);
    };
    const std::size_t from = offset == 0 ? begin : place_of(offset);
    offset += part.bytes;
    const std::size_t to = offset == content.size() ? end : place_of(offset);
    if (part.counts && from < to) spans_.push_back({from, to, label.weight});
  }
}

void Spans::add(const AnswerPlace& place, bool is_last) {
  const MessageLabel& label = record_.labels[place.message];
  const std::size_t begin = begin_of_answer(place);
  const std::size_t said = place.ends_with_call ? end_of_calls(place) : place.end;
  const std::size_t turn = end_of_turn(said);
  if (turn == said) ++open_answers;
  const bool takes_end = options_.train_on_eos == TrainOnEos::turn || options_.train_on_eos == TrainOnEos::all ||
                         (options_.train_on_eos == TrainOnEos::last && is_last);
  const std::size_t end = takes_end ? turn : said;
  if (label.parts.empty()) spans_.push_back({begin, end, label.weight});
  else add_parts(place, begin, end);
  behind_last_ = turn;
}

void Spans::add_every_end() {
  for (std::size_t at = 0; at < text_.text.size();) {
    const std::size_t end = end_of_token(at);
    if (end > at) spans_.push_back({at, end, 1});
    at = std::max(end, at + 1);
  }
}

/// In order, without what an earlier span has.
std::vector<ByteSpan> Spans::take() {
  std::ranges::stable_sort(spans_, {}, &ByteSpan::begin);
  std::vector<ByteSpan> apart;
  std::size_t covered = 0;
  for (ByteSpan span : spans_) {
    span.begin = std::max(span.begin, covered);
    if (span.begin >= span.end) continue;
    covered = span.end;
    apart.push_back(span);
  }
  return apart;
}

std::size_t common_start(std::string_view a, std::string_view b) noexcept {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

ChatRenderer::ChatRenderer(const TextModel& model, const std::optional<std::tm>& now)
    : tokenizer_(model.tokenizer), template_(parse_template(model)) {
  if (const auto bos = tokenizer_.bos()) options_.bos_token = std::string(tokenizer_.token_text(*bos));
  if (const auto eos = tokenizer_.eos()) options_.eos_token = std::string(tokenizer_.token_text(*eos));
  options_.now = now;
  try {
    const Chat question = chat_of({{"user", "a question"}});
    const std::string with = render_once(question, true).text, without = render_once(question, false).text;
    header_ = with.substr(common_start(with, without));
  } catch (const Error&) {}  // a template that wants other chats; then answers begin where their texts do
}

RenderedChat ChatRenderer::render_once(const Chat& chat, bool add_generation_prompt) const {
  TemplateOptions options = options_;
  options.add_generation_prompt = add_generation_prompt;
  return render_chat(template_, chat, options);
}

RenderedRecord ChatRenderer::render(const ChatRecord& record, const DatasetOptions& options) const {
  RenderedRecord made{render_once(record.chat, false), {}, 0};
  const RenderedChat& text = made.text;
  if (!text.refusal.empty()) throw Error(QUERN_UNSUPPORTED, text.refusal);
  if (options.train_on_inputs) {
    made.spans.push_back({0, text.text.size(), 1});
    return made;
  }
  const bool template_decides = record.is_usual && options.train_on_eos == TrainOnEos::turn && !options.mask_template_text;
  if (template_decides && !text.generated.empty() && !text.generated_elsewhere) {
    for (const ForeignRange& range : text.generated) made.spans.push_back({range.begin, range.end, 1});
    return made;
  }
  const Json::List& messages = *record.chat.messages.list();
  std::vector<std::size_t> wanted;
  for (std::size_t number = 0; number < messages.size(); ++number) {
    const bool says_anything = has_tool_calls(messages[number]) || !std::ranges::all_of(content_of(messages[number]), is_space);
    if (record.labels[number].weight > 0 && says_anything) wanted.push_back(number);
  }
  const RenderChat render = [this](const Chat& chat, bool add_generation_prompt) { return render_once(chat, add_generation_prompt); };
  Spans spans(tokenizer_, record, options, text, header_, render);
  const std::vector<AnswerPlace> places = find_answers(record.chat, text, wanted, render);
  for (std::size_t i = 0; i < places.size(); ++i) spans.add(places[i], i + 1 == places.size());
  if (options.train_on_eos == TrainOnEos::all) spans.add_every_end();
  made.spans = spans.take();
  made.open_answers = spans.open_answers;
  return made;
}

}  // namespace quern::training
