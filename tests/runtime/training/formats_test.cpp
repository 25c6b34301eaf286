// Each form that an example may have.
#include "training_support.hpp"

namespace quern::training {
namespace {

using test::ByteModel;
using test::encode;
using test::error_of;
using test::labelled_text;

class Formats : public testing::Test {
 protected:
  std::string whole(const std::string& json, DatasetOptions options = {}) const {
    return model.tokenizer.decode_bytes(encode(model.text, json, options).ids);
  }
  std::string labelled(const std::string& json, DatasetOptions options = {}) const {
    return labelled_text(model.tokenizer, encode(model.text, json, options));
  }
  std::string refusal(const std::string& json, DatasetOptions options = {}) const {
    return error_of([&] { encode(model.text, json, options); });
  }
  ByteModel model;
  const std::string chat = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n";
};

TEST_F(Formats, ChatTemplate) {
  const std::string json = R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  EXPECT_EQ(whole(json), chat);
  EXPECT_EQ(labelled(json), "b<|im_end|>|");
  DatasetOptions options;
  options.roles_to_train = {"user"};
  EXPECT_EQ(labelled(json, options), "a<|im_end|>|");
  options.roles_to_train = {"user", "assistant"};
  EXPECT_EQ(labelled(json, options), "a<|im_end|>|b<|im_end|>|");
  options.train_on_inputs = true;
  EXPECT_EQ(labelled(json, options), chat.substr(12) + "|");  // every token but the first, <|im_start|>
}

TEST_F(Formats, ChatTemplateWithOwnNames) {
  DatasetOptions options;
  options.fields.messages = "turns";
  options.fields.role = "who";
  options.fields.content = "what";
  options.fields.training = "learn";
  const std::string json =
      R"({"turns": [{"who": "user", "what": "a"}, {"who": "assistant", "what": "b"}, {"who": "assistant", "what": "c", "learn": false}]})";
  EXPECT_EQ(labelled(json, options), "b<|im_end|>|");
  EXPECT_NE(refusal(json).find("the members 'turns' are those of no known type; known are chat_template, sharegpt"), std::string::npos);
}

TEST_F(Formats, MessagesSayForThemselvesWhetherTheyCount) {
  const std::string json =
      R"({"messages": [{"role": "user", "content": "a", "train": true}, {"role": "assistant", "content": "b", "train": false},
                               {"role": "user", "content": "c"}, {"role": "assistant", "content": "d", "weight": 0.5}]})";
  EXPECT_EQ(labelled(json), "a<|im_end|>|d<|im_end|>|");
  const Example example = encode(model.text, json);
  EXPECT_EQ(example.labels[1].weight, 0.5f);
  EXPECT_EQ(example.labelled(), 4u);
  EXPECT_EQ(example.weight(), 3.0);
  std::vector<float> weights(example.ids.size());
  example.fill_weights(weights);
  EXPECT_EQ(std::ranges::count(weights, 0.5f), 2);
  EXPECT_EQ(std::ranges::count(weights, 1.0f), 2);
  EXPECT_NE(refusal(R"({"messages": [{"role": "user", "content": "a", "train": 1}]})").find("message 1: 'train' is a number"),
            std::string::npos);
}

TEST_F(Formats, ShareGpt) {
  const std::string json = R"({"system": "s", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})";
  EXPECT_EQ(whole(json), "<|im_start|>system\ns<|im_end|>\n" + chat);
  EXPECT_EQ(labelled(json), "b<|im_end|>|");
  EXPECT_NE(refusal(R"({"conversations": [{"from": "nobody", "value": "a"}]})").find("'from' is 'nobody'"), std::string::npos);
  // The member of sharegpt with the roles of everybody else.
  EXPECT_EQ(whole(R"({"conversations": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"), chat);
}

TEST_F(Formats, Alpaca) {
  EXPECT_EQ(whole(R"({"instruction": "a", "output": "b"})"), chat);
  EXPECT_EQ(labelled(R"({"instruction": "a", "input": "", "output": "b"})"), "b<|im_end|>|");
  EXPECT_EQ(whole(R"({"instruction": "i", "input": "k", "output": "b", "system": "s"})"),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\ni\nk<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n");
  DatasetOptions options;
  options.prompt_style = PromptStyle::alpaca;
  const std::string text = whole(R"({"instruction": "i", "input": "k", "output": "b"})", options);
  EXPECT_TRUE(text.ends_with("\n\n### Instruction:\ni\n\n### Input:\nk\n\n### Response:\nb<|im_end|>")) << text;
  EXPECT_EQ(labelled(R"({"instruction": "i", "output": "b"})", options), "b<|im_end|>|");
  EXPECT_EQ(whole(R"({"instruction": "i", "output": "b"})", options).find("### Input"), std::string::npos);
}

TEST_F(Formats, PromptAndCompletion) {
  EXPECT_EQ(whole(R"({"prompt": "a", "completion": "b"})"), "ab<|im_end|>");
  EXPECT_EQ(labelled(R"({"prompt": "a", "completion": "b"})"), "b<|im_end|>|");
  const std::string messages =
      R"({"prompt": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}, {"role": "user", "content": "a"}],
                                   "completion": [{"role": "assistant", "content": "b"}]})";
  EXPECT_EQ(labelled(messages), "b<|im_end|>|");
  EXPECT_NE(refusal(R"({"prompt": "a", "completion": [1]})").find("both have to be strings"), std::string::npos);
}

