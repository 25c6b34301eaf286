// Sequences that share pages of keys and values: each goes on as if the others were not there.
//
// What a sequence shall draw is what a session that never copied draws from the same tokens. It runs on the CPU, whose memory is the host's. It runs
// on the CPU behind buffers, which does without a copy and is given steps ahead, and on a model cut between two plugins, of which one copies on its own.
#include "api_support.hpp"

#include <cstdlib>
#include <cstring>

namespace quern::test {
namespace {

std::vector<std::int32_t> some(std::size_t count, std::int32_t factor) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>((i * static_cast<std::size_t>(factor) + 11) % 300));
  return ids;
}

const std::vector<std::int32_t> text = some(70, 37);  // a page of 64 and a part
const std::vector<std::int32_t> other = some(20, 53), more{70, 71};
constexpr std::uint32_t sequences = 4;
constexpr std::uint64_t drawn = 8;

struct Where {
  const char* name;
  const char* backend;
  const char* folder;
};

class Sequences : public testing::TestWithParam<Where> {
 protected:
  static quern_runtime_options options() {
    quern_runtime_options o{};
    o.backend = GetParam().backend;
    o.backend_extra_path = GetParam().folder;
    o.deterministic = QUERN_DETERMINISTIC_ON;
    return o;
  }
  Handle<quern_session> empty() const { return make_session(model.get(), {.struct_size = 0, .context = 0, .sequences = sequences}); }

  void read(std::uint32_t sequence, const std::vector<std::int32_t>& ids) const { draw(session.get(), request(ids, sequence, 1)); }
  std::vector<std::int32_t> go_on(std::uint32_t sequence, const std::vector<std::int32_t>& ids) const {
    quern_request r = request(ids, sequence, drawn);
    r.flags = QUERN_REQUEST_APPEND;
    return draw(session.get(), r);
  }
  /// What a session of one's own draws.
  std::vector<std::int32_t> alone(std::vector<std::int32_t> held, const std::vector<std::int32_t>& ids) const {
    held.insert(held.end(), ids.begin(), ids.end());
    return draw(empty().get(), request(held, 0, drawn));
  }
  void copy(std::uint32_t from, std::uint32_t to) const {
    ASSERT_EQ(quern_sequence_copy(session.get(), from, to), QUERN_OK) << quern_last_error();
  }
  void cut(std::uint32_t sequence, std::uint64_t to) const {
    ASSERT_EQ(quern_sequence_truncate(session.get(), sequence, to), QUERN_OK) << quern_last_error();
  }
  std::uint64_t length(std::uint32_t sequence) const {
    std::uint64_t held = 0;
    EXPECT_EQ(quern_sequence_length(session.get(), sequence, &held), QUERN_OK);
    return held;
  }
  static std::vector<std::byte> saved(quern_session* session) {
    std::uint64_t size = 0;
    EXPECT_EQ(quern_session_save(session, nullptr, 0, &size), QUERN_OK) << quern_last_error();
    std::vector<std::byte> bytes(size);
    EXPECT_EQ(quern_session_save(session, bytes.data(), size, &size), QUERN_OK) << quern_last_error();
    return bytes;
  }
  std::size_t pages_copied() const {
    quern_text* trace = nullptr;
    EXPECT_EQ(quern_session_trace_json(session.get(), &trace), QUERN_OK) << quern_last_error();
    const Handle<quern_text> owner(trace);
    const std::string events = quern_text_data(trace), name = "copy a shared page";
    std::size_t found = 0;
    for (std::size_t at = events.find(name); at != std::string::npos; at = events.find(name, at + 1)) ++found;
    return found;
  }

  Handle<quern_runtime> runtime = make_runtime(options());
  Handle<quern_model> model =
      load(runtime.get(), model_path("micro-llama-f32.gguf"), {.struct_size = 0, .context = 200, .sequences = sequences});
  Handle<quern_session> session = empty();
};

std::vector<std::int32_t> first(const std::vector<std::int32_t>& ids, std::ptrdiff_t count) { return {ids.begin(), ids.begin() + count}; }

