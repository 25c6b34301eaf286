// How a text is cut into the pieces that the model encodes one by one: the pre-tokenizer of a tokenizer.json as data.
#pragma once

#include "normal_text.hpp"
#include "pre_tokenizer.hpp"
#include "step_json.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace quern::tokenizer {

/// A text and its pieces, which are parts of it from left to right.
struct Pieces {
  NormalText text;
  std::vector<TextRange> ranges;
};

class Splitter {
 public:
  Splitter() = default;
  /// By one of the rules that are written out by hand.
  explicit Splitter(const PreTokenizer& rule) : rule_(rule) {}
  /// Throws Error(QUERN_UNSUPPORTED) for a step that is not computed, Error(QUERN_BAD_MODEL) for one that is malformed. `spells_bytes`: the
  /// last step may spell bytes by the byte alphabet; that is then left to the model.
  Splitter(const Json* json, bool spells_bytes);

  /// Set where the whole of it is one such rule.
  const std::optional<PreTokenizer>& rule() const noexcept { return rule_; }
  /// The last step was left to the model.
  bool leaves_bytes() const noexcept { return leaves_bytes_; }

  void apply(Pieces& pieces) const;

 private:
  enum class Behaviour : std::uint8_t { removed, isolated, with_previous, with_next, contiguous };
  struct Rule {
    PreTokenizer rule;
  };
  struct Split {
    Pattern pattern;
    Behaviour behaviour;
    bool inverted;
  };
  /// At characters of a kind.
  struct Characters {
    bool (*holds)(char32_t code);
    Behaviour behaviour;
  };
  struct Delimiter {
    char32_t code;
  };
  struct Words {};
  struct Metaspace {
    std::string replacement;
    bool always, first, split;
  };
  struct Bytes {};
  struct SpacePrefix {};
  using Step = std::variant<Rule, Split, Characters, Delimiter, Words, Metaspace, Bytes, SpacePrefix>;
  struct Match {
    TextRange range;
    bool matched;
  };

  void add_step(const StepJson& json);
  static Behaviour behaviour_of(const StepJson& json, std::string_view otherwise);
  static void add_pieces(std::vector<Match>& matches, Behaviour behaviour, std::size_t begin, std::vector<TextRange>& ranges);

  static void run(const Rule& step, Pieces& pieces);
  static void run(const Split& step, Pieces& pieces);
  static void run(const Characters& step, Pieces& pieces);
  static void run(const Delimiter& step, Pieces& pieces);
  static void run(const Words& step, Pieces& pieces);
  static void run(const Metaspace& step, Pieces& pieces);
  static void run(const Bytes& step, Pieces& pieces);
  static void run(const SpacePrefix& step, Pieces& pieces);

  std::vector<Step> steps_;
  std::optional<PreTokenizer> rule_;
  bool leaves_bytes_ = false;
};

}  // namespace quern::tokenizer
