// An example's JSON as what it means: a chat, a text in pieces, or tokens. Nothing is rendered and nothing encoded.
#pragma once

#include "quern/models/chat.hpp"
#include "quern/training/data_options.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace quern::training {

/// What of one message counts.
struct MessageLabel {
  /// A part of a content that is a list.
  struct Part {
    std::size_t bytes = 0;
    bool counts = false;
  };
  float weight = 0;         // of each of its tokens; 0: it does not count
  std::vector<Part> parts;  // empty unless a part says for itself whether it counts; their texts joined are the content
};

struct ChatRecord {
  Chat chat;
  std::vector<MessageLabel> labels;  // one for each message
  bool is_usual = true;  // what counts follows from the roles alone, and these are the model's; so a template may say what counts
};

/// A text for a model without chat template, in pieces.
struct TextRecord {
  struct Piece {
    std::string text;
    bool counts = false;
  };
  std::vector<Piece> pieces;
  bool whole = true;  // a bos belongs in front and an eos behind, where the model has them
};

struct TokenRecord {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;  // of each id as a target; 0: it does not count
};

using Record = std::variant<ChatRecord, TextRecord, TokenRecord>;

/// The names that settings have for the types, in one line for messages.
std::string known_example_types();
std::optional<ExampleType> example_type_of(std::string_view name);
std::string_view name_of(ExampleType type) noexcept;

/// The type of an example by its members. Throws Error(QUERN_BAD_MODEL) that lists what was found and what is known, without file and line.
ExampleType detect_type(const Json& example, const FieldNames& fields);

/// Reads one example. With `type` detect, its members decide. Throws Error(QUERN_BAD_MODEL) naming the member that is missing or of the wrong kind, without
/// file and line; Error(QUERN_UNSUPPORTED) for what is known and not offered.
Record read_record(const Json& example, ExampleType type, const DatasetOptions& options);

}  // namespace quern::training
