// What is done to a text before it is cut: the normalizer of a tokenizer.json as data.
#pragma once

#include "charsmap.hpp"
#include "nfc.hpp"
#include "normal_text.hpp"
#include "step_json.hpp"

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace quern::tokenizer {

class Normalizer {
 public:
  Normalizer() = default;
  /// Of form C alone, or of nothing.
  explicit Normalizer(bool form_c);
  /// Throws Error(QUERN_UNSUPPORTED) for a step that is not computed, Error(QUERN_BAD_MODEL) for one that is malformed.
  explicit Normalizer(const Json* json);

  /// True if it leaves `text` as it is, judged without much work.
  bool leaves(std::string_view text) const noexcept;
  void apply(NormalText& text) const;

 private:
  struct Form {
    NormalForm form;
  };
  struct Lowercase {};
  struct StripAccents {};
  struct Strip {
    bool left, right;
  };
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Prepend {
    std::string text;
  };
  struct Bert {
    bool clean, han, accents, lowercase;
  };
  struct Precompiled {
    std::shared_ptr<const Charsmap> map;
  };
  struct Nmt {};
  struct Bytes {};
  using Step = std::variant<Form, Lowercase, StripAccents, Strip, Replace, Prepend, Bert, Precompiled, Nmt, Bytes>;

  static Step step_of(const StepJson& json);

  static void run(const Form& step, NormalText& text);
  static void run(const Lowercase& step, NormalText& text);
  static void run(const StripAccents& step, NormalText& text);
  static void run(const Strip& step, NormalText& text);
  static void run(const Replace& step, NormalText& text);
  static void run(const Prepend& step, NormalText& text);
  static void run(const Bert& step, NormalText& text);
  static void run(const Precompiled& step, NormalText& text);
  static void run(const Nmt& step, NormalText& text);
  static void run(const Bytes& step, NormalText& text);

  std::vector<Step> steps_;
};

}  // namespace quern::tokenizer
