#include "tokenizer_writer.hpp"

#include "pre_tokenizer_steps.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/json_writer.hpp"
#include "quern/models/utf8_stream.hpp"

#include <algorithm>
#include <map>
#include <vector>

namespace quern::directory {
namespace {

constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581

bool is_utf8(const std::string& text) {
  Utf8Stream stream;
  std::string read = stream.push(text);
  read += stream.flush();
  return read == text;
}

class TokenizerWriter {
 public:
  TokenizerWriter(const gguf::File& model, const Tokenizer& tokenizer) : model_(model), tokenizer_(tokenizer) {
    const std::string_view kind = model.require_string("tokenizer.ggml.model");
    sentencepiece_ = kind == "llama";
    if (!sentencepiece_ && kind != "gpt2")
      throw refused("tokenizer.ggml.model", concat("is ", in_quotes(kind, 48), "; a tokenizer.json is written of 'gpt2' and 'llama'"));
    if (!sentencepiece_) {
      const std::string_view named = model.find_string("tokenizer.ggml.pre").value_or("");
      rule_ = known_rule(named.empty() ? "default" : named);
      if (rule_.name.empty())
        throw refused("tokenizer.ggml.pre", concat("is ", in_quotes(named, 48), ", whose steps cannot be written as tokenizer.json"));
    } else if (model.find_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false)) {
      throw refused("tokenizer.ggml.remove_extra_whitespaces", "is true, which cannot be written as tokenizer.json");
    } else if (model.array_shape("tokenizer.ggml.precompiled_charsmap")) {
      throw refused("tokenizer.ggml.precompiled_charsmap", "is there, which cannot be written as tokenizer.json");
    } else if (model.array_shape("quern.added_token_flags")) {
      throw refused("quern.added_token_flags", "is there; tokens that take the white space beside them are not written");
    }
    for (std::int32_t id = 0; id < tokenizer.size(); ++id) add(id);
  }

  std::string text() {
    write_object(json_, [&] {
      json_.member("version", "1.0");
      json_.member("truncation", nullptr);
      json_.member("padding", nullptr);
      write_added();
      if (sentencepiece_) write_sentencepiece_steps();
      else write_pre_tokenizer(rule_.name, json_);
      write_post_processor();
      write_decoder();
      json_.key("model");
      write_object(json_, [&] { write_model(); });
    });
    return json_.take() + "\n";
  }

 private:
  Error refused(std::string_view key, std::string_view text) const {
    return Error(QUERN_UNSUPPORTED, concat(model_.name(), ": key ", in_quotes(key), " ", text));
  }

  void add(std::int32_t id) {
    if (tokenizer_.token_type(id) == TokenType::unused) return;
    const std::string_view text = tokenizer_.token_text(id);
    if (!is_utf8(std::string(text)))
      throw refused("tokenizer.ggml.tokens", concat("has token ", id, ", ", in_quotes(text, 48), ", which is no UTF-8; tokenizer.json is"));
    if (const auto [at, is_new] = ids_.emplace(text, id); !is_new)
      throw refused("tokenizer.ggml.tokens", concat("has the text ", in_quotes(text, 48), " twice, as ", at->second, " and ", id));
  }

  bool is(std::int32_t id, TokenType type) const { return tokenizer_.token_type(id) == type; }

  void write_added() {
    json_.key("added_tokens");
    json_.begin_array();
    for (std::int32_t id = 0; id < tokenizer_.size(); ++id) {
      const bool special = is(id, TokenType::control) || is(id, TokenType::unknown);
      if (!special && !is(id, TokenType::user_defined)) continue;
      write_object(json_, [&] {
        json_.member("id", id);
        json_.member("content", tokenizer_.token_text(id));
        for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) json_.member(flag, false);
        json_.member("special", special);
      });
    }
    json_.end_array();
  }

  bool has_prefix() const { return model_.find_bool("tokenizer.ggml.add_space_prefix").value_or(true); }

  void write_sentencepiece_steps() {
    const bool at_start = model_.find_bool("quern.space_prefix_at_start_only").value_or(false);
    json_.key("normalizer");
    if (has_prefix() && at_start) {
      json_.value(nullptr);
      json_.key("pre_tokenizer");
      return write_object(json_, [&] {
        json_.member("type", "Metaspace");
        json_.member("replacement", space_mark);
        json_.member("prepend_scheme", "first");
        json_.member("split", false);
      });
    }
    write_object(json_, [&] {
      json_.member("type", "Sequence");
      json_.key("normalizers");
      json_.begin_array();
      if (has_prefix())
        write_object(json_, [&] {
          json_.member("type", "Prepend");
          json_.member("prepend", space_mark);
        });
      write_replace(" ", space_mark);
      json_.end_array();
    });
    json_.member("pre_tokenizer", nullptr);
  }

  void write_replace(std::string_view from, std::string_view to) {
    write_object(json_, [&] {
      json_.member("type", "Replace");
      json_.key("pattern");
      write_object(json_, [&] { json_.member("String", from); });
      json_.member("content", to);
    });
  }

  void write_byte_level() {
    json_.member("type", "ByteLevel");
    json_.member("add_prefix_space", false);
    json_.member("trim_offsets", true);
    json_.member("use_regex", true);
  }

  void write_post_processor() {
    const bool frames = tokenizer_.adds_bos() || tokenizer_.adds_eos();
    json_.key("post_processor");
    if (!frames && sentencepiece_) return json_.value(nullptr);
    if (!frames) return write_object(json_, [&] { write_byte_level(); });
    if (sentencepiece_) return write_object(json_, [&] { write_template(); });
    write_object(json_, [&] {
      json_.member("type", "Sequence");
      json_.key("processors");
      json_.begin_array();
      write_object(json_, [&] { write_byte_level(); });
      write_object(json_, [&] { write_template(); });
      json_.end_array();
    });
  }