TEST_P(Sequences, ACopyThatIsCutInsideASharedPageAndGoesOnLeavesItsSource) {
  for (const std::uint64_t cut_at : {1, 10, 63, 64, 65, 69, 70}) {
    read(0, text);
    copy(0, 1);
    cut(1, cut_at);
    EXPECT_EQ(go_on(1, other), alone(first(text, static_cast<std::ptrdiff_t>(cut_at)), other)) << cut_at;
    EXPECT_EQ(go_on(0, more), alone(text, more)) << cut_at;
  }
}

TEST_P(Sequences, ASourceThatIsCutInsideASharedPageAndGoesOnLeavesItsCopies) {
  read(0, text);
  copy(0, 1);
  copy(1, 2);  // of a copy
  copy(2, 3);
  cut(0, 30);
  EXPECT_EQ(go_on(0, other), alone(first(text, 30), other));
  cut(2, 66);
  EXPECT_EQ(go_on(2, other), alone(first(text, 66), other));
  EXPECT_EQ(go_on(1, more), alone(text, more));
  EXPECT_EQ(go_on(3, more), alone(text, more));
}

TEST_P(Sequences, AllOfABatchGoOnFromOneSharedPage) {
  read(0, text);
  for (std::uint32_t s = 1; s < sequences; ++s) copy(0, s);
  cut(3, 40);
  std::vector<quern_request> requests;
  const std::vector<std::vector<std::int32_t>> prompts{more, other, {5}, some(30, 7)};
  for (std::uint32_t s = 0; s < sequences; ++s) {
    requests.push_back(request(prompts[s], s, drawn));
    requests.back().flags = QUERN_REQUEST_APPEND;
  }
  quern_generation* generation = nullptr;
  ASSERT_EQ(quern_generate(session.get(), requests.data(), requests.size(), &generation), QUERN_OK) << quern_last_error();
  const Handle<quern_generation> owner(generation);
  for (std::uint32_t s = 0; s < sequences; ++s) EXPECT_EQ(ids_of(generation, s), alone(first(text, s == 3 ? 40 : 70), prompts[s])) << s;
}

TEST_P(Sequences, APromptThatSharesItsStartWithWhatASequenceHoldsLeavesTheOthers) {
  read(0, text);
  copy(0, 1);
  std::vector<std::int32_t> prompt = first(text, 20);
  prompt.insert(prompt.end(), other.begin(), other.end());
  EXPECT_EQ(draw(session.get(), request(prompt, 1, drawn)), alone(prompt, {}));  // keeps 20 tokens of a shared page
  EXPECT_EQ(go_on(0, more), alone(text, more));
}

TEST_P(Sequences, DrawingAnewFromTheLastTokenLeavesTheOthers) {
  const std::vector<std::int32_t> none;
  for (const std::ptrdiff_t count : {1, 64, 65, 70}) {
    const std::vector<std::int32_t> held = first(text, count);
    read(0, held);
    copy(0, 1);
    EXPECT_EQ(go_on(1, none), alone(held, none)) << count;
    EXPECT_EQ(length(1), held.size() + drawn - 1);
    EXPECT_EQ(go_on(0, more), alone(held, more)) << count;
  }
}

TEST_P(Sequences, CopiesOntoItselfOntoALongerOneAndOfNothingHoldWhatTheyShall) {
  read(0, text);
  copy(0, 0);
  EXPECT_EQ(length(0), text.size());
  read(1, some(150, 13));
  copy(0, 1);  // onto a longer one
  EXPECT_EQ(length(1), text.size());
  copy(2, 1);  // of nothing
  EXPECT_EQ(length(1), 0u);
  copy(0, 1);
  cut(0, 0);
  copy(1, 0);  // back to where it came from
  cut(1, 0);
  EXPECT_EQ(go_on(1, other), alone({}, other));
  EXPECT_EQ(go_on(0, more), alone(text, more));
}

