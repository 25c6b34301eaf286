// Models and files for tests of training data.
#pragma once

#include "models/tokenizer/vocabulary_builder.hpp"

#include "quern/graph/error.hpp"
#include "quern/models/tokenizer.hpp"
#include "quern/training/examples.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::training::test {

inline std::string read_test_file(const std::string& path_in_tests) {
  std::ifstream file(std::string(QUERN_SOURCE_DIR "/tests/") + path_in_tests, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path_in_tests;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The template of ChatML, with the tokens <|im_start|> and <|im_end|>.
inline constexpr const char* chatml =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// A vocabulary of bytes with the control tokens `markers`, the last of which is the eos; <s> is the bos.
struct ByteModel {
  explicit ByteModel(std::optional<std::string> source = chatml, std::vector<std::string> markers = {"<|im_start|>", "<|im_end|>"},
                     std::string_view pre_tokenizer = "gpt-2")
      : tokenizer(build(markers, source.value_or(""), pre_tokenizer)), text{tokenizer, std::move(source), "model.gguf"} {}
  ByteModel(const ByteModel&) = delete;
  ByteModel& operator=(const ByteModel&) = delete;

  static Tokenizer build(const std::vector<std::string>& markers, const std::string& source, std::string_view pre_tokenizer) {
    quern::test::VocabularyBuilder vocabulary = quern::test::byte_level(pre_tokenizer);
    for (const std::string& marker : markers) {
      const auto known = std::ranges::find(vocabulary.tokens, marker);
      const auto id = static_cast<std::uint64_t>(known - vocabulary.tokens.begin());
      if (known == vocabulary.tokens.end()) vocabulary.add(marker, TokenType::control);
      if (marker == "<s>") vocabulary.settings.bos = id;
      vocabulary.settings.eos = id;
    }
    vocabulary.settings.chat_template = source;
    return vocabulary.build();
  }

  Tokenizer tokenizer;
  TextModel text;
};

/// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "quern-training-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  std::string write(const std::string& name, std::string_view text) const {
    const std::string path = path_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// "the text of the tokens|of each span|", of what counts.
inline std::string labelled_text(const Tokenizer& tokenizer, const Example& example) {
  std::string text;
  for (const LabelSpan& span : example.labels)
    text += tokenizer.decode_bytes(std::span(example.ids).subspan(span.begin, span.end - span.begin)) + "|";
  return text;
}

/// The text of the error that `call` throws, with its code's number in front; "" if it throws none.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) { return concat(error.code(), " ", error.what()); }
  return "";
}

/// Encodes one example by itself.
inline Example encode(const TextModel& model, const std::string& json, DatasetOptions dataset = {}, DataOptions options = {}) {
  const ExampleEncoder encoder(options, model);
  const std::optional<Json> example = Json::parse(json);
  EXPECT_TRUE(example.has_value()) << json;
  return encoder.encode(read_record(*example, dataset.type, dataset), dataset).example;
}

}  // namespace quern::training::test
