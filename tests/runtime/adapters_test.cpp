// Adapters of sequences: each sequence is computed with its own, whatever the others of its batch have.
#include "api_support.hpp"

#include <cmath>
#include <cstring>

namespace quern::test {
namespace {

const std::vector<std::int32_t> prompt{1, 60, 61, 62, 63, 64, 65};
const std::string folder = std::string(QUERN_SOURCE_DIR) + "/tests/data/";
const std::string base = folder + "training/tiny-llama.gguf";
const std::string first_path = folder + "peft/tiny-llama-lora", second_path = folder + "peft/tiny-llama-lora_rslora";

using Adapter = std::unique_ptr<quern_adapter, decltype(&quern_adapter_release)>;

class Adapters : public testing::Test {
 protected:
  static Handle<quern_model> load_for(quern_runtime* runtime, std::vector<const char*> paths) {
    quern_model_options options{};
    options.context = 128;
    options.sequences = 3;
    options.activations = QUERN_ACTIVATIONS_F32;
    options.adapters = paths.data();
    options.adapter_count = paths.size();
    return load(runtime, base, options);
  }
  static Adapter adapter(quern_model* model, const std::string& path) {
    quern_adapter* made = nullptr;
    EXPECT_EQ(quern_adapter_load(model, path.c_str(), &made), QUERN_OK) << quern_last_error();
    return {made, quern_adapter_release};
  }
  Handle<quern_session> session() const { return make_session(model.get(), {.struct_size = 0, .context = 0, .sequences = 3}); }
  /// What a sequence draws alone in a session of its own.
  std::vector<std::int32_t> alone(quern_adapter* adapter, double scale = 1) const {
    const auto own = session();
    EXPECT_EQ(quern_session_use_adapter(own.get(), 0, adapter, scale), QUERN_OK) << quern_last_error();
    return draw(own.get(), request(prompt, 0, 12));
  }