TEST_P(Sequences, EvaluatingACopyLeavesItsSource) {
  read(0, text);
  copy(0, 1);
  quern_evaluation* evaluation = nullptr;
  ASSERT_EQ(quern_evaluate(session.get(), 1, other.data(), other.size(), 0, &evaluation), QUERN_OK) << quern_last_error();
  const Handle<quern_evaluation> owner(evaluation);
  EXPECT_EQ(go_on(0, more), alone(text, more));
  EXPECT_EQ(go_on(1, more), alone(other, more));
}

TEST_P(Sequences, ACopyCostsOnePageWhenTheFirstGoesOnAndNothingElseDoes) {
  ASSERT_EQ(quern_session_trace_start(session.get()), QUERN_OK);
  read(0, text);
  copy(0, 1);
  read(2, some(64, 7));  // pages that are full are nobody's to write
  copy(2, 3);
  go_on(2, more);
  go_on(3, more);
  EXPECT_EQ(pages_copied(), 0u);
  ASSERT_EQ(quern_session_trace_start(session.get()), QUERN_OK);
  go_on(1, more);
  go_on(0, more);
  go_on(1, other);
  EXPECT_EQ(pages_copied(), 1u);
}

TEST_P(Sequences, EachHasItsWholeContextWhereAllShareAPage) {
  const std::vector<std::int32_t> most = some(190, 17);
  read(0, first(most, 10));
  for (std::uint32_t s = 1; s < sequences; ++s) copy(0, s);
  const std::vector<std::int32_t> rest(most.begin() + 10, most.end());
  const std::vector<std::int32_t> expected = alone(most, {});
  for (std::uint32_t s = 0; s < sequences; ++s) EXPECT_EQ(go_on(s, rest), expected) << s;
}

TEST_P(Sequences, ACallThatFailsOrIsCancelledInBetweenLeavesAllOfThem) {
  read(0, text);
  copy(0, 1);
  cut(1, 66);
  const std::vector<quern_logit_bias> biases(600, {5, 1.0f});  // more than a step takes: it is refused when its pages are there already
  quern_sampling sampling{};
  sampling.struct_size = sizeof sampling;
  sampling.bias = biases.data();
  sampling.bias_count = biases.size();
  const std::vector<std::int32_t> far = some(100, 19);
  quern_request r = request(far, 1, drawn);
  r.flags = QUERN_REQUEST_APPEND;
  r.sampling = &sampling;
  EXPECT_EQ(quern_generate(session.get(), &r, 1, nullptr), QUERN_INVALID_ARGUMENT);
  EXPECT_EQ(length(1), 66u);
  const std::vector<std::byte> state = saved(session.get());
  const Handle<quern_session> clean = empty();
  draw(clean.get(), request(text, 0, 1));
  const std::vector<std::int32_t> start = first(text, 66);
  draw(clean.get(), request(start, 1, 1));
  EXPECT_EQ(state, saved(clean.get()));

  r = request(other, 1, drawn);
  r.flags = QUERN_REQUEST_APPEND;
  r.user = session.get();
  r.on_token = [](void* user, const quern_token_event*) {
    quern_cancel(static_cast<quern_session*>(user));
    return 0;
  };
  draw(session.get(), r);
  cut(1, 66);
  EXPECT_EQ(go_on(0, more), alone(text, more));
  EXPECT_EQ(go_on(1, more), alone(start, more));
}

TEST_P(Sequences, SavedWhileTheyShareTheyAreTheBytesOfSequencesOfTheirOwn) {
  read(2, some(100, 41));  // forgotten: nothing of it may be in the bytes
  cut(2, 0);
  read(0, some(90, 43));
  read(0, text);
  copy(0, 1);
  cut(1, 10);
  go_on(1, other);
  cut(1, 30);
  copy(0, 3);
  const Handle<quern_session> clean = empty();
  std::vector<std::int32_t> second = first(text, 10);
  second.insert(second.end(), other.begin(), other.end());
  draw(clean.get(), request(text, 3, 1));
  draw(clean.get(), request(second, 1, 1));
  draw(clean.get(), request(text, 0, 1));
  EXPECT_EQ(saved(session.get()), saved(clean.get()));
}

