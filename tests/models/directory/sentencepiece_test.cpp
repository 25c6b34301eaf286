// tokenizer.model: the ids and texts of the PyPI package sentencepiece (tests/data/tokenizer/sentencepiece, by
// scripts/train_sentencepiece_models.py), what tokenizer_config.json adds, and files with one thing wrong.
#include "goldens_folder.hpp"
#include "refused_directory.hpp"
#include "tokenizer_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace quern::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

std::filesystem::path models_folder() { return goldens_folder("QUERN_SENTENCEPIECE", "sentencepiece"); }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(models_folder()))
    if (entry.path().extension() == ".model") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string decoded_base64(const std::string& text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<std::uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

std::unique_ptr<Tokenizer> with_model(const std::string& model, const json& config = {}) {
  const ScratchFolder scratch;
  write_text(scratch.path("tokenizer.model"), model);
  if (!config.is_null()) write_text(scratch.path("tokenizer_config.json"), config.dump());
  return tokenizer_of_folder(scratch.path("."));
}

constexpr EncodeOptions as_text = {.add_bos = false, .add_eos = false, .parse_special = false};

class SentencePieceFile : public testing::TestWithParam<std::string> {};

TEST_P(SentencePieceFile, GivesTheIdsAndTheTextOfThePackage) {
  const auto tokenizer = with_model(read_bytes(models_folder() / (GetParam() + ".model")));
  const json golden = json::parse(std::ifstream(models_folder() / (GetParam() + ".json")));
  std::size_t differences = 0, decoded = 0;
  for (std::size_t i = 0; i < golden["strings"].size(); ++i) {
    const std::string text = decoded_base64(golden["strings"][i]);
    const Ids wanted = golden["ids"][i].get<Ids>();
    const Ids ids = tokenizer->encode(text, as_text);
    const json& wanted_text = golden["decoded"][i];
    const bool same_text = wanted_text.is_null() || tokenizer->decode(wanted) == wanted_text.get<std::string>();
    decoded += wanted_text.is_null() ? 0 : 1;
    if ((ids != wanted || !same_text) && ++differences <= 3)
      ADD_FAILURE() << json(text).dump(-1, ' ', false, json::error_handler_t::replace) << "\n  ids " << json(ids).dump() << "\n  not "
                    << json(wanted).dump() << "\n  text " << json(tokenizer->decode(wanted)).dump() << "\n  not  " << wanted_text.dump();
  }
  EXPECT_EQ(differences, 0u) << "of " << golden["strings"].size();
  EXPECT_GT(decoded, golden["strings"].size() / 8);
}

TEST_P(SentencePieceFile, PlacesLieInTheText) {
  const auto tokenizer = with_model(read_bytes(models_folder() / (GetParam() + ".model")));
  const json golden = json::parse(std::ifstream(models_folder() / (GetParam() + ".json")));
  for (const json& string : golden["strings"]) {
    const std::string text = decoded_base64(string);
    const PlacedIds placed = tokenizer->encode_placed(text, {}, as_text);
    EXPECT_EQ(placed.ids, tokenizer->encode(text, as_text)) << string;
    EXPECT_TRUE(std::ranges::is_sorted(placed.places)) << string;
    for (const std::size_t place : placed.places) EXPECT_LT(place, std::max<std::size_t>(text.size(), 1)) << string;
  }
}

INSTANTIATE_TEST_SUITE_P(SentencePiece, SentencePieceFile, testing::ValuesIn(model_names()), [](const auto& tested) {
  std::string name = tested.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(SentencePieceConfig, LlamaBeginsATextAndT5EndsIt) {
  const std::string model = read_bytes(test_data + "tokenizer/sentencepiece/unigram-t5.model");
  const auto llama = with_model(model);
  EXPECT_TRUE(llama->adds_bos());
  EXPECT_EQ(llama->token_text(*llama->bos()), "<s>");
  EXPECT_FALSE(llama->adds_eos());
  const auto t5 = with_model(model, {{"tokenizer_class", "T5Tokenizer"}});
  EXPECT_FALSE(t5->adds_bos());
  EXPECT_EQ(t5->encode("").back(), t5->find("</s>").value());
  const auto neither = with_model(model, {{"add_bos_token", false}});
  EXPECT_FALSE(neither->adds_bos() || neither->adds_eos());
}

TEST(SentencePieceConfig, AddedTokensJoinTheVocabulary) {
  const std::string model = read_bytes(test_data + "tokenizer/sentencepiece/bpe-llama.model");
  const std::int32_t size = with_model(model)->size();
  const std::string id = std::to_string(size + 2);
  const auto tokenizer =
      with_model(model, {{"added_tokens_decoder", {{id, {{"content", "<|end|>"}, {"special", true}, {"rstrip", true}}}}}});
  EXPECT_EQ(tokenizer->size(), size + 3);
  EXPECT_EQ(tokenizer->token_text(size), "[PAD" + std::to_string(size) + "]");
  EXPECT_EQ(tokenizer->token_type(size + 2), TokenType::control);
  Ids wanted = tokenizer->encode("mill", {.add_bos = false, .add_eos = false});
  wanted.push_back(size + 2);
  const Ids rest = tokenizer->encode("stone", {.add_bos = false, .add_eos = false});
  wanted.insert(wanted.end(), rest.begin(), rest.end());
  EXPECT_EQ(tokenizer->encode("mill<|end|>  stone", {.add_bos = false, .add_eos = false}), wanted);
}

TEST(SentencePieceConfig, AddedTokensOfOlderDirectoriesJoinTheVocabulary) {
  const ScratchFolder scratch;
  write_text(scratch.path("tokenizer.model"), read_bytes(test_data + "tokenizer/sentencepiece/bpe-llama.model"));
  write_text(scratch.path("added_tokens.json"), R"({"<extra>": 1070})");
  gguf::Writer keys;
  const directory::TokenList list = directory::write_tokenizer_keys(scratch.path("."), 1080, keys);
  EXPECT_EQ(list.tokens.size(), 1080u);
  EXPECT_EQ(list.tokens[1070], "<extra>");
  write_text(scratch.path("added_tokens.json"), R"({"<extra>": "1070"})");
  EXPECT_THROW(directory::write_tokenizer_keys(scratch.path("."), 1080, keys), Error);
}

TEST(SentencePieceConfig, LegacyDecidesWhatStandsBehindAMarker) {
  const std::string model = read_bytes(test_data + "tokenizer/sentencepiece/bpe-llama.model");
  const auto behind = [&](const json& config) {
    return with_model(model, config)->decode(with_model(model, config)->encode("</s>mill", {.add_bos = false, .add_eos = false}));
  };
  EXPECT_EQ(behind({{"legacy", true}}), "</s> mill");
  EXPECT_EQ(behind({{"legacy", false}}), "</s>mill");
}

// The wire format, as far as a test needs it.
std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out += static_cast<char>(value);
}
std::string field(int number, const std::string& bytes) { return varint(number << 3 | 2) + varint(bytes.size()) + bytes; }
std::string field(int number, std::uint64_t value) { return varint(number << 3) + varint(value); }
std::string piece(const std::string& text, std::uint64_t type = 1) {
  return field(1, field(1, text) + varint(2 << 3 | 5) + std::string("\0\0\x80\xBF", 4) + field(3, type));
}
/// Unigram of three tokens.
std::string small_model() { return piece("<unk>", 2) + piece("a") + piece("b"); }

TEST(SentencePieceDirectory, OpensWithTokenizerModelAlone) {
  const RefusableDirectory directory(1);
  std::filesystem::remove(directory.path("tokenizer_config.json"));
  std::filesystem::remove(directory.path("tokenizer.json"));
  EXPECT_THAT(directory.refusal().text, HasSubstr("*.tiktoken or tokenizer.model"));
  write_text(directory.path("tokenizer.model"), small_model());
  EXPECT_EQ(directory.refusal().text, "");
  write_text(directory.path("tokenizer.model"), small_model() + "\x0A");
  EXPECT_THAT(directory.refusal().text, HasSubstr("tokenizer.model: byte "));
  EXPECT_EQ(directory.refusal().code, QUERN_BAD_MODEL);
}

struct Refused {
  std::string name, model, words;
  quern_status code = QUERN_BAD_MODEL;
};
void PrintTo(const Refused& one, std::ostream* out) { *out << one.name; }

std::vector<Refused> refused() {
  const std::string model = small_model();
  return {
      {"CutInAField", model.substr(0, model.size() - 3), "has a field of 10 bytes where 7 are left; the download is probably incomplete"},
      {"CutInANumber", model + "\x12", "'ModelProto' is cut off inside a number"},
      {"FieldOfExabytes", model + varint(2 << 3 | 2) + varint(UINT64_MAX), "has a field of 18446744073709551615 bytes where 0 are left"},
      {"PieceOfExabytes", model + field(1, varint(1 << 3 | 2) + varint(std::uint64_t{1} << 62)),
       "'pieces' has a field of 4611686018427387904"},
      {"NumberWithoutEnd", model + std::string("\x10") + std::string(12, '\xFF'), "a number of more than ten bytes"},
      {"FieldZero", model + field(0, 1), "a field of number 0"},
      {"Group", model + varint(9 << 3 | 3), "a field of form 3"},
      {"PiecesAreNumbers", model + field(1, 7), "has 'pieces' in the form 0"},
      {"ScoreIsText", model + field(1, field(1, "c") + field(2, "x")), "has 'score' in the form 2"},
      {"PieceWithoutText", model + piece(""), "'pieces' has entry 3 without a text"},
      {"TypeOutOfRange", model + piece("c", 9), "'pieces' has the type 9 for 'c'"},
      {"SameTextTwice", model + piece("a"), "entries 1 and 3 are both 'a'"},
      {"NoPieces", field(2, field(3, 1)), "'pieces' is empty"},
      {"NoUnknown", piece("a"), "'pieces' has 0 unknown tokens"},
      {"UnknownTwice", model + piece("<unk2>", 2), "'pieces' has 2 unknown tokens"},
      {"BytesAreMissing", model + field(2, field(35, 1)), "has 0 byte tokens, and 'trainer_spec.byte_fallback' is true"},
      {"ByteWithoutFallback", model + piece("<0x00>", 6), "has 1 byte tokens, and 'trainer_spec.byte_fallback' is false"},
      {"TableIsCut",
       model + field(3, field(2, std::string("\x00\x10\x00\x00"
                                             "abcd",
                                             8))),
       "its trie would have 4096"},
      {"TooManyPieces",
       [&] {
         std::string many = model;
         const std::string one = field(1, field(1, "c"));
         for (int i = 0; i <= 1 << 20; ++i) many += one;
         return many;
       }(),
       "has more than 1048576 entries"},
      {"WordModel", model + field(2, field(3, 3)), "'trainer_spec.model_type' is 3", QUERN_UNSUPPORTED},
      {"SpaceBehind", model + field(2, field(24, 1)), "treat_whitespace_as_suffix", QUERN_UNSUPPORTED},
      {"PlainSpaces", model + field(3, field(5, std::uint64_t{0})), "escape_whitespaces", QUERN_UNSUPPORTED},
      {"Denormalizer", model + field(5, field(2, "x")), "denormalizer_spec.precompiled_charsmap", QUERN_UNSUPPORTED},
  };
}

class SentencePieceRefused : public testing::TestWithParam<Refused> {};

TEST_P(SentencePieceRefused, WithTheFileAndTheField) {
  ASSERT_NO_THROW(with_model(small_model()));  // the twin
  try {
    with_model(GetParam().model);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), GetParam().code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(GetParam().words));
  }
}

INSTANTIATE_TEST_SUITE_P(SentencePiece, SentencePieceRefused, testing::ValuesIn(refused()),
                         [](const auto& tested) { return tested.param.name; });

TEST(SentencePieceConfig, RefusesAddedTokensThatContradictTheModel) {
  const auto refusal = [](const std::string& id, const json& token) {
    try {
      with_model(small_model(), {{"added_tokens_decoder", {{id, token}}}});
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string();
  };
  EXPECT_EQ(refusal("1", {{"content", "a"}}), "");
  EXPECT_THAT(refusal("1", {{"content", "z"}}), HasSubstr("'added_tokens_decoder' has the id 1 for 'z', which is that of 'a'"));
  EXPECT_THAT(refusal("4000000000", {{"content", "z"}}), HasSubstr("tokenizer_config.json: 'added_tokens_decoder' is 4000000000"));
  EXPECT_THAT(refusal("7", {{"content", "z"}, {"lstrip", true}}), HasSubstr("neighbours of 'z'"));
}

}  // namespace
}  // namespace quern::test
