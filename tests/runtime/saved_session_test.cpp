// Saving and restoring a session: it goes on as if nothing had happened, and damage is refused.
#include "api_support.hpp"

#include <cstring>

namespace quern::test {
namespace {

const std::vector<std::int32_t> prompt{1, 60, 61, 62, 63, 64, 65};
const std::vector<std::int32_t> more{70, 71};

class SavedSession : public testing::Test {
 protected:
  void SetUp() override {
    draw(session.get(), request(prompt, 0, 80));  // more than one page
    std::uint64_t size = 0;
    ASSERT_EQ(quern_session_save(session.get(), nullptr, 0, &size), QUERN_OK) << quern_last_error();
    saved.resize(size);
    ASSERT_EQ(quern_session_save(session.get(), saved.data(), saved.size(), &size), QUERN_OK);
    expected = go_on(session.get());
  }
  static std::vector<std::int32_t> go_on(quern_session* session) {
    quern_request r = request(more, 0, 8);
    r.flags = QUERN_REQUEST_APPEND;
    return draw(session, r);
  }
  Handle<quern_runtime> runtime = make_runtime();
  Handle<quern_model> model = load(runtime.get(), model_path("micro-llama-q8_0.gguf"), {.struct_size = 0, .context = 256});
  Handle<quern_session> session = make_session(model.get());
  std::vector<std::byte> saved;
  std::vector<std::int32_t> expected;
};

TEST_F(SavedSession, GoesOnInAnotherSession) {
  const auto other = make_session(model.get());
  ASSERT_EQ(quern_session_restore(other.get(), saved.data(), saved.size()), QUERN_OK) << quern_last_error();
  EXPECT_EQ(go_on(other.get()), expected);
}

TEST_F(SavedSession, IsRefusedAfterAnyCutAndAnyFlippedByte) {
  const auto other = make_session(model.get());
  ASSERT_EQ(quern_session_restore(other.get(), saved.data(), saved.size()), QUERN_OK);
  for (std::size_t size = 0; size < saved.size(); size += 1 + saved.size() / 97) {
    EXPECT_EQ(quern_session_restore(other.get(), saved.data(), size), QUERN_BAD_MODEL) << size;
  }
  for (std::size_t at = 0; at < saved.size(); at += 1 + saved.size() / 97) {
    saved[at] ^= std::byte{0x40};
    EXPECT_EQ(quern_session_restore(other.get(), saved.data(), saved.size()), QUERN_BAD_MODEL) << at;
    saved[at] ^= std::byte{0x40};
  }
  EXPECT_EQ(go_on(other.get()), expected);  // every refusal left it as it was
}

TEST_F(SavedSession, IsRefusedByAnotherModelAndAnotherCacheDtype) {
  const auto other = load(runtime.get(), model_path("micro-llama-q4_0.gguf"), {.struct_size = 0, .context = 256});
  const auto other_session = make_session(other.get());
  EXPECT_EQ(quern_session_restore(other_session.get(), saved.data(), saved.size()), QUERN_BAD_MODEL);
  EXPECT_NE(std::strstr(quern_last_error(), "another model"), nullptr) << quern_last_error();
  const auto wide = load(runtime.get(), model_path("micro-llama-q8_0.gguf"),
                         {.struct_size = 0, .context = 256, .sequences = 1, .activations = 0, .kv = QUERN_KV_F32});
  const auto wide_session = make_session(wide.get());
  EXPECT_EQ(quern_session_restore(wide_session.get(), saved.data(), saved.size()), QUERN_BAD_MODEL);
  EXPECT_NE(std::strstr(quern_last_error(), "f16"), nullptr) << quern_last_error();
}

TEST_F(SavedSession, HasTheRowsOfItsTokensAndNoOthers) {
  // 7 of the prompt and 79 of the 80 drawn: each with an i32, and a key and a value of 2 heads of 16 f16 in 2 layers.
  constexpr std::size_t tokens = 86, row = 2 * 2 * 2 * 16 * 2;
  EXPECT_EQ(saved.size(), 48 + 8 + tokens * (4 + row) + 8);
}

TEST_F(SavedSession, IsRefusedByTheVersionOfItsFormat) {
  for (const std::uint32_t version : {0u, 1u, 3u}) {
    std::memcpy(saved.data() + 4, &version, sizeof version);
    EXPECT_EQ(quern_session_restore(session.get(), saved.data(), saved.size()), QUERN_BAD_MODEL);
    EXPECT_NE(std::strstr(quern_last_error(), ("has version " + std::to_string(version)).c_str()), nullptr) << quern_last_error();
  }
}

TEST_F(SavedSession, ACopiedSequenceGoesOnLikeItsSource) {
  const auto two = load(runtime.get(), model_path("micro-llama-q8_0.gguf"), {.struct_size = 0, .context = 256, .sequences = 2});
  const auto both = make_session(two.get(), {.struct_size = 0, .context = 0, .sequences = 2});
  draw(both.get(), request(prompt, 0, 80));
  ASSERT_EQ(quern_sequence_copy(both.get(), 0, 1), QUERN_OK) << quern_last_error();
  EXPECT_EQ(go_on(both.get()), expected);
  quern_request r = request(more, 1, 8);
  r.flags = QUERN_REQUEST_APPEND;
  EXPECT_EQ(draw(both.get(), r), expected);
}

}  // namespace
}  // namespace quern::test