TEST_P(Sequences, RestoredOverSharedPagesTheyAreWhatWasSaved) {
  read(0, text);
  copy(0, 1);
  cut(1, 40);
  const std::vector<std::byte> state = saved(session.get());
  go_on(1, other);
  copy(1, 2);
  copy(1, 3);
  cut(3, 12);
  ASSERT_EQ(quern_session_restore(session.get(), state.data(), state.size()), QUERN_OK) << quern_last_error();
  EXPECT_EQ(saved(session.get()), state);
  EXPECT_EQ(length(2), 0u);
  EXPECT_EQ(go_on(1, more), alone(first(text, 40), more));
  EXPECT_EQ(go_on(0, more), alone(text, more));
}

std::string where_of(const testing::TestParamInfo<Where>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(On, Sequences,
                         testing::Values(Where{"Cpu", "cpu", nullptr}, Where{"Buffers", "buffered", QUERN_BUFFERED_DIRECTORY},
                                         Where{"Queues", "queued", QUERN_QUEUED_DIRECTORY},
                                         Where{"TwoPlugins", "sample,cpu", QUERN_SAMPLE_DIRECTORY}),
                         where_of);

/// Uploads fail while it lives.
struct FailingUploads {
  FailingUploads() { ::setenv("QUERN_TEST_FAIL_UPLOADS", "1", 1); }  // NOLINT(concurrency-mt-unsafe): no other thread reads it now
  ~FailingUploads() { ::unsetenv("QUERN_TEST_FAIL_UPLOADS"); }       // NOLINT(concurrency-mt-unsafe)
  FailingUploads(const FailingUploads&) = delete;
  FailingUploads& operator=(const FailingUploads&) = delete;
};

class SequencesOfAFailingDevice : public Sequences {};

TEST_P(SequencesOfAFailingDevice, ACopyOfAPageThatFailsLeavesBothWhole) {
  read(0, text);
  copy(0, 1);
  {
    const FailingUploads failing;
    quern_request r = request(more, 1, drawn);
    r.flags = QUERN_REQUEST_APPEND;
    EXPECT_EQ(quern_generate(session.get(), &r, 1, nullptr), QUERN_DEVICE_LOST);
  }
  EXPECT_EQ(length(1), text.size());
  EXPECT_EQ(go_on(1, more), alone(text, more));
  EXPECT_EQ(go_on(0, other), alone(text, other));
}

TEST_P(SequencesOfAFailingDevice, ACallThatWasToReadTheLastTokenAgainTakesNoTokenAway) {
  const std::vector<std::int32_t> none, page = some(65, 37);  // the last token lies alone on its page
  read(0, page);
  copy(0, 1);
  {
    const FailingUploads failing;
    quern_request r = request(none, 1, drawn);
    r.flags = QUERN_REQUEST_APPEND;
    EXPECT_EQ(quern_generate(session.get(), &r, 1, nullptr), QUERN_DEVICE_LOST);
  }
  EXPECT_EQ(length(1), page.size());
  EXPECT_EQ(go_on(1, none), alone(page, none));
  EXPECT_EQ(go_on(0, more), alone(page, more));
}

TEST_P(SequencesOfAFailingDevice, ARestoreThatFailsHalfWayHoldsNothing) {
  read(0, text);
  const std::vector<std::byte> state = saved(session.get());
  read(1, other);
  {
    const FailingUploads failing;
    EXPECT_EQ(quern_session_restore(session.get(), state.data(), state.size()), QUERN_DEVICE_LOST);
  }
  for (std::uint32_t s = 0; s < sequences; ++s) EXPECT_EQ(length(s), 0u);
  ASSERT_EQ(quern_session_restore(session.get(), state.data(), state.size()), QUERN_OK) << quern_last_error();
  EXPECT_EQ(go_on(0, more), alone(text, more));
}

INSTANTIATE_TEST_SUITE_P(On, SequencesOfAFailingDevice, testing::Values(Where{"Buffers", "buffered", QUERN_BUFFERED_DIRECTORY}), where_of);

}  // namespace
}  // namespace quern::test
