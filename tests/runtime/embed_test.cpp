// quern_embed on a tiny model: what it gives is what the head reads.
#include "api_support.hpp"

#include "quern/models/gguf.hpp"

#include <cmath>
#include <cstring>

namespace quern::test {
namespace {

const std::vector<std::int32_t> text{1, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49};  // more than one step of outputs

class Embed : public testing::Test {
 protected:
  static quern_model_options options(std::uint32_t embeddings) {
    quern_model_options o{};
    o.context = 64;
    o.activations = QUERN_ACTIVATIONS_F32;
    o.kv = QUERN_KV_F32;
    o.embeddings = embeddings;
    return o;
  }
  std::vector<float> embed(std::vector<std::int32_t> ids, std::uint32_t pooling, std::uint32_t flags = 0) {
    std::uint64_t needed = 0;
    EXPECT_EQ(quern_embed(session.get(), 0, ids.data(), ids.size(), pooling, flags, nullptr, 0, &needed), QUERN_OK) << quern_last_error();
    std::vector<float> vectors(needed);
    EXPECT_EQ(quern_embed(session.get(), 0, ids.data(), ids.size(), pooling, flags, vectors.data(), vectors.size(), nullptr), QUERN_OK)
        << quern_last_error();
    return vectors;
  }

  const std::string path = model_path("micro-llama-f32.gguf");
  Handle<quern_runtime> runtime = make_runtime();
  Handle<quern_model> model = load(runtime.get(), path, options(1));
  Handle<quern_session> session = make_session(model.get());
};

TEST_F(Embed, TheHeadTimesTheLastHiddenStateIsTheLogits) {
  const std::vector<float> hidden = embed(text, QUERN_POOL_LAST);
  quern_evaluation* evaluation = nullptr;
  ASSERT_EQ(quern_evaluate(session.get(), 0, text.data(), text.size(), QUERN_EVALUATE_LOGITS, &evaluation), QUERN_OK);
  const Handle<quern_evaluation> owner(evaluation);
  quern_evaluation_info info{};
  info.struct_size = sizeof(info);
  ASSERT_EQ(quern_evaluation_get_info(evaluation, &info), QUERN_OK);

  const gguf::File file = gguf::File::open(path);
  const gguf::TensorInfo* head = file.find_tensor("output.weight");
  if (head == nullptr) head = file.find_tensor("token_embd.weight");
  ASSERT_EQ(head->dtype, QUERN_F32);
  ASSERT_EQ(head->dims[0], hidden.size());
  ASSERT_EQ(head->dims[1], info.logit_count);
  const std::span<const std::byte> bytes = file.data(*head);
  for (std::uint64_t row = 0; row < info.logit_count; ++row) {
    double sum = 0, absolute = 0;
    for (std::uint64_t k = 0; k < hidden.size(); ++k) {
      float weight;
      std::memcpy(&weight, bytes.data() + (row * hidden.size() + k) * sizeof(float), sizeof weight);
      sum += static_cast<double>(weight) * hidden[k];
      absolute += std::abs(static_cast<double>(weight) * hidden[k]);
    }
    // n products and sums in f32, each rounded by at most 2^-24 of what it holds: n * 2^-24 * sum |w h|.
    const double bound = static_cast<double>(hidden.size()) * 0x1p-24 * absolute;
    ASSERT_NEAR(info.logits[row], sum, bound) << "row " << row;
  }
}

TEST_F(Embed, EachTokensVectorIsTheLastOneOfItsPrefix) {
  const std::vector<float> all = embed(text, QUERN_POOL_NONE);
  const std::size_t size = all.size() / text.size();
  for (std::size_t count = 1; count <= text.size(); ++count) {
    const std::vector<float> last = embed({text.begin(), text.begin() + static_cast<std::ptrdiff_t>(count)}, QUERN_POOL_LAST);
    ASSERT_EQ(last.size(), size);
    EXPECT_TRUE(std::equal(last.begin(), last.end(), all.begin() + static_cast<std::ptrdiff_t>((count - 1) * size))) << count;
  }
}

TEST_F(Embed, TheMeanIsThatOfAllVectorsAndNormalisedOnesHaveLengthOne) {
  const std::vector<float> all = embed(text, QUERN_POOL_NONE), mean = embed(text, QUERN_POOL_MEAN);
  const std::size_t size = mean.size();
  ASSERT_EQ(all.size(), size * text.size());
  for (std::size_t i = 0; i < size; ++i) {
    double sum = 0;
    for (std::size_t t = 0; t < text.size(); ++t) sum += all[t * size + i];
    EXPECT_EQ(mean[i], static_cast<float>(sum / static_cast<double>(text.size())));
  }
  const std::vector<float> normal = embed(text, QUERN_POOL_NONE, QUERN_EMBED_NORMALISE);
  for (std::size_t t = 0; t < text.size(); ++t) {
    double squares = 0;
    for (std::size_t i = 0; i < size; ++i) squares += std::pow(normal[t * size + i], 2);
    EXPECT_NEAR(squares, 1, 2 * 0x1p-24) << t;  // every element is rounded once, by 2^-24 of itself; squares double that
  }
}

TEST_F(Embed, TheSequenceHoldsTheTextAfterwards) {
  embed(text, QUERN_POOL_LAST);
  std::uint64_t length = 0;
  ASSERT_EQ(quern_sequence_length(session.get(), 0, &length), QUERN_OK);
  EXPECT_EQ(length, text.size());
}

TEST_F(Embed, RefusesWhatItCannotRead) {
  std::vector<float> buffer(4096);
  const auto status = [&](quern_session* s, std::vector<std::int32_t> ids, std::uint32_t pooling, std::uint32_t flags,
                          std::uint64_t capacity) {
    return quern_embed(s, 0, ids.data(), ids.size(), pooling, flags, buffer.data(), capacity, nullptr);
  };
  EXPECT_EQ(status(session.get(), {}, QUERN_POOL_LAST, 0, buffer.size()), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(session.get(), {1 << 30}, QUERN_POOL_LAST, 0, buffer.size()), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(session.get(), text, 3, 0, buffer.size()), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(session.get(), text, QUERN_POOL_LAST, 2, buffer.size()), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(session.get(), text, QUERN_POOL_LAST, 0, 1), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(status(session.get(), std::vector<std::int32_t>(65, 40), QUERN_POOL_LAST, 0, buffer.size()), QUERN_CONTEXT_FULL);
  EXPECT_EQ(status(nullptr, text, QUERN_POOL_LAST, 0, buffer.size()), QUERN_INVALID_ARGUMENT);
  const auto plain = load(runtime.get(), path, options(0));
  const auto without = make_session(plain.get());
  EXPECT_EQ(status(without.get(), text, QUERN_POOL_LAST, 0, buffer.size()), QUERN_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(quern_last_error(), "embeddings = 1"), nullptr) << quern_last_error();
}

TEST_F(Embed, KeepingTheHiddenStatesChangesNoAnswer) {
  const auto plain = load(runtime.get(), path, options(0));
  const auto without = make_session(plain.get());
  EXPECT_EQ(draw(session.get(), request(text, 0, 12)), draw(without.get(), request(text, 0, 12)));
}

}  // namespace
}  // namespace quern::test
