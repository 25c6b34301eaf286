// What a chat template and the ids of a chat may cost, through the C API.
#include "api_support.hpp"

#include <cmath>

namespace quern::test {
namespace {

struct ReleaseVocabulary {
  void operator()(quern_vocabulary* vocabulary) const { quern_vocabulary_release(vocabulary); }
};

class ChatLimits : public testing::Test {
 protected:
  void SetUp() override {
    quern_vocabulary* opened = nullptr;
    ASSERT_EQ(quern_vocabulary_open(model_path("micro-llama-q8_0.gguf").c_str(), &opened), QUERN_OK) << quern_last_error();
    vocabulary_.reset(opened);
  }

  quern_status render(const std::string& content) {
    const quern_message message{sizeof(quern_message), "user", content.c_str(), content.size()};
    quern_text* rendered = nullptr;
    const quern_status status = quern_render_chat(vocabulary_.get(), &message, 1, 0, &rendered);
    rendered_.reset(rendered);
    return status;
  }

  quern_status tokenize() {
    ids_.resize(100'000);
    const quern_status status = quern_tokenize_chat(vocabulary_.get(), quern_text_data(rendered_.get()), quern_text_size(rendered_.get()),
                                                    0, ids_.data(), ids_.size(), &count_);
    EXPECT_EQ(quern_tokenize_rendered(vocabulary_.get(), rendered_.get(), 0, ids_.data(), ids_.size(), &count_), status);
    return status;
  }

  std::unique_ptr<quern_vocabulary, ReleaseVocabulary> vocabulary_;
  Handle<quern_text> rendered_;
  std::vector<std::int32_t> ids_;
  std::uint64_t count_ = 0;
};

TEST_F(ChatLimits, MoreIdsThanTheModelsContextAreRefusedWithBothNumbers) {
  ASSERT_EQ(render("ab"), QUERN_OK) << quern_last_error();
  EXPECT_EQ(tokenize(), QUERN_OK) << quern_last_error();
  EXPECT_LE(count_, 256u);  // the context of this model
  ASSERT_EQ(render(std::string(1'000'000, 'a')), QUERN_OK) << quern_last_error();
  EXPECT_EQ(tokenize(), QUERN_CONTEXT_FULL);
  EXPECT_NE(std::string(quern_last_error()).find("but 256 fit"), std::string::npos) << quern_last_error();
}

TEST_F(ChatLimits, TheTimeOfTheTemplateIsAnOption) {
  ASSERT_EQ(quern_vocabulary_set_template_seconds(vocabulary_.get(), 1e-9), QUERN_OK);
  EXPECT_EQ(render("hi"), QUERN_BAD_MODEL);
  EXPECT_NE(std::string(quern_last_error()).find("seconds of CPU time"), std::string::npos) << quern_last_error();
  ASSERT_EQ(quern_vocabulary_set_template_seconds(vocabulary_.get(), 60), QUERN_OK);
  EXPECT_EQ(render("hi"), QUERN_OK) << quern_last_error();
}

TEST_F(ChatLimits, ATimeThatIsNotAboveZeroIsRefused) {
  for (const double seconds : {0.0, -1.0, std::nan("")})
    EXPECT_EQ(quern_vocabulary_set_template_seconds(vocabulary_.get(), seconds), QUERN_INVALID_ARGUMENT) << seconds;
  EXPECT_EQ(quern_vocabulary_set_template_seconds(nullptr, 1), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(render("hi"), QUERN_OK) << quern_last_error();
}

}  // namespace
}  // namespace quern::test
