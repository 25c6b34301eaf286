// From tokens to text.
#include "decoder.hpp"

#include "byte_alphabet.hpp"
#include "vocabulary.hpp"

#include <algorithm>
#include <utility>

namespace quern::tokenizer {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  if (what.empty()) return;
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; at += with.size()) text.replace(at, what.size(), with);
}

void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> changes[] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                                                       {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                                                       {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                                                       {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, with] : changes) replace_all(text, what, with);
}

}  // namespace

Decoder::Decoder(const Json* json) {
  for (const StepJson& step : steps_of("decoder", json, "decoders")) steps_.push_back(step_of(step));
}

Decoder::Step Decoder::step_of(const StepJson& json) {
  const std::string& type = json.type();
  Step step{};
  if (type == "ByteLevel") {
    step.kind = Kind::byte_level;
  } else if (type == "Metaspace") {
    step.kind = Kind::metaspace;
    step.text = json.text("replacement", "\xE2\x96\x81");
    step.flag = json.text("prepend_scheme", json.flag("add_prefix_space", true) ? "always" : "never") != "never";
  } else if (type == "WordPiece") {
    step.kind = Kind::word_piece;
    step.text = json.text("prefix", "##");
    step.flag = json.flag("cleanup", true);
  } else if (type == "ByteFallback") {
    step.kind = Kind::byte_fallback;
  } else if (type == "Fuse") {
    step.kind = Kind::fuse;
  } else if (type == "Strip") {
    step.kind = Kind::strip;
    step.text = json.text("content", " ");
    step.start = json.number("start", 0);
    step.stop = json.number("stop", 0);
  } else if (type == "Replace") {
    step.kind = Kind::replace;
    step.pattern = Pattern(json);
    step.text = json.require_text("content");
  } else if (type == "BPEDecoder") {
    step.kind = Kind::suffix;
    step.text = json.text("suffix", "</w>");
  } else if (type == "CTC") {
    step.kind = Kind::ctc;
    step.text = json.text("pad_token", "<pad>");
    step.delimiter = json.text("word_delimiter_token", "|");
    step.flag = json.flag("cleanup", true);
  } else {
    json.unsupported("that is not computed here");
  }
  return step;
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) run(step, tokens, true);
  std::string joined;
  for (const std::string& token : tokens) {
    if (steps_.empty() && &token != &tokens.front()) joined += ' ';
    joined += token;
  }
  return joined;
}

std::string Decoder::decode_one(std::string token) const {
  if (steps_.empty()) return " " + token;
  std::vector<std::string> tokens{std::move(token)};
  for (const Step& step : steps_)
    if (step.kind != Kind::strip) run(step, tokens, false);
  return tokens.empty() ? std::string() : tokens[0];
}

bool Decoder::drops_first_space() const noexcept {
  return steps_.empty() || std::ranges::any_of(steps_, [](const Step& step) {
           return (step.kind == Kind::metaspace && step.flag) || step.kind == Kind::word_piece ||
                  (step.kind == Kind::strip && step.text == " " && step.start > 0);
         });
}

void Decoder::run(const Step& step, std::vector<std::string>& tokens, bool first) {
  const auto joined = [&] {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, std::move(all));
  };
  switch (step.kind) {
    case Kind::byte_level:
      for (std::string& token : tokens) {
        std::string bytes;
        if (append_spelled_bytes(token, bytes)) token = std::move(bytes);
      }
      joined();
      break;
    case Kind::metaspace:
      for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], step.text, i == 0 && first && step.flag ? "" : " ");
      break;
    case Kind::word_piece:
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (i > 0 || !first) {
          if (tokens[i].starts_with(step.text)) tokens[i].erase(0, step.text.size());
          else tokens[i].insert(0, " ");
        }
        if (step.flag) clean_up(tokens[i]);
      }
      break;
    case Kind::byte_fallback:
      for (std::string& token : tokens)
        if (const int byte = parse_byte_name(token); byte >= 0) token.assign(1, static_cast<char>(byte));
      break;
    case Kind::fuse: joined(); break;
    case Kind::strip:
      for (std::string& token : tokens) {
        for (std::size_t i = 0; i < step.start && !step.text.empty() && token.starts_with(step.text); ++i) token.erase(0, step.text.size());
        for (std::size_t i = 0; i < step.stop && !step.text.empty() && token.ends_with(step.text); ++i)
          token.resize(token.size() - step.text.size());
      }
      break;
    case Kind::replace:
      for (std::string& token : tokens) {
        std::string changed;
        RegexBudget budget(token.size());
        std::size_t at = 0;
        step.pattern.each_match(token, budget, [&](TextRange match) {
          changed.append(token, at, match.begin - at).append(step.text);
          at = match.end;
        });
        token = changed.append(token, at);
      }
      break;
    case Kind::suffix:
      for (std::size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], step.text, i + 1 == tokens.size() && first ? "" : " ");
      break;
    case Kind::ctc: {
      tokens.erase(std::ranges::unique(tokens).begin(), tokens.end());
      for (std::string& token : tokens) {
        replace_all(token, step.text, "");
        if (!step.flag) continue;
        clean_up(token);
        replace_all(token, step.delimiter, " ");
      }
      std::erase(tokens, std::string());
      break;
    }
  }
}

}  // namespace quern::tokenizer
