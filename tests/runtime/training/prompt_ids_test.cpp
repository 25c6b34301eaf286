// The ids in front of an answer are those that a program gets from the C API for the same messages.
#include "training_support.hpp"

#include "models/tokenizer/gguf_vocabulary.hpp"

#include "quern/models/gguf.hpp"
#include "quern.h"

namespace quern::training {
namespace {

struct PromptCase {
  const char* name;
  const char* source;
  bool adds_bos;
};

// A template that writes the bos itself, and one that leaves it to the tokenizer: either way it stands once at the start.
constexpr const char* writes_bos =
    "{{ bos_token }}{% for m in messages %}{{ '[' ~ m.role ~ ']' ~ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}";
constexpr const char* writes_none =
    "{% for m in messages %}{{ '[' ~ m.role ~ ']' ~ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}";

class PromptIds : public testing::TestWithParam<PromptCase> {};

TEST_P(PromptIds, AreThoseOfTheCApi) {
  const auto& [name, source, adds_bos] = GetParam();
  quern::test::GgufWriter writer = gguf_of(quern::test::sentencepiece());
  writer.string("tokenizer.chat_template", source).boolean("tokenizer.ggml.add_bos_token", adds_bos);
  const test::Folder folder;
  const auto bytes = writer.bytes();
  const std::string path = folder.write("m.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});

  quern_vocabulary* vocabulary = nullptr;
  ASSERT_EQ(quern_vocabulary_open(path.c_str(), &vocabulary), QUERN_OK) << quern_last_error();
  const std::vector<std::pair<const char*, const char*>> prompt = {{"system", "ab </s>"}, {"user", "<s> c d \xC3\xA9"}};
  std::vector<quern_message> messages;
  for (const auto& [role, content] : prompt) messages.push_back({sizeof(quern_message), role, content, 0});
  quern_text* rendered = nullptr;
  ASSERT_EQ(quern_render_chat(vocabulary, messages.data(), messages.size(), 0, &rendered), QUERN_OK) << quern_last_error();
  std::vector<std::int32_t> ids(1000);
  std::uint64_t count = 0;
  ASSERT_EQ(quern_tokenize_rendered(vocabulary, rendered, 0, ids.data(), ids.size(), &count), QUERN_OK) << quern_last_error();
  ids.resize(count);
  quern_text_release(rendered);
  quern_vocabulary_release(vocabulary);

  const gguf::File file = gguf::File::open(path);
  const auto tokenizer = tokenizer_from_gguf(file);
  const Example example = test::encode({*tokenizer, source, "m.gguf"}, R"({"messages": [{"role": "system", "content": "ab </s>"},
      {"role": "user", "content": "<s> c d \u00e9"}, {"role": "assistant", "content": "e"}]})");
  ASSERT_EQ(example.labels.size(), 1u);
  EXPECT_EQ(example.labels[0].begin, ids.size());
  EXPECT_EQ(std::vector<std::int32_t>(example.ids.begin(), example.ids.begin() + static_cast<std::ptrdiff_t>(ids.size())), ids);
  EXPECT_EQ(std::ranges::count(example.ids, 1), adds_bos || source == writes_bos ? 1 : 0);
  EXPECT_EQ(example.ids.back(), 2);
}

INSTANTIATE_TEST_SUITE_P(Bos, PromptIds,
                         testing::Values(PromptCase{"both", writes_bos, true}, PromptCase{"template_alone", writes_bos, false},
                                         PromptCase{"tokenizer_alone", writes_none, true}, PromptCase{"neither", writes_none, false}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace quern::training
