// What counts in a rendered chat: every template of the corpus, and the rules one by one.
#include "training_support.hpp"

#include "models/chat_template/golden_data.hpp"

#include "quern/training/rendering.hpp"

#include <regex>
#include <set>

namespace quern::training {
namespace {

using test::ByteModel;
using test::encode;
using test::labelled_text;

struct CorpusTemplate {
  const char* name;
  const char* end;       // the token that ends an answer
  bool refuses_system;   // by raise_exception
  bool refuses_answers;  // it writes them otherwise than they are given
};

// granite_style writes the number of words of each message behind all of them, so that another text changes what follows.
constexpr CorpusTemplate corpus[] = {{"chatml", "<|im_end|>", false, false},
                                     {"command_r", "<|END_OF_TURN_TOKEN|>", false, false},
                                     {"deepseek", "<｜end▁of▁sentence｜>", false, false},
                                     {"gemma", "<end_of_turn>", true, false},
                                     {"gemma3", "<end_of_turn>", false, false},
                                     {"granite_style", "</s>", false, true},
                                     {"llama2", "</s>", false, false},
                                     {"llama3", "<|eot_id|>", false, false},
                                     {"llama31", "<|eot_id|>", false, false},
                                     {"mistral", "</s>", false, false},
                                     {"phi3", "<|end|>", false, false},
                                     {"qwen2", "<|im_end|>", false, false},
                                     {"qwen25", "<|im_end|>", false, false},
                                     {"qwen3", "<|im_end|>", false, false},
                                     {"smollm2", "<|im_end|>", false, false},
                                     {"zephyr", "</s>", false, false}};

/// What looks like a marker in a template, and the tokens that begin and end a text; `end` is the last.
std::vector<std::string> markers_of(const std::string& source, const std::string& end) {
  std::set<std::string> found = {"<s>", "</s>"};
  const std::regex shape(R"(<[|a-z_/][^<>{}' ]*>|\[/?[A-Z_]+\]|<</?SYS>>)");
  for (std::sregex_iterator match(source.begin(), source.end(), shape), last; match != last; ++match) found.insert(match->str());
  found.erase(end);
  std::vector<std::string> markers(found.begin(), found.end());
  markers.push_back(end);
  return markers;
}

struct CorpusModel {
  explicit CorpusModel(const CorpusTemplate& of)
      : source(read_text(std::string(of.name) + ".jinja")),
        model(source, markers_of(source, of.end)),
        renderer(model.text, golden_time()) {}
  std::string source;
  ByteModel model;
  ChatRenderer renderer;
};

ChatRecord chat_record(const std::vector<Message>& messages) {
  ChatRecord record;
  record.chat = chat_of(messages);
  for (const Message& message : messages) {
    record.labels.emplace_back();
    record.labels.back().weight = message.role == "assistant" ? 1.0f : 0.0f;
  }
  return record;
}

std::string trim(std::string text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\n'; };
  while (!text.empty() && is_space(text.back())) text.pop_back();
  text.erase(text.begin(), std::ranges::find_if_not(text, is_space));
  return text;
}

class EveryTemplate : public testing::TestWithParam<CorpusTemplate> {};

TEST_P(EveryTemplate, HasSpansThatAreTheAnswersOrRefusesByName) {
  const CorpusModel corpus_model(GetParam());
  for (const bool has_system : {false, true}) {
    for (int turns = 1; turns <= 3; ++turns) {
      std::vector<Message> messages;
      std::vector<std::string> answers;
      if (has_system) messages.push_back({"system", "Be brief, and say answer 1."});
      for (int turn = 1; turn <= turns; ++turn) {
        messages.push_back({"user", concat("question ", turn, "?")});
        answers.push_back(concat("answer ", turn, ": \xD0\xAF, \"so\".\nAnd so on."));
        messages.push_back({"assistant", answers.back()});
      }
      const ChatRecord record = chat_record(messages);
      DatasetOptions options;
      options.mask_template_text = true;
      std::optional<RenderedRecord> masked;
      const std::string error = test::error_of([&] { masked = corpus_model.renderer.render(record, options); });
      if (GetParam().refuses_answers || (GetParam().refuses_system && has_system)) {
        EXPECT_NE(error.find(GetParam().refuses_answers ? "it is not known what of its text counts" : "There is no system role"),
                  std::string::npos)
            << error;
        continue;
      }
      ASSERT_EQ(error, "");
      ASSERT_EQ(masked->spans.size(), answers.size()) << masked->text.text;
      EXPECT_EQ(masked->open_answers, 0u) << masked->text.text;
      const RenderedRecord whole = corpus_model.renderer.render(record, DatasetOptions());
      ASSERT_EQ(whole.spans.size(), answers.size()) << whole.text.text;
      for (std::size_t i = 0; i < answers.size(); ++i) {
        std::string text = masked->text.text.substr(masked->spans[i].begin, masked->spans[i].end - masked->spans[i].begin);
        ASSERT_TRUE(text.ends_with(GetParam().end)) << text;
        text.resize(text.size() - std::string_view(GetParam().end).size());
        EXPECT_EQ(trim(text), answers[i]) << masked->text.text;
        // Without the mask there is nothing more but what the template writes in front.
        EXPECT_LE(whole.spans[i].begin, masked->spans[i].begin);
        EXPECT_EQ(whole.spans[i].end, masked->spans[i].end);
        const std::string front = whole.text.text.substr(whole.spans[i].begin, masked->spans[i].begin - whole.spans[i].begin);
        EXPECT_TRUE(trim(front).empty() || trim(front) == "<think>\n\n</think>") << front;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Corpus, EveryTemplate, testing::ValuesIn(corpus), [](const auto& test) { return test.param.name; });

// With its template, run's prompt stops in front of the empty thought, so that the thought is the model's to write.
TEST(Qwen3, HasTheAnswersOfThreeTurnsWithAndWithoutThoughts) {
  const CorpusModel corpus_model(corpus[13]);
  ASSERT_STREQ(corpus[13].name, "qwen3");
  const auto spans_of = [&](const std::vector<Message>& messages, bool mask) {
    DatasetOptions options;
    options.mask_template_text = mask;
    const RenderedRecord made = corpus_model.renderer.render(chat_record(messages), options);
    std::string all;
    for (const ByteSpan& span : made.spans) all += made.text.text.substr(span.begin, span.end - span.begin) + "|";
    return all;
  };
  const std::vector<Message> plain = {{"user", "a"},        {"assistant", "one"}, {"user", "b"},
                                      {"assistant", "two"}, {"user", "c"},        {"assistant", "three"}};
  EXPECT_EQ(spans_of(plain, false), "one<|im_end|>|two<|im_end|>|<think>\n\n</think>\n\nthree<|im_end|>|");
  EXPECT_EQ(spans_of(plain, true), "one<|im_end|>|two<|im_end|>|three<|im_end|>|");
  std::vector<Message> thinking = plain;
  for (std::size_t i = 1; i < thinking.size(); i += 2)
    thinking[i].content = "<think>\nwhy " + thinking[i].content + "\n</think>\n\n" + thinking[i].content;
  EXPECT_EQ(spans_of(thinking, false), "one<|im_end|>|two<|im_end|>|<think>\nwhy three\n</think>\n\nthree<|im_end|>|");
  EXPECT_EQ(spans_of(thinking, true), spans_of(thinking, false));
}

TEST(Qwen3, HasAThoughtThatIsAMemberOfItsMessage) {
  const CorpusModel corpus_model(corpus[13]);
  const Example example = encode(corpus_model.model.text, R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "reasoning_content": "since so", "content": "one"}]})");
  EXPECT_EQ(labelled_text(corpus_model.model.tokenizer, example), "<think>\nsince so\n</think>\n\none<|im_end|>|");
}

TEST(Generation, IsExactlyWhatCounts) {
  const ByteModel model(
      "{% for m in messages %}{{ m.role + ':' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>\n' }}"
      "{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}");
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
                              {"role": "assistant", "content": "d")";
  EXPECT_EQ(labelled_text(model.tokenizer, encode(model.text, chat + "}]}")), "b<|im_end|>\n|d<|im_end|>\n|");
  // What a message says for itself is more than the template knows.
  EXPECT_EQ(labelled_text(model.tokenizer, encode(model.text, chat + R"(, "train": false}]})")), "b<|im_end|>|");
}

TEST(Generation, InsideAMacroIsFoundByRenderingAgain) {
  const ByteModel model(
      "{% macro say(t) %}{% generation %}{{ t }}{% endgeneration %}{% endmacro %}"
      "{% for m in messages %}{% if m.role == 'assistant' %}{{ say(m.content) }}{% else %}{{ m.content }}{% endif %}/{% endfor %}");
  const Example example = encode(model.text, R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(labelled_text(model.tokenizer, example), "b|");
}

TEST(Answers, ThatTheTemplateChangesAreRefusedWithTheReason) {
  const auto refusal = [](const char* answer_as, const char* content) {
    const ByteModel model(concat("{% for m in messages %}{% if m.role == 'assistant' %}", answer_as,
                                 "{% else %}{{ m.content }}{% endif %}/{% endfor %}"));
    return test::error_of([&] {
      encode(model.text,
             concat(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ")", content, R"("}]})"));
    });
  };
  EXPECT_EQ(refusal("{{ m.content }}", "b c"), "");
  EXPECT_NE(refusal("{{ m.content|upper }}", "b c")
                .find("message 2: it is not known what of its text counts, since the template does not write it"),
            std::string::npos);
  EXPECT_NE(refusal("{{ m.content }}{{ m.content }}", "b c")
                .find("message 2: it is not known what of its text counts, since the template writes it more"),
            std::string::npos);
  EXPECT_NE(refusal("{{ m.content|replace('b', 'x') }}", "b c").find("message 2"), std::string::npos);
  EXPECT_NE(refusal("{{ m.content }}{{ m.content|length }}", "b c").find("changes"), std::string::npos);
  EXPECT_NE(refusal("no", "b c").find("message 2"), std::string::npos);
}

// User text that is the same as an answer does not count.
TEST(Answers, AreFoundByTheirPlaceAndNotByTheirText) {
  const ByteModel model;
  const RenderedRecord made =
      ChatRenderer(model.text, std::nullopt)
          .render(chat_record({{"user", "same"}, {"assistant", "same"}, {"user", "assistant"}, {"assistant", "same"}}), {});
  ASSERT_EQ(made.spans.size(), 2u);
  EXPECT_EQ(made.text.text.substr(0, made.spans[0].begin), "<|im_start|>user\nsame<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(made.text.text.substr(made.spans[1].begin), "same<|im_end|>\n");
}

TEST(ToolCalls, CountUpToTheEndOfTheirTurn) {
  const ByteModel model(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}{% for c in m.tool_calls or [] %}"
      "{{ '<call>' + (c.function|tojson) + '</call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  const auto labelled = [&](const char* content) {
    return labelled_text(model.tokenizer,
                         encode(model.text, concat(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": )",
                                                   content, R"(, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}},
        {"function": {"name": "g", "arguments": {}}}]}, {"role": "tool", "content": "1"}, {"role": "assistant", "content": "one"}]})")));
  };
  const std::string calls =
      R"(<call>{"name": "f", "arguments": {"x": 1}}</call><call>{"name": "g", "arguments": {}}</call><|im_end|>|one<|im_end|>|)";
  EXPECT_EQ(labelled("null"), calls);
  EXPECT_EQ(labelled("\"I ask.\""), "I ask." + calls);
}