  void write_template() {
    json_.member("type", "TemplateProcessing");
    json_.key("single");
    json_.begin_array();
    write_framed("A", 0);
    json_.end_array();
    json_.key("pair");
    json_.begin_array();
    write_framed("A", 0);
    write_framed("B", 1);
    json_.end_array();
    json_.key("special_tokens");
    write_object(json_, [&] {
      if (tokenizer_.adds_bos()) write_frame(*tokenizer_.bos());
      if (tokenizer_.adds_eos() && !(tokenizer_.adds_bos() && tokenizer_.bos() == tokenizer_.eos())) write_frame(*tokenizer_.eos());
    });
  }

  void write_frame(std::int32_t id) {
    const std::string_view text = tokenizer_.token_text(id);
    json_.key(text);
    write_object(json_, [&] {
      json_.member("id", text);
      json_.member("ids", std::vector<std::int32_t>{id});
      json_.member("tokens", std::vector<std::string_view>{text});
    });
  }

  void write_framed(std::string_view sequence, int type) {
    const auto part = [&](std::string_view kind, std::string_view name) {
      write_object(json_, [&] {
        json_.key(kind);
        write_object(json_, [&] {
          json_.member("id", name);
          json_.member("type_id", type);
        });
      });
    };
    if (tokenizer_.adds_bos()) part("SpecialToken", tokenizer_.token_text(*tokenizer_.bos()));
    part("Sequence", sequence);
    if (tokenizer_.adds_eos()) part("SpecialToken", tokenizer_.token_text(*tokenizer_.eos()));
  }

  void write_decoder() {
    json_.key("decoder");
    if (!sentencepiece_) return write_object(json_, [&] { write_byte_level(); });
    write_object(json_, [&] {
      json_.member("type", "Sequence");
      json_.key("decoders");
      json_.begin_array();
      write_replace(space_mark, " ");
      for (const char* type : {"ByteFallback", "Fuse"}) write_object(json_, [&] { json_.member("type", type); });
      if (has_prefix())
        write_object(json_, [&] {
          json_.member("type", "Strip");
          json_.member("content", " ");
          json_.member("start", 1);
          json_.member("stop", 0);
        });
      json_.end_array();
    });
  }

  void write_model() {
    json_.member("type", "BPE");
    json_.member("dropout", nullptr);
    std::optional<std::string_view> unknown;
    for (std::int32_t id = 0; id < tokenizer_.size(); ++id)
      if (is(id, TokenType::unknown)) unknown = tokenizer_.token_text(id);
    json_.member("unk_token", unknown);
    json_.member("continuing_subword_prefix", nullptr);
    json_.member("end_of_word_suffix", nullptr);
    json_.member("fuse_unk", sentencepiece_);
    json_.member("byte_fallback", sentencepiece_);
    json_.member("ignore_merges", rule_.ignore_merges);
    json_.key("vocab");
    write_object(json_, [&] {
      for (std::int32_t id = 0; id < tokenizer_.size(); ++id)
        if (!is(id, TokenType::unused)) json_.member(tokenizer_.token_text(id), id);
    });
    json_.key("merges");
    json_.begin_array();
    if (sentencepiece_) write_scored_merges();
    else
      for (const std::string_view merge : model_.require_strings("tokenizer.ggml.merges")) json_.value(merge);
    json_.end_array();
  }

  /// SentencePiece merges whatever two tokens make a token, the best score first. So every split of a token is a merge, at its score.
  void write_scored_merges() {
    const auto scores = model_.require_floats("tokenizer.ggml.scores");
    std::vector<std::int32_t> made;
    for (std::int32_t id = 0; id < tokenizer_.size(); ++id)
      if (is(id, TokenType::normal) && for_each_split(id, [](std::string_view, std::string_view) {})) made.push_back(id);
    const auto score = [&](std::int32_t id) { return scores[static_cast<std::uint64_t>(id)]; };
    std::ranges::sort(made, std::greater(), score);
    if (const auto same = std::ranges::adjacent_find(made, {}, score); same != made.end())
      throw refused("tokenizer.ggml.scores", concat("has one score for tokens ", same[0], " and ", same[1],
                                                    ", of which SentencePiece takes the one that stands first in a text; tokenizer.json "
                                                    "has an order of merges alone"));
    for (const std::int32_t id : made)
      for_each_split(id, [&](std::string_view left, std::string_view right) { json_.value(concat(left, " ", right)); });
  }

  bool for_each_split(std::int32_t id, const auto& take) const {
    const std::string_view token = tokenizer_.token_text(id);
    bool any = false;
    for (std::size_t at = 1; at < token.size(); ++at) {
      if (!is_normal(token.substr(0, at)) || !is_normal(token.substr(at))) continue;
      take(token.substr(0, at), token.substr(at));
      any = true;
    }
    return any;
  }
  bool is_normal(std::string_view text) const {
    const auto at = ids_.find(text);
    return at != ids_.end() && is(at->second, TokenType::normal);
  }

  const gguf::File& model_;
  const Tokenizer& tokenizer_;
  bool sentencepiece_ = false;
  KnownRule rule_;
  std::map<std::string_view, std::int32_t> ids_;  // of all tokens that are written
  JsonWriter json_;
};

}  // namespace

std::string tokenizer_text(const gguf::File& model, const Tokenizer& tokenizer) { return TokenizerWriter(model, tokenizer).text(); }

}  // namespace quern::directory
