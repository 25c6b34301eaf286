#include "answer_places.hpp"

#include "quern/graph/error.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

namespace quern::training {

namespace {

bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool equal_up_to_space(std::string_view a, std::string_view b) noexcept {
  std::size_t i = 0, k = 0;
  for (;;) {
    while (i < a.size() && is_space(a[i])) ++i;
    while (k < b.size() && is_space(b[k])) ++k;
    if (i == a.size() || k == b.size()) return i == a.size() && k == b.size();
    if (a[i++] != b[k++]) return false;
  }
}

/// Where `content` begins if it ends at `end` of the text, up to white space.
std::optional<std::size_t> begin_of(std::string_view text, std::size_t end, std::string_view content) noexcept {
  std::size_t at = end, begin = end;
  for (std::size_t left = content.size(); left-- > 0;) {
    if (is_space(content[left])) continue;
    while (at > 0 && is_space(text[at - 1])) --at;
    if (at == 0 || text[at - 1] != content[left]) return std::nullopt;
    begin = --at;
  }
  return begin;
}

/// The text behind a thought, as templates cut it.
std::optional<std::string_view> behind_thought(std::string_view content) noexcept {
  constexpr std::string_view end = "</think>";
  const std::size_t at = content.rfind(end);
  if (at == std::string_view::npos) return std::nullopt;
  return content.substr(at + end.size());
}

[[noreturn]] void refuse(std::size_t message, const std::string& reason) {
  throw Error(QUERN_BAD_MODEL, concat("message ", message + 1, ": it is not known what of its text counts, since ", reason));
}

Json with_member(const Json& object, std::string_view name, Json value) {
  Json::Members members = *object.members();
  for (Json::Member& member : members) {
    if (member.name != name) continue;
    member.value = std::move(value);
    return Json(std::move(members));
  }
  members.push_back({std::string(name), std::move(value)});
  return Json(std::move(members));
}

/// The message with another text, in the form that its content has.
Json with_text(const Json& message, std::string text) {
  const Json* content = message.find("content");
  Json value(std::move(text));
  if (content != nullptr && content->list() != nullptr) {
    Json::Members part;
    part.push_back({"type", Json(std::string("text"))});
    part.push_back({"text", std::move(value)});
    Json::List parts;
    parts.emplace_back(std::move(part));
    value = Json(std::move(parts));
  }
  return with_member(message, "content", std::move(value));
}

/// A call with another function; files hold the function as a member or as the call itself.
Json with_function(const Json& call, const std::string& name) {
  if (!call.is_object()) return call;
  if (const Json* function = call.find("function"); function != nullptr && function->is_object())
    return with_member(call, "function", with_member(*function, "name", Json(name)));
  return with_member(call, "name", Json(name));
}

std::size_t common_start(std::string_view a, std::string_view b) noexcept {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

/// The text in front of the only occurrence of a word and the one behind it.
struct Around {
  std::string_view before, behind;
};

class Finder {
 public:
  Finder(const Chat& chat, std::string_view whole, const RenderChat& render) : chat_(chat), whole_(whole), render_(render) {
    word_ = "zqanswer";
    while (whole.find(word_) != std::string_view::npos) word_ += "zq";
  }

  std::optional<std::vector<AnswerPlace>> find_together(const std::vector<std::size_t>& wanted) const;
  AnswerPlace find_text(std::size_t message) const;
  void add_calls(AnswerPlace& place) const;

 private:
  /// No letters of one word are those of another.
  std::string word(std::size_t number) const {
    std::string made = word_;
    for (; number > 0 || made == word_; number /= 16) made += static_cast<char>('a' + number % 16);
    return made + "qz";
  }
  const Json& message(std::size_t number) const { return (*chat_.messages.list())[number]; }
  Chat with_message(std::size_t number, Json message) const {
    Json::List messages = *chat_.messages.list();
    messages[number] = std::move(message);
    return {Json(std::move(messages)), chat_.tools};
  }
  std::string rendered(std::size_t number, const Chat& chat) const {
    try {
      return render_(chat, false).text;
    } catch (const Error& error) { refuse(number, concat("the template refuses the chat with another text there: ", error.what())); }
  }
  static Around around(std::size_t number, std::string_view text, std::string_view word, const char* what) {
    const std::size_t at = text.find(word);
    if (at == std::string_view::npos) refuse(number, concat("the template does not write ", what, " as it is given"));
    if (text.find(word, at + 1) != std::string_view::npos) refuse(number, concat("the template writes ", what, " more than once"));
    return {text.substr(0, at), text.substr(at + word.size())};
  }

  const Chat& chat_;
  std::string_view whole_;
  const RenderChat& render_;
  std::string word_;
};

// All texts at once. The text between the words has to stand in the real text too, and the contents between.
std::optional<std::vector<AnswerPlace>> Finder::find_together(const std::vector<std::size_t>& wanted) const {
  Json::List messages = *chat_.messages.list();
  for (const std::size_t number : wanted) messages[number] = with_text(messages[number], word(number));
  std::string text;
  try {
    text = render_({Json(std::move(messages)), chat_.tools}, false).text;
  } catch (const Error&) { return std::nullopt; }
  std::vector<AnswerPlace> places;
  std::size_t at = 0, place = 0;  // in `text`, in the real text
  const auto take_own = [&](std::size_t end) {
    const std::string_view own = std::string_view(text).substr(at, end - at);
    if (whole_.substr(place, own.size()) != own) return false;
    place += own.size();
    return true;
  };
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string here = word(wanted[i]);
    const std::size_t found = text.find(word_, at);  // the next of all words has to be this one
    if (found == std::string::npos || text.compare(found, here.size(), here) != 0) return std::nullopt;
    if (!take_own(found)) return std::nullopt;
    at = found + here.size();
    const std::size_t next = std::min(text.find(word_, at), text.size());
    if ((next == text.size()) != (i + 1 == wanted.size())) return std::nullopt;
    const std::string_view own = std::string_view(text).substr(at, next - at);
    const std::string content = content_of(message(wanted[i]));
    const std::string_view core = trimmed(content);
    const auto lead = static_cast<std::size_t>(core.data() - content.data());
    const std::size_t trail = content.size() - lead - core.size();
    const auto fits = [&](std::size_t in_front, std::size_t behind) {
      const std::string_view form = std::string_view(content).substr(lead - in_front, in_front + core.size() + behind);
      if (whole_.substr(place, form.size()) != form || whole_.substr(place + form.size(), own.size()) != own) return false;
      if (i + 1 == wanted.size() && place + form.size() + own.size() != whole_.size()) return false;
      places.push_back({wanted[i], place, place + form.size(), true, false});
      place += form.size();
      return true;
    };
    if (!fits(lead, trail) && !fits(0, 0) && !fits(lead, 0) && !fits(0, trail)) return std::nullopt;
  }
  return places;
}

AnswerPlace Finder::find_text(std::size_t number) const {
  const std::string content = content_of(message(number)), here = word(number);
  const std::string text = rendered(number, with_message(number, with_text(message(number), here)));
  const Around around_word = around(number, text, here, "it");
  const std::size_t begin = common_start(whole_, around_word.before);
  if (whole_.size() < begin + around_word.behind.size() || !whole_.ends_with(around_word.behind))
    refuse(number, "the template writes another text behind it when it changes");
  const std::size_t end = whole_.size() - around_word.behind.size();
  const std::string_view window = whole_.substr(begin, end - begin);
  if (begin == around_word.before.size()) {
    if (equal_up_to_space(window, content)) return {number, begin, end, trimmed(window) == trimmed(content), false};
    if (const auto rest = behind_thought(content); rest && equal_up_to_space(window, *rest)) return {number, begin, end, false, false};
    refuse(number, "the template does not write it as it is given");
  }
  // The template looks at the text (a thought at its start, say), so that the word did not bound its start.
  const std::optional<std::size_t> first = begin_of(whole_, end, content);
  const auto leading = static_cast<std::size_t>(std::ranges::find_if_not(window, is_space) - window.begin());
  if (!first || *first > begin + leading) refuse(number, "the template does not write it as it is given");
  return {number, *first, end, trimmed(whole_.substr(*first, end - *first)) == trimmed(content), false};
}

// The calls of a message end where its turn ends, which whoever knows the tokens looks for.
void Finder::add_calls(AnswerPlace& place) const {
  const std::size_t number = place.message;
  Json::List calls;
  for (const Json& call : *message(number).find("tool_calls")->list()) calls.push_back(with_function(call, word(calls.size() + 1)));
  const std::size_t count = calls.size();
  const std::string text = rendered(number, with_message(number, with_member(message(number), "tool_calls", Json(std::move(calls)))));
  const std::string_view before = around(number, text, word(1), "the name of a called function").before;
  const std::string_view behind = around(number, text, word(count), "the name of a called function").behind;
  if (!whole_.starts_with(before) || !whole_.ends_with(behind) || whole_.size() < before.size() + behind.size())
    refuse(number, "the template writes another text around the calls when a function's name changes");
  place.begin = place.begin == place.end ? before.size() : std::min(place.begin, before.size());
  place.end = whole_.size() - behind.size();
  place.is_verbatim = false;
  place.ends_with_call = true;
}

}  // namespace

std::string content_of(const Json& message) {
  const Json* content = message.find("content");
  if (content == nullptr) return {};
  if (const std::string* text = content->text()) return *text;
  std::string all;
  if (const Json::List* parts = content->list())
    for (const Json& part : *parts) all += *part.find("text")->text();
  return all;
}

bool has_tool_calls(const Json& message) {
  const Json* calls = message.find("tool_calls");
  return calls != nullptr && calls->list() != nullptr && !calls->list()->empty();
}

std::vector<AnswerPlace> find_answers(const Chat& chat, const RenderedChat& whole, const std::vector<std::size_t>& wanted,
                                      const RenderChat& render) {
  const Json::List& messages = *chat.messages.list();
  const Finder finder(chat, whole.text, render);
  const bool any_calls = std::ranges::any_of(wanted, [&](std::size_t number) { return has_tool_calls(messages[number]); });
  if (!any_calls && !wanted.empty())
    if (auto places = finder.find_together(wanted)) return *std::move(places);
  if (wanted.size() > 1 && whole.text.size() > most_rendered_bytes / wanted.size())
    refuse(wanted.front(),
           concat("the chat is too long (", wanted.size(), " answers, ", whole.text.size(), " bytes) to look at each by itself"));
  std::vector<AnswerPlace> places;
  for (const std::size_t number : wanted) {
    AnswerPlace place{number, 0, 0, false, false};
    if (!trimmed(content_of(messages[number])).empty()) place = finder.find_text(number);
    if (has_tool_calls(messages[number])) finder.add_calls(place);
    if (!places.empty() && place.begin < places.back().end) refuse(number, "the template does not write the messages in their order");
    places.push_back(place);
  }
  return places;
}

}  // namespace quern::training
