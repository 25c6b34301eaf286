#include "quern/training/records.hpp"

#include "quern/base/terminal_text.hpp"
#include "quern/graph/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace quern::training {

namespace {

struct TypeName {
  std::string_view name;
  ExampleType type;
};

constexpr TypeName type_names[] = {{"chat_template", ExampleType::chat_template},
                                   {"sharegpt", ExampleType::sharegpt},
                                   {"alpaca", ExampleType::alpaca},
                                   {"prompt_completion", ExampleType::prompt_completion},
                                   {"completion", ExampleType::completion},
                                   {"input_output", ExampleType::input_output},
                                   {"tokenized", ExampleType::tokenized}};

template <typename... Parts>
[[noreturn]] void refuse_record(const Parts&... parts) {
  throw Error(QUERN_BAD_MODEL, concat(parts...));
}

const char* kind_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.text() != nullptr) return "a string";
  if (value.boolean() != nullptr) return "a boolean";
  if (value.list() != nullptr) return "a list";
  return value.is_object() ? "an object" : "a number";
}

/// Names of the members, for messages.
std::string members_of(const Json& example) {
  std::string names;
  for (const Json::Member& member : *example.members()) {
    if (names.size() > 200) return names + ", ...";
    names += (names.empty() ? "" : ", ") + in_quotes(member.name, 40);
  }
  return names.empty() ? "no members" : names;
}

const Json& require(const Json& of, const std::string& member) {
  const Json* value = of.find(member);
  if (value == nullptr) refuse_record("the member ", in_quotes(member), " is missing; found were ", members_of(of));
  return *value;
}

std::string require_text(const Json& of, const std::string& member) {
  const Json& value = require(of, member);
  if (value.text() == nullptr) refuse_record("the member ", in_quotes(member), " is ", kind_of(value), ", and has to be a string");
  return *value.text();
}

/// "" where it is absent or null.
std::string text_or_empty(const Json& of, const std::string& member) {
  const Json* value = of.find(member);
  return value == nullptr || value->is_null() ? std::string() : require_text(of, member);
}

const Json::List& require_list(const Json& of, const std::string& member) {
  const Json& value = require(of, member);
  if (value.list() == nullptr) refuse_record("the member ", in_quotes(member), " is ", kind_of(value), ", and has to be a list");
  return *value.list();
}

std::string or_else(const std::string& name, const char* usual) { return name.empty() ? usual : name; }

Json message_of(const char* role, std::string content) {
  Json::Members members;
  members.push_back({"role", Json(std::string(role))});
  members.push_back({"content", Json(std::move(content))});
  return Json(std::move(members));
}

/// The roles that files of sharegpt name otherwise.
std::string role_of_sharegpt(const std::string& from) {
  constexpr std::pair<std::string_view, const char*> roles[] = {{"human", "user"},          {"user", "user"},         {"gpt", "assistant"},
                                                                {"assistant", "assistant"}, {"chatgpt", "assistant"}, {"bot", "assistant"},
                                                                {"model", "assistant"},     {"system", "system"},     {"tool", "tool"},
                                                                {"function", "tool"},       {"observation", "tool"}};
  for (const auto& [name, role] : roles)
    if (name == from) return role;
  refuse_record("'from' is ", in_quotes(from),
                "; known are human, user, gpt, assistant, chatgpt, bot, model, system, tool, function and observation");
}

/// Reads the messages of one example. What is for training alone does not reach the template, so that `quern run` gives the same ids.
class MessageReader {
 public:
  MessageReader(ExampleType type, const DatasetOptions& options)
      : is_sharegpt_(type == ExampleType::sharegpt),
        role_(or_else(options.fields.role, is_sharegpt_ ? "from" : "role")),
        content_(or_else(options.fields.content, is_sharegpt_ ? "value" : "content")),
        options_(options) {}

  /// Whether the messages count whatever their roles, or none of them does; otherwise their roles decide.
  std::optional<bool> all_count;

