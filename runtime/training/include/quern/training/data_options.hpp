// What data is read, and what of it the loss counts: filled by whoever reads settings.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

namespace quern {
class Tokenizer;
}

namespace quern::training {

/// What an example looks like (runtime/training/README.md).
enum class ExampleType : std::uint8_t { detect, chat_template, sharegpt, alpaca, prompt_completion, completion, input_output, tokenized };

enum class PromptStyle : std::uint8_t {
  chat,    // an instruction is a message of a chat
  alpaca,  // an instruction is a text with headings, as the data set of 2023 has it
};

/// Which tokens that end a turn count, besides those that lie in what counts anyway.
enum class TrainOnEos : std::uint8_t {
  turn,  // the one behind each answer that counts
  last,  // the one behind the last of them
  all,   // every one of the example
  none,
};

/// Names of members, where they are not the usual ones.
struct FieldNames {
  std::string messages;            // chat_template: "messages", sharegpt: "conversations"
  std::string role, content;       // of a message: "role" and "content", sharegpt: "from" and "value"
  std::string training = "train";  // of a message or a part of its content: whether it counts
  std::string instruction = "instruction", input = "input", output = "output", system = "system";
  std::string prompt = "prompt", completion = "completion";
  std::string text = "text";  // of completion
};

enum class SpecialTokensInContent : std::uint8_t { text, allow, refuse };

/// One file, or a folder with files named train, valid or validation, and test.
struct DatasetOptions {
  std::string path;
  ExampleType type = ExampleType::detect;  // by the members of the first example
  FieldNames fields;
  PromptStyle prompt_style = PromptStyle::chat;
  std::vector<std::string> roles_to_train = {"assistant"};
  TrainOnEos train_on_eos = TrainOnEos::turn;
  bool train_on_inputs = false;     // every token but the first counts
  bool mask_template_text = false;  // text that the template writes in front of an answer does not count
  SpecialTokensInContent special_tokens_in_content = SpecialTokensInContent::text;
  bool skip_bad_lines = false;  // they are counted
};

enum class ExcessLength : std::uint8_t { drop, truncate, raise };

struct DataOptions {
  std::vector<DatasetOptions> datasets, test_datasets;
  double val_set_size = 0;            // below 1 a share of the examples, rounded up; from 1 on their number
  std::uint32_t sequence_len = 2048;  // tokens
  ExcessLength excess_length = ExcessLength::drop;
  std::uint64_t seed = 42;
  /// The local time for templates that print the date. A run that resumes has to give the same one.
  std::optional<std::tm> now;
};

/// What data needs of a model: its vocabulary and its chat template. It refers to the tokenizer.
struct TextModel {
  const Tokenizer& tokenizer;
  std::optional<std::string> chat_template;  // the file's, or one that the user gave
  std::string name;                          // of the file, for messages
};

}  // namespace quern::training