  Handle<quern_runtime> runtime = make_runtime({.struct_size = 0, .backend = "cpu"});
  Handle<quern_model> model = load_for(runtime.get(), {first_path.c_str(), second_path.c_str()});
  Adapter first = adapter(model.get(), first_path), second = adapter(model.get(), second_path);
};

TEST_F(Adapters, OfABatchAreComputedRowByRow) {
  const auto together = session();
  ASSERT_EQ(quern_session_use_adapter(together.get(), 0, first.get(), 1), QUERN_OK) << quern_last_error();
  ASSERT_EQ(quern_session_use_adapter(together.get(), 2, second.get(), 0.5), QUERN_OK) << quern_last_error();
  const quern_request requests[] = {request(prompt, 0, 12), request(prompt, 1, 12), request(prompt, 2, 12)};
  quern_generation* generation = nullptr;
  ASSERT_EQ(quern_generate(together.get(), requests, 3, &generation), QUERN_OK) << quern_last_error();
  const Handle<quern_generation> owner(generation);
  const std::vector<std::int32_t> plain = alone(nullptr), of_first = alone(first.get()), of_second = alone(second.get(), 0.5);
  EXPECT_EQ(ids_of(generation, 0), of_first);
  EXPECT_EQ(ids_of(generation, 1), plain);
  EXPECT_EQ(ids_of(generation, 2), of_second);
  EXPECT_NE(of_first, plain);
  EXPECT_NE(of_second, plain);
  EXPECT_NE(of_first, of_second);
}

TEST_F(Adapters, AreTakenBackAndGivenAgain) {
  const std::vector<std::int32_t> plain = alone(nullptr), adapted = alone(first.get());
  const auto one = session();
  std::uint64_t length = 1;
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(quern_session_use_adapter(one.get(), 0, first.get(), 1), QUERN_OK);
    ASSERT_EQ(quern_sequence_length(one.get(), 0, &length), QUERN_OK);
    EXPECT_EQ(length, 0u);  // it held rows of no adapter
    EXPECT_EQ(draw(one.get(), request(prompt, 0, 12)), adapted);
    ASSERT_EQ(quern_session_use_adapter(one.get(), 0, first.get(), 0), QUERN_OK);  // 0 is 1: nothing changes
    ASSERT_EQ(quern_sequence_length(one.get(), 0, &length), QUERN_OK);
    EXPECT_GT(length, prompt.size());
    ASSERT_EQ(quern_session_use_adapter(one.get(), 0, nullptr, 0), QUERN_OK);
    EXPECT_EQ(draw(one.get(), request(prompt, 0, 12)), plain);
  }
}

TEST_F(Adapters, GoWithACopyOfTheirSequence) {
  const auto one = session();
  ASSERT_EQ(quern_session_use_adapter(one.get(), 0, first.get(), 1), QUERN_OK);
  draw(one.get(), request(prompt, 0, 4));
  ASSERT_EQ(quern_sequence_copy(one.get(), 0, 2), QUERN_OK);
  const auto go_on = [&](std::uint32_t sequence) {
    quern_request more = request(prompt, sequence, 8);
    more.flags = QUERN_REQUEST_APPEND;
    return draw(one.get(), more);
  };
  EXPECT_EQ(go_on(2), go_on(0));
}

TEST_F(Adapters, MustBeThoseOfASavedSession) {
  const auto one = session(), other = session();
  ASSERT_EQ(quern_session_use_adapter(one.get(), 0, first.get(), 1), QUERN_OK);
  draw(one.get(), request(prompt, 0, 4));
  std::uint64_t size = 0;
  ASSERT_EQ(quern_session_save(one.get(), nullptr, 0, &size), QUERN_OK);
  std::vector<std::byte> saved(size);
  ASSERT_EQ(quern_session_save(one.get(), saved.data(), saved.size(), &size), QUERN_OK);
  for (quern_adapter* wrong : {static_cast<quern_adapter*>(nullptr), second.get()}) {
    ASSERT_EQ(quern_session_use_adapter(other.get(), 0, wrong, 1), QUERN_OK);
    EXPECT_EQ(quern_session_restore(other.get(), saved.data(), saved.size()), QUERN_BAD_MODEL);
    EXPECT_NE(std::strstr(quern_last_error(), "other adapters"), nullptr) << quern_last_error();
  }
  ASSERT_EQ(quern_session_use_adapter(other.get(), 0, first.get(), 1), QUERN_OK);
  EXPECT_EQ(quern_session_restore(other.get(), saved.data(), saved.size()), QUERN_OK) << quern_last_error();
}

TEST_F(Adapters, AreAsManyAtATimeAsTheModelWasLoadedFor) {
  const auto narrow = load_for(runtime.get(), {first_path.c_str()});
  const Adapter one = adapter(narrow.get(), first_path), two = adapter(narrow.get(), second_path);
  const auto both = make_session(narrow.get(), {.struct_size = 0, .context = 0, .sequences = 3});
  ASSERT_EQ(quern_session_use_adapter(both.get(), 0, one.get(), 1), QUERN_OK);
  ASSERT_EQ(quern_session_use_adapter(both.get(), 1, one.get(), -1), QUERN_OK);  // the same numbers at another scale
  EXPECT_EQ(quern_session_use_adapter(both.get(), 2, two.get(), 1), QUERN_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(quern_last_error(), "load the model for more"), nullptr) << quern_last_error();
  for (const std::uint32_t sequence : {0, 1}) ASSERT_EQ(quern_session_use_adapter(both.get(), sequence, nullptr, 0), QUERN_OK);
  ASSERT_EQ(quern_session_use_adapter(both.get(), 2, two.get(), 1), QUERN_OK) << quern_last_error();
  EXPECT_EQ(draw(both.get(), request(prompt, 2, 12)), alone(second.get()));
  EXPECT_EQ(quern_session_use_adapter(both.get(), 0, first.get(), 1), QUERN_INVALID_ARGUMENT);  // of another model
  EXPECT_EQ(quern_session_use_adapter(both.get(), 3, one.get(), 1), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(quern_session_use_adapter(both.get(), 0, one.get(), INFINITY), QUERN_INVALID_ARGUMENT);
}

TEST_F(Adapters, AreRefusedWhereTheModelHasNoRoomForThem) {
  const auto plain = load_for(runtime.get(), {});
  quern_adapter* made = nullptr;
  EXPECT_EQ(quern_adapter_load(plain.get(), first_path.c_str(), &made), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(made, nullptr);
  EXPECT_NE(std::strstr(quern_last_error(), "load the model with this adapter"), nullptr) << quern_last_error();
  EXPECT_EQ(quern_adapter_load(model.get(), (folder + "peft/tiny-qwen3-lora").c_str(), &made), QUERN_BAD_MODEL);
}

TEST_F(Adapters, SayWhatTheyAre) {
  quern_adapter_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(quern_adapter_get_info(second.get(), &info), QUERN_OK) << quern_last_error();
  EXPECT_EQ(info.path, second_path);
  EXPECT_EQ(info.rslora, 1u);
  EXPECT_GT(info.matrices, 0u);
  EXPECT_GT(info.parameters, info.matrices * info.rank);
}

}  // namespace
}  // namespace quern::test