  void add(const Json& message) {
    const std::string where = concat("message ", labels_.size() + 1);
    if (!message.is_object()) refuse_record(where, " is ", kind_of(message), ", and has to be an object");
    Json::Members members;
    MessageLabel label;
    std::string role;
    std::optional<bool> trains;
    float weight = 1;
    const Json* parts = nullptr;
    for (const Json::Member& member : *message.members()) {
      if (member.name == role_) {
        if (member.value.text() == nullptr)
          refuse_record(where, ": ", in_quotes(role_), " is ", kind_of(member.value), ", and has to be a string");
        role = is_sharegpt_ ? role_of_sharegpt(*member.value.text()) : *member.value.text();
        members.push_back({"role", Json(role)});
      } else if (member.name == content_) {
        if (member.value.list() != nullptr) parts = &member.value;
        members.push_back({"content", without_training(member.value)});
      } else if (member.name == options_.fields.training) {
        trains = truth_of(member.value, where);
      } else if (member.name == "weight") {
        weight = weight_of(member.value, where);
      } else {
        members.push_back(member);
      }
    }
    const bool by_role = all_count.value_or(std::ranges::find(options_.roles_to_train, role) != options_.roles_to_train.end());
    label.weight = trains.value_or(by_role) ? weight : 0;
    is_usual_ = is_usual_ && !trains && weight == 1 && !all_count;
    if (parts != nullptr) read_parts(*parts, where, label, weight);
    messages_.emplace_back(std::move(members));
    labels_.push_back(std::move(label));
  }

  void add_in_front(const char* role, std::string content) {
    messages_.insert(messages_.begin(), message_of(role, std::move(content)));
    MessageLabel label;
    label.weight = std::ranges::find(options_.roles_to_train, role) != options_.roles_to_train.end() ? 1.0f : 0.0f;
    labels_.insert(labels_.begin(), std::move(label));
  }
  bool starts_with(std::string_view role) const {
    return !messages_.empty() && messages_[0].find("role") != nullptr && *messages_[0].find("role")->text() == role;
  }

  ChatRecord take(Json tools) {
    ChatRecord record;
    try {
      record.chat = chat_from(Json(std::move(messages_)), std::move(tools));
    } catch (const Error& error) { throw Error(QUERN_BAD_MODEL, error.what()); }
    record.labels = std::move(labels_);
    record.is_usual = is_usual_ && options_.roles_to_train == std::vector<std::string>{"assistant"};
    return record;
  }

 private:
  bool truth_of(const Json& value, const std::string& where) const {
    if (value.boolean() == nullptr)
      refuse_record(where, ": ", in_quotes(options_.fields.training), " is ", kind_of(value), ", and has to be true or false");
    return *value.boolean();
  }
  static float weight_of(const Json& value, const std::string& where) {
    const std::optional<double> number = value.number();
    if (!number || !(*number >= 0) || *number > 1e6) refuse_record(where, ": 'weight' has to be a number from 0 to 1,000,000");
    return static_cast<float>(*number);
  }

  Json without_training(const Json& content) const {
    if (content.list() == nullptr) return content;
    Json::List parts;
    for (const Json& part : *content.list()) {
      if (!part.is_object() || part.find(options_.fields.training) == nullptr) {
        parts.push_back(part);
        continue;
      }
      Json::Members members;
      for (const Json::Member& member : *part.members())
        if (member.name != options_.fields.training) members.push_back(member);
      parts.emplace_back(std::move(members));
    }
    return Json(std::move(parts));
  }

  void read_parts(const Json& content, const std::string& where, MessageLabel& label, float weight) {
    bool any_says = false, any_counts = false;
    std::vector<MessageLabel::Part> parts;
    for (const Json& part : *content.list()) {
      const Json* trains = part.find(options_.fields.training);
      const Json* text = part.find("text");
      any_says = any_says || trains != nullptr;
      const bool counts = trains != nullptr ? truth_of(*trains, where) : label.weight > 0;
      any_counts = any_counts || counts;
      parts.push_back({text == nullptr || text->text() == nullptr ? 0 : text->text()->size(), counts});
    }
    if (!any_says) return;
    is_usual_ = false;
    label.weight = any_counts ? weight : 0;
    label.parts = std::move(parts);
  }

  bool is_sharegpt_;
  std::string role_, content_;
  const DatasetOptions& options_;
  Json::List messages_;
  std::vector<MessageLabel> labels_;
  bool is_usual_ = true;
};