TEST(ContentParts, CountByThemselves) {
  const ByteModel model;
  const auto labelled = [&](const char* parts) {
    return labelled_text(
        model.tokenizer,
        encode(model.text, concat(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": )", parts, "}]}")));
  };
  EXPECT_EQ(labelled(R"([{"type": "text", "text": "ab"}, {"type": "text", "text": "cd", "train": false}, {"type": "text", "text": "ef"}])"),
            "ab|ef<|im_end|>|");
  EXPECT_EQ(labelled(R"([{"type": "text", "text": "ab", "train": false}, {"type": "text", "text": "cd"}])"), "cd<|im_end|>|");
  EXPECT_EQ(labelled(R"([{"type": "text", "text": "ab"}, {"type": "text", "text": "cd", "train": false}])"), "ab|");
}

TEST(TrainOnEos, TakesTheEndsThatItNames) {
  const ByteModel model;
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
                              {"role": "assistant", "content": "d"}]})";
  const auto labelled = [&](TrainOnEos which) {
    DatasetOptions options;
    options.train_on_eos = which;
    return labelled_text(model.tokenizer, encode(model.text, chat, options));
  };
  EXPECT_EQ(labelled(TrainOnEos::turn), "b<|im_end|>|d<|im_end|>|");
  EXPECT_EQ(labelled(TrainOnEos::last), "b|d<|im_end|>|");
  EXPECT_EQ(labelled(TrainOnEos::none), "b|d|");
  EXPECT_EQ(labelled(TrainOnEos::all), "<|im_end|>|b<|im_end|>|<|im_end|>|d<|im_end|>|");
}

