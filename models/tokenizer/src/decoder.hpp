// From tokens to text: the decoder of a tokenizer.json as data.
#pragma once

#include "step_json.hpp"

#include <string>
#include <vector>

namespace quern::tokenizer {

class Decoder {
 public:
  Decoder() = default;
  /// Throws Error(QUERN_UNSUPPORTED) for a step that is not computed, Error(QUERN_BAD_MODEL) for one that is malformed.
  explicit Decoder(const Json* json);

  std::string decode(std::vector<std::string> tokens) const;
  /// What one token adds where others stand in front of it.
  std::string decode_one(std::string token) const;
  /// Whether decode() takes a space away in front that decode_one() leaves.
  bool drops_first_space() const noexcept;

 private:
  enum class Kind : std::uint8_t { byte_level, metaspace, word_piece, byte_fallback, fuse, strip, replace, suffix, ctc };
  struct Step {
    Kind kind;
    Pattern pattern;        // replace
    std::string text;       // what is replaced, the prefix, the suffix, the pad
    std::string delimiter;  // ctc
    std::size_t start = 0, stop = 0;
    bool flag = false;  // metaspace: a space was put in front; word_piece and ctc: clean up
  };

  static Step step_of(const StepJson& json);
  /// `first`: the first of `tokens` is the first of the text.
  static void run(const Step& step, std::vector<std::string>& tokens, bool first);

  std::vector<Step> steps_;
};

}  // namespace quern::tokenizer