/// Files give tools as a list, or as the text of one.
Json tools_of(const Json& example) {
  const Json* tools = example.find("tools");
  if (tools == nullptr || tools->text() == nullptr) return tools == nullptr ? Json() : *tools;
  if (tools->text()->empty()) return Json();
  std::optional<Json> list = Json::parse(*tools->text());
  if (!list) refuse_record("the member 'tools' is a string, and its text is no JSON");
  return std::move(*list);
}

std::string messages_field(const Json& example, ExampleType type, const FieldNames& fields) {
  if (!fields.messages.empty()) return fields.messages;
  if (type == ExampleType::sharegpt) return "conversations";
  return example.find("messages") == nullptr && example.find("conversations") != nullptr ? "conversations" : "messages";
}

Record read_chat(const Json& example, ExampleType type, const DatasetOptions& options) {
  MessageReader reader(type, options);
  for (const Json& message : require_list(example, messages_field(example, type, options.fields))) reader.add(message);
  if (type == ExampleType::sharegpt) {
    std::string system = text_or_empty(example, options.fields.system);
    if (!system.empty() && !reader.starts_with("system")) reader.add_in_front("system", std::move(system));
  }
  return reader.take(tools_of(example));
}

Record read_alpaca(const Json& example, const DatasetOptions& options) {
  const FieldNames& fields = options.fields;
  std::string instruction = require_text(example, fields.instruction), output = require_text(example, fields.output);
  std::string input = text_or_empty(example, fields.input), system = text_or_empty(example, fields.system);
  if (options.prompt_style == PromptStyle::chat) {
    DatasetOptions usual = options;
    usual.fields.role.clear();
    usual.fields.content.clear();
    MessageReader reader(ExampleType::chat_template, usual);
    if (!system.empty()) reader.add(message_of("system", std::move(system)));
    reader.add(message_of("user", input.empty() ? std::move(instruction) : instruction + "\n" + input));
    reader.add(message_of("assistant", std::move(output)));
    return reader.take(Json());
  }
  if (system.empty()) {
    system = input.empty() ? "Below is an instruction that describes a task. Write a response that appropriately completes the request."
                           : "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
                             "response that appropriately completes the request.";
  }
  const std::string middle = input.empty() ? "" : "### Input:\n" + input + "\n\n";
  TextRecord record;
  record.pieces.push_back({system + "\n\n### Instruction:\n" + instruction + "\n\n" + middle + "### Response:\n", false});
  record.pieces.push_back({std::move(output), true});
  return record;
}

Record read_prompt_completion(const Json& example, const DatasetOptions& options) {
  const Json &prompt = require(example, options.fields.prompt), &completion = require(example, options.fields.completion);
  if (prompt.text() != nullptr && completion.text() != nullptr)
    return TextRecord{{{*prompt.text(), false}, {*completion.text(), true}}, true};
  if (prompt.list() == nullptr || completion.list() == nullptr)
    refuse_record(in_quotes(options.fields.prompt), " is ", kind_of(prompt), " and ", in_quotes(options.fields.completion), " is ",
                  kind_of(completion), "; both have to be strings, or both lists of messages");
  MessageReader reader(ExampleType::chat_template, options);
  reader.all_count = false;
  for (const Json& message : *prompt.list()) reader.add(message);
  reader.all_count = true;
  for (const Json& message : *completion.list()) reader.add(message);
  return reader.take(tools_of(example));
}

Record read_segments(const Json& example) {
  TextRecord record;
  record.whole = false;
  for (const Json& segment : require_list(example, "segments")) {
    if (!segment.is_object()) refuse_record("segment ", record.pieces.size() + 1, " is ", kind_of(segment), ", and has to be an object");
    const Json& label = require(segment, "label");
    if (label.boolean() == nullptr)
      refuse_record("segment ", record.pieces.size() + 1, ": 'label' is ", kind_of(label), ", and has to be true or false");
    record.pieces.push_back({require_text(segment, "text"), *label.boolean()});
  }
  return record;
}