TEST_F(Formats, Completion) {
  EXPECT_EQ(labelled(R"({"text": "abc"})"), "bc<|im_end|>|");                  // the first token is nobody's target
  EXPECT_EQ(encode(model.text, R"({"text": "a<|im_end|>"})").ids.size(), 2u);  // the end is there already, as a token
  EXPECT_EQ(encode(model.text, R"({"text": ""})").ids.size(), 0u);
  DatasetOptions options;
  options.type = ExampleType::completion;
  options.fields.text = "body";
  EXPECT_EQ(labelled(R"({"body": "abc", "text": 1})", options), "bc<|im_end|>|");
}

TEST_F(Formats, CompletionHasTheBosThatTheModelAsksFor) {
  quern::test::VocabularyBuilder vocabulary = quern::test::sentencepiece();
  vocabulary.settings.add_bos = true;
  const Tokenizer tokenizer = vocabulary.build();
  const TextModel text{tokenizer, std::nullopt, "m.gguf"};
  const Example example = encode(text, R"({"text": "ab"})");
  EXPECT_EQ(example.ids.front(), 1);
  EXPECT_EQ(example.ids.back(), 2);
  EXPECT_EQ(example.labels, (std::vector<LabelSpan>{{1, static_cast<std::uint32_t>(example.ids.size()), 1}}));
  EXPECT_EQ(encode(text, R"({"text": "<s>ab"})").ids, example.ids);
}

TEST_F(Formats, InputOutput) {
  const std::string json =
      R"({"segments": [{"label": false, "text": "<|im_start|>a"}, {"label": true, "text": "b"}, {"label": true, "text": "<|im_end|>"},
                               {"label": false, "text": "c"}]})";
  EXPECT_EQ(whole(json), "<|im_start|>ab<|im_end|>c");  // nothing is added
  EXPECT_EQ(labelled(json), "b<|im_end|>|");
  EXPECT_NE(refusal(R"({"segments": [{"label": 1, "text": "a"}]})").find("segment 1: 'label' is a number"), std::string::npos);
}

TEST_F(Formats, Tokenized) {
  const Example plain = encode(model.text, R"({"input_ids": [5, 6, 7]})");
  EXPECT_EQ(plain.ids, (std::vector<std::int32_t>{5, 6, 7}));
  EXPECT_EQ(plain.labels, (std::vector<LabelSpan>{{1, 3, 1}}));
  EXPECT_EQ(encode(model.text, R"({"input_ids": [5, 6, 7, 8], "labels": [-100, 6, -100, 8], "attention_mask": [1, 1, 1, 1]})").labels,
            (std::vector<LabelSpan>{{1, 2, 1}, {3, 4, 1}}));
  EXPECT_EQ(encode(model.text, R"({"input_ids": [5, 6, 7, 8], "weights": [1, 2, 2, 0]})").labels, (std::vector<LabelSpan>{{1, 3, 2}}));
  EXPECT_NE(refusal(R"({"input_ids": [5, 100000]})").find("entry 1 of 'input_ids' is 100000"), std::string::npos);
  EXPECT_NE(refusal(R"({"input_ids": [5, -1]})").find("no token id"), std::string::npos);
  EXPECT_NE(refusal(R"({"input_ids": [5, 6], "labels": [6, 6]})").find("entry 0 of 'labels'"), std::string::npos);
  EXPECT_NE(refusal(R"({"input_ids": [5, 6], "labels": [6]})").find("'labels' has 1 entries"), std::string::npos);
  EXPECT_NE(refusal(R"({"input_ids": [5, 6], "weights": [1, -1]})").find("entry 1 of 'weights'"), std::string::npos);
  EXPECT_NE(refusal(R"({"input_ids": [5, 6], "attention_mask": [1, 0]})").find("leave padding out"), std::string::npos);
}

TEST_F(Formats, ThatAreNotOfferedAreNamed) {
  EXPECT_NE(refusal(R"({"prompt": "a", "chosen": "b", "rejected": "c"})").find("a preference"), std::string::npos);
  EXPECT_NE(refusal(R"({"x": 1, "y": 2})").find("'x', 'y'"), std::string::npos);
  EXPECT_NE(refusal(R"([1])").find("the example is a list"), std::string::npos);
  EXPECT_EQ(example_type_of("alpaca"), ExampleType::alpaca);
  EXPECT_EQ(example_type_of("alpacca"), std::nullopt);
  EXPECT_EQ(name_of(ExampleType::input_output), "input_output");
}

TEST_F(Formats, ThatNeedATemplateAreRefusedWithoutOne) {
  const ByteModel bare{std::nullopt};
  const std::string error = error_of([&] { encode(bare.text, R"({"messages": [{"role": "user", "content": "a"}]})"); });
  EXPECT_NE(error.find("model.gguf: the file has no chat template"), std::string::npos) << error;
  EXPECT_EQ(encode(bare.text, R"({"text": "ab"})").ids.size(), 3u);
}

TEST_F(Formats, MembersOfTheWrongKindAreNamed) {
  for (const auto& [json, part] : std::vector<std::pair<const char*, const char*>>{
           {R"({"messages": 1})", "'messages' is a number"},
           {R"({"messages": []})", "an empty list"},
           {R"({"messages": [1]})", "message 1 is a number"},
           {R"({"messages": [{"role": 1, "content": "a"}]})", "'role' is a number"},
           {R"({"messages": [{"content": "a"}]})", "'role' is missing"},
           {R"({"messages": [{"role": "user", "content": {}}]})", "'content' is an object"},
           {R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})", "type 'image'"},
           {R"({"messages": [{"role": "user", "content": "a"}], "tools": "["})", "'tools' is a string"},
           {R"({"instruction": 1, "output": "a"})", "'instruction' is a number"},
           {R"({"text": null})", "'text' is null"}})
    EXPECT_NE(refusal(json).find(part), std::string::npos) << json << " " << refusal(json);
}

}  // namespace
}  // namespace quern::training
