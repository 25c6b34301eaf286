// Tokenizers as data: the ids and the decoded text of the PyPI package tokenizers, for every model, normalizer, pre-tokenizer and decoder
// (tests/data/tokenizer/steps.json, by scripts/train_step_tokenizers.py).
#include "refused_directory.hpp"
#include "tokenizer_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace quern::test {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const json& golden() {
  const char* other = std::getenv("QUERN_STEPS");  // a larger file of the same script
  static const json read = json::parse(std::ifstream(other ? other : test_data + "tokenizer/steps.json"));
  return read;
}

std::unique_ptr<Tokenizer> load(const json& tokenizer) {
  const ScratchFolder scratch;
  write_text(scratch.path("tokenizer.json"), tokenizer.dump());
  return tokenizer_of_folder(scratch.path("."));
}

TEST(Steps, GiveTheIdsAndTheTextOfThePackage) {
  ASSERT_GE(golden().size(), 26u);
  for (const json& entry : golden()) {
    const auto tokenizer = load(entry["tokenizer"]);
    std::size_t differences = 0;
    for (std::size_t i = 0; i < entry["strings"].size(); ++i) {
      const std::string text = entry["strings"][i];
      const Ids wanted = entry["ids"][i].get<Ids>();
      const Ids ids = tokenizer->encode(text, {.add_bos = false, .add_eos = false});
      const std::string decoded = tokenizer->decode(wanted), wanted_text = entry["decoded"][i];
      const bool same = ids == wanted && (decoded == wanted_text || wanted_text.find("\uFFFD") != wanted_text.npos);
      if (!same && ++differences <= 3)
        ADD_FAILURE() << entry["name"] << " in " << entry["strings"][i].dump() << "\n  ids " << json(ids).dump() << "\n  not "
                      << json(wanted).dump() << "\n  text " << json(decoded).dump(-1, ' ', false, json::error_handler_t::replace)
                      << "\n  not  " << entry["decoded"][i].dump();
    }
    EXPECT_EQ(differences, 0u) << entry["name"] << " of " << entry["strings"].size();
  }
}

TEST(Steps, PlacesLieInTheText) {
  for (const json& entry : golden()) {
    const auto tokenizer = load(entry["tokenizer"]);
    for (const json& string : entry["strings"]) {
      const std::string text = string;
      const PlacedIds placed = tokenizer->encode_placed(text, {}, {.add_bos = false, .add_eos = false});
      EXPECT_EQ(placed.ids, tokenizer->encode(text, {.add_bos = false, .add_eos = false})) << entry["name"] << string.dump();
      EXPECT_TRUE(std::ranges::is_sorted(placed.places)) << entry["name"] << string.dump();
      for (const std::size_t place : placed.places) EXPECT_LE(place, text.size()) << entry["name"] << string.dump();
    }
  }
}

// What random bytes give is not the package's to say: it takes text alone. They have an end and harm nothing.
TEST(Steps, TakeAnyBytes) {
  for (const json& entry : golden()) {
    const auto tokenizer = load(entry["tokenizer"]);
    std::uint32_t state = 1;
    for (int round = 0; round < 20; ++round) {
      std::string text;
      for (int i = 0; i < 40; ++i) text += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
      const Ids ids = tokenizer->encode(text, {.add_bos = false, .add_eos = false});
      for (const std::int32_t id : ids) EXPECT_LT(id, tokenizer->size());
      tokenizer->decode(ids);
    }
  }
}

}  // namespace
}  // namespace quern::test