Record read_tokens(const Json& example) {
  TokenRecord record;
  for (const Json& id : require_list(example, "input_ids")) {
    const std::optional<std::int64_t> value = id.integer();
    if (!value || *value < 0 || *value > std::numeric_limits<std::int32_t>::max())
      refuse_record("entry ", record.ids.size(), " of 'input_ids' is no token id");
    record.ids.push_back(static_cast<std::int32_t>(*value));
  }
  record.weights.assign(record.ids.size(), 1);
  const auto list_of = [&](const char* member) -> const Json::List* {
    const Json* found = example.find(member);
    if (found == nullptr || found->is_null()) return nullptr;
    const Json::List& list = require_list(example, member);
    if (list.size() != record.ids.size())
      refuse_record(in_quotes(member), " has ", list.size(), " entries and 'input_ids' ", record.ids.size(),
                    "; both have one for each token");
    return &list;
  };
  if (const Json::List* weights = list_of("weights")) {
    for (std::size_t i = 0; i < weights->size(); ++i) {
      const std::optional<double> weight = (*weights)[i].number();
      if (!weight || !(*weight >= 0) || *weight > 1e6) refuse_record("entry ", i, " of 'weights' has to be a number from 0 to 1,000,000");
      record.weights[i] = static_cast<float>(*weight);
    }
  }
  if (const Json::List* labels = list_of("labels")) {
    constexpr std::int64_t ignored = -100;
    for (std::size_t i = 0; i < labels->size(); ++i) {
      const std::optional<std::int64_t> label = (*labels)[i].integer();
      if (!label || (*label != ignored && *label != record.ids[i]))
        refuse_record("entry ", i, " of 'labels' is neither -100 nor the token ", record.ids[i], " of 'input_ids'; labels are not shifted");
      if (*label == ignored) record.weights[i] = 0;
    }
  }
  if (const Json::List* mask = list_of("attention_mask"))
    for (std::size_t i = 0; i < mask->size(); ++i)
      if ((*mask)[i].integer() != 1)
        refuse_record("entry ", i, " of 'attention_mask' is not 1; leave padding out, rows have their own lengths");
  return record;
}

}  // namespace

std::string known_example_types() {
  std::string names;
  for (const TypeName& type : type_names) names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

std::optional<ExampleType> example_type_of(std::string_view name) {
  for (const TypeName& type : type_names)
    if (type.name == name) return type.type;
  return std::nullopt;
}

std::string_view name_of(ExampleType type) noexcept {
  for (const TypeName& known : type_names)
    if (known.type == type) return known.name;
  return "detect";
}

ExampleType detect_type(const Json& example, const FieldNames& fields) {
  if (!example.is_object()) refuse_record("the example is ", kind_of(example), ", and has to be an object");
  const auto has = [&](const std::string& member) { return example.find(member) != nullptr; };
  if (has("input_ids")) return ExampleType::tokenized;
  const std::string messages = messages_field(example, ExampleType::chat_template, fields);
  if (has(messages)) {
    const Json::List* list = example.find(messages)->list();
    const bool is_sharegpt = list != nullptr && !list->empty() && list->front().find("from") != nullptr && fields.role.empty();
    return is_sharegpt ? ExampleType::sharegpt : ExampleType::chat_template;
  }
  if (has("segments")) return ExampleType::input_output;
  if (has("chosen") && has("rejected"))
    throw Error(QUERN_UNSUPPORTED,
                concat("the example has the form of a preference, which is not offered; known types are ", known_example_types()));
  if (has(fields.prompt) && has(fields.completion)) return ExampleType::prompt_completion;
  if (has(fields.instruction) && has(fields.output)) return ExampleType::alpaca;
  if (has(fields.text)) return ExampleType::completion;
  refuse_record("the members ", members_of(example), " are those of no known type; known are ", known_example_types(),
                "; name the type and the fields in the settings");
}

Record read_record(const Json& example, ExampleType type, const DatasetOptions& options) {
  if (!example.is_object()) refuse_record("the example is ", kind_of(example), ", and has to be an object");
  switch (type) {
    case ExampleType::chat_template:
    case ExampleType::sharegpt: return read_chat(example, type, options);
    case ExampleType::alpaca: return read_alpaca(example, options);
    case ExampleType::prompt_completion: return read_prompt_completion(example, options);
    case ExampleType::completion: return TextRecord{{{require_text(example, options.fields.text), true}}, true};
    case ExampleType::input_output: return read_segments(example);
    case ExampleType::tokenized: return read_tokens(example);
    case ExampleType::detect: break;
  }
  return read_record(example, detect_type(example, options.fields), options);
}

}  // namespace quern::training