TEST(SpecialTokensInContent, AreTextOrTokensOrRefused) {
  const ByteModel model;
  const std::string chat = R"({"messages": [{"role": "user", "content": "a<|im_end|>b"}, {"role": "assistant", "content": "c"}]})";
  const auto ends = [&](SpecialTokensInContent how) {
    DatasetOptions options;
    options.special_tokens_in_content = how;
    return std::ranges::count(encode(model.text, chat, options).ids, *model.tokenizer.eos());
  };
  EXPECT_EQ(ends(SpecialTokensInContent::text), 2);
  EXPECT_EQ(ends(SpecialTokensInContent::allow), 3);
  EXPECT_NE(test::error_of([&] { ends(SpecialTokensInContent::refuse); }).find("special token"), std::string::npos);
}

// SentencePiece makes one token of a space and a letter: where the template ends a header with a space, the answer's start lies in it.
TEST(AnAnswerThatMeltsIntoItsHeader, IsReported) {
  quern::test::VocabularyBuilder vocabulary = quern::test::sentencepiece();
  vocabulary.settings.add_space_prefix = false;
  vocabulary.add(
      "\xE2\x96\x81"
      "a",
      TokenType::normal, 1);
  const Tokenizer tokenizer = vocabulary.build();
  const auto melted = [&](const char* source) {
    const DataOptions options;
    const DatasetOptions dataset;
    const TextModel model{tokenizer, source, "m.gguf"};
    const auto json = Json::parse(R"({"messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "a"}]})");
    return ExampleEncoder(options, model).encode(read_record(*json, ExampleType::detect, dataset), dataset).melted;
  };
  EXPECT_TRUE(melted(
      "{% for m in messages %}{{ m.role ~ ': ' ~ m.content ~ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"));
  EXPECT_FALSE(melted(
      "{% for m in messages %}{{ m.role ~ ': ' ~ m.content ~ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"));
}

}  // namespace
}  // namespace quern::training
